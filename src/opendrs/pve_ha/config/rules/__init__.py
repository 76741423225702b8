"""The rules of rules.cfg: reading, conflict checks and compilation."""

from opendrs.pve_ha.config.rules.affinity_components import (
    add_implied_rules as add_implied_rules,
)
from opendrs.pve_ha.config.rules.conflicts import (
    drop_conflicting_rules as drop_conflicting_rules,
)
from opendrs.pve_ha.config.rules.groups import Group as Group
from opendrs.pve_ha.config.rules.groups import add_group_rules as add_group_rules
from opendrs.pve_ha.config.rules.groups import format_groups as format_groups
from opendrs.pve_ha.config.rules.groups import read_groups as read_groups
from opendrs.pve_ha.config.rules.rule import NO_RULES as NO_RULES
from opendrs.pve_ha.config.rules.rule import NodeAffinityRule as NodeAffinityRule
from opendrs.pve_ha.config.rules.rule import PveAffinity as PveAffinity
from opendrs.pve_ha.config.rules.rule import PveCompiledRules as PveCompiledRules
from opendrs.pve_ha.config.rules.rule import PveRule as PveRule
from opendrs.pve_ha.config.rules.rule import (
    ResourceAffinityRule as ResourceAffinityRule,
)
from opendrs.pve_ha.config.rules.rule import RuleSet as RuleSet
from opendrs.pve_ha.config.rules.rule import compile_rules as compile_rules
from opendrs.pve_ha.config.rules.rule_file import format_rules as format_rules
from opendrs.pve_ha.config.rules.rule_file import read_rules as read_rules
