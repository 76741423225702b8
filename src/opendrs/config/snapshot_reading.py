"""Reader of documents in the format opendrs-snapshot/1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from opendrs.config.diagnostics import (
    Diagnostic,
    DiagnosticCode,
    KeyPath,
    pydantic_diagnostics,
    raise_diagnostics,
)
from opendrs.config.formats import FileFormat, require_format
from opendrs.config.parsing import (
    display_path,
    duplicate_key_diagnostics,
    parse,
    read_text,
)
from opendrs.config.rule_schema import (
    RULES,
    AffinityEntry,
    AntiAffinityEntry,
    NodeAffinityEntry,
    RuleEntry,
)
from opendrs.config.snapshot_schema import FIELDS
from opendrs.config.snapshot_validation import (
    MAX_DIAGNOSTICS,
    dangling_references,
    validate_snapshot,
)
from opendrs.errors import InvalidFileError, ModelError
from opendrs.model import (
    PRIORITIES,
    Affinity,
    AntiAffinity,
    DomainAffinity,
    GuestId,
    GuestPriority,
    MutualAntiAffinity,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
    TagExclusion,
)
from opendrs.rules import with_chosen


def read_snapshot(path: Path) -> Snapshot:
    """Return the snapshot in the file *path*, in JSON or TOML.

    Raises:
        InvalidFileError: The file is not a valid snapshot; with the errors.
    """
    source = display_path(path)
    return snapshot_from(parse(read_text(path), source, path.suffix), source)


def snapshot_from(document: object, source: str) -> Snapshot:
    """Return the snapshot in *document*.

    Args:
        document: Plain values, as parsed from JSON or TOML.
        source: Origin of the document, for error messages.

    Raises:
        InvalidFileError: The document is not a valid snapshot; with the errors.
    """
    return _snapshot_from(document, source, is_recorded=False)


def recorded_snapshot_from(document: object, source: str) -> Snapshot:
    """Return the snapshot in the *document* of a recorded cycle.

    Its rules may name guests and nodes that it does not contain: a controller goes on
    without guests that were deleted, and nodes hide guests while they are unreachable.

    Args:
        document: Plain values, as parsed from JSON.
        source: Origin of the document, for error messages.

    Raises:
        InvalidFileError: The document is not a valid snapshot; with the errors.
    """
    return _snapshot_from(document, source, is_recorded=True)


def _snapshot_from(document: object, source: str, *, is_recorded: bool) -> Snapshot:
    snapshot, diagnostics = snapshot_and_diagnostics(
        document, source, is_recorded=is_recorded
    )
    raise_diagnostics(source, diagnostics, InvalidFileError)
    assert snapshot is not None  # noqa: S101 - there are no diagnostics
    return snapshot


def snapshot_and_diagnostics(
    document: object, source: str, *, is_recorded: bool = False
) -> tuple[Snapshot | None, tuple[Diagnostic, ...]]:
    """Return the snapshot in *document*, or None with the errors.

    Args:
        document: Plain values, as parsed from JSON or TOML.
        source: Origin of the document, for error messages.
        is_recorded: Whether it is that of a recorded cycle: its rules may name further
            guests and nodes, its nodes and guests may have any number of fields, and no
            key is duplicate.

    Raises:
        InvalidFileError: The document has another format.
    """
    require_format(document, source, FileFormat.SNAPSHOT)
    entry, diagnostics = validate_snapshot(document, is_recorded=is_recorded)
    all_diagnostics = chain(
        diagnostics,
        () if is_recorded else duplicate_key_diagnostics(document),
        dangling_references(document, of_rules=not is_recorded),
    )
    if reported := tuple(islice(all_diagnostics, MAX_DIAGNOSTICS + 1)):
        return None, reported
    assert entry is not None  # noqa: S101 - there are no diagnostics
    try:
        return _snapshot(entry), ()
    except ModelError as error:
        return None, (Diagnostic((), str(error), code=DiagnosticCode.INCONSISTENT),)


def validate_rules(
    entries: object, path: KeyPath
) -> tuple[tuple[Rule, ...], tuple[Diagnostic, ...]]:
    """Return the rules in *entries*, or none with the errors.

    Args:
        entries: Plain values in the form of the rules of a snapshot.
        path: Path of the rules in their document; ends in "rules".
    """
    try:
        rules = RULES.validate_python(entries)
    except ValidationError as error:
        return (), tuple(pydantic_diagnostics(error, path, FIELDS))
    try:
        return tuple(rule_from_entry(rule) for rule in rules), ()
    except ModelError as error:
        return (), (Diagnostic(path, str(error), code=DiagnosticCode.INCONSISTENT),)


def _snapshot(entry: Mapping[str, Any]) -> Snapshot:
    snapshot = Snapshot(
        taken_at=entry["taken_at"],
        nodes=entry["nodes"],
        guests=entry["guests"],
        rules=tuple(rule_from_entry(rule) for rule in entry.get("rules", ())),
        bandwidth=entry.get("bandwidth"),
    )
    return with_chosen(snapshot)


def rule_from_entry(entry: RuleEntry) -> Rule:
    """Return the rule of a validated *entry*."""
    name, origin = entry.get("name", ""), entry.get("origin", "")
    if entry["kind"] == "exclusion":
        return TagExclusion(tags=frozenset(entry["tags"]), name=name, origin=origin)
    guests = frozenset(GuestId(guest) for guest in entry.get("guests", ()))
    if entry["kind"] == "priority":
        value = entry["value"]
        return GuestPriority(
            value=PRIORITIES[value] if isinstance(value, str) else value,
            guests=guests,
            tags=frozenset(entry.get("tags", ())),
            name=name,
            origin=origin,
        )
    if entry["kind"] == "pin":
        return Pin(guests=guests, name=name, origin=origin)
    if entry["kind"] == "affinity":
        return _affinity(entry, guests)
    if entry["kind"] == "anti-affinity":
        return _anti_affinity(entry, guests)
    return _node_affinity(entry, guests)


def _affinity(
    entry: AffinityEntry, guests: frozenset[GuestId]
) -> Affinity | DomainAffinity:
    kind: Callable[..., Affinity | DomainAffinity] = Affinity
    if "domain" in entry:
        kind = partial(DomainAffinity, domain=entry["domain"])
    return kind(guests=guests, **_common_fields(entry))


def _anti_affinity(
    entry: AntiAffinityEntry, guests: frozenset[GuestId]
) -> AntiAffinity | MutualAntiAffinity:
    kind: Callable[..., AntiAffinity | MutualAntiAffinity] = partial(
        AntiAffinity,
        domain=entry.get("domain", ""),
        max_guests=entry.get("max_guests", 1),
    )
    if "other_guests" in entry or "other_tags" in entry:
        others = (GuestId(guest) for guest in entry.get("other_guests", ()))
        kind = partial(
            MutualAntiAffinity,
            other_guests=frozenset(others),
            other_tags=frozenset(entry.get("other_tags", ())),
        )
    return kind(guests=guests, **_common_fields(entry))


def _node_affinity(
    entry: NodeAffinityEntry, guests: frozenset[GuestId]
) -> NodeAffinity:
    listed = entry.get("nodes", {})
    return NodeAffinity(
        guests=guests,
        nodes={NodeId(node): priority for node, priority in listed.items()},
        labels=frozenset(entry.get("labels", ())),
        groups=frozenset(entry.get("groups", ())),
        exclusive=entry.get("exclusive", False),
        **_common_fields(entry),
    )


def _common_fields(
    entry: AffinityEntry | AntiAffinityEntry | NodeAffinityEntry,
) -> dict[str, Any]:
    """Return the fields that all affinities have, without their guests."""
    return {
        "strict": entry.get("strict", True),
        "name": entry.get("name", ""),
        "origin": entry.get("origin", ""),
        "tags": frozenset(entry.get("tags", ())),
        "weight": entry.get("weight", 1.0),
    }
