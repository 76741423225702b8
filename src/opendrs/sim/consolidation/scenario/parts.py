"""The parts of a scenario, from plain values; the reading goes on after a complaint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from opendrs.controller.tables import Table, no_such
from opendrs.model import Limits
from opendrs.platforms.file import Complaint, Location, shown
from opendrs.sim.consolidation.machines import Behaviour
from opendrs.sim.consolidation.readers import READERS
from opendrs.sim.consolidation.readers.window import WHOLE, Window
from opendrs.sim.consolidation.scenario.contenders import Reading
from opendrs.sim.consolidation.scenario.guests import Guests, Kind
from opendrs.sim.consolidation.scenario.hosts import USUAL, Pool
from opendrs.sim.consolidation.scenario.scenario import (
    Contender,
    Model,
    Recorded,
    Source,
    Stage,
)
from opendrs.sim.consolidation.synthetic import Synthetic

FIELDS = (
    *("format", "title", "model", "seed"),
    *("workload", "hosts", "guests", "behaviour", "limits", "policies"),
)
SYNTHETIC = "synthetic"
PLANETLAB = "planetlab"
KINDS = (*READERS, SYNTHETIC)
LARGEST_SEED = 2**32 - 1
MOST_GUESTS = 10**6
MOST_DAYS = 366
DEFAULT_SEED = 1
NOT_IN_CLOUDSIM = ("guests", "behaviour", "limits")

T = TypeVar("T")


class Parts:
    """The reading of the parts of one document.

    Attributes:
        complaints: Everything that is wrong so far.
    """

    def __init__(self, folder: Path) -> None:
        """Begin.

        Args:
            folder: What relative paths begin from.
        """
        self._folder = folder
        self.complaints: list[Complaint] = []

    def say(self, at: Location, message: str) -> None:
        """Note that something is wrong."""
        self.complaints.append(Complaint(at, message))

    def form(self, tables: Mapping[str, object], wanted: str) -> None:
        """Note what is not in the form *wanted*, as far as the top of it goes."""
        if tables.get("format") != wanted:
            found = shown(tables["format"]) if "format" in tables else "nothing"
            self.say(("format",), f'expected "{wanted}", found {found}')
        for name in tables:
            if name not in FIELDS:
                self.say((name,), no_such("field", name, FIELDS))
        title = tables.get("title", "")
        if not isinstance(title, str):
            self.say(("title",), f"expected a text, found {shown(title)}")

    def table(self, at: Location, value: object) -> Mapping[str, object]:
        """Return *value* when it is a table; else an empty one."""
        if isinstance(value, Mapping):
            return value
        self.say(at, f"expected a table of named values, found {shown(value)}")
        return {}

    def tables(self, at: Location, value: object) -> list[tuple[Location, object]]:
        """Return the entries of a list that must not be empty, and where each is."""
        if isinstance(value, list) and value:
            return [((*at, index), each) for index, each in enumerate(value)]
        self.say(at, f"expected a list of tables, found {shown(value)}")
        return []

    def model(self, at: Location, value: object) -> Model | None:
        """Return the model called *value*."""
        if isinstance(value, str) and value in list(Model):
            return Model(value)
        known = " or ".join(f'"{each}"' for each in Model)
        self.say(at, f"expected {known}, found {shown(value)}")
        return None

    def seed(self, at: Location, value: object) -> int | None:
        """Return *value* when it can be a seed."""
        if type(value) is int and 0 <= value <= LARGEST_SEED:
            return value
        what = f"expected a whole number from 0 to {LARGEST_SEED}"
        self.say(at, f"{what}, found {shown(value)}")
        return None

    def source(self, at: Location, value: object, seed: int) -> Source | None:
        """Return where the load comes from."""
        if not isinstance(value, Mapping):
            self.say(at, f"expected a table of named values, found {shown(value)}")
            return None
        table = dict(value)
        kind = table.pop("kind", None)
        if kind == SYNTHETIC:
            return self._drawn(at, table, seed)
        if not isinstance(kind, str) or kind not in READERS:
            found = "which is missing" if kind is None else f"found {shown(kind)}"
            known = ", ".join(KINDS)
            self.say((*at, "kind"), f"expected one of {known}, {found}")
            return None
        return self._recorded(at, kind, table)

    def _drawn(
        self, at: Location, table: Mapping[str, object], seed: int
    ) -> Synthetic | None:
        found = self._value(Synthetic, at, table, {"seed": seed})
        if found is None:
            return None
        for name, most in (("guests", MOST_GUESTS), ("days", MOST_DAYS)):
            if getattr(found, name) > most:
                value = getattr(found, name)
                self.say((*at, name), f"expected at most {most}, found {value}")
        return found

    def _recorded(
        self, at: Location, kind: str, table: Mapping[str, object]
    ) -> Recorded | None:
        rest = {name: value for name, value in table.items() if name != "path"}
        window = self._value(Window, at, rest)
        path = table.get("path")
        if not isinstance(path, str) or not path:
            found = "which is missing" if path is None else f"found {shown(path)}"
            self.say((*at, "path"), f"expected a file or directory, {found}")
            return None
        try:
            placed = self._folder / Path(path).expanduser()
        except RuntimeError as error:  # ~somebody who does not exist
            self.say((*at, "path"), f"{shown(path)}: {error}")
            return None
        return Recorded(kind=kind, path=placed, window=window or WHOLE)

    def pool(self, at: Location, value: object) -> Pool | None:
        """Return a pool of hosts."""
        return self._value(Pool, at, value)

    def guests(self, at: Location, value: object) -> Guests | None:
        """Return what is said of guests."""
        table = self.table(at, value)
        for name in table:
            if name not in ("apart", "kinds"):
                self.say((*at, name), no_such("field", name, ("apart", "kinds")))
        found = Guests(apart=self._apart((*at, "apart"), table.get("apart", 0)))
        if "kinds" not in table:
            return found
        entries = self.tables((*at, "kinds"), table["kinds"])
        kinds = [self._value(Kind, place, each) for place, each in entries]
        return replace(found, kinds=tuple(kind for kind in kinds if kind is not None))

    def _apart(self, at: Location, value: object) -> int | tuple[tuple[str, ...], ...]:
        if type(value) is int and 0 <= value <= MOST_GUESTS:
            return value
        if isinstance(value, list) and all(_is_group(each) for each in value):
            names = [name for group in value for name in group]
            twice = sorted({name for name in names if names.count(name) > 1})
            for name in twice:
                self.say(at, f"{shown(name)} stands twice; a guest has one group")
            return tuple(tuple(group) for group in value)
        what = "expected a whole number of 0 or more, or lists of two or more names"
        self.say(at, f"{what}, found {shown(value)}")
        return 0

    def behaviour(self, at: Location, value: object) -> Behaviour | None:
        """Return what switching hosts and moving guests takes."""
        return self._value(Behaviour, at, value)

    def limits(self, at: Location, value: object) -> Mapping[str, object]:
        """Return limits that can be; the values as they were given."""
        found = self._value(Limits, at, value)
        return value if found is not None and isinstance(value, Mapping) else {}

    def contender(
        self,
        at: Location,
        value: object,
        *,
        model: Model,
        limits: Mapping[str, object],
        seed: int,
    ) -> Contender | None:
        """Return who is tried."""
        reading = Reading(value, at, model=model, limits=limits, seed=seed)
        self.complaints += reading.complaints
        return reading.contender

    def require_model(
        self, stage: Stage, said: Mapping[str, object], at: Mapping[str, Location]
    ) -> None:
        """Note what the model of CloudSim cannot do.

        Args:
            stage: What is to be run.
            said: The tables of the document.
            at: Where the parts of *stage* are, as far as they are not where their
                name says.
        """
        if stage.model is not Model.CLOUDSIM:
            return
        if not isinstance(stage.source, Recorded) or stage.source.kind != PLANETLAB:
            where = (*at.get("workload", ("workload",)), "kind")
            self.say(where, f'{stage.model} runs "{PLANETLAB}" only')
        elif stage.source.window != WHOLE:
            where = at.get("workload", ("workload",))
            self.say(where, f"{stage.model} runs all of a day")
        if len(stage.pools) != 1 or not stage.pools[0].plain:
            self.say(
                at.get("hosts", ("hosts",)),
                f"{stage.model} has HP ML110 G4 and G5 in turn: give their count only",
            )
        for name in NOT_IN_CLOUDSIM:
            if name in said:
                self.say((name,), f"{stage.model} knows nothing of that")

    def _value(
        self,
        kind: type[T],
        at: Location,
        value: object,
        given: Mapping[str, object] | None = None,
    ) -> T | None:
        table = Table(kind, value, at, given)
        self.complaints += table.complaints
        return table.value


def pools_or_usual(pools: list[Pool | None]) -> tuple[Pool, ...]:
    """Return *pools* as far as they could be read; the usual ones without any."""
    return tuple(pool for pool in pools if pool is not None) or USUAL


def _is_group(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(name, str) for name in value)
    )
