"""The reading of fields and tables in which lists are alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from opendrs.platforms.file import Location
from opendrs.sim.consolidation.scenario.parts import Parts
from opendrs.sim.consolidation.sweep.alternatives import alternatives

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A part of a run.

    Attributes:
        value: The part.
        at: Where it is in the file.
        chosen: What was chosen for it where there was a choice, by name.
    """

    value: T
    at: Location
    chosen: Mapping[str, object] = field(default_factory=dict)


class Spread(Parts):
    """The reading of a document in which lists are alternatives."""

    def values(
        self, name: str, value: object, read: Callable[[Location, object], T | None]
    ) -> list[Part[T]]:
        """Return every value of a field that holds one value or a list of them."""
        if not (isinstance(value, list) and value):
            found = read((name,), value)
            return [] if found is None else [Part(found, (name,))]
        several = len(value) > 1
        return [
            Part(found, (name, index), {name: each} if several else {})
            for index, each in enumerate(value)
            if (found := read((name, index), each)) is not None
        ]

    def spread(
        self,
        at: Location,
        value: object,
        read: Callable[[Location, object], T | None],
        nested: Sequence[str] = (),
    ) -> list[Part[T]]:
        """Return every alternative of a table, read."""
        return list(self._alternatives(at, value, read, nested))

    def _alternatives(
        self,
        at: Location,
        value: object,
        read: Callable[[Location, object], T | None],
        nested: Sequence[str],
    ) -> Iterator[Part[T]]:
        for each in alternatives(value, nested):
            before = len(self.complaints)
            found = read(at, each.table)
            self.complaints[before:] = [
                each.pointed(complaint, at) for complaint in self.complaints[before:]
            ]
            if found is not None:
                chosen = {_named(at, name): each.chosen[name] for name in each.chosen}
                yield Part(found, at, chosen)


def _named(at: Location, name: str) -> str:
    """Return the name of what was chosen in a table that stands alone at its place."""
    return f"{at[0]}.{name}" if len(at) == 1 else name
