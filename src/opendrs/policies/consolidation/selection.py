"""Which guest should leave an overloaded host first.

Each way of choosing is a key: the guest with the least key leaves, and between
equals the name decides. OpenStack Neat leaves that to the order of a table in
memory, and chooses nobody where no candidate has used any CPU.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from opendrs.model import GuestId
from opendrs.policies.consolidation.correlation import determinations
from opendrs.policies.consolidation.detection import require_samples
from opendrs.policies.consolidation.guests import GuestLoad
from opendrs.policies.consolidation.histories import (
    Floats,
    Histories,
    Integers,
    means_of_last,
)

Key = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GuestColumns:
    """The guests of all hosts, in the order of their names.

    Attributes:
        host: Which host each is on; shape (guests,).
        memory: What moving it has to transfer; shape (guests,).
        histories: What CPU it used.
    """

    host: Integers
    memory: Floats
    histories: Histories


class Selection(Protocol):
    """Chooses the guest that leaves.

    Attributes:
        name: What operators call it; never renamed.
    """

    name: ClassVar[str]

    def keys(self, guests: Sequence[GuestLoad]) -> list[Key]:
        """Return the key of each of the guests of one host."""

    def key_columns(self, guests: GuestColumns) -> tuple[Floats, ...]:
        """Return the keys of all guests, each part of shape (guests,)."""


def select(selection: Selection, guests: Sequence[GuestLoad]) -> GuestId | None:
    """Return which of *guests*, all on one host, leaves; None when there is none."""
    ordered = sorted(guests, key=lambda guest: guest.id)
    keys = zip(selection.keys(ordered), ordered, strict=True)
    return min(keys, key=lambda each: each[0])[1].id if ordered else None


def select_everywhere(
    selection: Selection, guests: GuestColumns, hosts: int
) -> Integers:
    """Return which guest leaves each of *hosts* hosts; -1 where there is none."""
    keys = selection.key_columns(guests)
    places = np.arange(len(guests.host))
    order = np.lexsort((places, *reversed(keys), guests.host))
    chosen = np.full(hosts, -1, dtype=np.int64)
    chosen[guests.host[order[::-1]]] = order[::-1]
    return chosen


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumMigrationTime:
    """MMT: the guest with the least memory."""

    name: ClassVar[str] = "minimum-migration-time"

    def keys(self, guests: Sequence[GuestLoad]) -> list[Key]:
        """Return the memory of each guest."""
        return [(guest.memory,) for guest in guests]

    def key_columns(self, guests: GuestColumns) -> tuple[Floats, ...]:
        """Return the memory of each guest."""
        return (guests.memory,)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumMigrationTimeMaximumCpu:
    """Of the guests with the least memory, the one that uses most CPU.

    Attributes:
        last_n: How many samples the use is averaged over.
    """

    name: ClassVar[str] = "minimum-migration-time-maximum-cpu"
    last_n: int = 2

    def __post_init__(self) -> None:
        require_samples("last_n", self.last_n)

    def keys(self, guests: Sequence[GuestLoad]) -> list[Key]:
        """Return the memory and the use of each guest, the latter negated."""
        return [(each.memory, -(each.demand(self.last_n) or 0.0)) for each in guests]

    def key_columns(self, guests: GuestColumns) -> tuple[Floats, ...]:
        """Return the memory and the use of each guest, the latter negated."""
        return guests.memory, -means_of_last(guests.histories, self.last_n)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinimumUtilisation:
    """MU: the guest that used least CPU when last seen."""

    name: ClassVar[str] = "minimum-utilisation"

    def keys(self, guests: Sequence[GuestLoad]) -> list[Key]:
        """Return the newest sample of each guest; 0 where there is none."""
        return [(each.demand(1) or 0.0,) for each in guests]

    def key_columns(self, guests: GuestColumns) -> tuple[Floats, ...]:
        """Return the newest sample of each guest; 0 where there is none."""
        return (guests.histories.last(),)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomChoice:
    """RS: any guest, each as likely as another.

    A guest's lot depends on *seed* and on its name's place on its host, so give
    a new seed with each decision.
    """

    name: ClassVar[str] = "random"
    seed: int | str = 0

    def keys(self, guests: Sequence[GuestLoad]) -> list[Key]:
        """Return a number drawn for each guest."""
        drawn = random.Random(str(self.seed))  # noqa: S311
        return [(drawn.random(),) for _ in guests]

    def key_columns(self, guests: GuestColumns) -> tuple[Floats, ...]:
        """Return a number drawn for each guest, the same as on its host alone."""
        order = np.argsort(guests.host, kind="stable")
        counts = np.bincount(guests.host)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(
            np.cumsum(counts) - counts, counts
        )
        drawn = random.Random(str(self.seed))  # noqa: S311
        lots = np.array([drawn.random() for _ in range(int(counts.max(initial=0)))])
        return (lots[place] if len(order) else np.zeros(0),)


@dataclass(frozen=True, slots=True, kw_only=True)
class MaximumCorrelation:
    """MC: the guest whose load the others' loads tell best.

    Where there are too few samples, or none can be told from the others, all are
    equal but for their memory, and the least leaves.

    Source:
        Verma et al., Server workload analysis for power minimization using
        consolidation (USENIX 2009), as in Beloglazov and Buyya (CCPE 2012).
    """

    name: ClassVar[str] = "maximum-correlation"

    def keys(self, guests: Sequence[GuestLoad]) -> list[Key]:
        """Return how well each guest is told, negated, and its memory."""
        length = min((len(each.history) for each in guests), default=0)
        newest = [each.history[len(each.history) - length :] for each in guests]
        samples = np.array(newest)
        told = determinations(samples) if length else None
        parts = np.zeros(len(guests)) if told is None else told
        return [
            (-part, each.memory)
            for part, each in zip(parts.tolist(), guests, strict=True)
        ]

    def key_columns(self, guests: GuestColumns) -> tuple[Floats, ...]:
        """Return how well each guest is told, negated, and its memory."""
        told, width = np.zeros(len(guests.host)), guests.histories.values.shape[1]
        order = np.argsort(guests.host, kind="stable")
        _, starts = np.unique(guests.host[order], return_index=True)
        for here in np.split(order, starts[1:]) if len(order) else ():
            length = int(guests.histories.lengths[here].min())
            samples = guests.histories.values[here, width - length :]
            found = determinations(samples) if length else None
            if found is not None:
                told[here] = found
        return -told, guests.memory
