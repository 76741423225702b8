"""Settings of the consolidation algorithms; detectors and guest selectors by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from opendrs.policies.consolidation.detector import (
    OverloadDetector,
    UnderloadDetector,
    UnderloadLastNAverage,
)
from opendrs.policies.consolidation.overload import (
    IqrDetector,
    LastNAverageDetector,
    LoessDetector,
    MadDetector,
    NeverOverloaded,
    RobustLoessDetector,
    ThresholdDetector,
)
from opendrs.policies.consolidation.selection import (
    GuestSelector,
    MaximumCorrelation,
    MinimumMigrationTime,
    MinimumMigrationTimeMaximumCpu,
    MinimumUtilization,
    RandomChoice,
)
from opendrs.policies.consolidation.time_fraction import (
    MhodDetector,
    OverloadTimeFraction,
)


class DetectorKind(StrEnum):
    """Detector of overloaded nodes; all but FORECAST are named as in the literature.

    FORECAST also selects the guests to evict and their targets.
    """

    FORECAST = "forecast"
    THRESHOLD = "threshold"
    LAST_N_AVERAGE = "last-n-average"
    MAD = "mad"
    IQR = "iqr"
    LR = "lr"
    LRR = "lrr"
    OTF = "otf"
    MHOD = "mhod"
    NEVER = "never"


class EvictionRule(StrEnum):
    """Rule that selects the guest to evict first from an overloaded node."""

    SMALLEST_SUFFICIENT = "smallest-sufficient"
    MINIMUM_MIGRATION_TIME = "minimum-migration-time"
    MINIMUM_MIGRATION_TIME_MAXIMUM_CPU = "minimum-migration-time-maximum-cpu"
    MINIMUM_UTILIZATION = "minimum-utilization"
    MAXIMUM_CORRELATION = "maximum-correlation"
    RANDOM = "random"


class PlacementStrategy(StrEnum):
    """Rule that selects the target among the nodes with capacity.

    SPREAD sends guests of drained nodes to the fullest node, and guests of overloaded
    nodes to the least loaded one.
    """

    SPREAD = "spread"
    BEST_FIT = "best-fit"
    POWER_AWARE = "power-aware"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSettings:
    """Settings of the algorithm that uses a forecast of the load.

    The risk of a node is the fraction of time for which it will lack CPU.

    Attributes:
        max_overload_fraction: Largest mean risk of the nodes that remain after drains.
        min_risk_reduction: Least reduction of the summed risk that justifies a
            migration.
        fill_target: Fraction of a node's CPU up to which drains fill it.
        relief_target: The same for guests that leave overloaded nodes.
        underload_threshold: Mean load, as a fraction of its CPU, up to which a node may
            be drained.
        overload_threshold: Fraction of its CPU from which the mean demand overloads a
            node, so that guests may go to empty nodes.
        averaging_window: Number of samples over which the demand of a guest is
            averaged.
        max_failed_drains: Consecutive failed drains after which no other is tried.
        max_drained_nodes: Most nodes drained in one decision.
    """

    max_overload_fraction: float
    min_risk_reduction: float
    fill_target: float
    relief_target: float
    underload_threshold: float
    overload_threshold: float
    averaging_window: int
    max_failed_drains: int
    max_drained_nodes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorSettings:
    """Settings of the algorithm that uses detectors and placement strategies.

    Attributes:
        detector: Detector of overloaded nodes.
        underload_detector: Detector of nodes that should be drained.
        guest_selector: Rule for the guest to evict first; None for the smallest
            guest that suffices.
        placement: Rule for the target among the nodes with capacity.
        fill_target: Fraction of a node's CPU up to which drains fill it.
        relief_target: The same for guests that leave overloaded nodes.
        overload_threshold: Fraction of a node's CPU from which it is overloaded.
        max_overload_fraction: Fraction of the history for which a target may have
            been overloaded, had the guest been there.
        averaging_window: Number of samples over which the demand of a guest is
            averaged.
        max_failed_drains: Consecutive failed drains after which no other is tried.
        max_drained_nodes: Most nodes drained in one decision.
    """

    detector: OverloadDetector
    underload_detector: UnderloadDetector
    guest_selector: GuestSelector | None
    placement: PlacementStrategy
    fill_target: float
    relief_target: float
    overload_threshold: float
    max_overload_fraction: float
    averaging_window: int
    max_failed_drains: int
    max_drained_nodes: int


DetectorFactory = Callable[[float, float, int], OverloadDetector]
DETECTORS: MappingProxyType[DetectorKind, DetectorFactory] = MappingProxyType(
    {
        DetectorKind.THRESHOLD: lambda value, _bound, _n: ThresholdDetector(
            threshold=value
        ),
        DetectorKind.LAST_N_AVERAGE: lambda value, _, n: LastNAverageDetector(
            threshold=value, n=n
        ),
        DetectorKind.MAD: lambda value, _bound, _n: MadDetector(safety=value),
        DetectorKind.IQR: lambda value, _bound, _n: IqrDetector(safety=value),
        DetectorKind.LR: lambda value, _bound, _n: LoessDetector(
            safety=value, length=10
        ),
        DetectorKind.LRR: lambda value, _bound, _n: RobustLoessDetector(
            safety=value, length=10
        ),
        DetectorKind.OTF: lambda value, bound, _: OverloadTimeFraction(
            otf=bound, threshold=value
        ),
        DetectorKind.MHOD: lambda value, bound, _: MhodDetector(
            otf=bound, threshold=value
        ),
        DetectorKind.NEVER: lambda _value, _bound, _n: NeverOverloaded(),
    }
)
"""Constructors of the detectors: parameter, bound, samples to average."""

DEFAULT_PARAMETERS = MappingProxyType(
    {
        DetectorKind.MAD: 2.5,
        DetectorKind.IQR: 1.5,
        DetectorKind.LR: 1.2,
        DetectorKind.LRR: 1.2,
    }
)
"""Safety factors from the literature; the others use `DEFAULT_THRESHOLD`."""
DEFAULT_THRESHOLD = 0.85


def build_detector(
    kind: DetectorKind,
    parameter: float | None,
    max_overload_fraction: float,
    averaging_window: int,
) -> OverloadDetector:
    """Return the detector *kind*.

    Args:
        kind: Name of the detector.
        parameter: Threshold or safety factor; None for the default.
        max_overload_fraction: Fraction of time for which a node may be overloaded.
        averaging_window: Number of samples to average, for detectors that do so.

    Raises:
        ValueError: The parameter is out of range.
    """
    default = DEFAULT_PARAMETERS.get(kind, DEFAULT_THRESHOLD)
    return DETECTORS[kind](
        default if parameter is None else parameter,
        max_overload_fraction,
        averaging_window,
    )


def build_underload_detector(
    threshold: float, averaging_window: int
) -> UnderloadDetector:
    """Return the detector of nodes to drain: mean load of at most *threshold*."""
    return UnderloadLastNAverage(threshold=threshold, n=averaging_window)


def build_guest_selector(
    rule: EvictionRule, averaging_window: int, seed: int | str
) -> GuestSelector | None:
    """Return the guest selector; None for smallest-sufficient."""
    factories: dict[EvictionRule, Callable[[], GuestSelector]] = {
        EvictionRule.MINIMUM_MIGRATION_TIME: MinimumMigrationTime,
        EvictionRule.MINIMUM_MIGRATION_TIME_MAXIMUM_CPU: lambda: (
            MinimumMigrationTimeMaximumCpu(averaging_window=averaging_window)
        ),
        EvictionRule.MINIMUM_UTILIZATION: MinimumUtilization,
        EvictionRule.MAXIMUM_CORRELATION: MaximumCorrelation,
        EvictionRule.RANDOM: lambda: RandomChoice(seed=seed),
    }
    return factories[rule]() if rule in factories else None
