"""Forecast of CPU demand, and the risk that a node has too little CPU."""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.assignment import NodeAssignment
from opendrs.policies.consolidation.history import Floats, Integers, Mask
from opendrs.policies.consolidation.input import GuestArrays, NodeArrays, TargetFilter

BURST_VARIANCE = 0.1


"""Variance of a guest of which little is known, as part of the most it can be with
its mean: of a guest that is idle or at its limit, nothing in between. Measured in
PlanetLab, 20110303 and 20110306: 0.08 to 0.11 at means between 3 and 70 %."""


PRIOR_SAMPLES = 6  # samples that this counts as
MIN_DEVIATION = 0.05  # least standard deviation of a host's load, as part of its CPU
MAX_DEVIATIONS = 8.0  # standard deviations
TREND_SAMPLES = 6  # samples that tell where all guests together are going


def prediction_variance(
    samples: Floats,
    lengths: Integers,
    mean: Floats,
    cpu_limit: Floats,
    averaging_window: int,
) -> Floats:
    """Return the variance of a sample to come of each guest, about *mean*.

    Args:
        samples: CPU each used, the newest sample last and zeros before the first;
            shape (guests, samples).
        lengths: How many of them count; shape (guests,).
        mean: CPU each needs on average; shape (guests,).
        cpu_limit: CPU each can use at most; shape (guests,).
        averaging_window: How many samples that mean was taken of.
    """
    count = np.maximum(lengths, 1)
    squares = np.einsum("ij,ij->i", samples, samples)
    observed = np.maximum(squares - samples.sum(axis=1) ** 2 / count, 0.0)
    prior = BURST_VARIANCE * mean * np.maximum(cpu_limit - mean, 0.0)
    variance = (observed + PRIOR_SAMPLES * prior) / (count - 1 + PRIOR_SAMPLES)
    # The mean is not known exactly either: it is one of so many samples.
    predicted: Floats = variance * (1 + 1 / np.clip(lengths, 1, averaging_window))
    return predicted


def common_trend(
    samples: Floats, lengths: Integers, mean: Floats, variance: Floats
) -> float:
    """Return by what the need of all guests together has changed of late.

    A day has hours in which all guests need more. Of one guest that cannot be told
    from chance, of their sum it can: a mean of two hours lags behind, one of the
    last samples does not. What may be chance is taken off: as a part, its variance
    over the square of what is seen (James and Stein).

    Args:
        samples: CPU each used, as in `scatter`.
        lengths: How many of them count.
        mean: CPU each needs on average.
        variance: Of a sample to come of each, about that mean.

    Returns:
        What the mean is to be multiplied with; 1 for no change.
    """
    long = lengths > TREND_SAMPLES
    before = float(mean[long].sum())
    change = float(samples[long, -TREND_SAMPLES:].sum()) / TREND_SAMPLES - before
    noise = float(variance[long].sum()) / TREND_SAMPLES
    if before <= 0 or change**2 <= noise:
        return 1.0
    return 1 + (1 - noise / change**2) * change / before


def overload_fraction(mean: Floats, variance: Floats, cpu: Floats) -> Floats:
    """Return the part of the time for which hosts will have too little CPU.

    The tail of the normal distribution. A host that lacks CPU on average is beyond
    counting time; the value goes on growing, straight on from one half, so that one
    that lacks more is still told from one that lacks less.

    Args:
        mean: CPU that is asked of each on average; any shape.
        variance: Of what is asked.
        cpu: CPU that each has.

    Source:
        E. Page, Approximations to the cumulative normal function and its inverse for
        use on a pocket calculator, Applied Statistics 26 (1977) 75-76; within 0.0002.
    """
    spread = np.sqrt(np.maximum(variance, (MIN_DEVIATION * cpu) ** 2))
    margin = np.minimum((cpu - mean) / spread, MAX_DEVIATIONS)
    over = np.maximum(margin, 0.0)
    tail = 1 / (1 + np.exp(over * (1.5957691 + 0.0713548 * over * over)))
    fraction: Floats = tail + 0.3989423 * np.maximum(-margin, 0.0)
    return fraction


