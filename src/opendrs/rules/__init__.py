"""Meaning of placement rules: compilation, feasibility, contradictions, violations."""

from opendrs.rules.affinity_groups import NO_GUESTS as NO_GUESTS
from opendrs.rules.chosen import Choices as Choices
from opendrs.rules.chosen import choose as choose
from opendrs.rules.chosen import with_chosen as with_chosen
from opendrs.rules.chosen import with_rules as with_rules
from opendrs.rules.compilation import CompiledRules as CompiledRules
from opendrs.rules.compilation import compile_rules as compile_rules
from opendrs.rules.contradictions import Contradiction as Contradiction
from opendrs.rules.domain_affinity import chooses_domain as chooses_domain
from opendrs.rules.domain_affinity import is_choice as is_choice
from opendrs.rules.domain_affinity import other_domains as other_domains
from opendrs.rules.domain_affinity import ranked_choices as ranked_choices
from opendrs.rules.domain_affinity import with_domain_rules as with_domain_rules
from opendrs.rules.domain_affinity import without_choices as without_choices
from opendrs.rules.domain_choices import domain_nodes as domain_nodes
from opendrs.rules.domain_limits import DomainLimit as DomainLimit
from opendrs.rules.domain_limits import domains as domains
from opendrs.rules.domain_limits import excess as excess
from opendrs.rules.failed_migrations import HOLD_ORIGIN as HOLD_ORIGIN
from opendrs.rules.failed_migrations import hold_rules as hold_rules
from opendrs.rules.failure_sets import TOLERANCE_ORIGIN as TOLERANCE_ORIGIN
from opendrs.rules.failure_sets import FailureSet as FailureSet
from opendrs.rules.failure_sets import checks_every_set as checks_every_set
from opendrs.rules.failure_sets import (
    describe_not_tolerated as describe_not_tolerated,
)
from opendrs.rules.failure_sets import domain_failures as domain_failures
from opendrs.rules.failure_sets import failure_sets as failure_sets
from opendrs.rules.feasibility import UNLISTED as UNLISTED
from opendrs.rules.feasibility import FeasibilityChecker as FeasibilityChecker
from opendrs.rules.feasibility import node_priority as node_priority
from opendrs.rules.feasibility import restart_blocker as restart_blocker
from opendrs.rules.guest_keys import GROUP_RULES as GROUP_RULES
from opendrs.rules.guest_keys import keyed_group_rules as keyed_group_rules
from opendrs.rules.guest_keys import keyed_node_rules as keyed_node_rules
from opendrs.rules.guest_keys import pin_rules as pin_rules
from opendrs.rules.guest_keys import words_of as words_of
from opendrs.rules.infeasible_anti_affinity import (
    InfeasibleAntiAffinity as InfeasibleAntiAffinity,
)
from opendrs.rules.infeasible_anti_affinity import (
    find_infeasible_anti_affinity as find_infeasible_anti_affinity,
)
from opendrs.rules.load_limits import AvailableLoads as AvailableLoads
from opendrs.rules.load_limits import available_loads as available_loads
from opendrs.rules.load_limits import balanced_loads as balanced_loads
from opendrs.rules.load_limits import compared_loads as compared_loads
from opendrs.rules.load_limits import load_notes as load_notes
from opendrs.rules.load_limits import load_shortage as load_shortage
from opendrs.rules.load_limits import required_load as required_load
from opendrs.rules.maintenance import drain_rules as drain_rules
from opendrs.rules.maintenance import drained_nodes as drained_nodes
from opendrs.rules.maintenance import is_drain as is_drain
from opendrs.rules.maintenance import with_drain_rule as with_drain_rule
from opendrs.rules.memory import MILLICORES as MILLICORES
from opendrs.rules.memory import AvailableMemory as AvailableMemory
from opendrs.rules.memory import available_memory as available_memory
from opendrs.rules.memory import required_memory as required_memory
from opendrs.rules.memory import usable_memory as usable_memory
from opendrs.rules.priorities import EXPECTED_PRIORITY as EXPECTED_PRIORITY
from opendrs.rules.priorities import guest_priorities as guest_priorities
from opendrs.rules.priorities import keyed_priorities as keyed_priorities
from opendrs.rules.priorities import mean_priority as mean_priority
from opendrs.rules.priorities import parse_priority as parse_priority
from opendrs.rules.storage_space import available_space as available_space
from opendrs.rules.storage_space import released_space as released_space
from opendrs.rules.storage_space import required_space as required_space
from opendrs.rules.storage_space import space_shortage as space_shortage
from opendrs.rules.undo import undo_rules as undo_rules
from opendrs.rules.undo import without_migration_rules as without_migration_rules
from opendrs.rules.undo import without_undo_rules as without_undo_rules
from opendrs.rules.violations import Violation as Violation
from opendrs.rules.violations import ViolationChange as ViolationChange
from opendrs.rules.violations import ViolationCount as ViolationCount
from opendrs.rules.violations import count_strict as count_strict
from opendrs.rules.violations import new_violations as new_violations
from opendrs.rules.violations import split_drains as split_drains
from opendrs.rules.violations import strict_rules as strict_rules
from opendrs.rules.violations import violation_change as violation_change
from opendrs.rules.violations import violations as violations
