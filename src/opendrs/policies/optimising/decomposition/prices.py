"""What is paid for what all nodes have to agree on."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.policies.optimising.decomposition.ground import PLANE
from opendrs.policies.optimising.groups import Floats


@dataclass(frozen=True, slots=True)
class Prices:
    """What is paid for what all nodes have to agree on.

    Attributes:
        budgets: For what each budget counts; shape (B,), not negative.
        arrival: By a node for each arrival, and to it for each departure; not negative.
        load: For load that a node has in the end; shape (2,).
        mean: For the mean share of capacity; shape (2,).
    """

    budgets: Floats
    arrival: float
    load: Floats
    mean: Floats

    @classmethod
    def of(cls, flat: Floats) -> Prices:
        """Return the prices that are in a row."""
        budgets = flat[: -1 - 2 * PLANE]
        load, mean = flat[-2 * PLANE : -PLANE], flat[-PLANE:]
        return cls(budgets, float(flat[len(budgets)]), load, mean)
