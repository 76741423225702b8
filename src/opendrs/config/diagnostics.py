"""Diagnostics: what is wrong in a file, at which path, and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from opendrs.errors import ConfigurationError
from opendrs.escapes import MAX_VALUE_LENGTH, repr_value
from opendrs.model import QuantityError

KeyPath = tuple[str | int, ...]
MAX_LISTED = 10
MAX_COUNTED = 900  # beyond those that are shown
_PLAIN_KEY_CHARACTERS = "_-:@"

_EXPECTED: Mapping[str, str] = {
    "float_type": "a number",
    "finite_number": "a finite number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "string_type": "a text",
    "string_unicode": "a text in Unicode",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a table of named values",
    "mapping_type": "a table of named values",
    "dataclass_type": "a table of named values",
    "model_attributes_type": "a table of named values",
    "string_too_short": "a name that is not empty",
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
    "too_short": "at least {min_length}",
    "enum": "{expected}",
    "literal_error": "{expected}",
    "union_tag_invalid": "{expected_tags}",
}


class Severity(StrEnum):
    """How much is wrong."""

    ERROR = "error"  # it cannot be, or cannot be used
    WARNING = "warning"  # it can be, and is improbable


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One thing that is wrong, or improbable.

    Attributes:
        path: The keys and positions that lead to it from the top.
        message: What was expected and what was found.
        unknown_name: A name that is not known; None where there is none to guess at.
        known_names: The names it may be meant to be.
        severity: Whether what it is about can be used.
        subpath: The field below *path* that the message itself names.
    """

    path: KeyPath
    message: str
    unknown_name: str | None = None
    known_names: Collection[str] = field(default=(), compare=False, repr=False)
    severity: Severity = Severity.ERROR
    subpath: KeyPath = ()

    @property
    def text(self) -> str:
        """What it says, without the place."""
        # Guessing takes a while, and of a thousand complaints ten are shown.
        hint = (
            ""
            if self.unknown_name is None
            else suggestion(self.unknown_name, self.known_names)
        )
        return self.message + hint

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.text}" if self.path else self.text


def raise_diagnostics(
    source: str,
    diagnostics: Iterable[Diagnostic],
    error_type: type[ConfigurationError] = ConfigurationError,
) -> None:
    """Raise *error_type* with the first few of *diagnostics*, if there are any."""
    remaining = iter(diagnostics)
    lines = [f"{source}: {diagnostic}" for diagnostic in islice(remaining, MAX_LISTED)]
    further = sum(1 for _ in islice(remaining, MAX_COUNTED))
    if further:
        more = f"at least {further}" if further == MAX_COUNTED else f"{further}"
        lines.append(f"{source}: and {more} more")
    if lines:
        raise error_type(*lines)


def path_text(path: KeyPath) -> str:
    """Return *path* as in `rules[0].guests`; odd keys are quoted."""
    text = "".join(_part_text(part) for part in path)
    return text.removeprefix(".")


def _part_text(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if part and all(
        character.isalnum() or character in _PLAIN_KEY_CHARACTERS for character in part
    ):
        return f".{part}"[: MAX_VALUE_LENGTH * 2]
    return f".{repr_value(part)}"


def describe_type(value: object) -> str:
    """Return what *value* is, and not its value, which may be a secret."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, bool):
        return "true or false"
    return "a number" if isinstance(value, int | float) else "something else"


def suggestion(name: str, known_names: Iterable[str]) -> str:
    """Return a guess at what *name* was meant to be, to end a sentence with."""
    others = [known for known in known_names if known != name]
    matches = difflib.get_close_matches(name[:MAX_VALUE_LENGTH], others, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def pydantic_diagnostics(
    error: ValidationError,
    prefix: KeyPath = (),
    known_keys: Iterable[str] = (),
    describe: Callable[[object], str] = repr_value,
) -> Iterator[Diagnostic]:
    """Yield what pydantic found, in the words of this project.

    Args:
        error: What pydantic found.
        prefix: What leads to the value that was checked.
        known_keys: The keys there are, to guess at what a misspelt one meant.
        describe: Returns what is told of a value that was found.
    """
    names = tuple(known_keys)
    for detail in error.errors(include_url=False):
        path = _without_tags((*prefix, *detail["loc"]))
        if detail["type"].startswith("union_tag"):
            path = (*path, "kind")
        yield Diagnostic(path, _message(detail, path, names, describe))


def _without_tags(path: KeyPath) -> KeyPath:
    """Return *path* without what pydantic adds: kinds of rules, and "[key]"."""
    return tuple(
        part
        for index, part in enumerate(path)
        if part != "[key]"
        and not (
            index > 1
            and path[index - 2] == "rules"
            and isinstance(path[index - 1], int)
        )
    )


def _message(
    error: ErrorDetails,
    path: KeyPath,
    known_keys: Iterable[str],
    describe: Callable[[object], str],
) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"no such field{suggestion(str(path[-1]), known_keys)}"
    if kind in ("missing", "union_tag_not_found"):
        return "is missing"
    if kind == "value_error" and isinstance(context["error"], QuantityError):
        return f"expected {context['error']}, found {describe(error['input'])}"
    if kind == "value_error":
        return str(context["error"])
    template = _EXPECTED.get(kind)
    expected = f"expected {template.format(**context)}" if template else error["msg"]
    return f"{expected}, found {describe(context.get('tag', error['input']))}"
