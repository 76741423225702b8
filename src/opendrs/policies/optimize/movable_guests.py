"""Guests of the move groups that may migrate, as arrays for the optimizer."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from opendrs.arrays import ClusterArrays
from opendrs.metrics import LoadModel, demand
from opendrs.model import GIB, NO_RESOURCES
from opendrs.optimizer import Floats, Indices, Mask
from opendrs.planning import migration_costs
from opendrs.policies.optimize.movable_groups import EncodedGroup


class MovableGuests:
    """Guests of the move groups: H guests in G groups.

    Attributes:
        guests: The guests, group by group.
        group_of_guest: Group of each guest; shape (H,).

    Args:
        groups: Move groups.
        cluster: Cluster whose guests they are.
        load_model: Load that counts.
        repeated: Resource that occurs once more, as the last one.
    """

    def __init__(
        self,
        groups: Sequence[EncodedGroup],
        cluster: ClusterArrays,
        load_model: LoadModel,
        *,
        repeated: int | None = None,
    ) -> None:
        self.guests = tuple(guest for group in groups for guest in group.guests)
        sizes = [len(group.guests) for group in groups]
        self.group_of_guest: Indices = np.repeat(np.arange(len(sizes)), sizes)
        self._group_count = len(groups)
        displaced = [
            guest.node != each.home for each in groups for guest in each.guests
        ]
        self._is_displaced = np.array(displaced, np.bool_)
        self._load_model = load_model
        self._cluster = cluster
        self._repeated = repeated

    @cached_property
    def guest_demand(self) -> Floats:
        """Demand of each guest; unknown demand counts 0; shape (H, R)."""
        cpu = [
            (demand(guest, self._load_model) or NO_RESOURCES).cpu
            for guest in self.guests
        ]
        required = np.where(self._known, self._required, 0.0)
        return with_repeated(np.column_stack((cpu, required)), self._repeated)

    @cached_property
    def is_known(self) -> Mask:
        """True for groups whose requirements are known; shape (G,)."""
        is_missing = np.asarray(~self._known.all(axis=1))
        is_known: Mask = self._sum_by_group(is_missing) == 0
        return is_known

    @cached_property
    def _required(self) -> Floats:
        """Resources that each guest requires of a node, as `ClusterArrays.required`."""
        return self._cluster.required_by([(guest,) for guest in self.guests])

    @cached_property
    def _known(self) -> Mask:
        return np.isfinite(self._required)

    @cached_property
    def demand(self) -> Floats:
        """Demand of each group; shape (G, R)."""
        return sum_rows(self.group_of_guest, self.guest_demand, self._group_count)

    @cached_property
    def transfer(self) -> Floats:
        """Memory and disks that leaving home transfers, in GiB; shape (G,)."""
        return self._sum_by_group((self._memory + self._copied) * ~self._is_displaced)

    @cached_property
    def gather_transfer(self) -> Floats:
        """Memory and disks that gathering at home transfers, in GiB; shape (G,)."""
        return self._sum_by_group((self._memory + self._copied) * self._is_displaced)

    @cached_property
    def displaced_count(self) -> int:
        """Number of guests that are not at home."""
        return int(self._is_displaced.sum())

    @cached_property
    def guest_count(self) -> Floats:
        """Additional migrations when a group leaves its home; shape (G,)."""
        return self._sum_by_group(~self._is_displaced)

    @cached_property
    def migration_cost(self) -> Floats:
        """Additional cost of leaving home, in GiB; shape (G,)."""
        cost = migration_costs(self.guests, self._cluster)
        return self._sum_by_group(cost * ~self._is_displaced)

    @cached_property
    def _memory(self) -> Floats:
        """Memory of each guest, in GiB; shape (H,)."""
        return np.array([guest.usage.memory or 0 for guest in self.guests]) / GIB

    @cached_property
    def _copied(self) -> Floats:
        """Local disks of each guest, in GiB; shape (H,)."""
        return self._cluster.space.copied(self.guests) / GIB

    def _sum_by_group(self, each: Floats | Mask) -> Floats:
        """Return the sum over the guests of each group; shape (G,)."""
        return np.bincount(self.group_of_guest, each, self._group_count).astype(
            np.float64
        )


def sum_rows(where: Indices, rows: Floats, count: int) -> Floats:
    """Return the sum of the rows of each of *count* indices; shape (count, R)."""
    columns = [np.bincount(where, each, count) for each in rows.T]
    return np.column_stack(columns).astype(np.float64)


def with_repeated(columns: Floats, repeated: int | None) -> Floats:
    """Return *columns* with that of the resource *repeated* once more at the end."""
    if repeated is None:
        return columns
    return np.column_stack((columns, columns[:, repeated]))
