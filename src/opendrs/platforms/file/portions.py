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
    Name,
    NodeEntry,
    RuleEntries,
    SnapshotEntry,
)

PORTION = 1000  # nodes or guests
MOST_FOUND = 1000  # complaints
MOST_FIELDS = 1000  # of a node or a guest
MOST_IN_RULE = 100_000  # of a rule, which may have a priority for each node

_TABLES: Mapping[str, TypeAdapter[Any]] = {
    "nodes": TypeAdapter(dict[Name, NodeEntry]),
    "guests": TypeAdapter(dict[Name, GuestEntry]),
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
    """The checking of one document.

    Attributes:
        entry: What has been found to be right.
    """

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
        for index, rule in enumerate(rules):
            wide = _too_wide(rule, ("rules", index), MOST_IN_RULE)
            if wide is not None:
                yield wide
                continue
            try:
                self.entry["rules"] += _RULES.validate_python([rule])
            except ValidationError as error:
                for complaint in translated(error, ("rules",), FIELDS):
                    place = ("rules", index, *complaint.at[2:])
                    yield replace(complaint, at=place)


def _empty(name: str) -> object:
    return [] if name == "rules" else {}


def _too_wide(
    value: object, at: Location = (), most: int = MOST_FIELDS
) -> Complaint | None:
    """Return a complaint if there are more than *most* fields in *value* in all."""
    fields, left = 0, [value]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            fields += len(part)
            left += [each for each in part.values() if isinstance(each, dict)]
        if fields > most:
            return Complaint(at, f"expected at most {most:,} fields, found more")
    return None
