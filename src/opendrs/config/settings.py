"""Settings of the controller, the API, the agent and the store."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from opendrs.config.binding import unknown_name
from opendrs.config.controller_settings import MAX_INTERVAL, ControllerSettings
from opendrs.config.monitoring_settings import (
    MetricsSettings,
    is_listen_address,
    split_listen_address,
)
from opendrs.config.notification_settings import NotificationSettings
from opendrs.config.platform_kinds import PlatformConnection
from opendrs.config.policy_loading import build_policy
from opendrs.config.schedule_settings import ScheduleSettings, agent_intervals
from opendrs.config.secret_sources import source_problems
from opendrs.config.web_settings import WebSettings
from opendrs.errors import DiagnosticCode, InvalidSettingError, UnknownPlatformError
from opendrs.escapes import repr_value
from opendrs.model import (
    DEFAULT_LIMITS,
    DEFAULT_PROTECTION,
    Limits,
    Protection,
    Rule,
    Seconds,
)
from opendrs.policies import Policy

MAX_DURATION = 86_400.0  # seconds: the retention of sample histories


@dataclass(frozen=True, slots=True, kw_only=True)
class StalenessLimits:
    """Validity of the requests and samples of host agents.

    Attributes:
        interval: Seconds between two samples, and between two cycles.
        agent_timeout: Seconds without a request until an agent is unresponsive.
        max_sample_age: Largest age in seconds of the samples of an accepted request.
        max_clock_skew: Seconds by which the clock of an agent may be ahead.
    """

    interval: float
    agent_timeout: float
    max_sample_age: float
    max_clock_skew: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """Settings of the API for host agents, table `[api]`.

    Attributes:
        certificate: File with the certificate of the controller, followed by the
            intermediate certificates that the agents do not have.
        key: File with the private key.
        tokens: File with the SHA-256 of the token of each node.
        listen: Address and port to listen on.
        agent_timeout: Seconds without a request until an agent is unresponsive and its
            node unknown; None for three intervals.
        max_sample_age: Largest age in seconds of the samples of an accepted request;
            None for one interval.
        max_clock_skew: Seconds by which the clock of an agent may be ahead.
        batch_window: Seconds to wait for further requests after an agent reports a
            load state other than normal, before all are evaluated.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
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
        if not is_listen_address(self.listen):
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
                    f"got {seconds:g}"
                )
        if problems:
            raise InvalidSettingError(*problems)

    @property
    def address(self) -> tuple[str, int]:
        """Return the address and the port to listen on."""
        return split_listen_address(self.listen)

    def staleness_limits(self, interval: float) -> StalenessLimits:
        """Return the validity of requests and samples for cycles of *interval*."""
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
RESERVED_NAME = "demo"  # name of the simulated cluster in place of a platform
_HTTPS = re.compile(r"https://[^\s/?#@]+/?")  # without path and password
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,254}")


MIN_RETENTION, MAX_RETENTION = 3_600.0, 3_650 * 86_400.0  # seconds
MAX_INPUT_CYCLES = 1_000_000
MIN_LEASE_TIME, MAX_LEASE_TIME = 3.0, 3_600.0  # seconds


def _is_postgresql_address(text: str) -> bool:
    """Return True if *text* is an address of a database without a password."""
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises an error for a port that is no number
    except ValueError:
        return False
    has_password = bool(parts.password) or "password" in parse_qs(parts.query)
    return parts.scheme == "postgresql" and len(parts.path) > 1 and not has_password


