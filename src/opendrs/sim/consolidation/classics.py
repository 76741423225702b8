"""Policies of CloudSim and OpenStack Neat, as settings of `consolidate`.

They decide on what was last seen, as often as they like, and no guest is left alone
for having moved. In the default model they are what is to be beaten; the programs
themselves, defects included, are in the model of CloudSim.

Source:
    Beloglazov and Buyya, CCPE 24 (2012) 1397-1420; OpenStack Neat, its last version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.errors import InvalidSettingError
from opendrs.policies.consolidation.detection import MOST_SAFETY
from opendrs.policies.consolidation.strategy import (
    PARAMETERS,
    Detection,
    Leaving,
    Placement,
)
from opendrs.sim.consolidation.schemes import Baseline, Migrating, Selector, scheme

NEAT = "neat"
MANY = 10_000  # hosts: as many as there are
FULL_LOAD = 0.8  # up to which CloudSim and Neat fill a host
NEAT_BOUND = 0.1  # part of the time that OTF and MHOD let a host be overloaded
NEAT_IDLE = 0.5  # load up to which Neat empties a host
NEAT_MEMORY = 100  # samples that MHOD learns from

DETECTORS = MappingProxyType(
    {
        "thr": Detection.THRESHOLD,
        "iqr": Detection.IQR,
        "mad": Detection.MAD,
        "lr": Detection.LR,
        "lrr": Detection.LRR,
    }
)
NEAT_DETECTORS = MappingProxyType(
    {**DETECTORS, "otf": Detection.OTF, "mhod": Detection.MHOD}
)
FAMILIES = frozenset({NEAT, *DETECTORS, *Baseline})  # with which names begin
SELECTIONS = MappingProxyType(
    {
        Selector.MC: Leaving.MAXIMUM_CORRELATION,
        Selector.MMT: Leaving.MINIMUM_MIGRATION_TIME,
        Selector.MU: Leaving.MINIMUM_UTILISATION,
        Selector.RS: Leaving.RANDOM,
    }
)


@dataclass(frozen=True, slots=True)
class Classic:
    """A policy of the literature.

    Attributes:
        settings: Those of `consolidate` that decide as it does.
        limits: What it keeps to.
    """

    settings: Mapping[str, object]
    limits: Mapping[str, object]


def classic(name: str) -> Classic:
    """Return the policy called *name*.

    Args:
        name: As in CloudSim, such as `lr-mmt` or `thr-mmt-0.9`; or Neat's, such as
            `neat-thr-0.8` or `neat-mhod-0.1`.

    Raises:
        InvalidSettingError: There is none.
    """
    family, _, rest = name.partition("-")
    return _neat(name, rest) if family == NEAT else _cloudsim(name)


def _cloudsim(name: str) -> Classic:
    found = scheme(name)
    if not isinstance(found, Migrating):
        raise InvalidSettingError(f"{name} is a policy of cloudsim-3.0.3 only")
    return Classic(
        {
            **_COMMON,
            "detector": DETECTORS[found.detector].value,
            "parameter": found.parameter,
            "selection": SELECTIONS[found.selector].value,
            "placement": Placement.POWER_AWARE.value,
            "underload": 1.0,
            "last_n": 1,
        },
        {"cooldown": 0.0},
    )


def _neat(name: str, rest: str) -> Classic:
    word, _, number = rest.partition("-")
    detector = NEAT_DETECTORS.get(word)
    if detector is None:
        known = ", ".join(NEAT_DETECTORS)
        raise InvalidSettingError(
            f"no policy is called {name!r}: give neat with one of {known}"
        )
    bounded = detector in (Detection.OTF, Detection.MHOD)
    usual = NEAT_BOUND if bounded else PARAMETERS.get(detector, FULL_LOAD)
    most = MOST_SAFETY if detector in PARAMETERS else 1.0
    value = _positive(name, number, most) if number else usual
    return Classic(
        {
            **_COMMON,
            "detector": detector.value,
            "parameter": FULL_LOAD if bounded else value,
            "selection": Leaving.MINIMUM_MIGRATION_TIME_MAXIMUM_CPU.value,
            "placement": Placement.BEST_FIT.value,
            "underload": NEAT_IDLE,
            "last_n": 2,
            **({"bound": value} if bounded else {}),
            **({"history": NEAT_MEMORY} if detector is Detection.MHOD else {}),
        },
        {"cooldown": 0.0},
    )


_COMMON: Mapping[str, object] = MappingProxyType(
    {
        "target": FULL_LOAD,
        "relief": FULL_LOAD,
        "full": 1.0,
        "bound": 1.0,
        "history": 30,
        "attempts": MANY,
        "emptied": MANY,
    }
)


def _positive(name: str, number: str, most: float) -> float:
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value <= most:
        raise InvalidSettingError(
            f"{name}: expected a number above 0 and at most {most:g}, not {number!r}"
        )
    return value