class RiskState(NodeAssignment):
    """Who is where, and the risk of each host: how much of the time it lacks CPU.

    Attributes:
        guest_variance: Variance of the next sample of each guest; shape (guests,).
        node_variance: Of the load of each host; shape (hosts,).
        risk: Part of the time for which each host will lack CPU; shape (hosts,).
        incoming_memory: Memory that is moved to each host, less what leaves it.
    """

    def __init__(
        self,
        averaging_window: int,
        node_arrays: NodeArrays,
        guest_arrays: GuestArrays,
        target_filter: TargetFilter,
    ) -> None:
        super().__init__(averaging_window, node_arrays, guest_arrays, target_filter)
        hosts = len(node_arrays.cpu)
        self.guest_variance = prediction_variance(
            guest_arrays.samples,
            guest_arrays.lengths,
            self.cpu_demand,
            guest_arrays.cpu_limit,
            averaging_window,
        )
        change = (
            common_trend(
                guest_arrays.samples,
                guest_arrays.lengths,
                self.cpu_demand,
                self.guest_variance,
            )
            - 1
        )
        self.cpu_usage += np.bincount(
            guest_arrays.node_of, change * self.cpu_demand, hosts
        )
        self.cpu_demand *= 1 + change
        guests = np.bincount(guest_arrays.node_of, self.guest_variance, hosts)
        self.node_variance = guests + node_arrays.base_load.var(axis=1)
        self.risk = overload_fraction(
            self.cpu_usage, self.node_variance, node_arrays.cpu
        )
        self.incoming_memory = np.zeros(hosts)

    def occupied(self) -> Mask:
        """Return which known hosts have guests by now, or somebody who stays."""
        has_guests = (self.guest_count > 0) | self.node_arrays.has_immovable_guests
        return (self.node_arrays.measured & has_guests) | self.powered_on

    def overloaded(self, threshold: float) -> Mask:
        """Return which known hosts need more than *threshold* of their CPU on average."""
        return np.asarray(
            self.node_arrays.measured
            & (self.cpu_usage > threshold * self.node_arrays.cpu)
        )

    def risk_reduction(self, guests: Integers) -> Floats:
        """Return by how much the risk of its host falls once each of *guests* left."""
        host = self.node_of[guests]
        load = self.cpu_usage[host] - self.cpu_demand[guests]
        variance = self.node_variance[host] - self.guest_variance[guests]
        return self.risk[host] - overload_fraction(
            load, variance, self.node_arrays.cpu[host]
        )

    def risk_increase(self, guests: Integers, hosts: Integers) -> Floats:
        """Return by how much the risk of *hosts* grows with each of *guests*.

        Returns:
            Shape (guests, hosts).
        """
        load = self.cpu_usage[hosts] + self.cpu_demand[guests, None]
        variance = self.node_variance[hosts] + self.guest_variance[guests, None]
        return (
            overload_fraction(load, variance, self.node_arrays.cpu[hosts])
            - self.risk[hosts]
        )

    def has_capacity(
        self, guests: Integers, hosts: Integers, fill_limit: float
    ) -> Mask:
        """Return whether *hosts* have room for each of *guests*, whatever the rules.

        Args:
            guests: Who would go there.
            hosts: Where.
            fill_limit: Part of a host's CPU up to which it may be filled on average.

        Returns:
            Shape (guests, hosts).
        """
        required, available = self.guest_arrays.required[guests], self.available[hosts]
        filled = self.cpu_usage[hosts] + self.cpu_demand[guests, None]
        fits = filled <= fill_limit * self.node_arrays.cpu[hosts]
        fits &= required[:, 0, None] <= available[:, 0]
        fits &= required[:, 1, None] <= available[:, 1]
        return np.asarray(fits & (self.node_of[guests, None] != hosts))

    def remove(self, guest: int) -> None:
        """Take *guest* off its host; where it goes is not known here."""
        source = int(self.node_of[guest])
        super().remove(guest)
        self.node_variance[source] -= self.guest_variance[guest]
        self._update_risk(np.array([source]))

    def _move(self, guest: int, source: int, target: int) -> None:
        super()._move(guest, source, target)
        self.node_variance[source] -= self.guest_variance[guest]
        self.node_variance[target] += self.guest_variance[guest]
        self.incoming_memory[source] -= self.guest_arrays.memory[guest]
        self.incoming_memory[target] += self.guest_arrays.memory[guest]
        self._update_risk(np.array([source, target]))

    def _update_risk(self, hosts: Integers) -> None:
        self.risk[hosts] = overload_fraction(
            self.cpu_usage[hosts],
            self.node_variance[hosts],
            self.node_arrays.cpu[hosts],
        )
