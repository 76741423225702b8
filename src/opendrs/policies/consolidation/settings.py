"""Settings of the two consolidation algorithms, and the detectors and guest selectors by name."""

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
    """How an overloaded host is told; named as in the literature but for the first.

    FORECAST also says who leaves and where they go.
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
    """Which guest leaves an overloaded host first."""

    SMALLEST_SUFFICIENT = "smallest-sufficient"
    MINIMUM_MIGRATION_TIME = "minimum-migration-time"
    MINIMUM_MIGRATION_TIME_MAXIMUM_CPU = "minimum-migration-time-maximum-cpu"
    MINIMUM_UTILIZATION = "minimum-utilization"
    MAXIMUM_CORRELATION = "maximum-correlation"
    RANDOM = "random"


class PlacementStrategy(StrEnum):
    """Which of the hosts with room receives a guest.

    SPREAD fills the fullest when hosts are emptied, and gives what leaves overloaded
    hosts to the least loaded.
    """

    SPREAD = "spread"
    BEST_FIT = "best-fit"
    POWER_AWARE = "power-aware"


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastSettings:
    """How hosts are judged by a forecast of their load.

    The risk of a host is the part of the time for which it will lack CPU.

    Attributes:
        max_overload_fraction: Risk that hosts may have on average once others are emptied.
        min_risk_reduction: How much a migration has to take off the sum of all risks.
        fill_target: Part of a host's CPU up to which it is filled when others are emptied.
        relief_target: The same with guests that leave overloaded hosts.
        underload_threshold: Mean load, as part of its CPU, up to which a host may be emptied.
        overload_threshold: Part of a host's CPU from which it is overloaded if it needs so much on
            average, and may send guests to hosts without any.
        averaging_window: How many samples the need of a guest is averaged over.
        max_failed_drains: After how many hosts in a row that could not be emptied none is
            tried any more.
        max_drained_nodes: How many hosts are emptied at most in one decision.
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
    """How hosts are judged by a detector, and how guests are placed.

    Attributes:
        detector: Tells overloaded hosts.
        underload_detector: Tells hosts that should be emptied.
        guest_selector: Which guest leaves first; None for the smallest that suffices.
        placement: Which of the hosts with room receives.
        fill_target: Part of a host's CPU up to which it is filled when others are emptied.
        relief_target: The same with guests that leave overloaded hosts.
        overload_threshold: Part of a host's CPU from which it counts as overloaded.
        max_overload_fraction: Part of the remembered time that a host which receives a guest may
            have been overloaded, had the guest been there all along.
        averaging_window: How many samples the need of a guest is averaged over.
        max_failed_drains: After how many hosts in a row that could not be emptied none is
            tried any more.
        max_drained_nodes: How many hosts are emptied at most in one decision.
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
"""The detectors, each from its parameter, the bound, and the samples to average."""

DEFAULT_PARAMETERS = MappingProxyType(
    {
        DetectorKind.MAD: 2.5,
        DetectorKind.IQR: 1.5,
        DetectorKind.LR: 1.2,
        DetectorKind.LRR: 1.2,
    }
)
"""Parameters from the literature where they are no load; else `LOAD`."""
DEFAULT_THRESHOLD = 0.85


def build_detector(
    kind: DetectorKind,
    parameter: float | None,
    max_overload_fraction: float,
    averaging_window: int,
) -> OverloadDetector:
    """Return the detector *kind*.

    Args:
        kind: Its name.
        parameter: The load or the safety it judges by; None for the usual one.
        max_overload_fraction: Part of the time that a host may be overloaded.
        averaging_window: How many samples are averaged, where any are.

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
    """Return what tells a host that should be emptied: a mean load up to *threshold*."""
    return UnderloadLastNAverage(threshold=threshold, n=averaging_window)


def build_guest_selector(
    rule: EvictionRule, averaging_window: int, seed: int | str
) -> GuestSelector | None:
    """Return how the guest that leaves is selected; None for the least sufficient."""
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
