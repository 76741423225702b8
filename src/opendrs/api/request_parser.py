"""Parser of request bodies that stops at the first few invalid values.

A JSON library builds all values before anything can be checked, and a validator builds
an error for each invalid one: 4 MiB of `{},` become gigabytes. This parser checks
counts and nesting before it builds values, one history at a time. The values have the
types of `RequestBody`, which remains the only definition of a valid request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import ConfigDict, FailFast, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from opendrs.api.schema.common import FieldError, json_pointer
from opendrs.config import KeyPath, path_text
from opendrs.config.api_schema import (
    MAX_GUESTS,
    MAX_SAMPLES,
    MAX_TOTAL_SAMPLES,
    History,
    Name,
    RequestBody,
    UsageSamples,
)

MAX_PROBLEMS = 5  # in one response
MAX_NUMBER_LENGTH = 64  # characters of one number, and the white space around it
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_SPACE = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\[\]{}",: \t\n\r]++')
_NUMBERS = re.compile(rb'\[[^\[\]{}":]*+\]')
# Parsed by methods of their own.
_SEPARATE_FIELDS = ("samples", "evict", "guests", "host_overhead")

ValueT = TypeVar("ValueT")
_NAME: TypeAdapter[str] = TypeAdapter(Name, config=_STRICT)
_HISTORY: TypeAdapter[list[float]] = TypeAdapter(
    Annotated[History, FailFast()], config=_STRICT
)


class InvalidBodyError(ValueError):
    """Error: a body is not a request; the text names fields, without their values.

    Attributes:
        errors: The first few invalid places.
    """

    def __init__(self, summary: str, errors: Sequence[FieldError]) -> None:
        super().__init__(summary)
        self.errors = tuple(errors)


class _ParsingStoppedError(Exception):
    """Signal: enough problems are known to reject the body."""


def parse_request(body: bytes | bytearray, mask: Callable[[str], str]) -> RequestBody:
    """Return the request in *body*, as JSON in UTF-8.

    Args:
        body: The received bytes.
        mask: Function that masks secrets; applied to the names in problems.

    Raises:
        InvalidBodyError: The body is not a request; with the first few problems.
    """
    parser = _RequestParser(body, mask)
    try:
        return parser.request()
    except _ParsingStoppedError:
        raise InvalidBodyError(parser.summary(), parser.errors()) from None


@cache
def _adapters(model: type[RequestBody | UsageSamples]) -> dict[str, TypeAdapter[Any]]:
    """Return a validator for each field of *model* that has a single value."""
    return {
        name: TypeAdapter(_annotated_type(field), config=_STRICT)
        for name, field in model.model_fields.items()
        if name not in _SEPARATE_FIELDS
    }


def _annotated_type(field: FieldInfo) -> Any:  # noqa: ANN401 - a type expression
    return Annotated[field.annotation, field]


class _RequestParser:
    """A position in a body, with the problems found before it."""

    def __init__(self, body: bytes | bytearray, mask: Callable[[str], str]) -> None:
        self._body = body
        self._mask = mask
        self._position = 0
        self._samples_left = MAX_TOTAL_SAMPLES
        self._problems: list[tuple[KeyPath, str]] = []

    def summary(self) -> str:
        """Return the problems on one line."""
        rest = ["there may be more"][: len(self._problems) >= MAX_PROBLEMS]
        problems = [
            f"{path_text(path)}: {message}" if path else message
            for path, message in self._problems
        ]
        return "; ".join([*problems, *rest])

    def errors(self) -> list[FieldError]:
        """Return the invalid places."""
        return [
            FieldError(pointer=json_pointer(path), detail=message)
            for path, message in self._problems
        ]

    def request(self) -> RequestBody:
        """Return the whole body as a request."""
        values = self._object((), RequestBody)
        if self._next():
            self._stop((), "expected nothing after the request")
        if self._problems:
            raise _ParsingStoppedError
        try:
            return RequestBody(**values)  # checks relations between fields
        except ValidationError as error:
            self._add_errors((), error)
            raise _ParsingStoppedError from None

    def _object(
        self, path: KeyPath, model: type[RequestBody | UsageSamples]
    ) -> dict[str, Any]:
        """Return the values of an object with the fields of *model*."""
        values: dict[str, Any] = {}
        adapters = _adapters(model)
        for name in self._members(path, len(model.model_fields) + MAX_PROBLEMS):
            at = (*path, name)
            if name in adapters:
                values[name] = self._scalar(at, adapters[name])
            elif name not in model.model_fields:
                self._add_problem(at, "Extra inputs are not permitted")
                self._skip_value(at)
            elif name == "samples":
                values[name] = self._samples(at)
            elif name == "guests":
                values[name] = {
                    guest: self._history((*at, guest))
                    for guest in self._members(at, MAX_GUESTS)
                }
            elif name == "host_overhead":
                values[name] = self._history(at)
            else:
                values[name] = list(self._names(at, MAX_GUESTS))
        for name, field in model.model_fields.items():
            if field.is_required() and name not in values:
                self._add_problem((*path, name), "Field required")
        return values

    def _samples(self, path: KeyPath) -> UsageSamples | None:
        values = self._object(path, UsageSamples)
        if self._problems:
            return None
        return UsageSamples(**values)

    def _members(self, path: KeyPath, limit: int) -> Iterator[str]:
        """Yield each name of an object; its value is read before the next one."""
        self._expect(b"{", path, "an object")
        names: set[str] = set()
        while names or self._next() != b"}":
            name = self._string(path)
            at = (*path, name)
            if name in names:
                self._stop(at, "expected each name only once")
            names.add(name)
            if len(names) > limit:
                self._stop(path, f"expected at most {limit} names")
            self._expect(b":", at, "a value")
            yield name
            if self._next() != b",":
                break
            self._position += 1
        self._expect(b"}", path, "the end of the object")

    def _names(self, path: KeyPath, limit: int) -> Iterator[str]:
        """Yield each string of a list."""
        self._expect(b"[", path, "a list")
        for number in range(limit + 1):
            if not number and self._next() == b"]":
                break
            if number == limit:
                self._stop(path, f"expected at most {limit} names")
            yield self._string((*path, number))
            if self._next() != b",":
                break
            self._position += 1
        self._expect(b"]", path, "the end of the list")

    def _history(self, path: KeyPath) -> list[float]:
        """Return a list of numbers; check their count before building any."""
        self._next()
        start, end = self._span(_NUMBERS, path, "a list of numbers")
        count = self._body.count(b",", start, end) + 1
        self._samples_left -= count
        if count > MAX_SAMPLES:
            self._stop(path, f"expected at most {MAX_SAMPLES} samples")
        if self._samples_left < 0:
            limit = f"expected at most {MAX_TOTAL_SAMPLES} samples in all"
            self._stop(path[:1], limit)
        if end - start > (count + 1) * MAX_NUMBER_LENGTH:
            self._stop(
                path, f"expected numbers of up to {MAX_NUMBER_LENGTH} characters"
            )
        return self._validated(self._body[start:end], path, _HISTORY) or []

    def _string(self, path: KeyPath) -> str:
        self._next()
        start, end = self._span(_STRING, path, "a string")
        name = self._validated(self._body[start:end], path, _NAME)
        if name is None:  # the problems of a value without a name cannot be located
            raise _ParsingStoppedError
        return name

    def _scalar(self, path: KeyPath, adapter: TypeAdapter[Any]) -> object:
        """Return a single value, or None if it is invalid."""
        pattern = _STRING if self._next() == b'"' else _SCALAR
        start, end = self._span(pattern, path, "a single value")
        if pattern is _SCALAR and end - start > MAX_NUMBER_LENGTH:
            self._stop(
                path, f"expected a number of up to {MAX_NUMBER_LENGTH} characters"
            )
        return self._validated(self._body[start:end], path, adapter)

    def _skip_value(self, path: KeyPath) -> None:
        """Skip a single value; stop at a list or an object."""
        if self._next() in (b"{", b"["):
            raise _ParsingStoppedError
        pattern = _STRING if self._next() == b'"' else _SCALAR
        self._span(pattern, path, "a value")

    def _validated(
        self, text: bytes | bytearray, path: KeyPath, adapter: TypeAdapter[ValueT]
    ) -> ValueT | None:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            self._add_errors(path, error)
            return None

    def _next(self) -> bytes:
        """Skip white space; return the character that follows, empty at the end."""
        match = _SPACE.match(self._body, self._position)
        assert match is not None  # noqa: S101 - the pattern also matches nothing
        self._position = match.end()
        return bytes(self._body[self._position : self._position + 1])

    def _expect(self, mark: bytes, path: KeyPath, expected: str) -> None:
        if self._next() != mark:
            self._stop(path, f"expected {expected}")
        self._position += 1

    def _span(
        self, pattern: re.Pattern[bytes], path: KeyPath, expected: str
    ) -> tuple[int, int]:
        """Skip a match of *pattern*; return its start and end."""
        match = pattern.match(self._body, self._position)
        if match is None:
            self._stop(path, f"expected {expected}")
        self._position = match.end()
        return match.span()

    def _add_errors(self, path: KeyPath, error: ValidationError) -> None:
        """Add the errors of pydantic, without the values."""
        errors = error.errors(
            include_url=False, include_input=False, include_context=False
        )
        for each in errors:
            # Line and column refer to a part of the body only.
            invalid = each["type"] == "json_invalid"
            message = "Invalid JSON" if invalid else each["msg"]
            self._add_problem((*path, *each["loc"]), message)

    def _add_problem(self, path: KeyPath, message: str) -> None:
        # Names are masked before long ones are shortened.
        where = tuple(
            self._mask(part) if isinstance(part, str) else part for part in path
        )
        self._problems.append((where, message))
        if len(self._problems) >= MAX_PROBLEMS:
            raise _ParsingStoppedError

    def _stop(self, path: KeyPath, message: str) -> NoReturn:
        """Add a problem after which the rest cannot be parsed."""
        self._add_problem(path, message)
        raise _ParsingStoppedError
