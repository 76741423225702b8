"""From the busiest host to those less busy, when they are far enough apart."""

from opendrs.policies.threshold_rebalance.forms import Form as Form
from opendrs.policies.threshold_rebalance.forms import Host as Host
from opendrs.policies.threshold_rebalance.forms import byte as byte
from opendrs.policies.threshold_rebalance.policy import (
    ThresholdRebalance as ThresholdRebalance,
)
from opendrs.policies.threshold_rebalance.standing import CpuMeasure as CpuMeasure
