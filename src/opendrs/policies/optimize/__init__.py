"""The policies `optimize` and `repair`, which use the solver."""

from opendrs.policies.optimize.policy import Optimize as Optimize
from opendrs.policies.optimize.repair import Repair as Repair
