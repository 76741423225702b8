"""The section format of the configuration files of Proxmox VE."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from types import MappingProxyType

from opendrs.config.diagnostics import Diagnostic
from opendrs.errors import DiagnosticCode

HEADER = re.compile(r"(\S+):\s*(\S+)\s*")
PROPERTY = re.compile(r"\s+(\S+)(?:\s+(.*\S))?\s*")
NAME = re.compile(r"[a-z][a-z0-9_-]+", re.IGNORECASE | re.ASCII)
SERVICE = re.compile(r"[a-z]+:\S+")
NODE = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?(:\d+)?", re.ASCII)
COUNT = re.compile(r"\d{1,9}", re.ASCII)
STATES = frozenset({"started", "enabled", "stopped", "disabled", "ignored"})
SEPARATORS = re.compile(r"[,;\s]+")
PLAIN = frozenset(chr(code) for code in range(0x20, 0x7F)) - {":", "%"}


class PropertyKind(Enum):
    """Type of the value of a property."""

    TEXT = auto()
    FLAG = auto()
    AFFINITY = auto()
    SERVICES = auto()
    NODES = auto()
    COUNT = auto()
    STATE = auto()
    NAME = auto()


@dataclass(frozen=True, slots=True)
class SectionType:
    """Definition of a type of section.

    Attributes:
        properties: Allowed properties.
        mandatory: Required properties.
        names: Pattern of the names of sections.
    """

    properties: Mapping[str, PropertyKind]
    mandatory: tuple[str, ...] = ()
    names: re.Pattern[str] = NAME


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a file.

    Attributes:
        kind: Its type.
        name: Its name.
        properties: Its properties; None if a required property is missing.
    """

    kind: str
    name: str
    properties: Mapping[str, str] | None


@dataclass(slots=True)
class SectionFile:
    """The sections of a file, in order, and warnings about skipped content."""

    sections: list[Section] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)


def skipped(message: str, code: DiagnosticCode) -> Diagnostic:
    """Return the warning about content that is skipped."""
    return Diagnostic.warning((), message, code)


def split_list(value: str) -> list[str]:
    """Return the entries of a list separated by commas, semicolons or spaces."""
    return [entry for entry in SEPARATORS.split(value) if entry]


def format_section(kind: str, name: str, properties: Iterable[str]) -> str:
    """Return a section as text, including the empty line after it."""
    lines = "".join(f"\t{line}\n" for line in properties)
    return f"{kind}: {name}\n{lines}\n"


def escape_comment(comment: str) -> str:
    """Return *comment* in the form of the file: one line of ASCII."""
    return "".join(
        letter
        if letter in PLAIN
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in comment
    )


def read_sections(text: str, types: Mapping[str, SectionType]) -> SectionFile:
    """Return the sections of *text*. Invalid content is skipped with a warning."""
    result = SectionFile()
    lines = _numbered(text)
    for number, line in lines:
        if not line.strip():
            continue
        header = HEADER.fullmatch(line)
        if header is None:
            message = f"line {number}: ignored: {line.strip()}"
            result.warnings.append(skipped(message, DiagnosticCode.INVALID_VALUE))
            continue
        kind, name = header[1].lower(), header[2]
        body = _body(lines)
        if kind not in types or not types[kind].names.fullmatch(name):
            message = f"line {number}: invalid section {kind}: {name}"
            code = (
                DiagnosticCode.INVALID_VALUE
                if kind in types
                else DiagnosticCode.UNKNOWN_VALUE
            )
            result.warnings.append(skipped(message, code))
            continue
        properties = _properties(body, types[kind], result.warnings)
        result.sections.append(Section(kind, name, properties))
    return result


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.lstrip().startswith("#"):
            yield number, line


def _body(lines: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines up to the next line that is empty or only 0."""
    body = []
    for number, line in lines:
        if line in ("", "0"):
            break
        body.append((number, line))
    return body


def _properties(
    body: list[tuple[int, str]], section: SectionType, warnings: list[Diagnostic]
) -> dict[str, str] | None:
    properties: dict[str, str] = {}
    for number, line in body:
        if problem := _add_property(line, section, properties):
            warnings.append(
                replace(problem, message=f"line {number}: {problem.message}")
            )
    missing = [key for key in section.mandatory if key not in properties]
    if missing:
        first = body[0][0] - 1 if body else 0
        message = f"section at line {first}: {', '.join(missing)} is missing"
        warnings.append(skipped(message, DiagnosticCode.MISSING_KEY))
        return None
    return properties


def _add_property(
    line: str, section: SectionType, properties: dict[str, str]
) -> Diagnostic | None:
    """Add the property of *line* to *properties*, or return an error."""
    match = PROPERTY.fullmatch(line)
    if match is None:
        return skipped(f"ignored: {line.strip()}", DiagnosticCode.INVALID_VALUE)
    key, value = match[1], match[2]
    kind = section.properties.get(key)
    if kind is None:
        return skipped(f"unknown property {key}", DiagnosticCode.UNKNOWN_KEY)
    if key in properties:
        return skipped(f"duplicate attribute {key}", DiagnosticCode.DUPLICATE_KEY)
    if value is None and kind is PropertyKind.FLAG:
        value = "1"
    if value is None or not _IS_VALID[kind](value):
        message = f"bad value of {key}: {value}"
        return skipped(message, DiagnosticCode.INVALID_VALUE)
    properties[key] = value
    return None


def _all(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: all(pattern.fullmatch(entry) for entry in split_list(value))


def _whole(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


_IS_VALID: Mapping[PropertyKind, Callable[[str], bool]] = MappingProxyType(
    {
        PropertyKind.TEXT: lambda _: True,
        PropertyKind.FLAG: lambda value: value in ("0", "1"),
        PropertyKind.AFFINITY: lambda value: value in ("positive", "negative"),
        PropertyKind.SERVICES: _all(SERVICE),
        PropertyKind.NODES: _all(NODE),
        PropertyKind.COUNT: _whole(COUNT),
        PropertyKind.STATE: STATES.__contains__,
        PropertyKind.NAME: _whole(NAME),
    }
)


def parse_flag(properties: Mapping[str, str], key: str) -> bool | None:
    """Return the flag *key* of *properties*; None if it is missing."""
    return properties[key] == "1" if key in properties else None


def parse_comment(properties: Mapping[str, str]) -> str | None:
    """Return the comment among *properties*, without escapes."""
    if "comment" not in properties:
        return None
    encoded = properties["comment"].encode()
    plain = re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), encoded)
    return plain.decode(errors="replace")
