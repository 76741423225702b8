"""Which hosts are overloaded, and which would be with one guest more.

THR and LR compare a sum over guests with a limit; IQR and MAD need the whole
history of the host. Until there are enough samples all of them are THR 0.7.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.policies.consolidation import (
    interquartile_ranges,
    median_absolute_deviations,
)
from opendrs.sim.consolidation.hardware import Floats, Guests, Hosts, Integers, Truths
from opendrs.sim.consolidation.schemes import Detector, Migrating
from opendrs.sim.consolidation.sharing import Residents, summed

FALLBACK = 0.7
FEWEST = 12  # samples for IQR and MAD
TREND = 10  # samples for LR
MOST = 30  # samples that are kept
AHEAD = 11.0  # where LR looks: a migration takes up to one interval
BATCH = 4  # candidates judged together

# The least squares line through x = 1 .. 10 has at x = 11 the height of this
# weighted sum: 1/10 + (11 - 5.5) (x - 5.5) / 82.5. LR's own weights are computed
# but not applied by the original, and so LRR is the same.
LINE = (
    1 / TREND
    + (AHEAD - 5.5)
    * (np.arange(1, TREND + 1) - 5.5)
    / ((np.arange(1, TREND + 1) - 5.5) ** 2).sum()
)


@dataclass(frozen=True, slots=True)
class View:
    """What is known at a decision.

    Attributes:
        hosts: The hosts.
        guests: The guests.
        residents: Who is where.
        request: MIPS that each guest asks for; shape (guests,).
        history: Load of each guest at the last decisions and at this one, the
            newest last, at most 30; shape (guests, samples).
    """

    hosts: Hosts
    guests: Guests
    residents: Residents
    request: Floats
    history: Floats

    def on_hosts(self, amounts: Floats) -> Floats:
        """Return the sum of the guests' *amounts* on each host."""
        each = amounts[self.residents.guest]
        return summed(self.residents.host, each, len(self.hosts.total))


class Watch(ABC):
    """Tells which hosts are overloaded; knows who was moved tentatively.

    Attributes:
        overloaded: Whether each host is, as things stand; shape (hosts,).
    """

    overloaded: Truths

    @abstractmethod
    def is_overloaded_by(self, guests: Sequence[int], host: int) -> bool:
        """Return whether *host* would be with these guests and no others."""

    @abstractmethod
    def first_free(self, guest: int, hosts: Integers, exempt: Truths) -> int | None:
        """Return the place of the first of *hosts* that can take *guest*.

        Args:
            guest: Who would come.
            hosts: Where to, the best first.
            exempt: Which of them may be overloaded by it.
        """

    @abstractmethod
    def add(self, guest: int, host: int) -> Callable[[], None]:
        """Move *guest* to *host*; return how to undo that."""


class SumWatch(Watch):
    """Overloaded are hosts whose sum is above a limit."""

    def __init__(self, view: View, amounts: Floats, limit: Floats) -> None:
        self._amounts, self._limit = amounts, limit
        self._sums = view.on_hosts(amounts)
        self.overloaded = self._sums > limit

    def is_overloaded_by(self, guests: Sequence[int], host: int) -> bool:
        """Return whether *host* would be with these guests and no others."""
        total = 0.0
        for each in guests:
            total += self._amounts[each]
        return bool(total > self._limit[host])

    def first_free(self, guest: int, hosts: Integers, exempt: Truths) -> int | None:
        """Return the place of the first of *hosts* that can take *guest*."""
        sums = self._sums[hosts] + self._amounts[guest]
        able = exempt | (sums <= self._limit[hosts])
        first = int(np.argmax(able))
        return first if able[first] else None

    def add(self, guest: int, host: int) -> Callable[[], None]:
        """Move *guest* to *host*; return how to undo that."""
        before = self._sums[host]
        self._sums[host] += self._amounts[guest]

        def undo() -> None:
            self._sums[host] = before

        return undo


class SpreadWatch(Watch):
    """Overloaded are hosts that have less room than their load is spread."""

    def __init__(
        self, view: View, safety: float, spreads: Callable[[Floats], Floats]
    ) -> None:
        self._view, self._safety, self._spreads = view, safety, spreads
        self._mips = view.history * view.guests.mips[:, None]
        self._asked = view.on_hosts(view.request)
        rows = np.zeros((len(view.hosts.total), view.history.shape[1]))
        np.add.at(rows, view.residents.host, self._mips[view.residents.guest])
        self._rows = rows
        self.overloaded = np.zeros(len(rows), np.bool_)
        used = np.flatnonzero(self._asked > 0)
        self.overloaded[used] = self._judge(self._asked[used], rows[used], used)

    def _judge(self, asked: Floats, rows: Floats, hosts: Integers) -> Truths:
        total = self._view.hosts.total[hosts]
        spread = self._spreads(rows / total[:, None])
        return np.asarray(asked / total > 1 - self._safety * spread)

    def is_overloaded_by(self, guests: Sequence[int], host: int) -> bool:
        """Return whether *host* would be with these guests and no others."""
        asked = self._view.request[guests].sum(keepdims=True)
        rows = self._mips[guests].sum(axis=0, keepdims=True)
        return bool(self._judge(asked, rows, np.array([host]))[0])

    def first_free(self, guest: int, hosts: Integers, exempt: Truths) -> int | None:
        """Return the place of the first of *hosts* that can take *guest*."""
        for start in range(0, len(hosts), BATCH):
            some = hosts[start : start + BATCH]
            asked = self._asked[some] + self._view.request[guest]
            rows = self._rows[some] + self._mips[guest]
            able = exempt[start : start + BATCH] | ~self._judge(asked, rows, some)
            if able.any():
                return start + int(np.argmax(able))
        return None

    def add(self, guest: int, host: int) -> Callable[[], None]:
        """Move *guest* to *host*; return how to undo that."""
        before, row = self._asked[host], self._rows[host].copy()
        self._asked[host] += self._view.request[guest]
        self._rows[host] += self._mips[guest]

        def undo() -> None:
            self._asked[host], self._rows[host] = before, row

        return undo


def watch(scheme: Migrating, view: View) -> Watch:
    """Return how *scheme* sees the hosts."""
    samples, total = view.history.shape[1], view.hosts.total
    trend = scheme.detector in {Detector.LR, Detector.LRR}
    if scheme.detector is Detector.THR:
        return SumWatch(view, view.request, scheme.parameter * total)
    if samples < (TREND if trend else FEWEST):
        return SumWatch(view, view.request, FALLBACK * total)
    if trend:
        predicted = (view.history[:, -TREND:] @ LINE) * view.guests.mips
        # At the limit is over it.
        return SumWatch(view, predicted, np.nextafter(total / scheme.parameter, 0))
    spreads = {
        Detector.IQR: interquartile_ranges,
        Detector.MAD: median_absolute_deviations,
    }
    return SpreadWatch(view, scheme.parameter, spreads[scheme.detector])
