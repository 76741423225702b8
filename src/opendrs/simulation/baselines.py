"""Policies of CloudSim and OpenStack Neat, as settings of `consolidate`.

They decide by the latest samples, in every cycle, and without a cooldown. In the
default
model they are the baselines for comparison. The original programs, including their
defects, are reproduced in the model `cloudsim-3.0.3`.

Source:
    Beloglazov and Buyya, CCPE 24 (2012) 1397-1420; OpenStack Neat, its last version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from opendrs.errors import DiagnosticCode, InvalidSettingError, UnknownPolicyError
from opendrs.policies.consolidation.detector import MAX_SAFETY
from opendrs.policies.consolidation.settings import (
    DEFAULT_PARAMETERS,
    DetectorKind,
    EvictionRule,
    PlacementStrategy,
)
from opendrs.simulation.cloudsim import (
    CloudSimBaseline,
    CloudSimSelector,
    MigrationScheme,
    parse_scheme,
)

NEAT = "neat"
UNLIMITED = 10_000  # hosts: more than any simulation has
FILL_TARGET = 0.8  # load up to which CloudSim and Neat fill a host
NEAT_OVERLOAD_FRACTION = 0.1  # part of the time that OTF and MHOD allow in overload
NEAT_UNDERLOAD_THRESHOLD = 0.5  # load up to which Neat drains a host
NEAT_HISTORY_LENGTH = 100  # samples in the history of MHOD

CLOUDSIM_DETECTORS = MappingProxyType(
    {
        "thr": DetectorKind.THRESHOLD,
        "iqr": DetectorKind.IQR,
        "mad": DetectorKind.MAD,
        "lr": DetectorKind.LR,
        "lrr": DetectorKind.LRR,
    }
)
NEAT_DETECTORS = MappingProxyType(
    {**CLOUDSIM_DETECTORS, "otf": DetectorKind.OTF, "mhod": DetectorKind.MHOD}
)
# First parts of all names.
FAMILIES = frozenset({NEAT, *CLOUDSIM_DETECTORS, *CloudSimBaseline})
EVICTION_RULES = MappingProxyType(
    {
        CloudSimSelector.MC: EvictionRule.MAXIMUM_CORRELATION,
        CloudSimSelector.MMT: EvictionRule.MINIMUM_MIGRATION_TIME,
        CloudSimSelector.MU: EvictionRule.MINIMUM_UTILIZATION,
        CloudSimSelector.RS: EvictionRule.RANDOM,
    }
)


@dataclass(frozen=True, slots=True)
class BaselinePolicy:
    """Policy of the literature, expressed as settings.

    Attributes:
        settings: Settings of `consolidate` that reproduce its decisions.
        limits: Limits that it respects.
    """

    settings: Mapping[str, object]
    limits: Mapping[str, object]


def baseline_policy(name: str) -> BaselinePolicy:
    """Return the policy with that name.

    Args:
        name: Name as in CloudSim, such as `lr-mmt` or `thr-mmt-0.9`, or of Neat,
            such as `neat-thr-0.8` or `neat-mhod-0.1`.

    Raises:
        InvalidSettingError: The name is unknown.
    """
    family, _, rest = name.partition("-")
    return _neat(name, rest) if family == NEAT else _cloudsim(name)


def _cloudsim(name: str) -> BaselinePolicy:
    parsed = parse_scheme(name)
    if not isinstance(parsed, MigrationScheme):
        raise InvalidSettingError(
            f"{name}: only available in model cloudsim-3.0.3",
            code=DiagnosticCode.INCONSISTENT,
        )
    return BaselinePolicy(
        {
            **_COMMON,
            "detector": CLOUDSIM_DETECTORS[parsed.detector].value,
            "detector_parameter": parsed.parameter,
            "guest_selection": EVICTION_RULES[parsed.selector].value,
            "placement": PlacementStrategy.POWER_AWARE.value,
            "underload_threshold": 1.0,
            "averaging_window": 1,
        },
        {"cooldown": 0.0},
    )


def _neat(name: str, rest: str) -> BaselinePolicy:
    word, _, number = rest.partition("-")
    detector = NEAT_DETECTORS.get(word)
    if detector is None:
        known = ", ".join(NEAT_DETECTORS)
        raise UnknownPolicyError(
            f"policy {name!r}: unknown; expected neat- with one of {known}"
        )
    bounded = detector in (DetectorKind.OTF, DetectorKind.MHOD)
    default = (
        NEAT_OVERLOAD_FRACTION
        if bounded
        else DEFAULT_PARAMETERS.get(detector, FILL_TARGET)
    )
    limit = MAX_SAFETY if detector in DEFAULT_PARAMETERS else 1.0
    value = _positive(name, number, limit) if number else default
    return BaselinePolicy(
        {
            **_COMMON,
            "detector": detector.value,
            "detector_parameter": FILL_TARGET if bounded else value,
            "guest_selection": EvictionRule.MINIMUM_MIGRATION_TIME_MAXIMUM_CPU.value,
            "placement": PlacementStrategy.BEST_FIT.value,
            "underload_threshold": NEAT_UNDERLOAD_THRESHOLD,
            "averaging_window": 2,
            **({"max_overload_fraction": value} if bounded else {}),
            **(
                {"history_length": NEAT_HISTORY_LENGTH}
                if detector is DetectorKind.MHOD
                else {}
            ),
        },
        {"cooldown": 0.0},
    )


_COMMON: Mapping[str, object] = MappingProxyType(
    {
        "fill_target": FILL_TARGET,
        "relief_target": FILL_TARGET,
        "overload_threshold": 1.0,
        "max_overload_fraction": 1.0,
        "history_length": 30,
        "max_failed_drains": UNLIMITED,
        "max_drained_nodes": UNLIMITED,
    }
)


def _positive(name: str, number: str, limit: float) -> float:
    try:
        value = float(number)
    except ValueError:
        value = 0.0
    if not 0 < value <= limit:
        raise InvalidSettingError(
            f"{name}: expected a number above 0 and at most {limit:g}, got {number!r}",
            code=DiagnosticCode.OUT_OF_RANGE,
        )
    return value
