"""Forecast of CPU demand, and the risk that a node has too little CPU.

The next samples of a guest are assumed to vary around the mean of its last ones as they
did before. Guests vary independently, so the variances on a node add up, and the sum is
nearly normal: in PlanetLab traces the residuals of a guest's load around a mean of two
hours have no correlation with its past, and hardly any with other guests. The daily
pattern that guests share shows in their sum (`common_trend`).
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.consolidation.assignment import NodeAssignment
from opendrs.policies.consolidation.history import Floats, Integers, Mask
from opendrs.policies.consolidation.input import GuestArrays, NodeArrays, TargetFilter

BURST_VARIANCE = 0.1
"""Prior variance of a guest with few samples, as a fraction of the largest variance
possible with its mean: that of a guest which is either idle or at its limit. Measured
in PlanetLab, 20110303 and 20110306: 0.08 to 0.11 at means between 3 and 70 %."""

PRIOR_SAMPLES = 6  # weight of the prior, in samples
MIN_DEVIATION = 0.05  # least standard deviation of a node's load, as part of its CPU
MAX_DEVIATIONS = 8.0  # standard deviations
TREND_SAMPLES = 6  # samples that determine the common trend


def prediction_variance(
    samples: Floats,
    lengths: Integers,
    mean: Floats,
    cpu_limit: Floats,
    averaging_window: int,
) -> Floats:
    """Return the variance of each guest's next sample around *mean*.

    Args:
        samples: Cores used by each guest, newest sample last, padded with zeros on
            the left; shape (guests, samples).
        lengths: Number of valid samples; shape (guests,).
        mean: Mean CPU demand of each guest; shape (guests,).
        cpu_limit: Most cores each guest can use; shape (guests,).
        averaging_window: Number of samples of which *mean* is the mean.
    """
    count = np.maximum(lengths, 1)
    squares = np.einsum("ij,ij->i", samples, samples)
    observed = np.maximum(squares - samples.sum(axis=1) ** 2 / count, 0.0)
    prior = BURST_VARIANCE * mean * np.maximum(cpu_limit - mean, 0.0)
    variance = (observed + PRIOR_SAMPLES * prior) / (count - 1 + PRIOR_SAMPLES)
    # The mean is itself an estimate from a limited number of samples.
    predicted: Floats = variance * (1 + 1 / np.clip(lengths, 1, averaging_window))
    return predicted


def common_trend(
    samples: Floats, lengths: Integers, mean: Floats, variance: Floats
) -> float:
    """Return the factor by which the demand of all guests has changed recently.

    During a day there are hours in which all guests need more. The samples of one
    guest do not distinguish that from chance, but their sum does. A mean over two
    hours lags behind; a mean over the last samples does not. The change is shrunk
    by the part that may be chance: its variance divided by the square of the
    observed change (James and Stein).

    Args:
        samples: Cores used by each guest, as in `prediction_variance`.
        lengths: Number of valid samples.
        mean: Mean CPU demand of each guest.
        variance: Variance of each guest's next sample around that mean.

    Returns:
        Factor for the mean; 1 for no change.
    """
    long = lengths > TREND_SAMPLES
    before = float(mean[long].sum())
    change = float(samples[long, -TREND_SAMPLES:].sum()) / TREND_SAMPLES - before
    noise = float(variance[long].sum()) / TREND_SAMPLES
    if before <= 0 or change**2 <= noise:
        return 1.0
    return 1 + (1 - noise / change**2) * change / before


def overload_fraction(mean: Floats, variance: Floats, cpu: Floats) -> Floats:
    """Return the fraction of time for which nodes will lack CPU.

    The tail of the normal distribution. If the mean demand exceeds the CPU, the value
    continues linearly from one half, so that larger deficits remain distinguishable.

    Args:
        mean: Mean CPU demand on each node; any shape.
        variance: Variance of the demand.
        cpu: CPU of each node.

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
    """Node of each guest, and the risk of each node: the time for which it lacks CPU.

    Attributes:
        guest_variance: Variance of the next sample of each guest; shape (guests,).
        node_variance: Variance of the load of each node; shape (nodes,).
        risk: Fraction of time for which each node will lack CPU; shape (nodes,).
        incoming_memory: Bytes migrated to each node, less those migrated off it.
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
        """Return the measured nodes with guests, and the nodes powered on."""
        has_guests = (self.guest_count > 0) | self.node_arrays.has_immovable_guests
        return (self.node_arrays.measured & has_guests) | self.powered_on

    def overloaded(self, threshold: float) -> Mask:
        """Return the measured nodes with a mean demand above *threshold*."""
        return np.asarray(
            self.node_arrays.measured
            & (self.cpu_usage > threshold * self.node_arrays.cpu)
        )

    def risk_reduction(self, guests: Integers) -> Floats:
        """Return the risk reduction of each guest's node if that guest leaves."""
        host = self.node_of[guests]
        load = self.cpu_usage[host] - self.cpu_demand[guests]
        variance = self.node_variance[host] - self.guest_variance[guests]
        return self.risk[host] - overload_fraction(
            load, variance, self.node_arrays.cpu[host]
        )

    def risk_increase(self, guests: Integers, hosts: Integers) -> Floats:
        """Return the risk increase of each of *hosts* with each of *guests*.

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
        """Return True where *hosts* have capacity for *guests*, regardless of rules.

        Args:
            guests: Guests that would migrate.
            hosts: Possible targets.
            fill_limit: Fraction of a node's CPU up to which it may be filled on
                average.

        Returns:
            Shape (guests, hosts).
        """
        required, available = self.guest_arrays.required[guests], self.available[hosts]
        filled = self.cpu_usage[hosts] + self.cpu_demand[guests, None]
        fits = filled <= fill_limit * self.node_arrays.cpu[hosts]
        for needed, left in zip(required.T, available.T, strict=True):
            fits &= needed[:, None] <= left
        return np.asarray(fits & (self.node_of[guests, None] != hosts))

    def remove(self, guest: int) -> None:
        """Remove *guest* from its node without a target."""
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
