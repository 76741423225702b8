"""Parts of OpenStack Neat that the policy `consolidate` does not use."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from opendrs.model import GuestId
from opendrs.policies.base import require_ratio
from opendrs.policies.consolidation import (
    EvictionCandidates,
    GuestLoad,
    GuestSelector,
    LoadHistories,
)
from opendrs.policies.consolidation.history import Integers, Mask

NANOSECONDS = 1_000_000_000


def cpu_used(core: float, before: tuple[float, int], now: tuple[float, int]) -> float:
    """Return the CPU that a guest used between two readings of its counter.

    Args:
        core: Speed of one core, in the unit of the result.
        before: Time of the earlier reading in seconds, and CPU time in nanoseconds.
        now: The same of the later reading.
    """
    return core * (now[1] - before[1]) / ((now[0] - before[0]) * NANOSECONDS)


def migration_time(memory: Iterable[float], bandwidth: float) -> float:
    """Return the mean duration of a migration in seconds.

    Args:
        memory: Memory of each guest; at least one.
        bandwidth: Memory that is transferred per second, in the same unit.
    """
    sizes = list(memory)
    return sum(sizes) / len(sizes) / bandwidth


def host_names(text: str) -> list[str]:
    """Return the hosts in a `compute_hosts` entry.

    All characters except letters, digits, `-` and `_` are separators. So is the dot,
    and no name is fully qualified.
    """
    return re.findall(r"[A-Za-z0-9_-]+", text)


def host_history(
    guests: Sequence[Sequence[float]], overhead: Sequence[float], capacity: float
) -> list[float]:
    """Return the used fraction of a host's CPU, per sample.

    Guests that arrived later have shorter histories. The newest samples of all are
    treated as simultaneous, and a guest used nothing before its first sample.

    Args:
        guests: CPU used by each guest.
        overhead: CPU used by the host outside its guests.
        capacity: CPU of the host, in the same unit.

    Returns:
        As many samples as the longest history of a guest; may exceed 1.
    """
    length = max((len(each) for each in guests), default=0)
    total = np.zeros(length)
    for each in (*guests, overhead):
        newest = each[max(0, len(each) - length) :]
        total[length - len(newest) :] += newest
    in_use: list[float] = (total / capacity).tolist()
    return in_use


@dataclass(frozen=True, slots=True, kw_only=True)
class AlwaysUnderloaded:
    """Underload detector for which every host is underloaded, even without samples.

    Source:
        OpenStack Neat, `always_underloaded_factory`.
    """

    name: ClassVar[str] = "always"

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return True."""
        del history
        return True

    def all_underloaded(self, histories: LoadHistories) -> Mask:
        """Return `underloaded` of each host."""
        return np.ones(len(histories.lengths), np.bool_)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnderloadThreshold:
    """Underloaded if the newest sample is not above *threshold*."""

    name: ClassVar[str] = "threshold"
    threshold: float = 0.5

    def __post_init__(self) -> None:
        require_ratio("threshold", self.threshold, 1.0)

    def underloaded(self, history: Sequence[float]) -> bool:
        """Return True if the newest sample is at most the threshold."""
        return bool(history) and history[-1] <= self.threshold

    def all_underloaded(self, histories: LoadHistories) -> Mask:
        """Return `underloaded` of each host."""
        return (histories.lengths > 0) & (histories.last() <= self.threshold)


def select_guest(
    selector: GuestSelector, guests: Sequence[GuestLoad]
) -> GuestId | None:
    """Return the guest to evict of *guests* on one host; None if there is none."""
    ordered = sorted(guests, key=lambda guest: guest.id)
    keys = zip(selector.keys(ordered), ordered, strict=True)
    return min(keys, key=lambda each: each[0])[1].id if ordered else None


def select_guest_per_node(
    selector: GuestSelector, guests: EvictionCandidates, hosts: int
) -> Integers:
    """Return the guest to evict of each of *hosts* hosts; -1 if there is none."""
    keys = selector.key_columns(guests)
    rows = np.arange(len(guests.node_of))
    order = np.lexsort((rows, *reversed(keys), guests.node_of))
    chosen = np.full(hosts, -1, dtype=np.int64)
    chosen[guests.node_of[order[::-1]]] = order[::-1]
    return chosen