def _is_https_address(text: str) -> bool:
    """Return True if *text* is an https address with host and optional port."""
    if not _HTTPS.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
        port = parts.port
        (parts.hostname or "").encode("idna")
    except ValueError:  # also UnicodeError
        return False
    return bool(parts.hostname) and port != 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """Settings of the store, table `[store]`: an SQLite file or a PostgreSQL database.

    Attributes:
        path: The file; created if absent. None for the default path.
        url: Address of the database, `postgresql://USER@HOST/DATABASE`.
        password_file: File with the password of the database.
        password_env: Environment variable with the password.
        password_keyring: Entry `SERVICE/USER` of the keyring with the password.
        password: The password; better in one of the places before.
        lease_time: Seconds until another controller takes over from one that stopped
            without notice; only with `url`.
        retention: Seconds for which the decisions of cycles are kept.
        input_cycles: Number of the newest cycles that all keep their inputs, so that
            they can be replayed.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
    """

    path: Path | None = None
    url: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    password_keyring: str | None = None
    password: str | None = field(default=None, repr=False)
    lease_time: Seconds = 30.0
    retention: Seconds = 30 * 86_400.0
    input_cycles: int = 360

    def __post_init__(self) -> None:
        if self.path is None and self.url is None:
            raise InvalidSettingError(
                "path: expected path or url, got neither",
                code=DiagnosticCode.MISSING_KEY,
            )
        problems = []
        if self.path is not None and self.url is not None:
            problems.append("url: expected either path or url, got both")
        if self.url is not None and not _is_postgresql_address(self.url):
            problems.append(
                "url: expected postgresql://USER@HOST/DATABASE without a password; "
                "set password_file"
            )
        if not MIN_LEASE_TIME <= self.lease_time <= MAX_LEASE_TIME:
            problems.append(
                f"lease_time: expected {MIN_LEASE_TIME:g} to {MAX_LEASE_TIME:g} "
                f"seconds, found {self.lease_time:g}"
            )
        if not MIN_RETENTION <= self.retention <= MAX_RETENTION:
            problems.append(
                f"retention: expected {MIN_RETENTION:g} to {MAX_RETENTION:g} seconds, "
                f"got {self.retention:g}"
            )
        if not 1 <= self.input_cycles <= MAX_INPUT_CYCLES:
            problems.append(
                f"input_cycles: expected 1 to {MAX_INPUT_CYCLES} cycles, "
                f"got {self.input_cycles}"
            )
        problems += source_problems(self, "password")
        if problems:
            raise InvalidSettingError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """Settings of the host agent, table `[agent]`.

    Attributes:
        node: Node of the agent, as named on the controller.
        controller: Address of the API of the controller: https://HOST:PORT.
        token_file: File with the token of the node.
        ca: File with the certificate that signed that of the controller; None for
            the system trust store.
        interval: Seconds between two samples.
        timeout: Seconds until the controller must respond.

    Raises:
        InvalidSettingError: A value is invalid; with all problems.
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
                    f"got {seconds:g}"
                )
        if problems:
            raise InvalidSettingError(*problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The configuration.

    Attributes:
        platforms: Platforms by name.
        policy: Name of the policy to use.
        policy_settings: Settings of each configured policy, by its name.
        limits: Limits for all policies.
        protection: Protection of the cluster.
        rules: Rules in addition to those of the platforms.
        store: The store; None for an SQLite file at the default path.
        agent: Settings of the host agent; None if not configured.
        controller: Settings of the control loop.
        schedule: Policies of the controller and their times; empty for the policy to
            use in each cycle.
        api: Settings of the API; None if not configured.
        metrics: Settings of the port for metrics; None if not configured.
        notifications: Settings of the notifications.
        web: Settings of the HTTP API and the dashboard.
    """

    platforms: Mapping[str, PlatformConnection] = field(default_factory=dict)
    policy: str = DEFAULT_POLICY
    policy_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    protection: Protection = DEFAULT_PROTECTION
    rules: tuple[Rule, ...] = ()
    store: StoreSettings | None = None
    agent: AgentSettings | None = None
    controller: ControllerSettings = field(default_factory=ControllerSettings)
    schedule: tuple[ScheduleSettings, ...] = ()
    api: ApiSettings | None = None
    metrics: MetricsSettings | None = None
    notifications: tuple[NotificationSettings, ...] = ()
    web: WebSettings = field(default_factory=WebSettings)

    @property
    def controller_policies(self) -> tuple[str, ...]:
        """Return the names of the policies of the controller."""
        scheduled = dict.fromkeys(entry.policy for entry in self.schedule)
        return tuple(scheduled) or (self.policy,)

    @property
    def policy_names(self) -> str:
        """Return the policies of the controller as they are displayed."""
        return ", ".join(self.controller_policies)

    @property
    def agent_interval(self) -> float:
        """Return the interval of the cycles that decide on requests of agents."""
        intervals = agent_intervals(self.schedule)
        return intervals[0] if intervals else self.controller.interval

    def load_policy(
        self, name: str | None = None, changes: Mapping[str, object] | None = None
    ) -> Policy[Any]:
        """Return a policy with its configured settings.

        Args:
            name: Name of the policy; None for the configured one.
            changes: Settings that override the configured ones.

        Raises:
            UnknownPolicyError: There is no policy *name*.
            InvalidSettingError: A setting is unknown or its value is invalid.
        """
        chosen = self.policy if name is None else name
        values = {**self.policy_settings.get(chosen, {}), **(changes or {})}
        return build_policy(chosen, values, self.limits)

    def connection(self, name: str) -> PlatformConnection:
        """Return the connection of the platform *name*.

        Raises:
            UnknownPlatformError: There is no platform *name*.
        """
        if name not in self.platforms:
            raise UnknownPlatformError(
                f"{repr_value(name)}: {unknown_name('platform', name, self.platforms)}"
            )
        return self.platforms[name]

    def store_path(self, platform: str) -> Path | None:
        """Return the path of the store for *platform*; None if it is no file."""
        if self.store is None:
            return default_store_path(platform)
        return self.store.path


NO_SETTINGS = Settings()


def default_store_path(platform: str) -> Path:
    """Return the path of the store for *platform* if none is configured.

    Source:
        XDG Base Directory Specification 0.8: a relative path is not valid.
    """
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not home.is_absolute():
        home = Path("~/.local/state").expanduser()
    return home / "opendrs" / f"{platform}.sqlite"
