"""What the placement rules mean."""

from opendrs.rules.violations import Violation as Violation
from opendrs.rules.violations import newly_broken as newly_broken
from opendrs.rules.violations import violations as violations
