"""From a table of named values to the frozen dataclass it describes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from opendrs.errors import ConfigurationError
from opendrs.platforms.file import Complaint, Location, shown, suggestion, translated

T = TypeVar("T")
_WORD = re.compile(r"\w+")
_EMPTY = ('""', "{}", "[]", "0")  # in JSON


class Table(Generic[T]):
    """A table that is to become a value of the frozen dataclass *kind*.

    Attributes:
        complaints: Everything that is wrong with it.
        value: What it describes; None when something is wrong.
        usable: What it describes, with defaults for wrong values; None when a value
            without default is wrong or missing.
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
        self.usable: T | None = None
        self.complaints = tuple(self._check(table))

    def _check(self, table: object) -> Iterator[Complaint]:
        if not isinstance(table, Mapping):
            yield Complaint(self._at, f"expected a table, found {self._show(table)}")
            return
        complaints = [*self._check_names(table), *self._check_values(table)]
        complaints += self._build({self._field(each) for each in complaints})
        self.value = None if complaints else self.usable
        yield from complaints

    def _field(self, complaint: Complaint) -> str:
        """Return the field that *complaint* is about; empty when it is none."""
        path = (*complaint.at, *complaint.within)[len(self._at) :]
        return str(path[0]) if path else ""

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
            if _required(field) and name not in table:
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

    def _build(self, wrong: set[str]) -> Iterator[Complaint]:
        """Build the value, and yield what is wrong with values of the right type.

        A dataclass may raise at its first wrong field. So it is built again without
        the fields that it complains about, until it complains about no further one.

        Args:
            wrong: Fields that are wrong already, or missing.
        """
        while True:
            left_out = wrong & self._settable().keys()
            values = {k: v for k, v in self._values.items() if k not in left_out}
            substitutes = self._substitutes(left_out)
            try:
                built = self._kind(**substitutes, **values, **self._given)
            except ConfigurationError as error:
                lines = error.complaints
            except (TypeError, ValueError) as error:  # TypeError: no substitute fits
                if isinstance(error, TypeError) and not left_out:
                    raise
                lines = () if isinstance(error, TypeError) else (str(error),)
            else:
                self.usable = None if substitutes else built
                return
            found = [
                self._about(line)
                for line in lines
                if not wrong.intersection(_WORD.findall(line))
            ]
            yield from found
            further = {self._field(each) for each in found} - wrong - {""}
            if not further:
                return
            wrong = wrong | further

    def _substitutes(self, names: set[str]) -> dict[str, object]:
        """Return empty values for those fields *names* that have no default."""
        hints = get_type_hints(self._kind, include_extras=True)
        found = {}
        for name in names:
            if _required(self._settable()[name]):
                adapter = TypeAdapter[object](hints[name])
                for text in _EMPTY:
                    with suppress(ValidationError):
                        found[name] = adapter.validate_json(text, strict=True)
                        break
        return found

    def _about(self, line: str) -> Complaint:
        """Return the complaint *line*; most begin with the field they are about."""
        found = _WORD.match(line)
        name = "" if found is None else found[0]
        within = (name,) if name in self._settable() else ()
        return Complaint(self._at, line, within=within)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def no_such(what: str, name: str, known: Collection[str]) -> str:
    """Return that there is no *what* called *name*, with what there is."""
    there_is = ", ".join(sorted(known)) or "none"
    return f"no such {what}{suggestion(name, known)} (there is: {there_is})"
