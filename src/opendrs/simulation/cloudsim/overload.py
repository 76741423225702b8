"""Overload checks: hosts that are overloaded, or would be with one more guest.

THR and LR compare a sum over guests with a limit; IQR and MAD need the whole history of
the host. With too few samples, all of them are THR 0.7.
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
from opendrs.simulation.cloudsim.cpu_sharing import HostedGuests, sum_by_host
from opendrs.simulation.cloudsim.hardware import CloudSimGuests, CloudSimHosts
from opendrs.simulation.cloudsim.schemes import CloudSimDetector, MigrationScheme
from opendrs.simulation.workload import Floats, Integers, Mask

FALLBACK_THRESHOLD = 0.7
MIN_SAMPLES = 12  # samples for IQR and MAD
TREND_SAMPLES = 10  # samples for LR
HISTORY_LENGTH = 30  # samples that are kept
PREDICTED_POSITION = 11.0  # x of LR's prediction: a migration takes up to one interval
HOSTS_PER_BATCH = 4  # candidates evaluated together

# The least squares line through x = 1 .. 10 has at x = 11 the value of this weighted
# sum: 1/10 + (11 - 5.5) (x - 5.5) / 82.5. The original computes LR's own weights but
# does not apply them, and so LRR is the same.
PREDICTION_WEIGHTS = (
    1 / TREND_SAMPLES
    + (PREDICTED_POSITION - 5.5)
    * (np.arange(1, TREND_SAMPLES + 1) - 5.5)
    / ((np.arange(1, TREND_SAMPLES + 1) - 5.5) ** 2).sum()
)


@dataclass(frozen=True, slots=True)
class CloudSimView:
    """State of the cluster at a decision.

    Attributes:
        hosts: The hosts.
        guests: The guests.
        residents: Host of each guest.
        request: MIPS requested by each guest; shape (guests,).
        history: Load of each guest at the recent decisions including this one,
            newest last, at most 30; shape (guests, samples).
    """

    hosts: CloudSimHosts
    guests: CloudSimGuests
    residents: HostedGuests
    request: Floats
    history: Floats

    def sum_by_host(self, amounts: Floats) -> Floats:
        """Return the sum of the guests' *amounts* on each host."""
        each = amounts[self.residents.guest]
        return sum_by_host(self.residents.host, each, len(self.hosts.mips))


class OverloadCheck(ABC):
    """Check for overloaded hosts that considers tentative moves.

    Attributes:
        overloaded: True for hosts that are overloaded now; shape (hosts,).
    """

    overloaded: Mask

    @abstractmethod
    def is_overloaded_with(self, guests: Sequence[int], host: int) -> bool:
        """Return True if *host* would be overloaded with exactly these guests."""

    @abstractmethod
    def first_free(self, guest: int, hosts: Integers, exempt: Mask) -> int | None:
        """Return the index of the first of *hosts* that can take *guest*, or None.

        Args:
            guest: Guest to place.
            hosts: Candidates, best first.
            exempt: True for candidates that the guest may overload.
        """

    @abstractmethod
    def add(self, guest: int, host: int) -> Callable[[], None]:
        """Move *guest* to *host*; return a function that undoes it."""


class SumOverloadCheck(OverloadCheck):
    """Hosts with a sum above a limit are overloaded."""

    def __init__(self, view: CloudSimView, amounts: Floats, limit: Floats) -> None:
        self._amounts, self._limit = amounts, limit
        self._sums = view.sum_by_host(amounts)
        self.overloaded = self._sums > limit

    def is_overloaded_with(self, guests: Sequence[int], host: int) -> bool:
        """Return True if *host* would be overloaded with exactly these guests."""
        total = 0.0
        for each in guests:
            total += self._amounts[each]
        return bool(total > self._limit[host])

    def first_free(self, guest: int, hosts: Integers, exempt: Mask) -> int | None:
        """Return the index of the first of *hosts* that can take *guest*, or None."""
        sums = self._sums[hosts] + self._amounts[guest]
        feasible = exempt | (sums <= self._limit[hosts])
        first = int(np.argmax(feasible))
        return first if feasible[first] else None

    def add(self, guest: int, host: int) -> Callable[[], None]:
        """Move *guest* to *host*; return a function that undoes it."""
        before = self._sums[host]
        self._sums[host] += self._amounts[guest]

        def undo() -> None:
            self._sums[host] = before

        return undo


