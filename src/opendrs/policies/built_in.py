"""The policies that come with opendrs, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from opendrs.policies.auto_rebalance import AutoRebalance
from opendrs.policies.balance import Balance

BUILT_IN: Mapping[str, type[AutoRebalance | Balance]] = MappingProxyType(
    {policy.name: policy for policy in (AutoRebalance, Balance)}
)
