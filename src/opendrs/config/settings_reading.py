"""Reader of the configuration file that reports all errors at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TypeVar

from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.controller_settings import ControllerSettings
from opendrs.config.diagnostics import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    raise_diagnostics,
)
from opendrs.config.formats import FileFormat, require_format
from opendrs.config.monitoring_settings import MetricsSettings
from opendrs.config.notification_settings import (
    NOTIFICATION_KINDS,
    NotificationSettings,
)
from opendrs.config.oidc_settings import OidcSettings
from opendrs.config.parsing import (
    display_path,
    duplicate_key_diagnostics,
    parse,
    read_text,
)
from opendrs.config.platform_kinds import (
    ExtensionTable,
    PlatformConnection,
    PlatformExtension,
    PlatformRegistry,
)
from opendrs.config.policy_loading import bind_policy
from opendrs.config.schedule_settings import (
    Schedule,
    ScheduleSettings,
    agent_problem,
)
from opendrs.config.settings import (
    DEFAULT_POLICY,
    RESERVED_NAME,
    AgentSettings,
    ApiSettings,
    Settings,
    StoreSettings,
)
from opendrs.config.snapshot_reading import validate_rules
from opendrs.config.web_settings import WebSettings
from opendrs.errors import ConfigurationError, UnknownPolicyError
from opendrs.escapes import repr_value
from opendrs.model import DEFAULT_LIMITS, DEFAULT_PROTECTION, Limits, Protection
from opendrs.policies import BUILT_IN_POLICIES

_TABLES = frozenset(
    {
        "agent",
        "controller",
        "limits",
        "metrics",
        "notifications",
        "platform",
        "policy",
        "protection",
        "api",
        "rules",
        "schedule",
        "store",
        "web",
    }
)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def is_platform_name(name: str) -> bool:
    """Return True if a platform can have this name, which is a part of file names."""
    return name != RESERVED_NAME and _NAME.fullmatch(name) is not None


T = TypeVar("T")


def read_settings(path: Path, registry: PlatformRegistry) -> Settings:
    """Return the settings in the configuration file *path*.

    Args:
        path: The file.
        registry: The kinds and extensions of platforms.

    Raises:
        ConfigurationError: The configuration has errors; with all of them.
    """
    settings, diagnostics = read_valid_settings(path, registry)
    raise_diagnostics(display_path(path), diagnostics)
    return settings


def read_valid_settings(
    path: Path, registry: PlatformRegistry
) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """Return the valid settings in the configuration file *path*, and all errors.

    Raises:
        ConfigurationError: The file cannot be parsed, or has another format.
    """
    source = display_path(path)
    suffix = ".json" if path.suffix == ".json" else ".toml"
    document = parse(read_text(path), source, suffix)
    return settings_and_diagnostics(document, source, path.parent, registry)


def settings_and_diagnostics(
    document: object, source: str, directory: Path, registry: PlatformRegistry
) -> tuple[Settings, tuple[Diagnostic, ...]]:
    """Return the valid settings in *document*, and all errors.

    Args:
        document: Plain values as parsed from TOML or JSON.
        source: Origin of the document, for error messages.
        directory: Directory that relative paths refer to.
        registry: The kinds and extensions of platforms.

    Raises:
        ConfigurationError: The document has another format.
    """
    require_format(document, source, FileFormat.CONFIGURATION)
    reader = _SettingsReader(directory, registry)
    settings = reader.settings(document)
    return settings, (*duplicate_key_diagnostics(document), *reader.diagnostics)


class _SettingsReader:
    """Reader of one document that collects diagnostics."""

    def __init__(self, directory: Path, registry: PlatformRegistry) -> None:
        self._directory = directory
        self._registry = registry
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
        schedule = tuple(self._schedule(tables, limits, policies))
        return Settings(
            platforms=self._platforms(tables.get("platform", {})),
            policy=name,
            policy_settings=policies,
            limits=limits,
            protection=self._bind(Protection, ("protection",), tables)
            or DEFAULT_PROTECTION,
            rules=rules,
            store=self._bind_given(StoreSettings, ("store",), tables),
            agent=self._bind_given(AgentSettings, ("agent",), tables),
            controller=self._controller(tables, limits),
            schedule=schedule,
            api=self._api(tables, name, schedule),
            metrics=self._bind_given(MetricsSettings, ("metrics",), tables),
            notifications=tuple(self._notifications(tables.get("notifications", []))),
            web=self._web(tables),
        )

    def _diagnose(self, at: KeyPath, message: str, code: DiagnosticCode) -> None:
        self.diagnostics.append(Diagnostic(at, message, code=code))

    def _table(self, at: KeyPath, value: object) -> Mapping[str, object]:
        if isinstance(value, Mapping):
            return value
        message = f"expected a table, got {repr_value(value)}"
        self._diagnose(at, message, DiagnosticCode.WRONG_TYPE)
        return {}

    def _bind(
        self, target_type: type[T], at: tuple[str, ...], tables: Mapping[str, object]
    ) -> T | None:
        table = TableBinder(target_type, tables.get(at[-1], {}), at)
        self.diagnostics += table.diagnostics
        settings = table.partial_value
        return None if settings is None else self._resolve_paths(at, settings)

    def _resolve_paths(self, at: KeyPath, settings: T) -> T:
        """Return *settings* with paths relative to the directory of the document."""
        names = [field.name for field in fields(settings)]  # type: ignore[arg-type]
        paths = {
            name: self._resolve_path((*at, name), value)
            for name in names
            if isinstance(value := getattr(settings, name), Path)
        }
        return replace(settings, **paths)  # type: ignore[type-var]

    def _bind_given(
        self, target_type: type[T], at: tuple[str, ...], tables: Mapping[str, object]
    ) -> T | None:
        """Return the settings of the table *at*; None if it is not configured."""
        return self._bind(target_type, at, tables) if at[-1] in tables else None

    def _web(self, tables: Mapping[str, object]) -> WebSettings:
        table = dict(self._table(("web",), tables.get("web", {})))
        oidc = self._bind_given(OidcSettings, ("web", "oidc"), table)
        table.pop("oidc", None)
        web = self._bind(WebSettings, ("web",), {"web": table}) or WebSettings()
        return replace(web, oidc=oidc)

    def _notifications(self, value: object) -> Iterator[NotificationSettings]:
        if not isinstance(value, list):
            message = f"expected tables [[notifications]], got {repr_value(value)}"
            self._diagnose(("notifications",), message, DiagnosticCode.WRONG_TYPE)
            return
        for index, part in enumerate(value):
            at: KeyPath = ("notifications", index)
            table = dict(self._table(at, part))
            kind = table.pop("kind", None)
            if not isinstance(kind, str) or kind not in NOTIFICATION_KINDS:
                self._diagnose_kind((*at, "kind"), kind, NOTIFICATION_KINDS)
                continue
            bound = TableBinder(NOTIFICATION_KINDS[kind], table, at)
            self.diagnostics += bound.diagnostics
            if bound.partial_value is not None:
                yield self._resolve_paths(at, bound.partial_value)

    def _api(
        self, tables: Mapping[str, object], policy: str, schedule: Schedule
    ) -> ApiSettings | None:
        if "api" not in tables:
            return None
        if problem := agent_problem(policy, schedule):
            self._diagnose(*problem, DiagnosticCode.INCONSISTENT)
        return self._bind(ApiSettings, ("api",), tables)

    def _controller(
        self, tables: Mapping[str, object], limits: Limits
    ) -> ControllerSettings:
        bound = self._bind(ControllerSettings, ("controller",), tables)
        settings = bound or ControllerSettings()
        for policy in settings.policy_modes:
            at = ("controller", "policy_modes", policy)
            self._check_policy(at, policy, {}, limits)
        return settings

    def _schedule(
        self,
        tables: Mapping[str, object],
        limits: Limits,
        policies: Mapping[str, Mapping[str, object]],
    ) -> Iterator[ScheduleSettings]:
        value = tables.get("schedule", [])
        if not isinstance(value, list):
            message = f"expected tables [[schedule]], got {repr_value(value)}"
            self._diagnose(("schedule",), message, DiagnosticCode.WRONG_TYPE)
            return
        names: set[str] = set()
        for index, table in enumerate(value):
            at: KeyPath = ("schedule", index)
            bound = TableBinder(ScheduleSettings, table, at)
            self.diagnostics += bound.diagnostics
            entry = bound.partial_value
            if entry is None:
                continue
            if entry.name in names:
                message = f"expected a name of its own, got {repr_value(entry.name)}"
                message += " again"
                self._diagnose((*at, "name"), message, DiagnosticCode.DUPLICATE_NAME)
            names.add(entry.name)
            self._check_scheduled_policy(at, entry, limits, policies)
            yield entry

    def _check_scheduled_policy(
        self,
        at: KeyPath,
        entry: ScheduleSettings,
        limits: Limits,
        policies: Mapping[str, Mapping[str, object]],
    ) -> None:
        """Check the settings of *entry* with those of the table of the policy."""
        before = len(self.diagnostics)
        self._check_policy((*at, "policy"), entry.policy, {}, limits)
        values = {**policies.get(entry.policy, {}), **entry.settings}
        if values and len(self.diagnostics) == before:
            found = bind_policy(entry.policy, values, limits, (*at, "settings"))
            known = bind_policy(entry.policy, policies.get(entry.policy, {}), limits)
            if not known.diagnostics:  # they are reported for that table
                self.diagnostics += found.diagnostics

    def _resolve_path(self, at: KeyPath, path: Path) -> Path:
        """Return *path* relative to the directory of the document, with ~ expanded."""
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
        if not is_platform_name(name):
            message = f"invalid name of a platform: {repr_value(name)}"
            self._diagnose(at, message, DiagnosticCode.INVALID_VALUE)
        table = self._table(at, value)
        kind_name = table.get("kind")
        if not isinstance(kind_name, str) or kind_name not in self._registry.kinds:
            self._diagnose_kind((*at, "kind"), kind_name, self._registry.kinds)
            return None
        kind = self._registry.kinds[kind_name]()
        extensions = {} if kind.read_only else self._registry.extensions
        own_table = {
            key: part
            for key, part in table.items()
            if key != "kind" and key not in extensions
        }
        settings = self._bind(kind.settings_type, at, {name: own_table})
        nodes = None if settings is None else kind.nodes(settings)
        return PlatformConnection(
            name=name,
            kind=kind_name,
            settings=settings,
            nodes=nodes,
            extensions={
                key: self._extension(
                    extensions[key](),
                    ExtensionTable(table[key], (*at, key), nodes, self._directory),
                )
                for key in extensions
                if key in table
            },
        )

    def _extension(
        self, extension: PlatformExtension[T], table: ExtensionTable
    ) -> T | None:
        settings, diagnostics = extension.read(table)
        self.diagnostics += diagnostics
        return None if settings is None else self._resolve_paths(table.path, settings)

    def _diagnose_kind(self, at: KeyPath, kind: object, known: Iterable[str]) -> None:
        kinds = ", ".join(sorted(known))
        actual = "which is missing" if kind is None else f"got {repr_value(kind)}"
        code = (
            DiagnosticCode.MISSING_KEY if kind is None else DiagnosticCode.UNKNOWN_VALUE
        )
        self._diagnose(at, f"expected one of {kinds}; {actual}", code)

    def _policies(
        self, value: object, limits: Limits
    ) -> tuple[str, dict[str, Mapping[str, object]]]:
        table = dict(self._table(("policy",), value))
        chosen = table.pop("name", DEFAULT_POLICY)
        if not isinstance(chosen, str):
            message = f"expected a text, got {repr_value(chosen)}"
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
                f"expected a table, got {repr_value(values)}; settings of a policy "
                "are in [policy.NAME]"
            )
            self._diagnose(at, message, DiagnosticCode.WRONG_TYPE)
            return
        if not values and name in BUILT_IN_POLICIES:
            return  # its defaults are valid: import no policy that may not be used
        try:
            self.diagnostics += bind_policy(name, values, limits, at).diagnostics
        except UnknownPolicyError as error:
            self._diagnose(at, str(error), DiagnosticCode.UNKNOWN_NAME)
        except ConfigurationError as error:
            self._diagnose(at, str(error), DiagnosticCode.UNUSABLE_LIBRARY)
