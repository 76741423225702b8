"""Lines of the settings in a TOML file, which `tomllib` does not report."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator

from opendrs.config.diagnostics import KeyPath
from opendrs.config.parsing import STRING_OR_COMMENT

_PART = r"""(?:"(?:[^"\\\n]|\\.)*"|'[^'\n]*'|[A-Za-z0-9_-]+)"""
_KEY = rf"{_PART}(?:[ \t]*\.[ \t]*{_PART})*"
_SETTING = re.compile(rf"[ \t]*({_KEY})[ \t]*=")
_TABLE = re.compile(rf"[ \t]*(\[\[?)[ \t]*({_KEY})[ \t]*\]")


def setting_lines(text: str) -> dict[KeyPath, int]:
    """Return the line of each setting and table of a TOML document, from 1.

    A setting within an inline table or a list has the line of that one, which alone is
    listed. Elements of arrays of tables have their index in the path.

    Args:
        text: Valid TOML.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    arrays: Counter[KeyPath] = Counter()
    for number, line in _statements(text):
        if header := _TABLE.match(line):
            table = _located(_parts(header.group(2)), arrays)
            if header.group(1) == "[[":
                arrays[table] += 1
                table = (*table, arrays[table] - 1)
            lines[table] = number
        elif setting := _SETTING.match(line):
            lines[(*table, *_parts(setting.group(1)))] = number
    return lines


def line_of(path: KeyPath, lines: dict[KeyPath, int]) -> int | None:
    """Return the line of the setting at *path*, or of the value that contains it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line at which a statement begins."""
    masked = STRING_OR_COMMENT.sub(lambda found: re.sub(r"[^\n]", "_", found[0]), text)
    inside = [found.span() for found in STRING_OR_COMMENT.finditer(text)]
    depth = position = span = 0
    pairs = zip(text.split("\n"), masked.split("\n"), strict=True)
    for number, (line, bare) in enumerate(pairs, 1):
        while span < len(inside) and inside[span][1] <= position:
            span += 1
        continues = span < len(inside) and inside[span][0] < position
        if not depth and not continues:
            yield number, line
        header = not depth and _TABLE.match(line)
        if not header:
            depth += sum(map(bare.count, "[{")) - sum(map(bare.count, "]}"))
        position += len(line) + 1


def _parts(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, with quotation marks removed."""
    value: object = tomllib.loads(f"{key} = 0")
    parts = []
    while isinstance(value, dict):
        ((name, value),) = value.items()
        parts.append(name)
    return tuple(parts)


def _located(parts: tuple[str, ...], arrays: Counter[KeyPath]) -> KeyPath:
    """Return the path of a table within the last elements of arrays of tables."""
    path: KeyPath = ()
    for index, part in enumerate(parts):
        path = (*path, part)
        if path in arrays and index + 1 < len(parts):
            path = (*path, arrays[path] - 1)
    return path
