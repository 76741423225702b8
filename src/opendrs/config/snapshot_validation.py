"""Validation of snapshot documents in batches, with references to nodes and guests."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any

from pydantic import ValidationError

from opendrs.config.diagnostics import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    pydantic_diagnostics,
)
from opendrs.config.parsing import as_mapping
from opendrs.config.rule_schema import RULES
from opendrs.config.snapshot_objects import table_validator
from opendrs.config.snapshot_schema import (
    FIELDS,
    SNAPSHOT_FRAME,
    GuestEntry,
    NodeEntry,
)
from opendrs.escapes import repr_value

BATCH_SIZE = 1000  # nodes or guests
MAX_DIAGNOSTICS = 1000  # of one document
MAX_FIELDS = 1000  # of a node or a guest
MAX_RULE_FIELDS = 100_000  # of a rule, which may have a priority for each node

_ENTRIES: Mapping[str, type] = {"nodes": NodeEntry, "guests": GuestEntry}
_ID = "id"  # key of the name of a node or guest, for the validator
_validator_of = cache(table_validator)  # made with the first document

# Fields of opendrs-snapshot/1 before version 0.1, with their present names.
FORMER_FIELDS = {
    "guests": {
        "moves": "mobility",
        "obstacle": "mobility_detail",
        "moved_at": "migrated_at",
    },
    "nodes": {"woken_at": "powered_on_at"},
}
FORMER_MOBILITY = {"stopped": "cold", "never": "none"}


def validate_snapshot(
    document: object, *, is_recorded: bool
) -> tuple[Mapping[str, Any] | None, list[Diagnostic]]:
    """Return the validated entry of *document*, or None with the errors.

    Its nodes and guests are objects of the model; the rest is as in `SnapshotEntry`. At
    most `MAX_DIAGNOSTICS` + 1 errors are returned.

    Args:
        document: Plain values, as parsed from JSON or TOML.
        is_recorded: Whether it is that of a recorded cycle: its nodes and guests may
            have any number of fields.
    """
    validator = _SnapshotValidator(is_recorded=is_recorded)
    diagnostics = list(islice(validator.diagnostics(document), MAX_DIAGNOSTICS + 1))
    return (None, diagnostics) if diagnostics else (validator.entry, [])


class _SnapshotValidator:
    """Validator of one document.

    Attributes:
        entry: The validated part of the document.
    """

    def __init__(self, *, is_recorded: bool) -> None:
        self._is_recorded = is_recorded
        self.entry: Any = None

    def diagnostics(self, document: object) -> Iterator[Diagnostic]:
        collections: dict[str, Any] = {}
        frame = document
        if isinstance(document, dict):
            collections = {
                name: document[name]
                for name, kind in (("nodes", dict), ("guests", dict), ("rules", list))
                if isinstance(document.get(name), kind)
            }
            frame = {
                **document,
                **{name: _empty_collection(name) for name in collections},
            }
        excess = _too_many_fields(frame)
        if excess is not None:
            yield excess
            return
        try:
            self.entry = SNAPSHOT_FRAME.validate_python(frame)
        except ValidationError as error:
            self.entry = {name: _empty_collection(name) for name in collections}
            yield from pydantic_diagnostics(error, known_keys=FIELDS)
        for name, part in collections.items():
            yield from (
                self._rule_diagnostics(part)
                if name == "rules"
                else self._table_diagnostics(name, part)
            )

    def _table_diagnostics(
        self, name: str, table: Mapping[str, object]
    ) -> Iterator[Diagnostic]:
        validator = _validator_of(_ENTRIES[name])
        former = FORMER_FIELDS[name]
        entries = iter(table.items())
        while listed := tuple(islice(entries, BATCH_SIZE)):
            batch: dict[str, object] = {}
            for key, value in listed:
                if not isinstance(value, dict):
                    batch[key] = value
                    continue
                if not self._is_recorded:
                    excess = _too_many_fields(value, (name, key))
                    if excess is not None:
                        yield excess
                        continue
                if _ID in value:
                    yield Diagnostic(
                        (name, key, _ID),
                        "unknown field",
                        code=DiagnosticCode.UNKNOWN_KEY,
                    )
                if not former.keys().isdisjoint(value):
                    value = _with_current_names(former, value)  # noqa: PLW2901
                batch[key] = {**value, _ID: key}
            try:
                self.entry[name].update(validator.validate_python(batch))
            except ValidationError as error:
                found = pydantic_diagnostics(
                    error, (name,), FIELDS, model_code=DiagnosticCode.INCONSISTENT
                )
                # The key itself is reported, not the copy in the entry.
                yield from (each for each in found if each.path[2:] != (_ID,))

    def _rule_diagnostics(self, rules: list[object]) -> Iterator[Diagnostic]:
        for index, rule in enumerate(rules):
            excess = _too_many_fields(rule, ("rules", index), MAX_RULE_FIELDS)
            if excess is not None:
                yield excess
                continue
            try:
                self.entry["rules"] += RULES.validate_python([rule])
            except ValidationError as error:
                for diagnostic in pydantic_diagnostics(error, ("rules",), FIELDS):
                    path = ("rules", index, *diagnostic.path[2:])
                    yield replace(diagnostic, path=path)


def _empty_collection(name: str) -> object:
    return [] if name == "rules" else {}


def _with_current_names(
    former: Mapping[str, str], entry: Mapping[str, object]
) -> Mapping[str, object]:
    """Return *entry* with the present names of renamed fields, by former name.

    A former name beside the present one is unchanged, and is reported as unknown.
    """
    renamed: dict[str, object] = {}
    for key, value in entry.items():
        name = former.get(key, key)
        if name in entry:
            name = key
        elif key == "moves" and isinstance(value, str):
            value = FORMER_MOBILITY.get(value, value)  # noqa: PLW2901
        renamed[name] = value
    return renamed


def _too_many_fields(
    value: object, path: KeyPath = (), max_fields: int = MAX_FIELDS
) -> Diagnostic | None:
    """Return a diagnostic if *value* has more than *max_fields* fields in total."""
    fields, pending = 0, [value] if isinstance(value, dict) else []
    for part in pending:
        fields += len(part)
        pending += [each for each in part.values() if isinstance(each, dict)]
    if fields <= max_fields:
        return None
    message = f"expected at most {max_fields:,} fields, got more"
    return Diagnostic(path, message, code=DiagnosticCode.OUT_OF_RANGE)


def dangling_references(document: object, *, of_rules: bool) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each reference to an unknown guest or node.

    Args:
        document: The plain snapshot.
        of_rules: Whether rules may name only guests and nodes of the snapshot.
    """
    root = as_mapping(document)
    nodes, guests = root.get("nodes"), root.get("guests")
    if not isinstance(nodes, Mapping) or not isinstance(guests, Mapping):
        return
    for name, guest in guests.items():
        for field in ("node", "migrating_to") if isinstance(guest, dict) else ():
            node = guest.get(field)
            if isinstance(node, str) and node not in nodes:
                yield _unknown_name(("guests", name, field), "node", node, nodes)
    rules = root.get("rules") if of_rules else None
    for index, rule in enumerate(rules if isinstance(rules, list) else []):
        yield from _rule_references(index, as_mapping(rule), nodes, guests)


def _rule_references(
    index: int,
    rule: Mapping[str, object],
    nodes: Collection[str],
    guests: Collection[str],
) -> Iterator[Diagnostic]:
    for key in ("guests", "other_guests"):
        named = rule.get(key)
        for guest in named if isinstance(named, list) else []:
            if isinstance(guest, str) and guest not in guests:
                yield _unknown_name(("rules", index, key), "guest", guest, guests)
    for node in as_mapping(rule.get("nodes")):
        if node not in nodes:
            yield _unknown_name(("rules", index, "nodes"), "node", node, nodes)


def _unknown_name(
    path: tuple[str | int, ...], kind: str, name: str, known_names: Collection[str]
) -> Diagnostic:
    # A suggestion from tens of thousands of names takes seconds.
    candidates = known_names if len(known_names) < 1000 else ()
    message = f"unknown {kind} {repr_value(name)}"
    return Diagnostic(
        path,
        message,
        code=DiagnosticCode.UNKNOWN_NAME,
        unknown_name=name,
        known_names=candidates,
    )
