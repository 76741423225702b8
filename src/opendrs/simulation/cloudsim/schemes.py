"""Migration schemes of the PlanetLab experiment, by name."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from opendrs.errors import DiagnosticCode, InvalidSettingError, UnknownPolicyError
from opendrs.policies.consolidation.detector import MAX_SAFETY


class CloudSimBaseline(StrEnum):
    """Baselines without migrations.

    NPA: all hosts at full power. DVFS: power by the load.
    """

    NPA = "npa"
    DVFS = "dvfs"


class CloudSimDetector(StrEnum):
    """Detector of overloaded hosts."""

    THR = "thr"
    IQR = "iqr"
    MAD = "mad"
    LR = "lr"
    LRR = "lrr"


class CloudSimSelector(StrEnum):
    """Rule that selects the guest to evict from an overloaded host."""

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
    """Scheme that relieves overloaded hosts and drains others.

    Attributes:
        detector: Detector of overloaded hosts.
        selector: Rule for the guest to evict.
        parameter: Threshold of THR, safety factor of the others.
        seed: Seed of the random selection.
    """

    detector: CloudSimDetector
    selector: CloudSimSelector
    parameter: float
    seed: int = 0

    def __post_init__(self) -> None:
        most = 1.0 if self.detector is CloudSimDetector.THR else MAX_SAFETY
        if not 0 < self.parameter <= most:
            raise InvalidSettingError(
                f"{self}: expected a parameter above 0 and at most {most:g}, "
                f"got {self.parameter:g}",
                code=DiagnosticCode.OUT_OF_RANGE,
            )

    def __str__(self) -> str:
        return f"{self.detector}-{self.selector}-{self.parameter:g}"


CloudSimScheme = CloudSimBaseline | MigrationScheme


def parse_scheme(name: str, seed: int = 0) -> CloudSimScheme:
    """Return the scheme with that name.

    Args:
        name: Name such as `dvfs`, `lr-mmt` or `thr-mmt-0.9`.
        seed: Seed of the random selection.

    Raises:
        InvalidSettingError: The name is unknown.
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
        raise UnknownPolicyError(
            f"policy {name!r}: unknown; expected {', '.join(CloudSimBaseline)}, or one "
            f"of {', '.join(CloudSimDetector)} with one of "
            f"{', '.join(CloudSimSelector)}, as in lr-mmt-1.2"
        ) from None
