"""Groups of units: who stands apart, spread, or near others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lists:
    """A list of indices for each of K things, one after another.

    Attributes:
        start: Where the list of each begins, and the end of the last; shape (K + 1,).
        items: The lists; shape (start[K],).
    """

    start: Indices
    items: Indices

    @classmethod
    def of(cls, lists: list[list[int]]) -> Lists:
        """Return *lists* as arrays."""
        ends = np.cumsum([0] + [len(each) for each in lists], dtype=np.int64)
        flat = [item for each in lists for item in each]
        return cls(start=ends, items=np.array(flat, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, index: int) -> Indices:
        return self.items[self.start[index] : self.start[index + 1]]

    def inverse(self, count: int) -> Lists:
        """Return for each of *count* items the lists it is in."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        start = np.zeros(count + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.items, minlength=count), out=start[1:])
        return Lists(start=start, items=owner[np.argsort(self.items, kind="stable")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """K groups of units with something in common; a unit may be in several.

    Attributes:
        members: The units of each group, each once.
        strict: Whether its units must stand on different nodes; shape (K,).
        apart_weight: Cost of each unit that shares a node with an earlier one of
            its group (units less distinct nodes); shape (K,).
        spread: In how many locations it must stand; shape (K,).
        needs: Groups of which one unit must stand in each neighbourhood in which
            the group has a unit.
    """

    members: Lists
    strict: Mask
    apart_weight: Floats
    spread: Indices
    needs: Lists

    @classmethod
    def apart(
        cls, groups: list[list[int]], *, strict: bool = True, weight: float = 0.0
    ) -> Groups:
        """Return *groups* whose units are to stand on different nodes."""
        count = len(groups)
        return cls(
            members=Lists.of(groups),
            strict=np.full(count, strict),
            apart_weight=np.full(count, weight),
            spread=np.zeros(count, dtype=np.int64),
            needs=Lists.of([[]] * count),
        )

    def __len__(self) -> int:
        return len(self.strict)
