"""Diagnostics: errors and warnings about a file, with path and expected value."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from itertools import islice
from typing import Self

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from opendrs.errors import ConfigurationError, ModelError
from opendrs.errors import DiagnosticCode as DiagnosticCode
from opendrs.escapes import MAX_VALUE_LENGTH, repr_value
from opendrs.model import QuantityError


class Severity(StrEnum):
    """Severity of a diagnostic."""

    ERROR = "error"
    """The value is impossible or cannot be used."""
    WARNING = "warning"
    """The value is possible but improbable."""


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


_CODES = {
    "missing": DiagnosticCode.MISSING_KEY,
    "union_tag_not_found": DiagnosticCode.MISSING_KEY,
    "extra_forbidden": DiagnosticCode.UNKNOWN_KEY,
    "unexpected_keyword_argument": DiagnosticCode.UNKNOWN_KEY,
    "enum": DiagnosticCode.UNKNOWN_VALUE,
    "literal_error": DiagnosticCode.UNKNOWN_VALUE,
    "union_tag_invalid": DiagnosticCode.UNKNOWN_VALUE,
    "distinct": DiagnosticCode.DUPLICATE_NAME,
    "int_from_float": DiagnosticCode.WRONG_TYPE,
    "string_unicode": DiagnosticCode.WRONG_TYPE,
    "finite_number": DiagnosticCode.OUT_OF_RANGE,
    "greater_than": DiagnosticCode.OUT_OF_RANGE,
    "greater_than_equal": DiagnosticCode.OUT_OF_RANGE,
    "less_than": DiagnosticCode.OUT_OF_RANGE,
    "less_than_equal": DiagnosticCode.OUT_OF_RANGE,
    "too_short": DiagnosticCode.OUT_OF_RANGE,
    "too_long": DiagnosticCode.OUT_OF_RANGE,
    "string_too_short": DiagnosticCode.OUT_OF_RANGE,
    "string_too_long": DiagnosticCode.OUT_OF_RANGE,
}
_TYPE_SUFFIX = "_type"  # of the errors of pydantic about the type of a value


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error or warning about a value in a file.

    Attributes:
        path: Keys and indexes from the top of the document to the value.
        message: Expected and found value.
        code: Code of the diagnostic, for programs.
        unknown_name: Unknown name for which a suggestion is appended; None for none.
        known_names: Candidates for the suggestion.
        severity: Error or warning.
        subpath: Field below *path* that the message itself names.
    """

    path: KeyPath
    message: str
    _: KW_ONLY
    code: DiagnosticCode
    unknown_name: str | None = None
    known_names: Collection[str] = field(default=(), compare=False, repr=False)
    severity: Severity = Severity.ERROR
    subpath: KeyPath = ()

    @classmethod
    def warning(cls, path: KeyPath, message: str, code: DiagnosticCode) -> Self:
        """Return a warning: the file is valid, and the value is doubtful."""
        return cls(path, message, severity=Severity.WARNING, code=code)

    @property
    def text(self) -> str:
        """Message with the suggestion, without the path."""
        # Computed late: a suggestion is slow, and few of many diagnostics are shown.
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
    listed = list(islice(remaining, MAX_LISTED))
    lines = [f"{source}: {diagnostic}" for diagnostic in listed]
    codes = [diagnostic.code for diagnostic in listed]
    further = sum(1 for _ in islice(remaining, MAX_COUNTED))
    if further:
        more = f"at least {further}" if further == MAX_COUNTED else f"{further}"
        lines.append(f"{source}: and {more} more")
        codes.append(codes[-1])
    if lines:
        raise error_type(*lines, code=codes)


def error_diagnostics(
    error: ConfigurationError, path: KeyPath = ()
) -> tuple[Diagnostic, ...]:
    """Return the problems of *error* as diagnostics about the value at *path*."""
    return tuple(
        Diagnostic(path, message, code=code)
        for message, code in zip(error.messages, error.codes, strict=True)
    )


def run_checks(*checks: Callable[[], object]) -> None:
    """Run all *checks*, also after one has failed.

    Raises:
        ConfigurationError: Some failed; with all of their problems.
    """
    messages: list[str] = []
    codes: list[DiagnosticCode] = []
    for check in checks:
        try:
            check()
        except ConfigurationError as error:
            messages += error.messages
            codes += error.codes
    if messages:
        raise ConfigurationError(*messages, code=codes)


def path_text(path: KeyPath) -> str:
    """Return *path* as in `rules[0].guests`; unusual keys are quoted."""
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
    """Return the type of *value* without the value, which may be a secret."""
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
    """Return a suggestion for an unknown *name* as the end of a message, or ""."""
    others = [known for known in known_names if known != name]
    matches = difflib.get_close_matches(name[:MAX_VALUE_LENGTH], others, n=1)
    return f"; did you mean {matches[0]}?" if matches else ""


def pydantic_diagnostics(
    error: ValidationError,
    prefix: KeyPath = (),
    known_keys: Iterable[str] = (),
    describe: Callable[[object], str] = repr_value,
    model_code: DiagnosticCode = DiagnosticCode.INVALID_VALUE,
) -> Iterator[Diagnostic]:
    """Yield the errors of pydantic as diagnostics.

    Args:
        error: Error of pydantic.
        prefix: Path of the validated value.
        known_keys: Candidates for the suggestion for an unknown key.
        describe: Function that returns the description of an invalid value.
        model_code: Code of what a class of the model rejects.
    """
    names = tuple(known_keys)
    for detail in error.errors(include_url=False):
        path = _without_tags((*prefix, *detail["loc"]))
        if detail["type"].startswith("union_tag"):
            path = (*path, "kind")
        message = _message(detail, path, names, describe)
        cause = detail.get("ctx", {}).get("error")
        is_of_model = isinstance(cause, ModelError)
        code = model_code if is_of_model else _code(detail["type"])
        yield Diagnostic(path, message, code=code)


def _code(error_type: str) -> DiagnosticCode:
    if error_type.endswith(_TYPE_SUFFIX):
        return DiagnosticCode.WRONG_TYPE
    return _CODES.get(error_type, DiagnosticCode.INVALID_VALUE)


def _without_tags(path: KeyPath) -> KeyPath:
    """Return *path* without the parts that pydantic adds: kinds of rules, "[key]"."""
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
        return f"unknown field{suggestion(str(path[-1]), known_keys)}"
    if kind in ("missing", "union_tag_not_found"):
        return "is missing"
    if kind == "value_error" and isinstance(context["error"], QuantityError):
        return f"expected {context['error']}, got {describe(error['input'])}"
    if kind == "value_error":
        return str(context["error"]).removeprefix(f"{path[-1]}: " if path else "")
    template = _EXPECTED.get(kind)
    expected = f"expected {template.format(**context)}" if template else error["msg"]
    return f"{expected}, got {describe(context.get('tag', error['input']))}"
