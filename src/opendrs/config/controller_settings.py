"""Settings of the control loop, and of what it may execute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from opendrs.errors import DiagnosticCode, InvalidSettingError
from opendrs.model import Seconds

MAX_INTERVAL = 86_400  # seconds
MAX_APPROVAL_TIME = 7 * 86_400  # seconds: the cluster changes meanwhile


class Mode(StrEnum):
    """Treatment of the plans that the controller decides."""

    OBSERVE = "observe"
    """It records them, and executes none."""
    ADVISE = "advise"
    """It proposes them; an operator approves or rejects each."""
    AUTOMATIC = "automatic"
    """It executes them."""

    @property
    def level(self) -> int:
        """Return the position in the order of what is allowed; 0 is the least."""
        return list(Mode).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Settings of the control loop, table `[controller]`.

    Attributes:
        interval: Seconds between the starts of two cycles.
        mode: Which plans are executed, unless an operator sets another mode.
        repair: Mode of plans that repair violated strict rules while the mode is
            advise: advise or automatic.
        policy_modes: The most that is allowed to each of these policies.
        advise_tags: Steps of guests with one of these tags need an approval.
        advise_guests: Steps of these guests need an approval.
        automatic_tags: Steps of guests with one of these tags need no approval in
            mode advise.
        automatic_guests: Steps of these guests need no approval in mode advise.
        approval_time: Seconds in which a plan can be approved and started, counted from
            the last decision with its steps.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    interval: Seconds = 300.0
    mode: Mode = Mode.OBSERVE
    repair: Mode = Mode.ADVISE
    policy_modes: Mapping[str, Mode] = field(default_factory=dict)
    advise_tags: tuple[str, ...] = ()
    advise_guests: tuple[str, ...] = ()
    automatic_tags: tuple[str, ...] = ()
    automatic_guests: tuple[str, ...] = ()
    approval_time: Seconds = 3_600.0

    def __post_init__(self) -> None:
        problems = [
            f"{name}: expected seconds above 0 and up to {maximum}, got {value:g}"
            for name, value, maximum in (
                ("interval", self.interval, MAX_INTERVAL),
                ("approval_time", self.approval_time, MAX_APPROVAL_TIME),
            )
            if not 0 < value <= maximum
        ]
        if problems:
            raise InvalidSettingError(*problems, code=DiagnosticCode.OUT_OF_RANGE)
        if self.repair is Mode.OBSERVE:
            raise InvalidSettingError("repair: expected advise or automatic")