class DispersionOverloadCheck(OverloadCheck):
    """Hosts with less free CPU than a multiple of the dispersion are overloaded."""

    def __init__(
        self, view: CloudSimView, safety: float, spreads: Callable[[Floats], Floats]
    ) -> None:
        self._view, self._safety, self._spreads = view, safety, spreads
        self._mips = view.history * view.guests.mips[:, None]
        self._requested = view.sum_by_host(view.request)
        rows = np.zeros((len(view.hosts.mips), view.history.shape[1]))
        np.add.at(rows, view.residents.host, self._mips[view.residents.guest])
        self._rows = rows
        self.overloaded = np.zeros(len(rows), np.bool_)
        used = np.flatnonzero(self._requested > 0)
        self.overloaded[used] = self._overloaded(
            self._requested[used], rows[used], used
        )

    def _overloaded(self, requested: Floats, rows: Floats, hosts: Integers) -> Mask:
        total = self._view.hosts.mips[hosts]
        spread = self._spreads(rows / total[:, None])
        return np.asarray(requested / total > 1 - self._safety * spread)

    def is_overloaded_with(self, guests: Sequence[int], host: int) -> bool:
        """Return True if *host* would be overloaded with exactly these guests."""
        requested = self._view.request[guests].sum(keepdims=True)
        rows = self._mips[guests].sum(axis=0, keepdims=True)
        return bool(self._overloaded(requested, rows, np.array([host]))[0])

    def first_free(self, guest: int, hosts: Integers, exempt: Mask) -> int | None:
        """Return the index of the first of *hosts* that can take *guest*, or None."""
        for start in range(0, len(hosts), HOSTS_PER_BATCH):
            batch = hosts[start : start + HOSTS_PER_BATCH]
            requested = self._requested[batch] + self._view.request[guest]
            rows = self._rows[batch] + self._mips[guest]
            feasible = exempt[start : start + HOSTS_PER_BATCH] | ~self._overloaded(
                requested, rows, batch
            )
            if feasible.any():
                return start + int(np.argmax(feasible))
        return None

    def add(self, guest: int, host: int) -> Callable[[], None]:
        """Move *guest* to *host*; return a function that undoes it."""
        before, row = self._requested[host], self._rows[host].copy()
        self._requested[host] += self._view.request[guest]
        self._rows[host] += self._mips[guest]

        def undo() -> None:
            self._requested[host], self._rows[host] = before, row

        return undo


def overload_check(scheme: MigrationScheme, view: CloudSimView) -> OverloadCheck:
    """Return the overload check of *scheme*."""
    samples, total = view.history.shape[1], view.hosts.mips
    trend = scheme.detector in {CloudSimDetector.LR, CloudSimDetector.LRR}
    if scheme.detector is CloudSimDetector.THR:
        return SumOverloadCheck(view, view.request, scheme.parameter * total)
    if samples < (TREND_SAMPLES if trend else MIN_SAMPLES):
        return SumOverloadCheck(view, view.request, FALLBACK_THRESHOLD * total)
    if trend:
        predicted = (
            view.history[:, -TREND_SAMPLES:] @ PREDICTION_WEIGHTS
        ) * view.guests.mips
        # A prediction equal to the limit counts as overload.
        return SumOverloadCheck(
            view, predicted, np.nextafter(total / scheme.parameter, 0)
        )
    spreads = {
        CloudSimDetector.IQR: interquartile_ranges,
        CloudSimDetector.MAD: median_absolute_deviations,
    }
    return DispersionOverloadCheck(view, scheme.parameter, spreads[scheme.detector])
