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
    DiagnosticCode,
    KeyPath,
    describe_type,
    pydantic_diagnostics,
    suggestion,
)
from opendrs.errors import ConfigurationError
from opendrs.escapes import repr_value

T = TypeVar("T")
_WORD = re.compile(r"\w+")
_FIELD = re.compile(r"(\w+)(: )?")
_EMPTY = ('""', "{}", "[]", "0")  # in JSON


class TableBinder(Generic[T]):
    """Binding of a table to the frozen dataclass *target_type*.

    Attributes:
        diagnostics: All errors in the table.
        value: The dataclass; None if there are errors.
        partial_value: The dataclass with defaults in place of invalid values; None if
            a value without default is invalid or missing.
    """

    def __init__(
        self,
        target_type: type[T],
        table: object,
        path: KeyPath = (),
        preset: Mapping[str, object] | None = None,
        format_value: Callable[[object], str] = repr_value,
    ) -> None:
        """Validate *table* and build the dataclass.

        Args:
            target_type: The dataclass; its fields are the settings. The value of a
                field that `repr` omits is a secret and is in no error. Its attribute
                `replaced`, if it has one, names the settings that replace former ones.
            table: Values by name, as parsed from TOML or JSON.
            path: Path of the table in its file.
            preset: Values of fields that the operator cannot set.
            format_value: Function that returns the description of an invalid value.
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
            message = f"expected a table, got {self._format_value(table)}"
            yield Diagnostic(self._path, message, code=DiagnosticCode.WRONG_TYPE)
            return
        diagnostics = [*self._check_names(table), *self._check_values(table)]
        diagnostics += self._build({self._field_of(each) for each in diagnostics})
        self.value = None if diagnostics else self.partial_value
        yield from diagnostics

    def _field_of(self, diagnostic: Diagnostic) -> str:
        """Return the field that *diagnostic* refers to; empty if none."""
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
        replaced: Mapping[str, str] = getattr(self._target_type, "replaced", {})
        for name in table:
            if name not in known:
                message = (
                    f"replaced by {replaced[name]}; remove it here"
                    if name in replaced
                    else unknown_name("setting", name, known)
                )
                path = (*self._path, name)
                yield Diagnostic(path, message, code=DiagnosticCode.UNKNOWN_KEY)
        for name, field in known.items():
            if _required(field) and name not in table:
                path = (*self._path, name)
                yield Diagnostic(path, "is missing", code=DiagnosticCode.MISSING_KEY)

    def _check_values(self, table: Mapping[str, object]) -> Iterator[Diagnostic]:
        hints = get_type_hints(self._target_type, include_extras=True)
        for name in self._settable_fields():
            if name in table:
                yield from self._check_value(name, hints[name], table[name])

    def _check_value(
        self, name: str, hint: object, value: object
    ) -> Iterator[Diagnostic]:
        at = (*self._path, name)
        is_secret = not self._settable_fields()[name].repr
        describe = describe_type if is_secret else self._format_value
        try:
            # Strict validation of JSON accepts lists and strings for tuples, enums
            # and paths, which strict validation of Python values rejects.
            text = json.dumps(value, default=str)
            adapter = TypeAdapter[object](hint)  # type: ignore[arg-type]
            self._values[name] = adapter.validate_json(text, strict=True)
        except ValidationError as error:
            yield from pydantic_diagnostics(error, at, describe=describe)
        except ValueError:
            message = f"cannot be {describe(value)}"
            yield Diagnostic(at, message, code=DiagnosticCode.INVALID_VALUE)

    def _build(self, invalid: set[str]) -> Iterator[Diagnostic]:
        """Build the dataclass, and yield errors in values of the right type.

        A dataclass may raise at its first invalid field. It is therefore built again
        without the fields in its errors, until it reports no further field.

        Args:
            invalid: Fields that are already known as invalid or missing.
        """
        while True:
            omitted = invalid & self._settable_fields().keys()
            values = {k: v for k, v in self._values.items() if k not in omitted}
            placeholders = self._placeholders(omitted)
            try:
                built = self._target_type(**placeholders, **values, **self._preset)
            except ConfigurationError as error:
                problems = tuple(zip(error.messages, error.codes, strict=True))
            except (TypeError, ValueError) as error:  # TypeError: no placeholder fits
                if isinstance(error, TypeError) and not omitted:
                    raise
                problems = (
                    ()
                    if isinstance(error, TypeError)
                    else ((str(error), DiagnosticCode.INVALID_VALUE),)
                )
            else:
                self.partial_value = None if placeholders else built
                return
            diagnostics = [
                self._diagnostic(line, code)
                for line, code in problems
                if not invalid.intersection(_WORD.findall(line))
            ]
            yield from diagnostics
            further = {self._field_of(each) for each in diagnostics} - invalid - {""}
            if not further:
                return
            invalid = invalid | further

    def _placeholders(self, names: set[str]) -> dict[str, object]:
        """Return empty values for the fields in *names* that have no default."""
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

    def _diagnostic(self, line: str, code: DiagnosticCode) -> Diagnostic:
        """Return *line* as a diagnostic; most lines start with a field name."""
        match = _FIELD.match(line)
        name = "" if match is None else match[1]
        # A dataclass rejects a number of the right type because of its range.
        is_number = type(self._values.get(name)) in (int, float)
        if is_number and code is DiagnosticCode.INVALID_VALUE:
            code = DiagnosticCode.OUT_OF_RANGE
        if match is None or name not in self._settable_fields():
            return Diagnostic(self._path, line, code=code)
        if match[2] is None:  # a sentence that begins with the field
            return Diagnostic(self._path, line, subpath=(name,), code=code)
        return Diagnostic((*self._path, name), line[match.end() :], code=code)


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def unknown_name(noun: str, name: str, known: Collection[str]) -> str:
    """Return the message for an unknown *name*, with the known names."""
    available = ", ".join(sorted(known)) or "none"
    return f"unknown {noun}{suggestion(name, known)} (known: {available})"
