"""Built-in policies by name; each is imported when it is looked up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pkgutil import resolve_name
from typing import Any

from opendrs.policies.base import CONSOLIDATE, Policy

_LOCATIONS = {
    "auto-rebalance": "opendrs.policies.auto_rebalance:AutoRebalance",
    "balance": "opendrs.policies.balance:Balance",
    CONSOLIDATE: "opendrs.policies.consolidation:Consolidate",
    "optimize": "opendrs.policies.optimize:Optimize",
    "pressure": "opendrs.policies.pressure:PressureRelief",
    "repair": "opendrs.policies.optimize:Repair",
    "threshold-rebalance": "opendrs.policies.threshold_rebalance:ThresholdRebalance",
}


class BuiltInPolicies(Mapping[str, type[Policy[Any]]]):
    """The classes of the built-in policies by name.

    A command imports only the policies that it uses.
    """

    def __getitem__(self, name: str) -> type[Policy[Any]]:
        policy: type[Policy[Any]] = resolve_name(_LOCATIONS[name])
        return policy

    def __contains__(self, name: object) -> bool:
        return name in _LOCATIONS

    def __iter__(self) -> Iterator[str]:
        return iter(_LOCATIONS)

    def __len__(self) -> int:
        return len(_LOCATIONS)


BUILT_IN_POLICIES = BuiltInPolicies()
