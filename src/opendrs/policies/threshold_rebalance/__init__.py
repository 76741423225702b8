"""Policy that migrates guests from the most to the least loaded node."""

from opendrs.policies.threshold_rebalance.compatibility import (
    IncusVersion as IncusVersion,
)
from opendrs.policies.threshold_rebalance.compatibility import ScoredNode as ScoredNode
from opendrs.policies.threshold_rebalance.compatibility import to_uint8 as to_uint8
from opendrs.policies.threshold_rebalance.node_ranking import CpuMetric as CpuMetric
from opendrs.policies.threshold_rebalance.policy import (
    ThresholdRebalance as ThresholdRebalance,
)
