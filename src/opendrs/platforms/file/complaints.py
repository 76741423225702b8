"""What is wrong with a document, where, and what was expected instead."""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from opendrs.errors import ConfigurationError
from opendrs.escapes import escaped_line
from opendrs.model.quantities import QuantityError

Location = tuple[str | int, ...]

MOST_SHOWN = 10
MOST_COUNTED = 900  # beyond those that are shown
_LONGEST_VALUE = 40
_PLAIN_KEY_MARKS = "_-:@"

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
class Complaint:
    """One thing that is wrong, or improbable.

    Attributes:
        at: The keys and positions that lead to it from the top.
        message: What was expected and what was found.
        word: A name that is not known; None where there is none to guess at.
        known: The names it may be meant to be.
        severity: Whether what it is about can be used.
        within: The field below *at* that the message itself names.
    """

    at: Location
    message: str
    word: str | None = None
    known: Collection[str] = field(default=(), compare=False, repr=False)
    severity: Severity = Severity.ERROR
    within: Location = ()

    @property
    def text(self) -> str:
        """What it says, without the place."""
        # Guessing takes a while, and of a thousand complaints ten are shown.
        guess = "" if self.word is None else suggestion(self.word, self.known)
        return self.message + guess

    def __str__(self) -> str:
        return f"{dotted(self.at)}: {self.text}" if self.at else self.text


def complain(
    source: str,
    complaints: Iterable[Complaint],
    kind: type[ConfigurationError] = ConfigurationError,
) -> None:
    """Raise *kind* with the first few of *complaints*, if there are any."""
    every = iter(complaints)
    lines = [f"{source}: {complaint}" for complaint in islice(every, MOST_SHOWN)]
    rest = sum(1 for _ in islice(every, MOST_COUNTED))
    if rest:
        more = f"at least {rest}" if rest == MOST_COUNTED else f"{rest}"
        lines.append(f"{source}: and {more} more")
    if lines:
        raise kind(*lines)


def dotted(at: Location) -> str:
    """Return *at* as in `rules[0].guests`; odd keys are quoted."""
    text = "".join(_part(part) for part in at)
    return text.removeprefix(".")


def _part(part: str | int) -> str:
    if isinstance(part, int):
        return f"[{part}]"
    if part and all(mark.isalnum() or mark in _PLAIN_KEY_MARKS for mark in part):
        return f".{part}"[: _LONGEST_VALUE * 2]
    return f".{shown(part)}"


def shown(value: object) -> str:
    """Return *value* on one line, as JSON, cut when it is long."""
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, list) and len(value) > 3:
        return f"a list of {len(value)}"
    if isinstance(value, str):
        value = value[: 2 * _LONGEST_VALUE]  # to escape megabytes takes seconds
    try:
        text = escaped_line(json.dumps(value, default=str, ensure_ascii=False))
    except ValueError:  # more digits than Python writes
        return "a huge number"
    if len(text) > _LONGEST_VALUE:
        return f"{text[:_LONGEST_VALUE]}..."
    return text


def kind_of(value: object) -> str:
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


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a guess at what *word* was meant to be, to end a sentence with."""
    others = [name for name in known if name != word]
    close = difflib.get_close_matches(word[:_LONGEST_VALUE], others, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def translated(
    error: ValidationError,
    before: Location = (),
    known: Iterable[str] = (),
    show: Callable[[object], str] = shown,
) -> Iterator[Complaint]:
    """Yield what pydantic found, in the words of this project.

    Args:
        error: What pydantic found.
        before: What leads to the value that was checked.
        known: The keys there are, to guess at what a misspelt one meant.
        show: Returns what is told of a value that was found.
    """
    names = tuple(known)
    for found in error.errors(include_url=False):
        at = _without_tags((*before, *found["loc"]))
        if found["type"].startswith("union_tag"):
            at = (*at, "kind")
        yield Complaint(at, _message(found, at, names, show))


def _without_tags(at: Location) -> Location:
    """Return *at* without what pydantic adds: kinds of rules, and "[key]"."""
    return tuple(
        part
        for index, part in enumerate(at)
        if part != "[key]"
        and not (
            index > 1 and at[index - 2] == "rules" and isinstance(at[index - 1], int)
        )
    )


def _message(
    found: ErrorDetails,
    at: Location,
    known: Iterable[str],
    show: Callable[[object], str],
) -> str:
    kind, context = found["type"], found.get("ctx", {})
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return f"no such field{suggestion(str(at[-1]), known)}"
    if kind in ("missing", "union_tag_not_found"):
        return "is missing"
    if kind == "value_error" and isinstance(context["error"], QuantityError):
        return f"expected {context['error']}, found {show(found['input'])}"
    if kind == "value_error":
        return str(context["error"])
    wanted = _EXPECTED.get(kind)
    expected = f"expected {wanted.format(**context)}" if wanted else found["msg"]
    return f"{expected}, found {show(context.get('tag', found['input']))}"
