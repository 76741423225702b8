"""Help for guests that wait: for processors, or on hosts short of memory."""

from opendrs.policies.pressure.policy import PressureRelief as PressureRelief
from opendrs.policies.pressure.trouble import PREFERENCES as PREFERENCES
from opendrs.policies.pressure.trouble import Bounds as Bounds
from opendrs.policies.pressure.trouble import Trouble as Trouble
from opendrs.policies.pressure.trouble import ranked as ranked
from opendrs.policies.pressure.trouble import weights as weights
