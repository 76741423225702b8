"""A request, read from left to right up to the first few values that are wrong.

A JSON library builds all values before anything can be checked, and a validator an
error for each wrong one: 4 MiB of `{},` become gigabytes. Here counts and nesting are
checked before values are built, one history at a time. Values have the types of
`wire.Request`, which remains the only definition of what is valid.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import ConfigDict, FailFast, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from opendrs.controller.requests.wire import (
    MOST_GUESTS,
    MOST_SAMPLES,
    MOST_SAMPLES_IN_ALL,
    History,
    Name,
    Request,
    Samples,
)
from opendrs.platforms.file.complaints import Location, dotted

MOST_PROBLEMS = 5  # that one answer names
LONGEST_NUMBER = 64  # characters of one number, and the white space around it
_STRICT = ConfigDict(strict=True, allow_inf_nan=False)
_SPACE = re.compile(rb"[ \t\n\r]*+")
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(rb'[^\[\]{}",: \t\n\r]++')
_NUMBERS = re.compile(rb'\[[^\[\]{}":]*+\]')
_SEPARATE = ("samples", "leaving", "guests", "own")  # read by methods of their own

ValueT = TypeVar("ValueT")
_NAME: TypeAdapter[str] = TypeAdapter(Name, config=_STRICT)
_HISTORY: TypeAdapter[list[float]] = TypeAdapter(
    Annotated[History, FailFast()], config=_STRICT
)


class BodyError(ValueError):
    """A body that is not a request; the text names the fields, not their values."""


class _StoppedError(Exception):
    """Enough is known to reject the body."""


def read_request(body: bytes | bytearray, mask: Callable[[str], str]) -> Request:
    """Return the request that *body* holds, as JSON in UTF-8.

    Args:
        body: What was received.
        mask: Returns a name without the secrets in it; applied to those in problems.

    Raises:
        BodyError: It holds none; with the first few problems.
    """
    reader = _Reader(body, mask)
    try:
        return reader.request()
    except _StoppedError:
        raise BodyError(reader.summary()) from None


@cache
def _adapters(model: type[Request | Samples]) -> dict[str, TypeAdapter[Any]]:
    """Return how to validate each field of *model* that holds a single value."""
    return {
        name: TypeAdapter(_annotated(field), config=_STRICT)
        for name, field in model.model_fields.items()
        if name not in _SEPARATE
    }


def _annotated(field: FieldInfo) -> Any:  # noqa: ANN401 - a type, which has no type
    return Annotated[field.annotation, field]


class _Reader:
    """A position in a body, and what was wrong before it."""

    def __init__(self, body: bytes | bytearray, mask: Callable[[str], str]) -> None:
        self._body = body
        self._mask = mask
        self._at = 0
        self._samples_left = MOST_SAMPLES_IN_ALL
        self._problems: list[str] = []

    def summary(self) -> str:
        """Return the problems on one line."""
        rest = ["there may be more"][: len(self._problems) >= MOST_PROBLEMS]
        return "; ".join([*self._problems, *rest])

    def request(self) -> Request:
        """Return the whole body as a request."""
        values = self._object((), Request)
        if self._next():
            self._stop((), "expected nothing after the request")
        if self._problems:
            raise _StoppedError
        try:
            return Request(**values)  # checks what concerns several fields
        except ValidationError as error:
            self._note((), error)
            raise _StoppedError from None

    def _object(self, path: Location, model: type[Request | Samples]) -> dict[str, Any]:
        """Return the values of an object with the fields of *model*."""
        values: dict[str, Any] = {}
        adapters = _adapters(model)
        for name in self._members(path, len(model.model_fields) + MOST_PROBLEMS):
            at = (*path, name)
            if name in adapters:
                values[name] = self._scalar(at, adapters[name])
            elif name not in model.model_fields:
                self._add(at, "Extra inputs are not permitted")
                self._pass_over(at)
            elif name == "samples":
                values[name] = self._samples(at)
            elif name == "guests":
                values[name] = {
                    guest: self._history((*at, guest))
                    for guest in self._members(at, MOST_GUESTS)
                }
            elif name == "own":
                values[name] = self._history(at)
            else:
                values[name] = list(self._names(at, MOST_GUESTS))
        for name, field in model.model_fields.items():
            if field.is_required() and name not in values:
                self._add((*path, name), "Field required")
        return values

    def _samples(self, path: Location) -> Samples | None:
        values = self._object(path, Samples)
        if self._problems:
            return None
        return Samples(**values)

    def _members(self, path: Location, most: int) -> Iterator[str]:
        """Yield each name of an object; its value is read before the next one."""
        self._expect(b"{", path, "an object")
        seen: set[str] = set()
        while seen or self._next() != b"}":
            name = self._string(path)
            at = (*path, name)
            if name in seen:
                self._stop(at, "expected each name only once")
            seen.add(name)
            if len(seen) > most:
                self._stop(path, f"expected at most {most} names")
            self._expect(b":", at, "a value")
            yield name
            if self._next() != b",":
                break
            self._at += 1
        self._expect(b"}", path, "the end of the object")

    def _names(self, path: Location, most: int) -> Iterator[str]:
        """Yield each string of a list."""
        self._expect(b"[", path, "a list")
        for number in range(most + 1):
            if not number and self._next() == b"]":
                break
            if number == most:
                self._stop(path, f"expected at most {most} names")
            yield self._string((*path, number))
            if self._next() != b",":
                break
            self._at += 1
        self._expect(b"]", path, "the end of the list")

    def _history(self, path: Location) -> list[float]:
        """Return a list of numbers, none of which is built when there are too many."""
        self._next()
        start, end = self._span(_NUMBERS, path, "a list of numbers")
        count = self._body.count(b",", start, end) + 1
        self._samples_left -= count
        if count > MOST_SAMPLES:
            self._stop(path, f"expected at most {MOST_SAMPLES} samples")
        if self._samples_left < 0:
            most = f"expected at most {MOST_SAMPLES_IN_ALL} samples in all"
            self._stop(path[:1], most)
        if end - start > (count + 1) * LONGEST_NUMBER:
            self._stop(path, f"expected numbers of up to {LONGEST_NUMBER} characters")
        return self._validated(self._body[start:end], path, _HISTORY) or []

    def _string(self, path: Location) -> str:
        self._next()
        start, end = self._span(_STRING, path, "a string")
        name = self._validated(self._body[start:end], path, _NAME)
        if name is None:  # nothing can be said of a value without its name
            raise _StoppedError
        return name

    def _scalar(self, path: Location, adapter: TypeAdapter[Any]) -> object:
        """Return a single value, or None when it is wrong."""
        form = _STRING if self._next() == b'"' else _SCALAR
        start, end = self._span(form, path, "a single value")
        if form is _SCALAR and end - start > LONGEST_NUMBER:
            self._stop(path, f"expected a number of up to {LONGEST_NUMBER} characters")
        return self._validated(self._body[start:end], path, adapter)

    def _pass_over(self, path: Location) -> None:
        """Pass over a single value; a list or an object ends the reading."""
        if self._next() in (b"{", b"["):
            raise _StoppedError
        form = _STRING if self._next() == b'"' else _SCALAR
        self._span(form, path, "a value")

    def _validated(
        self, text: bytes | bytearray, path: Location, adapter: TypeAdapter[ValueT]
    ) -> ValueT | None:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            self._note(path, error)
            return None

    def _next(self) -> bytes:
        """Skip white space; return the character that follows, empty at the end."""
        found = _SPACE.match(self._body, self._at)
        assert found is not None  # noqa: S101 - it matches nothing as well
        self._at = found.end()
        return bytes(self._body[self._at : self._at + 1])

    def _expect(self, mark: bytes, path: Location, what: str) -> None:
        if self._next() != mark:
            self._stop(path, f"expected {what}")
        self._at += 1

    def _span(
        self, form: re.Pattern[bytes], path: Location, what: str
    ) -> tuple[int, int]:
        """Pass over what is of that *form*; return where it begins and ends."""
        found = form.match(self._body, self._at)
        if found is None:
            self._stop(path, f"expected {what}")
        self._at = found.end()
        return found.span()

    def _note(self, path: Location, error: ValidationError) -> None:
        """Add what pydantic found, without the values."""
        found = error.errors(
            include_url=False, include_input=False, include_context=False
        )
        for each in found:
            # Line and column would be of a part of the body.
            invalid = each["type"] == "json_invalid"
            message = "Invalid JSON" if invalid else each["msg"]
            self._add((*path, *each["loc"]), message)

    def _add(self, path: Location, message: str) -> None:
        # Long names are cut, after which no secret could be found in them.
        where = dotted(
            tuple(self._mask(part) if isinstance(part, str) else part for part in path)
        )
        self._problems.append(f"{where}: {message}" if where else message)
        if len(self._problems) >= MOST_PROBLEMS:
            raise _StoppedError

    def _stop(self, path: Location, message: str) -> NoReturn:
        """Add a problem after which the rest cannot be read."""
        self._add(path, message)
        raise _StoppedError
