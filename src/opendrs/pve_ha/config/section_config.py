"""Proxmox VE's section files: headers, and properties below them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType

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
    """What a property holds."""

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
    """What the sections of a type hold.

    Attributes:
        properties: The properties they may have.
        mandatory: Those they must have.
        names: What they may be called.
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
        properties: What it says; None when something is missing that it must
            say.
    """

    kind: str
    name: str
    properties: Mapping[str, str] | None


@dataclass(slots=True)
class SectionFile:
    """The sections of a file, in order, and what was passed over in it."""

    sections: list[Section] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def split_list(value: str) -> list[str]:
    """Return the entries of a list, which commas, semicolons and blanks part."""
    return [entry for entry in SEPARATORS.split(value) if entry]


def format_section(kind: str, name: str, properties: Iterable[str]) -> str:
    """Return a section as text, with the empty line that ends it."""
    lines = "".join(f"\t{line}\n" for line in properties)
    return f"{kind}: {name}\n{lines}\n"


def escape_comment(comment: str) -> str:
    """Return *comment* as it is written: on one line, in ASCII."""
    return "".join(
        letter
        if letter in PLAIN
        else "".join(f"%{byte:02X}" for byte in letter.encode())
        for letter in comment
    )


def read_sections(text: str, types: Mapping[str, SectionType]) -> SectionFile:
    """Return the sections of *text*; what is wrong is passed over with a warning."""
    result = SectionFile()
    lines = _numbered(text)
    for number, line in lines:
        if not line.strip():
            continue
        header = HEADER.fullmatch(line)
        if header is None:
            result.warnings.append(f"line {number}: ignored: {line.strip()}")
            continue
        kind, name = header[1].lower(), header[2]
        body = _body(lines)
        if kind not in types or not types[kind].names.fullmatch(name):
            result.warnings.append(f"line {number}: no section may be {kind}: {name}")
            continue
        properties = _properties(body, types[kind], result.warnings)
        result.sections.append(Section(kind, name, properties))
    return result


def _numbered(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.lstrip().startswith("#"):
            yield number, line


def _body(lines: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return the lines up to the next one that is empty or a mere 0."""
    body = []
    for number, line in lines:
        if line in ("", "0"):
            break
        body.append((number, line))
    return body


def _properties(
    body: list[tuple[int, str]], section: SectionType, warnings: list[str]
) -> dict[str, str] | None:
    properties: dict[str, str] = {}
    for number, line in body:
        if problem := _add_property(line, section, properties):
            warnings.append(f"line {number}: {problem}")
    missing = [key for key in section.mandatory if key not in properties]
    if missing:
        first = body[0][0] - 1 if body else 0
        warnings.append(f"section at line {first}: {', '.join(missing)} is missing")
        return None
    return properties


def _add_property(
    line: str, section: SectionType, properties: dict[str, str]
) -> str | None:
    """Add the property of *line* to *properties*, or return what is wrong."""
    match = PROPERTY.fullmatch(line)
    if match is None:
        return f"ignored: {line.strip()}"
    key, value = match[1], match[2]
    kind = section.properties.get(key)
    if kind is None:
        return f"unknown property {key}"
    if key in properties:
        return f"duplicate attribute {key}"
    if value is None and kind is PropertyKind.FLAG:
        value = "1"
    if value is None or not _IS_VALID[kind](value):
        return f"bad value of {key}: {value}"
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
    """Return what *properties* say of *key*, None if nothing."""
    return properties[key] == "1" if key in properties else None


def parse_comment(properties: Mapping[str, str]) -> str | None:
    """Return the comment among *properties*, as it was before it was escaped."""
    if "comment" not in properties:
        return None
    encoded = properties["comment"].encode()
    plain = re.sub(rb"%([0-9a-fA-F]{2})", lambda m: bytes([int(m[1], 16)]), encoded)
    return plain.decode(errors="replace")
