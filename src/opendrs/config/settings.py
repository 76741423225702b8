"""Settings of the controller, the API, the agent and the store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from opendrs.config.binding import unknown_name
from opendrs.config.policy_loading import build_policy
from opendrs.errors import InvalidSettingError, UnknownPlatformError
from opendrs.escapes import repr_value
from opendrs.model import DEFAULT_LIMITS, Limits, Rule, Seconds
from opendrs.platforms.registry import PlatformConnection
from opendrs.policies import Policy

MAX_DURATION = 86_400.0  # seconds: as long as histories are remembered
_ADDRESS = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\s:\[\]/]+):(?P<port>\d{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessLimits:
    """How long what an agent says holds.

    Attributes:
        interval: Seconds from one sample to the next, and from one cycle to the next.
        agent_timeout: Seconds after which an agent that was not heard is silent.
        max_sample_age: Seconds after which a request is too old to be accepted.
        max_clock_skew: Seconds by which the clock of an agent may be ahead.
    """

    interval: float
    agent_timeout: float
    max_sample_age: float
    max_clock_skew: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Where the controller takes the requests of agents, and which.

    Attributes:
        certificate: The file with the controller's certificate, and those of who
            vouches for it if the agents do not know them.
        key: The file with its private key.
        tokens: The file with the SHA-256 of each node's token.
        listen: Address and port to listen on.
        agent_timeout: Seconds after which an agent that was not heard is silent, and its
            node unknown; None for three intervals.
        max_sample_age: Seconds after which a request is too old to be accepted; None for
            one interval.
        max_clock_skew: Seconds by which the clock of an agent may be ahead.
        batch_window: Seconds for which further requests are awaited when one asks for
            something, before they are decided about.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.
    """

    certificate: Path
    key: Path
    tokens: Path
    listen: str = "0.0.0.0:8443"
    agent_timeout: Seconds | None = None
    max_sample_age: Seconds | None = None
    max_clock_skew: Seconds = 60.0
    batch_window: Seconds = 10.0

    def __post_init__(self) -> None:
        problems = []
        address = _ADDRESS.fullmatch(self.listen)
        if address is None or int(address["port"]) > 65_535:
            problems.append("listen: expected ADDRESS:PORT, such as 0.0.0.0:8443")
        for name in (
            "agent_timeout",
            "max_sample_age",
            "max_clock_skew",
            "batch_window",
        ):
            seconds = getattr(self, name)
            if seconds is not None and not 0 < seconds <= MAX_DURATION:
                problems.append(
                    f"{name}: expected seconds above 0 and up to {MAX_DURATION:.0f}, "
                    f"found {seconds:g}"
                )
        if problems:
            raise InvalidSettingError(*problems)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address to listen on, and the port."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    def staleness_limits(self, interval: float) -> StalenessLimits:
        """Return how long what an agent says holds, with a cycle each *interval*."""
        return StalenessLimits(
            interval=interval,
            agent_timeout=3 * interval
            if self.agent_timeout is None
            else self.agent_timeout,
            max_sample_age=interval
            if self.max_sample_age is None
            else self.max_sample_age,
            max_clock_skew=self.max_clock_skew,
        )


DEFAULT_POLICY = "balance"
RESERVED_NAME = "demo"  # the word for the simulated cluster, where a platform may stand
MAX_INTERVAL = 86_400  # seconds
_HTTPS = re.compile(r"https://[^\s/?#@]+/?")  # no path, and no password
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,254}")


def _is_https_address(text: str) -> bool:
    """Return whether *text* is where one can connect to over TLS."""
    if not _HTTPS.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # UnicodeError is one
        return False
    return bool(parts.hostname) and port != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Where records are kept.

    Attributes:
        path: The file; it is created when it is not there.
    """

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """When the controller is at work.

    Attributes:
        interval: Seconds from one cycle to the next.

    Raises:
        InvalidSettingError: The interval cannot be.
    """

    interval: Seconds = 300.0

    def __post_init__(self) -> None:
        if not 0 < self.interval <= MAX_INTERVAL:
            raise InvalidSettingError(
                f"interval: expected seconds above 0 and up to {MAX_INTERVAL}, "
                f"found {self.interval:g}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """What the agent on a host has to know.

    Attributes:
        node: The node it is on, by the name that the controller has for it.
        controller: Where the controller takes requests: https://HOST:PORT.
        token_file: The file with the token that shows it is this node's agent.
        ca: The file with the certificate of who vouches for the controller; None
            for whom this machine trusts.
        interval: Seconds from one sample to the next.
        timeout: Seconds in which the controller must answer.

    Raises:
        InvalidSettingError: Something above cannot be; with all complaints.
    """

    node: str
    controller: str
    token_file: Path
    ca: Path | None = None
    interval: Seconds = 300.0
    timeout: Seconds = 10.0

    def __post_init__(self) -> None:
        problems = []
        if not _NODE.fullmatch(self.node):
            problems.append(
                "node: expected the name of this node: "
                "letters, digits, and _ . - : after the first"
            )
        if not _is_https_address(self.controller):
            problems.append("controller: expected an address like https://HOST:PORT")
        for name in ("interval", "timeout"):
            seconds = getattr(self, name)
            if not 0 < seconds <= MAX_INTERVAL:
                problems.append(
                    f"{name}: expected seconds above 0 and up to {MAX_INTERVAL}, "
                    f"found {seconds:g}"
                )
        if problems:
            raise InvalidSettingError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the operator has configured.

    Attributes:
        platforms: The platforms by name.
        policy: The name of the policy to use.
        policy_settings: The settings of each policy, by its name.
        limits: What every policy must keep to.
        rules: Rules in force besides those that a platform has.
        store: Where records are kept; None for the default place.
        agent: What the agent on this host has to know; None where there is none.
        controller: When the controller is at work.
        api: Where it takes the requests of agents; None if it takes none.
    """

    platforms: Mapping[str, PlatformConnection] = field(default_factory=dict)
    policy: str = DEFAULT_POLICY
    policy_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    rules: tuple[Rule, ...] = ()
    store: Path | None = None
    agent: AgentSettings | None = None
    controller: ControllerSettings = ControllerSettings()
    api: ApiSettings | None = None

    def load_policy(
        self, name: str | None = None, changes: Mapping[str, object] | None = None
    ) -> Policy[Any]:
        """Return the policy called *name*, or the configured one.

        Args:
            name: What it is called; None for the configured one.
            changes: Settings that differ from the configured ones.

        Raises:
            UnknownPolicyError: No policy has that name.
            InvalidSettingError: A setting cannot be.
        """
        chosen = self.policy if name is None else name
        values = {**self.policy_settings.get(chosen, {}), **(changes or {})}
        return build_policy(chosen, values, self.limits)

    def connection(self, name: str) -> PlatformConnection:
        """Return the platform called *name*.

        Raises:
            UnknownPlatformError: No platform has that name.
        """
        if name not in self.platforms:
            raise UnknownPlatformError(
                f"{repr_value(name)}: {unknown_name('platform', name, self.platforms)}"
            )
        return self.platforms[name]

    def store_path(self, platform: str) -> Path:
        """Return where the records of the platform called *platform* are kept."""
        return self.store or default_store_path(platform)


NO_SETTINGS = Settings()


def default_store_path(platform: str) -> Path:
    """Return where records are kept unless the operator says otherwise.

    Source:
        XDG Base Directory Specification 0.8: a relative path is not valid.
    """
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not home.is_absolute():
        home = Path("~/.local/state").expanduser()
    return home / "opendrs" / f"{platform}.sqlite"
