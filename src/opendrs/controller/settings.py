"""The configuration file, as frozen settings; all complaints at once."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from opendrs.controller.power import PowerTable
from opendrs.controller.requests.settings import RequestSettings
from opendrs.controller.selection import build_policy, policy_table
from opendrs.controller.tables import Table, no_such
from opendrs.errors import (
    ConfigurationError,
    InvalidSettingError,
    UnknownPlatformError,
)
from opendrs.model import DEFAULT_LIMITS, Limits, Rule
from opendrs.model.quantities import Seconds
from opendrs.platforms.connect import KINDS, Connection, settings_type
from opendrs.platforms.file import (
    Complaint,
    FileForm,
    FileSettings,
    Location,
    check_rules,
    complain,
    parse,
    read_text,
    repeated_keys,
    require_form,
    shown,
    shown_path,
)
from opendrs.platforms.power import PowerSettings
from opendrs.policies import Consolidate, Policy

DEFAULT_POLICY = "balance"
RESERVED = "demo"  # the word for the simulated cluster, where a platform may stand
_TABLES = frozenset(
    {
        "agent",
        "controller",
        "limits",
        "platform",
        "policy",
        "requests",
        "rules",
        "store",
    }
)
LONGEST_INTERVAL = 86_400  # seconds
_HTTPS = re.compile(r"https://[^\s/?#@]+/?")  # no path, and no password
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,254}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


T = TypeVar("T")


def _is_address(text: str) -> bool:
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
        if not 0 < self.interval <= LONGEST_INTERVAL:
            raise InvalidSettingError(
                f"interval: expected seconds above 0 and up to {LONGEST_INTERVAL}, "
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
        complaints = []
        if not _NODE.fullmatch(self.node):
            complaints.append(
                "node: expected the name of this node: "
                "letters, digits, and _ . - : after the first"
            )
        if not _is_address(self.controller):
            complaints.append("controller: expected an address like https://HOST:PORT")
        for name in ("interval", "timeout"):
            seconds = getattr(self, name)
            if not 0 < seconds <= LONGEST_INTERVAL:
                complaints.append(
                    f"{name}: expected seconds above 0 and up to {LONGEST_INTERVAL}, "
                    f"found {seconds:g}"
                )
        if complaints:
            raise InvalidSettingError(*complaints)


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
        requests: Where it takes the requests of agents; None if it takes none.
    """

    platforms: Mapping[str, Connection] = field(default_factory=dict)
    policy: str = DEFAULT_POLICY
    policy_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    limits: Limits = DEFAULT_LIMITS
    rules: tuple[Rule, ...] = ()
    store: Path | None = None
    agent: AgentSettings | None = None
    controller: ControllerSettings = ControllerSettings()
    requests: RequestSettings | None = None

    def chosen_policy(
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

    def connection(self, name: str) -> Connection:
        """Return the platform called *name*.

        Raises:
            UnknownPlatformError: No platform has that name.
        """
        if name not in self.platforms:
            raise UnknownPlatformError(
                f"{shown(name)}: {no_such('platform', name, self.platforms)}"
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


def read_settings(path: Path) -> Settings:
    """Return what the configuration file *path* says.

    Raises:
        ConfigurationError: Something is wrong; with all that is.
    """
    source = shown_path(path)
    suffix = ".json" if path.suffix == ".json" else ".toml"
    return settings_from(parse(read_text(path), source, suffix), source, path.parent)


def settings_from(document: object, source: str, directory: Path) -> Settings:
    """Return what the plain values of *document* say.

    Args:
        document: As parsed from TOML or JSON.
        source: Where it comes from, to begin complaints with.
        directory: What relative paths begin from.

    Raises:
        ConfigurationError: Something is wrong; with all that is.
    """
    settings, complaints = settings_and_complaints(document, source, directory)
    complain(source, complaints)
    return settings


def settings_and_complaints(
    document: object, source: str, directory: Path
) -> tuple[Settings, tuple[Complaint, ...]]:
    """Return what *document* says as far as it can be used, and what is wrong with it.

    Raises:
        ConfigurationError: It is of another form.
    """
    require_form(document, source, FileForm.CONFIGURATION)
    reading = _Reading(directory)
    settings = reading.settings(document)
    return settings, (*repeated_keys(document), *reading.complaints)


class _Reading:
    """The reading of one document, which goes on after a complaint."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.complaints: list[Complaint] = []

    def settings(self, document: object) -> Settings:
        tables = self._table((), document)
        for name in tables:
            if name not in _TABLES:
                self._say((name,), no_such("table", name, _TABLES))
        limits = self._value(Limits, ("limits",), tables) or DEFAULT_LIMITS
        rules, wrong = check_rules(tables.get("rules", []), ("rules",))
        self.complaints += wrong
        name, policies = self._policies(tables.get("policy", {}), limits)
        return Settings(
            platforms=self._platforms(tables.get("platform", {})),
            policy=name,
            policy_settings=policies,
            limits=limits,
            rules=rules,
            store=self._store(tables),
            agent=self._agent(tables),
            controller=self._value(ControllerSettings, ("controller",), tables)
            or ControllerSettings(),
            requests=self._requests(tables, name),
        )

    def _say(self, at: Location, message: str) -> None:
        self.complaints.append(Complaint(at, message))

    def _table(self, at: Location, value: object) -> Mapping[str, object]:
        if isinstance(value, Mapping):
            return value
        self._say(at, f"expected a table, found {shown(value)}")
        return {}

    def _value(
        self, kind: type[T], at: tuple[str, ...], tables: Mapping[str, object]
    ) -> T | None:
        table = Table(kind, tables.get(at[-1], {}), at)
        self.complaints += table.complaints
        return table.usable

    def _store(self, tables: Mapping[str, object]) -> Path | None:
        if "store" not in tables:
            return None
        store = self._value(StoreSettings, ("store",), tables)
        return None if store is None else self._placed(("store", "path"), store.path)

    def _agent(self, tables: Mapping[str, object]) -> AgentSettings | None:
        if "agent" not in tables:
            return None
        agent = self._value(AgentSettings, ("agent",), tables)
        if agent is None:
            return None
        ca = agent.ca and self._placed(("agent", "ca"), agent.ca)
        token = self._placed(("agent", "token_file"), agent.token_file)
        return replace(agent, ca=ca, token_file=token)

    def _requests(
        self, tables: Mapping[str, object], policy: str
    ) -> RequestSettings | None:
        if "requests" not in tables:
            return None
        if policy != Consolidate.name:
            only = f"[requests] goes with the policy {Consolidate.name} only"
            self._say(("policy", "name"), f"{only}, found {shown(policy)}")
        found = self._value(RequestSettings, ("requests",), tables)
        if found is None:
            return None
        return replace(
            found,
            certificate=self._placed(("requests", "certificate"), found.certificate),
            key=self._placed(("requests", "key"), found.key),
            tokens=self._placed(("requests", "tokens"), found.tokens),
        )

    def _placed(self, at: Location, path: Path) -> Path:
        """Return *path* as seen from the directory of the document."""
        try:
            return self._directory / path.expanduser()
        except RuntimeError as error:  # ~somebody who does not exist
            self._say(at, f"{shown(str(path))}: {error}")
            return path

    def _platforms(self, value: object) -> dict[str, Connection]:
        named = self._table(("platform",), value)
        connections = [self._connection(name, table) for name, table in named.items()]
        return {found.name: found for found in connections if found is not None}

    def _connection(self, name: str, value: object) -> Connection | None:
        at = ("platform", name)
        if name == RESERVED or not _NAME.fullmatch(name):
            self._say(at, f"a platform cannot be called {shown(name)}")
        table = self._table(at, value)
        kind = table.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            kinds = " or ".join(f'"{known}"' for known in KINDS)
            found = "which is missing" if kind is None else f"found {shown(kind)}"
            self._say((*at, "kind"), f"expected {kinds}, {found}")
            return None
        apart = {"kind"} if kind == "file" else {"kind", "power"}
        rest = {key: part for key, part in table.items() if key not in apart}
        settings = self._value(settings_type(kind), at, {name: rest})
        if isinstance(settings, FileSettings):
            settings = FileSettings(path=self._placed((*at, "path"), settings.path))
        power = self._power((*at, "power"), table, settings)
        return Connection(name=name, kind=kind, settings=settings, power=power)

    def _power(
        self, at: Location, table: Mapping[str, object], settings: object
    ) -> PowerSettings | None:
        if "power" not in table:
            return None
        nodes: Mapping[str, str] | None = getattr(settings, "nodes", None)
        power = PowerTable(table["power"], at, nodes, self._directory)
        self.complaints += power.complaints
        return power.value

    def _policies(
        self, value: object, limits: Limits
    ) -> tuple[str, dict[str, Mapping[str, object]]]:
        table = dict(self._table(("policy",), value))
        chosen = table.pop("name", DEFAULT_POLICY)
        if not isinstance(chosen, str):
            self._say(("policy", "name"), f"expected a text, found {shown(chosen)}")
            chosen = DEFAULT_POLICY
        if chosen not in table:
            self._check_policy(("policy", "name"), chosen, {}, limits)
        for name, values in table.items():
            self._check_policy(("policy", name), name, values, limits)
        known = {
            name: part for name, part in table.items() if isinstance(part, Mapping)
        }
        return chosen, known

    def _check_policy(
        self, at: Location, name: str, values: object, limits: Limits
    ) -> None:
        if not isinstance(values, Mapping):
            here = f"found {shown(values)}; settings of a policy are in [policy.NAME]"
            self._say(at, f"expected a table, {here}")
            return
        try:
            self.complaints += policy_table(name, values, limits, at).complaints
        except ConfigurationError as error:
            self._say(at, str(error))
