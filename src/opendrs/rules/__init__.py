"""What the placement rules mean."""

from opendrs.rules.compilation import CompiledRules as CompiledRules
from opendrs.rules.compilation import compile_rules as compile_rules
from opendrs.rules.contradictions import Contradiction as Contradiction
from opendrs.rules.groups import NOBODY as NOBODY
from opendrs.rules.room import Room as Room
from opendrs.rules.room import need as need
from opendrs.rules.room import room_when_empty as room_when_empty
from opendrs.rules.targets import Targets as Targets
from opendrs.rules.violations import Violation as Violation
from opendrs.rules.violations import ViolationChange as ViolationChange
from opendrs.rules.violations import newly_broken as newly_broken
from opendrs.rules.violations import violation_change as violation_change
from opendrs.rules.violations import violations as violations
