"""Sequencing of moves into a plan that is safe in every interleaving; schedules."""

from opendrs.planning.disk_moves import StorageRelief as StorageRelief
from opendrs.planning.disk_moves import StorageUse as StorageUse
from opendrs.planning.disk_moves import excess_of as excess_of
from opendrs.planning.disk_moves import full_storages as full_storages
from opendrs.planning.disk_moves import relieve_storages as relieve_storages
from opendrs.planning.migration_cost import (
    group_migration_costs as group_migration_costs,
)
from opendrs.planning.migration_cost import migration_costs as migration_costs
from opendrs.planning.migration_duration import Certainty as Certainty
from opendrs.planning.migration_duration import estimate_duration as estimate_duration
from opendrs.planning.moves import DetourBudget as DetourBudget
from opendrs.planning.moves import GroupMove as GroupMove
from opendrs.planning.moves import NodePowerAction as NodePowerAction
from opendrs.planning.schedule import ASSUMED_BANDWIDTH as ASSUMED_BANDWIDTH
from opendrs.planning.schedule import BandwidthSource as BandwidthSource
from opendrs.planning.schedule import Schedule as Schedule
from opendrs.planning.schedule import ScheduledStep as ScheduledStep
from opendrs.planning.schedule import estimate_schedule as estimate_schedule
from opendrs.planning.schedule import estimate_starts as estimate_starts
from opendrs.planning.schedule import link_bandwidth as link_bandwidth
from opendrs.planning.sequencer import SequencedPlan as SequencedPlan
from opendrs.planning.sequencer import sequence_in_order as sequence_in_order
from opendrs.planning.sequencer import sequence_moves as sequence_moves
from opendrs.planning.sequencer import sequence_moves_in as sequence_moves_in
from opendrs.planning.sequencer import sequence_path as sequence_path
