"""From a table of named values to the frozen dataclass it describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from opendrs.errors import ConfigurationError
from opendrs.platforms.file import Complaint, Location, shown, suggestion, translated

T = TypeVar("T")


class Table(Generic[T]):
    """A table that is to become a value of the frozen dataclass *kind*.

    Attributes:
        complaints: Everything that is wrong with it.
        value: What it describes; None when something is wrong.
    """

    def __init__(
        self,
        kind: type[T],
        table: object,
        at: Location = (),
        given: Mapping[str, object] | None = None,
        show: Callable[[object], str] = shown,
    ) -> None:
        """Check *table*.

        Args:
            kind: What it is to become; its fields are the settings.
            table: The values by name, as parsed from TOML or JSON.
            at: Where the table is in its file.
            given: Fields that are set already, and not by the operator.
            show: Returns what is told of a value that was found.
        """
        self._kind = kind
        self._at = at
        self._given = dict(given or {})
        self._show = show
        self._values: dict[str, object] = {}
        self.value: T | None = None
        self.complaints = tuple(self._check(table))

    def _check(self, table: object) -> Iterator[Complaint]:
        if not isinstance(table, Mapping):
            yield Complaint(self._at, f"expected a table, found {self._show(table)}")
            return
        complaints = [*self._check_names(table), *self._check_values(table)]
        yield from complaints or self._build()

    def _settable(self) -> dict[str, Field[Any]]:
        return {
            field.name: field
            for field in fields(self._kind)  # type: ignore[arg-type]
            if field.init and field.name not in self._given
        }

    def _check_names(self, table: Mapping[str, object]) -> Iterator[Complaint]:
        known = self._settable()
        for name in table:
            if name not in known:
                yield Complaint((*self._at, name), no_such("setting", name, known))
        for name, field in known.items():
            required = field.default is MISSING and field.default_factory is MISSING
            if required and name not in table:
                yield Complaint((*self._at, name), "is missing")

    def _check_values(self, table: Mapping[str, object]) -> Iterator[Complaint]:
        hints = get_type_hints(self._kind, include_extras=True)
        for name in self._settable():
            if name in table:
                yield from self._check_value(name, hints[name], table[name])

    def _check_value(
        self, name: str, hint: object, value: object
    ) -> Iterator[Complaint]:
        at = (*self._at, name)
        try:
            # JSON has lists and texts where a dataclass has tuples, enums and
            # paths, and pydantic takes them strictly but for that.
            text = json.dumps(value, default=str)
            adapter = TypeAdapter[object](hint)  # type: ignore[arg-type]
            self._values[name] = adapter.validate_json(text, strict=True)
        except ValidationError as error:
            yield from translated(error, at, show=self._show)
        except ValueError:
            yield Complaint(at, f"cannot be {self._show(value)}")

    def _build(self) -> Iterator[Complaint]:
        try:
            self.value = self._kind(**self._values, **self._given)
        except ConfigurationError as error:
            yield from (self._about(line) for line in error.complaints)
        except ValueError as error:
            yield self._about(str(error))

    def _about(self, line: str) -> Complaint:
        """Return the complaint *line*; most begin with the field they are about."""
        name = line.partition(" ")[0].rstrip(":")
        within = (name,) if name in self._settable() else ()
        return Complaint(self._at, line, within=within)


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Return that there is no *what* called *name*, with what there is."""
    there_is = ", ".join(sorted(known)) or "none"
    return f"no such {what}{suggestion(name, known)} (there is: {there_is})"
