"""Checks the entries of a snapshot some at a time, and stops when enough are wrong.

For each value that is wrong pydantic keeps an error of a kilobyte or more, and a file
of some megabytes may have a million of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

from pydantic import TypeAdapter, ValidationError

from opendrs.platforms.file.complaints import Complaint, Location, translated
from opendrs.platforms.file.wire import (
    FIELDS,
    SNAPSHOT,
    GuestEntry,
    NodeEntry,
    RuleEntries,
    SnapshotEntry,
)

PORTION = 1000  # entries
MOST_FOUND = 1000  # complaints
MOST_FIELDS = 1000  # of an entry, without the nodes of a rule

_TABLES: Mapping[str, TypeAdapter[Any]] = {
    "nodes": TypeAdapter(dict[str, NodeEntry]),
    "guests": TypeAdapter(dict[str, GuestEntry]),
}
_RULES = TypeAdapter(RuleEntries)


def check_snapshot(document: object) -> tuple[SnapshotEntry | None, list[Complaint]]:
    """Return the entry that *document* is, or what is wrong with it.

    Of more than `MOST_FOUND` complaints one more than so many is returned.
    """
    checking = _Checking()
    found = list(islice(checking.complaints(document), MOST_FOUND + 1))
    return (None, found) if found else (checking.entry, [])


class _Checking:
    """Attributes: entry: What has been found to be right."""

    def __init__(self) -> None:
        self.entry: Any = None

    def complaints(self, document: object) -> Iterator[Complaint]:
        large: dict[str, Any] = {}
        outer = document
        if isinstance(document, dict):
            large = {
                name: document[name]
                for name, kind in (("nodes", dict), ("guests", dict), ("rules", list))
                if isinstance(document.get(name), kind)
            }
            outer = {**document, **{name: _empty(name) for name in large}}
        wide = _too_wide(outer)
        if wide is not None:
            yield wide
            return
        try:
            self.entry = SNAPSHOT.validate_python(outer)
        except ValidationError as error:
            self.entry = {name: _empty(name) for name in large}
            yield from translated(error, known=FIELDS)
        for name, part in large.items():
            yield from self._rules(part) if name == "rules" else self._of(name, part)

    def _of(self, name: str, table: Mapping[str, object]) -> Iterator[Complaint]:
        entries = iter(table.items())
        while portion := dict(islice(entries, PORTION)):
            for key, value in tuple(portion.items()):
                if (wide := _too_wide(value, (name, key))) is not None:
                    yield wide
                    del portion[key]
            try:
                self.entry[name].update(_TABLES[name].validate_python(portion))
            except ValidationError as error:
                yield from translated(error, (name,), FIELDS)

    def _rules(self, rules: list[object]) -> Iterator[Complaint]:
        for start in range(0, len(rules), PORTION):
            try:
                found = _RULES.validate_python(rules[start : start + PORTION])
                self.entry["rules"].extend(found)
            except ValidationError as error:
                for complaint in translated(error, ("rules",), FIELDS):
                    _, index, *rest = complaint.at
                    assert isinstance(index, int)  # noqa: S101 - it is in a list
                    yield replace(complaint, at=("rules", start + index, *rest))


def _empty(name: str) -> object:
    return [] if name == "rules" else {}


def _too_wide(value: object, at: Location = ()) -> Complaint | None:
    fields = _fields_in(value)
    if fields <= MOST_FIELDS:
        return None
    return Complaint(at, f"expected some {len(FIELDS)} fields, found {fields:,}")


def _fields_in(value: object) -> int:
    if not isinstance(value, dict):
        return 0
    return len(value) + sum(map(_fields_in, value.values()))
