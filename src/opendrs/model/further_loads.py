"""Further loads that the operator balances or limits, such as network traffic.

Which further loads there are, and in which unit, is up to the snapshot: `loads` of
nodes and guests, and `load_capacities` of nodes. A `FurtherLoad` names one of them and
says how much it counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from opendrs.errors import ModelError
from opendrs.model.node import Node
from opendrs.model.resources import require_load_name

MAX_LOAD_WEIGHT = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherLoad:
    """Further load that is balanced, limited, or both.

    Attributes:
        name: Name of the load, as in the snapshot.
        weight: Weight of its balance for `balance` and `optimize`, where CPU and memory
            have 1; 0 if it is not balanced.
        threshold: Part of the capacity of a node, in (0, 1], above which no guest
            arrives there; None if it is not limited.

    Raises:
        ModelError: A value is out of range, or the load is neither balanced nor
            limited.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    name: str
    weight: float = 0.0
    threshold: float | None = None

    def __post_init__(self) -> None:
        require_load_name("name", self.name)
        if not 0 <= self.weight <= MAX_LOAD_WEIGHT:
            raise ModelError(
                f"{self.name}: weight: expected a number from 0 to "
                f"{MAX_LOAD_WEIGHT:g}, got {self.weight:g}"
            )
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise ModelError(
                f"{self.name}: threshold: expected a fraction above 0 and up to 1, "
                f"got {self.threshold:g}"
            )
        if self.threshold is None and self.weight == 0:
            raise ModelError(
                f"{self.name}: neither balanced nor limited; set weight, threshold, "
                "or both"
            )

    def used_fraction(self, node: Node) -> float | None:
        """Return the used part of the capacity of *node*.

        It is None if the node has no capacity for the load, or was not measured.
        """
        amount = node.loads.get(self.name)
        capacity = node.load_capacities.get(self.name)
        return None if amount is None or capacity is None else amount / capacity
