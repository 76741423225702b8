"""What to do about a snapshot."""

from opendrs.policies.auto_rebalance import AutoRebalance as AutoRebalance
from opendrs.policies.balance import Balance as Balance
from opendrs.policies.base import Decision as Decision
from opendrs.policies.base import Policy as Policy
from opendrs.policies.base import Reason as Reason
from opendrs.policies.built_in import BUILT_IN as BUILT_IN
from opendrs.policies.consolidation.policy import Consolidate as Consolidate
from opendrs.policies.optimising.policy import Optimize as Optimize
from opendrs.policies.pressure import PressureRelief as PressureRelief
from opendrs.policies.threshold_rebalance import (
    ThresholdRebalance as ThresholdRebalance,
)
