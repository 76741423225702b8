"""The table `power` of a platform: how its nodes are switched on and off."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from opendrs.controller.tables import Table, no_such
from opendrs.platforms.file import Complaint, Location, kind_of, suggestion
from opendrs.platforms.power import (
    DRIVERS,
    DriverSettings,
    PowerSettings,
    RedfishSettings,
)

NODES = "nodes"
_MERGED = "variables"  # of which those of a node come on top of the others


class PowerTable:
    """A table that says for all nodes, and for each, how they are switched.

    What a node says comes on top of what is said for all; a node with another
    driver than the others says everything itself. No complaint shows a value: any
    may be, or hold, a secret.

    Attributes:
        complaints: Everything that is wrong with it.
        value: What it says.
    """

    def __init__(
        self, table: object, at: Location, known: Collection[str] | None, base: Path
    ) -> None:
        """Check *table*.

        Args:
            table: As parsed from TOML or JSON.
            at: Where it is in its file.
            known: The nodes of the platform; None where it alone knows them.
            base: What relative paths begin from.
        """
        self._at, self._base = at, base
        self._found: list[Complaint] = []
        common = dict(self._table(at, table))
        named = self._table((*at, NODES), common.pop(NODES, {}))
        self._common = common
        if known is not None:
            self._refuse_strangers(named, known)
        self.value = PowerSettings(
            nodes=dict(self._nodes(named, named if known is None else known)),
            default=self._driver(at, common) if known is None and common else None,
        )
        self.complaints = tuple(dict.fromkeys(self._found))

    def _nodes(
        self, named: Mapping[str, object], nodes: Collection[str]
    ) -> Iterator[tuple[str, DriverSettings]]:
        for name in nodes:
            at = (*self._at, NODES, name)
            own = self._table(at, named.get(name, {}))
            if own or self._common:
                found = self._driver(at, self._completed(own))
                if found is not None:
                    yield name, found

    def _completed(self, own: Mapping[str, object]) -> dict[str, object]:
        """Return what is said of a node, with what is said for all."""
        common = self._common
        if own.get("driver", common.get("driver")) != common.get("driver"):
            return dict(own)
        merged = {**common, **own}
        for all_of_them, its_own in [(common.get(_MERGED), own.get(_MERGED))]:
            if isinstance(all_of_them, Mapping) and isinstance(its_own, Mapping):
                merged[_MERGED] = {**all_of_them, **its_own}
        return merged

    def _driver(
        self, at: Location, table: Mapping[str, object]
    ) -> DriverSettings | None:
        name = table.get("driver")
        if not isinstance(name, str) or name not in DRIVERS:
            drivers = ", ".join(f'"{known}"' for known in DRIVERS)
            found = "which is missing" if name is None else f"found {kind_of(name)}"
            meant = suggestion(name, DRIVERS) if isinstance(name, str) else ""
            self._say((*at, "driver"), f"expected one of {drivers}, {found}{meant}")
            return None
        rest = {key: value for key, value in table.items() if key != "driver"}
        checked = Table(DRIVERS[name], rest, at, show=kind_of)
        self._found += checked.complaints
        return self._placed(checked.usable)

    def _placed(self, settings: DriverSettings | None) -> DriverSettings | None:
        """Return *settings* with paths as seen from the directory of the file."""
        if not isinstance(settings, RedfishSettings):
            return settings
        return replace(
            settings,
            password_file=self._from_base(settings.password_file),
            ca=self._from_base(settings.ca),
        )

    def _from_base(self, path: Path | None) -> Path | None:
        return None if path is None else self._base / path

    def _refuse_strangers(
        self, named: Mapping[str, object], known: Collection[str]
    ) -> None:
        for name in named:
            if name not in known:
                self._say((*self._at, NODES, name), no_such("node", name, known))

    def _table(self, at: Location, value: object) -> Mapping[str, object]:
        if isinstance(value, Mapping):
            return value
        self._say(at, f"expected a table, found {kind_of(value)}")
        return {}

    def _say(self, at: Location, message: str) -> None:
        self._found.append(Complaint(at, message))
