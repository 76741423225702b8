"""Built-in policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from opendrs.policies.auto_rebalance import AutoRebalance
from opendrs.policies.balance import Balance
from opendrs.policies.base import Policy
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.optimize import Optimize, Repair
from opendrs.policies.pressure import PressureRelief
from opendrs.policies.threshold_rebalance import ThresholdRebalance

_POLICIES: tuple[type[Policy[Any]], ...] = (
    AutoRebalance,
    Balance,
    Consolidate,
    Optimize,
    PressureRelief,
    Repair,
    ThresholdRebalance,
)

BUILT_IN_POLICIES: Mapping[str, type[Policy[Any]]] = MappingProxyType(
    {policy.name: policy for policy in _POLICIES}
)
