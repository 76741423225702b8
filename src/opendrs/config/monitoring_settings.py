"""Settings for the observation of a controller: the table `[metrics]`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from opendrs.errors import DiagnosticCode, InvalidSettingError

_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})")
MAX_READY_INTERVALS = 1_000


def is_listen_address(text: str) -> bool:
    """Return True if *text* is an address and a port, such as 0.0.0.0:8443."""
    address = _ADDRESS.fullmatch(text)
    return address is not None and int(address["port"]) <= 65_535


def split_listen_address(text: str) -> tuple[str, int]:
    """Return the address and the port in *text*."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    """Settings of the port for metrics and health checks, table `[metrics]`.

    Attributes:
        listen: Address and port to listen on. Clients need no password: only trusted
            ones should reach it.
        ready_intervals: Number of intervals of the controller in which a cycle must
            finish, so that the controller is ready and alive.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    listen: str = "127.0.0.1:9180"
    ready_intervals: int = 3

    def __post_init__(self) -> None:
        problems, codes = [], []
        if not is_listen_address(self.listen):
            problems.append("listen: expected ADDRESS:PORT, such as 127.0.0.1:9180")
            codes.append(DiagnosticCode.INVALID_VALUE)
        if not 1 <= self.ready_intervals <= MAX_READY_INTERVALS:
            problems.append(
                f"ready_intervals: expected 1 to {MAX_READY_INTERVALS}, got "
                f"{self.ready_intervals}"
            )
            codes.append(DiagnosticCode.OUT_OF_RANGE)
        if problems:
            raise InvalidSettingError(*problems, code=codes)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address and the port to listen on."""
        return split_listen_address(self.listen)
