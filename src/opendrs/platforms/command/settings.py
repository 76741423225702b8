"""Settings of a platform that consists of programs."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.errors import InvalidSettingError
from opendrs.model import Seconds

MAX_DURATION = 3_600.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandPlatformSettings:
    """Settings of a platform of kind command.

    Attributes:
        snapshot_command: Program and arguments that print a snapshot.
        action_command: Program and arguments that start and follow actions; None if
            the platform is only observed.
        timeout: Seconds after which a program is killed.

    Raises:
        InvalidSettingError: A value is invalid; with all errors.
    """

    snapshot_command: tuple[str, ...]
    action_command: tuple[str, ...] | None = None
    timeout: Seconds = 60.0

    def __post_init__(self) -> None:
        problems = [
            f"{name}: expected a program and its arguments, got none"
            for name in ("snapshot_command", "action_command")
            if getattr(self, name) == ()
        ]
        if not 0 < self.timeout <= MAX_DURATION:
            problems.append(
                f"timeout: expected seconds above 0 and up to {MAX_DURATION:.0f}, "
                f"got {self.timeout:g}"
            )
        if problems:
            raise InvalidSettingError(*problems)
