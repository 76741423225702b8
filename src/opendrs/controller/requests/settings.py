"""What the operator says about taking requests."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from opendrs.errors import InvalidSettingError
from opendrs.model.quantities import Seconds

LONGEST = 86_400.0  # seconds: as long as histories are remembered
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How long what an agent says holds.

    Attributes:
        interval: Seconds from one sample to the next, and from one cycle to the next.
        silence: Seconds after which an agent that was not heard is silent.
        max_age: Seconds after which a request is too old to be accepted.
        max_skew: Seconds by which the clock of an agent may be ahead.
    """

    interval: float
    silence: float
    max_age: float
    max_skew: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSettings:
    """Where the controller takes the requests of agents, and which.

    Attributes:
        certificate: The file with the controller's certificate, and those of who
            vouches for it if the agents do not know them.
        key: The file with its private key.
        tokens: The file with the SHA-256 of each node's token.
        listen: Address and port to listen on.
        silence: Seconds after which an agent that was not heard is silent, and its
            node unknown; None for three intervals.
        max_age: Seconds after which a request is too old to be accepted; None for
            one interval.
        max_skew: Seconds by which the clock of an agent may be ahead.
        gathering: Seconds for which further requests are awaited when one asks for
            something, before they are decided about.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.
    """

    certificate: Path
    key: Path
    tokens: Path
    listen: str = "0.0.0.0:8443"
    silence: Seconds | None = None
    max_age: Seconds | None = None
    max_skew: Seconds = 60.0
    gathering: Seconds = 10.0

    def __post_init__(self) -> None:
        complaints = []
        address = _ADDRESS.fullmatch(self.listen)
        if address is None or int(address["port"]) > 65_535:
            complaints.append("listen: expected ADDRESS:PORT, such as 0.0.0.0:8443")
        for name in ("silence", "max_age", "max_skew", "gathering"):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds <= LONGEST:
                complaints.append(
                    f"{name}: expected seconds above 0 and up to {LONGEST:.0f}, "
                    f"found {seconds:g}"
                )
        if complaints:
            raise InvalidSettingError(*complaints)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address to listen on, and the port."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    def freshness(self, interval: float) -> Freshness:
        """Return how long what an agent says holds, with a cycle each *interval*."""
        return Freshness(
            interval=interval,
            silence=3 * interval if self.silence is None else self.silence,
            max_age=interval if self.max_age is None else self.max_age,
            max_skew=self.max_skew,
        )
