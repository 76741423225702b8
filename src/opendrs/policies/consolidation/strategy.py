"""How to consolidate: by the forecast, or by parts chosen by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from opendrs.policies.consolidation.detection import OverloadDetector
from opendrs.policies.consolidation.mhod import Mhod
from opendrs.policies.consolidation.overload import (
    Iqr,
    LastNAverage,
    Loess,
    Mad,
    Never,
    RobustLoess,
    Threshold,
)
from opendrs.policies.consolidation.selection import (
    MaximumCorrelation,
    MinimumMigrationTime,
    MinimumMigrationTimeMaximumCpu,
    MinimumUtilisation,
    RandomChoice,
    Selection,
)
from opendrs.policies.consolidation.time_fraction import Otf
from opendrs.policies.consolidation.underload import (
    UnderloadDetector,
    UnderloadLastNAverage,
)


class Detection(StrEnum):
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


class Leaving(StrEnum):
    """Which guest leaves an overloaded host first."""

    LEAST_SUFFICIENT = "least-sufficient"
    MINIMUM_MIGRATION_TIME = "minimum-migration-time"
    MINIMUM_MIGRATION_TIME_MAXIMUM_CPU = "minimum-migration-time-maximum-cpu"
    MINIMUM_UTILISATION = "minimum-utilisation"
    MAXIMUM_CORRELATION = "maximum-correlation"
    RANDOM = "random"


class Placement(StrEnum):
    """Which of the hosts with room receives a guest.

    SPREAD fills the fullest when hosts are emptied, and gives what leaves overloaded
    hosts to the least loaded.
    """

    SPREAD = "spread"
    BEST_FIT = "best-fit"
    POWER_AWARE = "power-aware"


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """How hosts are judged by a forecast of their load.

    The risk of a host is the part of the time for which it will lack CPU.

    Attributes:
        bound: Risk that hosts may have on average once others are emptied.
        price: How much a migration has to take off the sum of all risks.
        target: Part of a host's CPU up to which it is filled when others are emptied.
        relief: The same with guests that leave overloaded hosts.
        underload: Mean load, as part of its CPU, up to which a host may be emptied.
        full: Part of a host's CPU from which it is overloaded if it needs so much on
            average, and may send guests to hosts without any.
        last_n: How many samples the need of a guest is averaged over.
        attempts: After how many hosts in a row that could not be emptied none is
            tried any more.
        emptied: How many hosts are emptied at most in one decision.
    """

    bound: float
    price: float
    target: float
    relief: float
    underload: float
    full: float
    last_n: int
    attempts: int
    emptied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """How hosts are judged by a detector, and how guests are placed.

    Attributes:
        detector: Tells overloaded hosts.
        underload: Tells hosts that should be emptied.
        selection: Which guest leaves first; None for the smallest that suffices.
        placement: Which of the hosts with room receives.
        target: Part of a host's CPU up to which it is filled when others are emptied.
        relief: The same with guests that leave overloaded hosts.
        full: Part of a host's CPU from which it counts as overloaded.
        bound: Part of the remembered time that a host which receives a guest may
            have been overloaded, had the guest been there all along.
        last_n: How many samples the need of a guest is averaged over.
        attempts: After how many hosts in a row that could not be emptied none is
            tried any more.
        emptied: How many hosts are emptied at most in one decision.
    """

    detector: OverloadDetector
    underload: UnderloadDetector
    selection: Selection | None
    placement: Placement
    target: float
    relief: float
    full: float
    bound: float
    last_n: int
    attempts: int
    emptied: int


Making = Callable[[float, float, int], OverloadDetector]
DETECTORS: MappingProxyType[Detection, Making] = MappingProxyType(
    {
        Detection.THRESHOLD: lambda value, _bound, _n: Threshold(threshold=value),
        Detection.LAST_N_AVERAGE: lambda value, _, n: LastNAverage(
            threshold=value, n=n
        ),
        Detection.MAD: lambda value, _bound, _n: Mad(safety=value),
        Detection.IQR: lambda value, _bound, _n: Iqr(safety=value),
        Detection.LR: lambda value, _bound, _n: Loess(safety=value, length=10),
        Detection.LRR: lambda value, _bound, _n: RobustLoess(safety=value, length=10),
        Detection.OTF: lambda value, bound, _: Otf(otf=bound, threshold=value),
        Detection.MHOD: lambda value, bound, _: Mhod(otf=bound, threshold=value),
        Detection.NEVER: lambda _value, _bound, _n: Never(),
    }
)
"""The detectors, each from its parameter, the bound, and the samples to average."""

PARAMETERS = MappingProxyType(
    {
        Detection.MAD: 2.5,
        Detection.IQR: 1.5,
        Detection.LR: 1.2,
        Detection.LRR: 1.2,
    }
)
"""Parameters from the literature where they are no load; else `LOAD`."""
LOAD = 0.85


def detector(
    which: Detection, parameter: float | None, bound: float, last_n: int
) -> OverloadDetector:
    """Return the detector *which*.

    Args:
        which: Its name.
        parameter: The load or the safety it judges by; None for the usual one.
        bound: Part of the time that a host may be overloaded.
        last_n: How many samples are averaged, where any are.

    Raises:
        ValueError: The parameter is out of range.
    """
    usual = PARAMETERS.get(which, LOAD)
    return DETECTORS[which](usual if parameter is None else parameter, bound, last_n)


def underload(load: float, last_n: int) -> UnderloadDetector:
    """Return what tells a host that should be emptied: a mean load up to *load*."""
    return UnderloadLastNAverage(threshold=load, n=last_n)


def selection(which: Leaving, last_n: int, seed: int | str) -> Selection | None:
    """Return how the guest that leaves is selected; None for the least sufficient."""
    ways: dict[Leaving, Callable[[], Selection]] = {
        Leaving.MINIMUM_MIGRATION_TIME: MinimumMigrationTime,
        Leaving.MINIMUM_MIGRATION_TIME_MAXIMUM_CPU: lambda: (
            MinimumMigrationTimeMaximumCpu(last_n=last_n)
        ),
        Leaving.MINIMUM_UTILISATION: MinimumUtilisation,
        Leaving.MAXIMUM_CORRELATION: MaximumCorrelation,
        Leaving.RANDOM: lambda: RandomChoice(seed=seed),
    }
    return ways[which]() if which in ways else None
