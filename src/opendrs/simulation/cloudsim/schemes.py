"""What is simulated: the policies of the experiment, by their names in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from opendrs.errors import InvalidSettingError
from opendrs.policies.consolidation.detector import MAX_SAFETY


class CloudSimBaseline(StrEnum):
    """No migrations: all hosts at full power, or as much as their load needs."""

    NPA = "npa"
    DVFS = "dvfs"


class CloudSimDetector(StrEnum):
    """How an overloaded host is told."""

    THR = "thr"
    IQR = "iqr"
    MAD = "mad"
    LR = "lr"
    LRR = "lrr"


class CloudSimSelector(StrEnum):
    """Which guest leaves it."""

    MC = "mc"
    MMT = "mmt"
    MU = "mu"
    RS = "rs"


CLOUDSIM_PARAMETERS = MappingProxyType(
    {
        CloudSimDetector.THR: 0.8,
        CloudSimDetector.IQR: 1.5,
        CloudSimDetector.MAD: 2.5,
        CloudSimDetector.LR: 1.2,
        CloudSimDetector.LRR: 1.2,
    }
)


@dataclass(frozen=True, slots=True)
class MigrationScheme:
    """Guests leave overloaded hosts, and others that can be emptied.

    Attributes:
        detector: How an overloaded host is told.
        selector: Which guest leaves it.
        parameter: The threshold of THR, the safety of the others.
        seed: Of the random selection.
    """

    detector: CloudSimDetector
    selector: CloudSimSelector
    parameter: float
    seed: int = 0

    def __post_init__(self) -> None:
        most = 1.0 if self.detector is CloudSimDetector.THR else MAX_SAFETY
        if not 0 < self.parameter <= most:
            raise InvalidSettingError(
                f"{self}: the parameter must be above 0 and at most {most:g}, "
                f"not {self.parameter:g}"
            )

    def __str__(self) -> str:
        return f"{self.detector}-{self.selector}-{self.parameter:g}"


CloudSimScheme = CloudSimBaseline | MigrationScheme


def parse_scheme(name: str, seed: int = 0) -> CloudSimScheme:
    """Return what is meant by *name*.

    Args:
        name: Such as `dvfs`, `lr-mmt` or `thr-mmt-0.9`.
        seed: Of the random selection.

    Raises:
        InvalidSettingError: There is no such scheme.
    """
    if name in list(CloudSimBaseline):
        return CloudSimBaseline(name)
    detector, _, rest = name.partition("-")
    selector, _, parameter = rest.partition("-")
    try:
        kind = CloudSimDetector(detector)
        value = float(parameter) if parameter else CLOUDSIM_PARAMETERS[kind]
        return MigrationScheme(kind, CloudSimSelector(selector), value, seed)
    except ValueError:
        raise InvalidSettingError(
            f"no scheme is called {name!r}: give {', '.join(CloudSimBaseline)}, or one of "
            f"{', '.join(CloudSimDetector)} with one of {', '.join(CloudSimSelector)}, as in lr-mmt-1.2"
        ) from None
