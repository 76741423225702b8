from .dependencies import with_relocations as with_relocations
from .disk_moves import StorageRelief as StorageRelief
from .disk_moves import StorageUse as StorageUse
from .disk_moves import excess_of as excess_of
from .disk_moves import full_storages as full_storages
from .disk_moves import relieve_storages as relieve_storages
from .disk_moves import storage_uses as storage_uses
from .migration_cost import (
    group_migration_costs as group_migration_costs,
)
from .migration_cost import migration_costs as migration_costs
from .migration_duration import Certainty as Certainty
from .migration_duration import estimate_duration as estimate_duration
from .moves import DetourBudget as DetourBudget
from .moves import GroupMove as GroupMove
from .moves import NodePowerAction as NodePowerAction
from .schedule import ASSUMED_BANDWIDTH as ASSUMED_BANDWIDTH
from .schedule import BandwidthSource as BandwidthSource
from .schedule import Schedule as Schedule
from .schedule import ScheduledStep as ScheduledStep
from .schedule import estimate_schedule as estimate_schedule
from .schedule import estimate_starts as estimate_starts
from .schedule import link_bandwidth as link_bandwidth
from .sequencer import SequencedPlan as SequencedPlan
from .sequencer import one_after_the_other as one_after_the_other
from .sequencer import sequence_in_order as sequence_in_order
from .sequencer import sequence_moves as sequence_moves
from .sequencer import sequence_moves_in as sequence_moves_in
from .sequencer import sequence_path as sequence_path
