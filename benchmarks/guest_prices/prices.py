"""What is paid for what all nodes have to agree on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.policies.optimising.decomposition.ground import PLANE
from opendrs.policies.optimising.groups import Floats


@dataclass(frozen=True, slots=True)
class Prices:
    """What is paid for what all nodes have to agree on.

    Attributes:
        guests: For each guest, by the node where it arrives to that which it leaves.
        budgets: For what each budget counts; not negative.
        mean: For the mean share of capacity; shape (2,).
    """

    guests: Floats
    budgets: Floats
    mean: Floats

    @classmethod
    def of(cls, flat: Floats, budgets: int) -> Prices:
        """Return the prices that are in a row: of guests, budgets, mean."""
        return cls(
            flat[: -PLANE - budgets], flat[-PLANE - budgets : -PLANE], flat[-PLANE:]
        )

    @property
    def flat(self) -> Floats:
        """Them in a row."""
        return np.concatenate([self.guests, self.budgets, self.mean])
