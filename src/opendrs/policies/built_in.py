"""The policies that come with opendrs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from opendrs.policies.auto_rebalance import AutoRebalance
from opendrs.policies.balance import Balance
from opendrs.policies.consolidation.policy import Consolidate

BUILT_IN: Mapping[str, type[AutoRebalance | Balance | Consolidate]] = MappingProxyType(
    {policy.name: policy for policy in (AutoRebalance, Balance, Consolidate)}
)
