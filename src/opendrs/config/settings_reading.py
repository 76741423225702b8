"""Reader of the configuration file that reports all errors at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.diagnostics import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    raise_diagnostics,
)
from opendrs.config.formats import FileFormat, require_format
from opendrs.config.parsing import (
    display_path,
    duplicate_key_diagnostics,
    parse,
    read_text,
)
from opendrs.config.policy_loading import bind_policy
from opendrs.config.power import PowerBinder
from opendrs.config.settings import (
    DEFAULT_POLICY,
    RESERVED_NAME,
    AgentSettings,
    ApiSettings,
    ControllerSettings,
    Settings,
    StoreSettings,
)
from opendrs.config.snapshot_reading import validate_rules
from opendrs.errors import ConfigurationError, UnknownPolicyError
from opendrs.escapes import repr_value
from opendrs.model import DEFAULT_LIMITS, Limits
from opendrs.platforms.registry import KINDS, PlatformConnection, settings_type
from opendrs.platforms.snapshot_file import SnapshotFileSettings
from opendrs.policies.consolidation import Consolidate
from opendrs.power import PowerSettings

_TABLES = frozenset(
    {
        "agent",
        "controller",
        "limits",
        "platform",
        "policy",
        "api",
        "rules",
        "store",
    }
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
T = TypeVar("T")


def read_settings(path: Path) -> Settings:
    """Return the settings in the configuration file *path*.

    Raises:
        ConfigurationError: The configuration has errors; with all of them.
    """
    source = display_path(path)
    suffix = ".json" if path.suffix == ".json" else ".toml"
    return settings_from(parse(read_text(path), source, suffix), source, path.parent)


def settings_from(document: object, source: str, directory: Path) -> Settings:
    """Return the settings in *document*.

    Args:
        document: Plain values as parsed from TOML or JSON.
        source: Origin of the document, for error messages.
        directory: Directory that relative paths refer to.

    Raises:
        ConfigurationError: The configuration has errors; with all of them.
    """
    settings, diagnostics = settings_and_diagnostics(document, source, directory)
    raise_diagnostics(source, diagnostics)
    return settings


def settings_and_diagnostics(
    document: object, source: str, directory: Path
) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """Return the valid settings in *document*, and all errors.

    Raises:
        ConfigurationError: The document has another format.
    """
    require_format(document, source, FileFormat.CONFIGURATION)
    reader = _SettingsReader(directory)
    settings = reader.settings(document)
    return settings, (*duplicate_key_diagnostics(document), *reader.diagnostics)


class _SettingsReader:
    """Reader of one document that collects diagnostics."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.diagnostics: list[Diagnostic] = []

    def settings(self, document: object) -> Settings:
        tables = self._table((), document)
        for name in tables:
            if name not in _TABLES:
                message = unknown_name("table", name, _TABLES)
                self._diagnose((name,), message, DiagnosticCode.UNKNOWN_KEY)
        limits = self._bind(Limits, ("limits",), tables) or DEFAULT_LIMITS
        rules, diagnostics = validate_rules(tables.get("rules", []), ("rules",))
        self.diagnostics += diagnostics
        name, policies = self._policies(tables.get("policy", {}), limits)
        return Settings(
            platforms=self._platforms(tables.get("platform", {})),
            policy=name,
            policy_settings=policies,
            limits=limits,
            rules=rules,
            store=self._store(tables),
            agent=self._agent(tables),
            controller=self._bind(ControllerSettings, ("controller",), tables)
            or ControllerSettings(),
            api=self._api(tables, name),
        )

    def _diagnose(self, at: KeyPath, message: str, code: DiagnosticCode) -> None:
        self.diagnostics.append(Diagnostic(at, message, code=code))

    def _table(self, at: KeyPath, value: object) -> Mapping[str, object]:
        if isinstance(value, Mapping):
            return value
        message = f"expected a table, found {repr_value(value)}"
        self._diagnose(at, message, DiagnosticCode.WRONG_TYPE)
        return {}

    def _bind(
        self, target_type: type[T], at: tuple[str, ...], tables: Mapping[str, object]
    ) -> T | None:
        table = TableBinder(target_type, tables.get(at[-1], {}), at)
        self.diagnostics += table.diagnostics
        return table.partial_value

    def _store(self, tables: Mapping[str, object]) -> Path | None:
        if "store" not in tables:
            return None
        store = self._bind(StoreSettings, ("store",), tables)
        return (
            None if store is None else self._resolve_path(("store", "path"), store.path)
        )

    def _agent(self, tables: Mapping[str, object]) -> AgentSettings | None:
        if "agent" not in tables:
            return None
        agent = self._bind(AgentSettings, ("agent",), tables)
        if agent is None:
            return None
        ca = agent.ca and self._resolve_path(("agent", "ca"), agent.ca)
        token = self._resolve_path(("agent", "token_file"), agent.token_file)
        return replace(agent, ca=ca, token_file=token)

    def _api(self, tables: Mapping[str, object], policy: str) -> ApiSettings | None:
        if "api" not in tables:
            return None
        if policy != Consolidate.name:
            message = (
                f"[api] requires the policy {Consolidate.name}, "
                f"found {repr_value(policy)}"
            )
            self._diagnose(("policy", "name"), message, DiagnosticCode.INCONSISTENT)
        api = self._bind(ApiSettings, ("api",), tables)
        if api is None:
            return None
        return replace(
            api,
            certificate=self._resolve_path(("api", "certificate"), api.certificate),
            key=self._resolve_path(("api", "key"), api.key),
            tokens=self._resolve_path(("api", "tokens"), api.tokens),
        )

    def _resolve_path(self, at: KeyPath, path: Path) -> Path:
        """Return *path* relative to the directory of the document."""
        try:
            return self._directory / path.expanduser()
        except RuntimeError as error:  # ~USER of an unknown user
            message = f"{repr_value(str(path))}: {error}"
            self._diagnose(at, message, DiagnosticCode.UNUSABLE_FILE)
            return path

    def _platforms(self, value: object) -> dict[str, PlatformConnection]:
        named = self._table(("platform",), value)
        connections = [self._connection(name, table) for name, table in named.items()]
        return {
            connection.name: connection
            for connection in connections
            if connection is not None
        }

    def _connection(self, name: str, value: object) -> PlatformConnection | None:
        at = ("platform", name)
        if name == RESERVED_NAME or not _NAME.fullmatch(name):
            message = f"invalid name of a platform: {repr_value(name)}"
            self._diagnose(at, message, DiagnosticCode.INVALID_VALUE)
        table = self._table(at, value)
        kind = table.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            kinds = " or ".join(f'"{known}"' for known in KINDS)
            actual = "which is missing" if kind is None else f"found {repr_value(kind)}"
            code = (
                DiagnosticCode.MISSING_KEY
                if kind is None
                else DiagnosticCode.UNKNOWN_VALUE
            )
            self._diagnose((*at, "kind"), f"expected {kinds}, {actual}", code)
            return None
        special_keys = {"kind"} if kind == "file" else {"kind", "power"}
        rest = {key: part for key, part in table.items() if key not in special_keys}
        settings = self._bind(settings_type(kind), at, {name: rest})
        if isinstance(settings, SnapshotFileSettings):
            settings = SnapshotFileSettings(
                path=self._resolve_path((*at, "path"), settings.path)
            )
        power = self._power((*at, "power"), table, settings)
        return PlatformConnection(name=name, kind=kind, settings=settings, power=power)

    def _power(
        self, at: KeyPath, table: Mapping[str, object], settings: object
    ) -> PowerSettings | None:
        if "power" not in table:
            return None
        nodes: Mapping[str, str] | None = getattr(settings, "nodes", None)
        power = PowerBinder(table["power"], at, nodes, self._directory)
        self.diagnostics += power.diagnostics
        return power.value

    def _policies(
        self, value: object, limits: Limits
    ) -> tuple[str, dict[str, Mapping[str, object]]]:
        table = dict(self._table(("policy",), value))
        chosen = table.pop("name", DEFAULT_POLICY)
        if not isinstance(chosen, str):
            message = f"expected a text, found {repr_value(chosen)}"
            self._diagnose(("policy", "name"), message, DiagnosticCode.WRONG_TYPE)
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
        self, at: KeyPath, name: str, values: object, limits: Limits
    ) -> None:
        if not isinstance(values, Mapping):
            message = (
                f"expected a table, found {repr_value(values)}; settings of a policy "
                "are in [policy.NAME]"
            )
            self._diagnose(at, message, DiagnosticCode.WRONG_TYPE)
            return
        try:
            self.diagnostics += bind_policy(name, values, limits, at).diagnostics
        except UnknownPolicyError as error:
            self._diagnose(at, str(error), DiagnosticCode.UNKNOWN_NAME)
        except ConfigurationError as error:
            self._diagnose(at, str(error), DiagnosticCode.UNUSABLE_LIBRARY)
