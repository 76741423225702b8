"""The table `power` of a platform: settings of the power driver of each node."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opendrs.config.binding import TableBinder, unknown_name
from opendrs.config.diagnostics import Diagnostic, KeyPath, describe_type, suggestion
from opendrs.power import (
    POWER_DRIVERS,
    PowerDriverSettings,
    PowerSettings,
    RedfishSettings,
)

NODES_KEY = "nodes"
_MERGED_KEY = "variables"  # of which those of a node come on top of the others


class PowerBinder:
    """A table that says for all nodes, and for each, how they are switched.

    What a node says comes on top of what is said for all; a node with another
    driver than the others says everything itself. No complaint shows a value: any
    may be, or hold, a secret.

    Attributes:
        diagnostics: Everything that is wrong with it.
        value: What it says.
    """

    def __init__(
        self, table: object, at: KeyPath, known: Collection[str] | None, base: Path
    ) -> None:
        """Check *table*.

        Args:
            table: As parsed from TOML or JSON.
            at: Where it is in its file.
            known: The nodes of the platform; None where it alone knows them.
            base: What relative paths begin from.
        """
        self._at, self._base = at, base
        self._diagnostics: list[Diagnostic] = []
        common = dict(self._table(at, table))
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
        """Return what is said of a node, with what is said for all."""
        common = self._common
        if node_table.get("driver", common.get("driver")) != common.get("driver"):
            return dict(node_table)
        merged = {**common, **node_table}
        for all_of_them, its_own in [
            (common.get(_MERGED_KEY), node_table.get(_MERGED_KEY))
        ]:
            if isinstance(all_of_them, Mapping) and isinstance(its_own, Mapping):
                merged[_MERGED_KEY] = {**all_of_them, **its_own}
        return merged

    def _driver(
        self, at: KeyPath, table: Mapping[str, object]
    ) -> PowerDriverSettings | None:
        name = table.get("driver")
        if not isinstance(name, str) or name not in POWER_DRIVERS:
            drivers = ", ".join(f'"{known}"' for known in POWER_DRIVERS)
            actual = (
                "which is missing" if name is None else f"found {describe_type(name)}"
            )
            meant = suggestion(name, POWER_DRIVERS) if isinstance(name, str) else ""
            self._diagnose(
                (*at, "driver"), f"expected one of {drivers}, {actual}{meant}"
            )
            return None
        rest = {key: value for key, value in table.items() if key != "driver"}
        checked = TableBinder(POWER_DRIVERS[name], rest, at, format_value=describe_type)
        self._diagnostics += checked.diagnostics
        return self._resolve_paths(checked.partial_value)

    def _resolve_paths(
        self, settings: PowerDriverSettings | None
    ) -> PowerDriverSettings | None:
        """Return *settings* with paths as seen from the directory of the file."""
        if not isinstance(settings, RedfishSettings):
            return settings
        return replace(
            settings,
            password_file=self._resolve_path(settings.password_file),
            ca=self._resolve_path(settings.ca),
        )

    def _resolve_path(self, path: Path | None) -> Path | None:
        return None if path is None else self._base / path

    def _reject_unknown_nodes(
        self, named: Mapping[str, object], known: Collection[str]
    ) -> None:
        for name in named:
            if name not in known:
                self._diagnose(
                    (*self._at, NODES_KEY, name), unknown_name("node", name, known)
                )

    def _table(self, at: KeyPath, value: object) -> Mapping[str, object]:
        if isinstance(value, Mapping):
            return value
        self._diagnose(at, f"expected a table, found {describe_type(value)}")
        return {}

    def _diagnose(self, at: KeyPath, message: str) -> None:
        self._diagnostics.append(Diagnostic(at, message))
