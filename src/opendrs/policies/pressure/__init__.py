"""Policy that relieves starved guests: stalled for CPU, or on nodes short of memory."""

from opendrs.policies.pressure.policy import PressureRelief as PressureRelief
from opendrs.policies.pressure.starvation import PREFERENCES as PREFERENCES
from opendrs.policies.pressure.starvation import (
    PressureThresholds as PressureThresholds,
)
from opendrs.policies.pressure.starvation import StarvedGuest as StarvedGuest
from opendrs.policies.pressure.starvation import criteria_weights as criteria_weights
from opendrs.policies.pressure.starvation import rank_starved as rank_starved
