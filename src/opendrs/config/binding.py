"""Bind a table of named values to a frozen dataclass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, fields
from typing import Any, Generic, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError

from opendrs.config.diagnostics import (
    Diagnostic,
    KeyPath,
    pydantic_diagnostics,
    suggestion,
)
from opendrs.errors import ConfigurationError
from opendrs.escapes import repr_value

T = TypeVar("T")
_WORD = re.compile(r"\w+")
_EMPTY = ('""', "{}", "[]", "0")  # in JSON


class TableBinder(Generic[T]):
    """A table that is to become a value of the frozen dataclass *target_type*.

    Attributes:
        diagnostics: Everything that is wrong with it.
        value: What it describes; None when something is wrong.
        partial_value: What it describes, with defaults for wrong values; None when a value
            without default is wrong or missing.
    """

    def __init__(
        self,
        target_type: type[T],
        table: object,
        path: KeyPath = (),
        preset: Mapping[str, object] | None = None,
        format_value: Callable[[object], str] = repr_value,
    ) -> None:
        """Check *table*.

        Args:
            target_type: What it is to become; its fields are the settings.
            table: The values by name, as parsed from TOML or JSON.
            path: Where the table is in its file.
            preset: Fields that are set already, and not by the operator.
            format_value: Returns what is told of a value that was found.
        """
        self._target_type = target_type
        self._path = path
        self._preset = dict(preset or {})
        self._format_value = format_value
        self._values: dict[str, object] = {}
        self.value: T | None = None
        self.partial_value: T | None = None
        self.diagnostics = tuple(self._check(table))

    def _check(self, table: object) -> Iterator[Diagnostic]:
        if not isinstance(table, Mapping):
            yield Diagnostic(
                self._path, f"expected a table, found {self._format_value(table)}"
            )
            return
        diagnostics = [*self._check_names(table), *self._check_values(table)]
        diagnostics += self._build({self._field_of(each) for each in diagnostics})
        self.value = None if diagnostics else self.partial_value
        yield from diagnostics

    def _field_of(self, diagnostic: Diagnostic) -> str:
        """Return the field that *diagnostic* is about; empty when it is none."""
        path = (*diagnostic.path, *diagnostic.subpath)[len(self._path) :]
        return str(path[0]) if path else ""

    def _settable_fields(self) -> dict[str, Field[Any]]:
        return {
            field.name: field
            for field in fields(self._target_type)  # type: ignore[arg-type]
            if field.init and field.name not in self._preset
        }

    def _check_names(self, table: Mapping[str, object]) -> Iterator[Diagnostic]:
        known = self._settable_fields()
        for name in table:
            if name not in known:
                yield Diagnostic(
                    (*self._path, name), unknown_name("setting", name, known)
                )
        for name, field in known.items():
            if _required(field) and name not in table:
                yield Diagnostic((*self._path, name), "is missing")

    def _check_values(self, table: Mapping[str, object]) -> Iterator[Diagnostic]:
        hints = get_type_hints(self._target_type, include_extras=True)
        for name in self._settable_fields():
            if name in table:
                yield from self._check_value(name, hints[name], table[name])

    def _check_value(
        self, name: str, hint: object, value: object
    ) -> Iterator[Diagnostic]:
        at = (*self._path, name)
        try:
            # JSON has lists and texts where a dataclass has tuples, enums and
            # paths, and pydantic takes them strictly but for that.
            text = json.dumps(value, default=str)
            adapter = TypeAdapter[object](hint)  # type: ignore[arg-type]
            self._values[name] = adapter.validate_json(text, strict=True)
        except ValidationError as error:
            yield from pydantic_diagnostics(error, at, describe=self._format_value)
        except ValueError:
            yield Diagnostic(at, f"cannot be {self._format_value(value)}")

    def _build(self, invalid: set[str]) -> Iterator[Diagnostic]:
        """Build the value, and yield what is wrong with values of the right type.

        A dataclass may raise at its first wrong field. So it is built again without
        the fields that it complains about, until it complains about no further one.

        Args:
            invalid: Fields that are wrong already, or missing.
        """
        while True:
            omitted = invalid & self._settable_fields().keys()
            values = {k: v for k, v in self._values.items() if k not in omitted}
            placeholders = self._placeholders(omitted)
            try:
                built = self._target_type(**placeholders, **values, **self._preset)
            except ConfigurationError as error:
                lines = error.messages
            except (TypeError, ValueError) as error:  # TypeError: no substitute fits
                if isinstance(error, TypeError) and not omitted:
                    raise
                lines = () if isinstance(error, TypeError) else (str(error),)
            else:
                self.partial_value = None if placeholders else built
                return
            diagnostics = [
                self._diagnostic(line)
                for line in lines
                if not invalid.intersection(_WORD.findall(line))
            ]
            yield from diagnostics
            further = {self._field_of(each) for each in diagnostics} - invalid - {""}
            if not further:
                return
            invalid = invalid | further

    def _placeholders(self, names: set[str]) -> dict[str, object]:
        """Return empty values for those fields *names* that have no default."""
        hints = get_type_hints(self._target_type, include_extras=True)
        values = {}
        for name in names:
            if _required(self._settable_fields()[name]):
                adapter = TypeAdapter[object](hints[name])
                for text in _EMPTY:
                    with suppress(ValidationError):
                        values[name] = adapter.validate_json(text, strict=True)
                        break
        return values

    def _diagnostic(self, line: str) -> Diagnostic:
        """Return the complaint *line*; most begin with the field they are about."""
        match = _WORD.match(line)
        name = "" if match is None else match[0]
        within = (name,) if name in self._settable_fields() else ()
        return Diagnostic(self._path, line, subpath=within)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def unknown_name(noun: str, name: str, known: Collection[str]) -> str:
    """Return that there is no *noun* called *name*, with what there is."""
    available = ", ".join(sorted(known)) or "none"
    return f"no such {noun}{suggestion(name, known)} (there is: {available})"
