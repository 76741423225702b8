"""Cluster and move groups as arrays, their assignment, and the best single move."""

from opendrs.arrays.allowed_nodes import AllowedNodes as AllowedNodes
from opendrs.arrays.assignment import AssignmentState as AssignmentState
from opendrs.arrays.cluster import ClusterArrays as ClusterArrays
from opendrs.arrays.cluster import Floats as Floats
from opendrs.arrays.cluster import ResourceAmounts as ResourceAmounts
from opendrs.arrays.domain_occupancy import Domain as Domain
from opendrs.arrays.domain_occupancy import DomainChange as DomainChange
from opendrs.arrays.domain_occupancy import domain_change as domain_change
from opendrs.arrays.evaluation import BestMove as BestMove
from opendrs.arrays.evaluation import best_by_imbalance as best_by_imbalance
from opendrs.arrays.evaluation import best_by_topsis as best_by_topsis
from opendrs.arrays.move_groups import MobilityFilter as MobilityFilter
from opendrs.arrays.move_groups import MoveGroup as MoveGroup
from opendrs.arrays.move_groups import MoveGroups as MoveGroups
from opendrs.arrays.move_groups import SkippedGuest as SkippedGuest
from opendrs.arrays.move_groups import SkipReason as SkipReason
from opendrs.arrays.move_groups import compile_move_groups as compile_move_groups
from opendrs.arrays.move_groups import describe_skipped as describe_skipped
from opendrs.arrays.move_groups import local_disk_reason as local_disk_reason
from opendrs.arrays.move_groups import migrations_of as migrations_of
from opendrs.arrays.move_groups import move_groups as move_groups
from opendrs.arrays.move_groups import skip_reasons as skip_reasons
from opendrs.arrays.move_groups import skipped_by_reason as skipped_by_reason
from opendrs.arrays.move_scores import MoveArrays as MoveArrays
from opendrs.arrays.placement_classes import Mask as Mask
from opendrs.arrays.selection_state import SelectionState as SelectionState
