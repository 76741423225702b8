"""Rules in the form of Proxmox VE's rules.cfg: read, checked, made explicit."""

from opendrs.ha.rules.checks import checked as checked
from opendrs.ha.rules.compilation import NO_RULES as NO_RULES
from opendrs.ha.rules.compilation import CompiledRules as CompiledRules
from opendrs.ha.rules.compilation import compiled as compiled
from opendrs.ha.rules.legacy import Group as Group
from opendrs.ha.rules.legacy import GroupFile as GroupFile
from opendrs.ha.rules.legacy import group_rules as group_rules
from opendrs.ha.rules.legacy import groups_text as groups_text
from opendrs.ha.rules.legacy import read_groups as read_groups
from opendrs.ha.rules.reading import read_rules as read_rules
from opendrs.ha.rules.report import report as report
from opendrs.ha.rules.rule import Affinity as Affinity
from opendrs.ha.rules.rule import NodeAffinityRule as NodeAffinityRule
from opendrs.ha.rules.rule import ResourceAffinityRule as ResourceAffinityRule
from opendrs.ha.rules.rule import Rule as Rule
from opendrs.ha.rules.rule import RuleSet as RuleSet
from opendrs.ha.rules.transforms import transformed as transformed
from opendrs.ha.rules.writing import rules_text as rules_text
