"""Table `power` of a platform: settings of the power driver of each node."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.diagnostics import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    describe_type,
    suggestion,
)
from opendrs.config.platform_kinds import ExtensionTable, PlatformExtension
from opendrs.ports import Platform
from opendrs.power.platform import PowerDrivers, PoweredPlatform
from opendrs.power.settings import (
    POWER_DRIVERS,
    PowerDriverSettings,
    PowerSettings,
    RedfishSettings,
)

NODES_KEY = "nodes"
_MERGED_KEY = "variables"  # a table that is merged with that of a node


class PowerBinder:
    """Binding of the table `power`, with common settings and settings of nodes.

    Settings of a node override the common ones. A node with another driver does not
    use the common settings. Diagnostics contain no values, because any value may
    contain a secret.

    Attributes:
        diagnostics: All errors in the table.
        value: The settings, without invalid nodes.
    """

    def __init__(self, table: ExtensionTable) -> None:
        """Validate *table*."""
        self._at, self._directory = table.path, table.directory
        at, known = table.path, table.nodes
        self._diagnostics: list[Diagnostic] = []
        common = dict(self._table(at, table.value))
        named = self._table((*at, NODES_KEY), common.pop(NODES_KEY, {}))
        self._common = common
        if known is not None:
            self._reject_unknown_nodes(named, known)
        self.value = PowerSettings(
            nodes=dict(self._nodes(named, named if known is None else known)),
            default=self._driver(at, common) if known is None and common else None,
        )
        self.diagnostics = tuple(dict.fromkeys(self._diagnostics))

    def _nodes(
        self, named: Mapping[str, object], nodes: Collection[str]
    ) -> Iterator[tuple[str, PowerDriverSettings]]:
        for name in nodes:
            at = (*self._at, NODES_KEY, name)
            node_table = self._table(at, named.get(name, {}))
            if node_table or self._common:
                driver = self._driver(at, self._merge_common(node_table))
                if driver is not None:
                    yield name, driver

    def _merge_common(self, node_table: Mapping[str, object]) -> dict[str, object]:
        """Return the settings of a node merged with the common settings."""
        common = self._common
        if node_table.get("driver", common.get("driver")) != common.get("driver"):
            return dict(node_table)
        merged = {**common, **node_table}
        inherited, own = common.get(_MERGED_KEY), node_table.get(_MERGED_KEY)
        if isinstance(inherited, Mapping) and isinstance(own, Mapping):
            merged[_MERGED_KEY] = {**inherited, **own}
        return merged

    def _driver(
        self, at: KeyPath, table: Mapping[str, object]
    ) -> PowerDriverSettings | None:
        name = table.get("driver")
        if not isinstance(name, str) or name not in POWER_DRIVERS:
            drivers = ", ".join(f'"{known}"' for known in POWER_DRIVERS)
            actual = (
                "which is missing" if name is None else f"got {describe_type(name)}"
            )
            meant = suggestion(name, POWER_DRIVERS) if isinstance(name, str) else ""
            code = (
                DiagnosticCode.MISSING_KEY
                if name is None
                else DiagnosticCode.UNKNOWN_NAME
            )
            self._diagnose(
                (*at, "driver"), f"expected one of {drivers}, {actual}{meant}", code
            )
            return None
        rest = {key: value for key, value in table.items() if key != "driver"}
        checked = TableBinder(POWER_DRIVERS[name], rest, at, format_value=describe_type)
        self._diagnostics += checked.diagnostics
        return self._resolve_paths(checked.partial_value)

    def _resolve_paths(
        self, settings: PowerDriverSettings | None
    ) -> PowerDriverSettings | None:
        """Return *settings* with paths relative to the directory of the file."""
        if not isinstance(settings, RedfishSettings):
            return settings
        return replace(
            settings,
            password_file=self._resolve_path(settings.password_file),
            ca=self._resolve_path(settings.ca),
        )

    def _resolve_path(self, path: Path | None) -> Path | None:
        return None if path is None else self._directory / path

    def _reject_unknown_nodes(
        self, named: Mapping[str, object], known: Collection[str]
    ) -> None:
        for name in named:
            if name not in known:
                path = (*self._at, NODES_KEY, name)
                message = unknown_name("node", name, known)
                self._diagnose(path, message, DiagnosticCode.UNKNOWN_NAME)

    def _table(self, at: KeyPath, value: object) -> Mapping[str, object]:
        if isinstance(value, Mapping):
            return value
        message = f"expected a table, got {describe_type(value)}"
        self._diagnose(at, message, DiagnosticCode.WRONG_TYPE)
        return {}

    def _diagnose(self, at: KeyPath, message: str, code: DiagnosticCode) -> None:
        self._diagnostics.append(Diagnostic(at, message, code=code))


def _read(table: ExtensionTable) -> tuple[PowerSettings, Iterable[Diagnostic]]:
    binder = PowerBinder(table)
    return binder.value, binder.diagnostics


def _add_power(platform: Platform, settings: PowerSettings) -> Platform:
    return PoweredPlatform(platform, PowerDrivers(settings))


EXTENSION = PlatformExtension(read=_read, extend=_add_power)
