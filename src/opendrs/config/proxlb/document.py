"""Safe reader of the YAML file of ProxLB.

YAML allows more than settings need. Rejected are tags other than those of plain values,
and aliases, with which a small file expands to any size.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from opendrs.config.parsing import DuplicateKeysDict, display_path, read_text
from opendrs.errors import InvalidFileError

MAX_SIZE = 64 << 10  # bytes; a configuration has about two thousand
_MAX_BITS = 63  # of a number
MAX_DEPTH = 16  # a configuration has a depth of five
_TAG = "tag:yaml.org,2002:"
_PLAIN_TYPES = frozenset({"str", "int", "float", "bool", "null", "timestamp"})
_OLD_FORMAT = "[proxmox]"  # first section of the configuration of ProxLB 1.0


def read_document(path: Path) -> object:
    """Return the plain values in the YAML file *path*.

    Keys are texts as they are in the file, also `101` and `on`. An object with
    duplicate keys is a `DuplicateKeysDict`.

    Raises:
        InvalidFileError: The file cannot be read, is too large, or is not YAML. The
            message contains nothing of the file, which has secrets.
    """
    source = display_path(path)
    text = read_text(path, MAX_SIZE)
    if _OLD_FORMAT in (line.strip() for line in text.splitlines()):
        raise InvalidFileError(
            f"{source}: the format of ProxLB 1.0; expected the YAML format of 1.1 or 2"
        )
    try:
        _check_structure(text, source)
        return _Reader(text).value()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(
            error, "context_mark", None
        )
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        raise InvalidFileError(
            f"{source}: not YAML with plain values{where}; put texts with special "
            "characters in quotes"
        ) from None
    except ValueError:
        raise InvalidFileError(f"{source}: number too long") from None


def _check_structure(text: str, source: str) -> None:
    """Check depth and aliases without building any value."""
    depth = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise InvalidFileError(
                f"{source}: line {event.start_mark.line + 1}: an alias (*NAME); write "
                "the value itself, in quotes if it begins with *"
            )
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise InvalidFileError(f"{source}: nested too deeply")


class _Reader:
    """Conversion of the nodes of one text to plain values."""

    def __init__(self, text: str) -> None:
        self._loader = yaml.SafeLoader(text)

    def value(self) -> object:
        """Return the value of the text; None if it is empty."""
        try:
            root = self._loader.get_single_node()
            return None if root is None else self._convert(root)
        finally:
            self._loader.dispose()

    def _convert(self, node: Any) -> object:  # noqa: ANN401
        kind = node.tag.removeprefix(_TAG)
        if node.id == "mapping" and kind == "map":
            return _table(list(self._pairs(node)))
        if node.id == "sequence" and kind == "seq":
            return [self._convert(each) for each in node.value]
        if node.id != "scalar" or kind not in _PLAIN_TYPES:
            raise yaml.MarkedYAMLError(problem_mark=node.start_mark)
        if kind == "timestamp":  # a password may look like one
            return node.value
        value = self._loader.construct_object(node)
        if isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise ValueError  # it may also be long in base 16 or 60
        return value

    def _pairs(self, node: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401
        for key, value in node.value:
            # A key that is a list or a table is reported as an unknown setting.
            name = key.value if key.id == "scalar" else f"({key.id})"
            yield name, self._convert(value)


def _table(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values = dict(pairs)
    return values if len(values) == len(pairs) else DuplicateKeysDict(pairs)
