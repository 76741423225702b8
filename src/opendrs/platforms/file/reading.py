"""From a document in the format opendrs-snapshot/1 to the model."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

from pydantic import ValidationError

from opendrs.errors import InvalidFileError, ModelError
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Exclusion,
    Guest,
    GuestId,
    GuestState,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.model.pressure import NO_PRESSURE_KNOWN
from opendrs.model.resources import NOT_MEASURED
from opendrs.platforms.file.complaints import Complaint, Location, complain, translated
from opendrs.platforms.file.documents import (
    parse,
    read_text,
    repeated_keys,
    shown_path,
)
from opendrs.platforms.file.forms import FileForm, require_form
from opendrs.platforms.file.portions import MOST_FOUND, check_snapshot
from opendrs.platforms.file.references import dangling
from opendrs.platforms.file.wire import (
    FIELDS,
    RULES,
    Capacity,
    GuestEntry,
    Limit,
    NodeEntry,
    Pressures,
    RuleEntry,
    SnapshotEntry,
    Stalled,
    Used,
)


def read_snapshot(path: Path) -> Snapshot:
    """Return the snapshot that the file *path* holds, as JSON or TOML.

    Raises:
        InvalidFileError: It holds none; with everything that is wrong.
    """
    source = shown_path(path)
    return snapshot_from(parse(read_text(path), source, path.suffix), source)


def snapshot_from(document: object, source: str) -> Snapshot:
    """Return the snapshot that *document* describes.

    Args:
        document: Plain values, as parsed from JSON or TOML.
        source: Where they come from, to begin complaints with.

    Raises:
        InvalidFileError: They describe none; with everything that is wrong.
    """
    snapshot, wrong = snapshot_and_complaints(document, source)
    complain(source, wrong, InvalidFileError)
    assert snapshot is not None  # noqa: S101 - or there was a complaint
    return snapshot


def snapshot_and_complaints(
    document: object, source: str
) -> tuple[Snapshot | None, tuple[Complaint, ...]]:
    """Return the snapshot that *document* describes, or what is wrong with it.

    Raises:
        InvalidFileError: It is of another form.
    """
    require_form(document, source, FileForm.SNAPSHOT)
    entry, wrong = check_snapshot(document)
    every = chain(wrong, repeated_keys(document), dangling(document))
    if complaints := tuple(islice(every, MOST_FOUND + 1)):
        return None, complaints
    assert entry is not None  # noqa: S101 - or there was a complaint
    try:
        return _snapshot(entry), ()
    except ModelError as error:
        return None, (Complaint((), str(error)),)


def check_rules(
    entries: object, at: Location
) -> tuple[tuple[Rule, ...], tuple[Complaint, ...]]:
    """Return the rules that *entries* describe, or what is wrong with them.

    Args:
        entries: Plain values in the form the rules of a snapshot have.
        at: Where they are in their document; ends in "rules".
    """
    try:
        rules = RULES.validate_python(entries)
    except ValidationError as error:
        return (), tuple(translated(error, at, FIELDS))
    return tuple(rule_from(rule) for rule in rules), ()


def _snapshot(entry: SnapshotEntry) -> Snapshot:
    return Snapshot(
        taken_at=entry["taken_at"],
        nodes={
            NodeId(name): _node(name, node) for name, node in entry["nodes"].items()
        },
        guests={
            GuestId(name): _guest(name, guest)
            for name, guest in entry["guests"].items()
        },
        rules=tuple(rule_from(rule) for rule in entry.get("rules", ())),
    )


def _node(name: str, entry: NodeEntry) -> Node:
    return Node(
        id=NodeId(name),
        capacity=_resources(entry.get("capacity")),
        usage=_usage(entry.get("usage")),
        state=entry.get("state", NodeState.UNKNOWN),
        architecture=entry.get("architecture"),
        cpu_model=entry.get("cpu_model"),
        labels=frozenset(entry.get("labels", ())),
        load_average=entry.get("load_average"),
        pressure=_pressure(entry.get("pressure")),
        ksm_shared=entry.get("ksm_shared"),
        woken_at=entry.get("woken_at"),
    )


def _guest(name: str, entry: GuestEntry) -> Guest:
    target = entry.get("migrating_to")
    return Guest(
        id=GuestId(name),
        node=NodeId(entry["node"]),
        kind=entry["kind"],
        state=entry.get("state", GuestState.UNKNOWN),
        limit=_resources(entry.get("limit")),
        usage=_usage(entry.get("usage")),
        pressure=_pressure(entry.get("pressure")),
        uptime=entry.get("uptime"),
        moves=entry.get("moves"),
        obstacle=entry.get("obstacle"),
        ha_managed=entry.get("ha_managed"),
        tags=frozenset(entry.get("tags", ())),
        cpu_model=entry.get("cpu_model"),
        migrating_to=None if target is None else NodeId(target),
        moved_at=entry.get("moved_at"),
        dirty_rate=entry.get("dirty_rate"),
    )


def _resources(entry: Capacity | Limit | None) -> Resources | None:
    return None if entry is None else Resources(entry["cpu"], entry["memory"])


def _usage(entry: Used | None) -> Usage:
    if entry is None:
        return NOT_MEASURED
    return Usage(entry.get("cpu"), entry.get("memory"))


def _pressure(entry: Pressures | None) -> Pressure:
    if entry is None:
        return NO_PRESSURE_KNOWN
    return Pressure(
        cpu=_stall(entry.get("cpu", {})),
        memory=_stall(entry.get("memory", {})),
        io=_stall(entry.get("io", {})),
    )


def _stall(entry: Stalled) -> Stall:
    return Stall(entry.get("some"), entry.get("full"))


def rule_from(entry: RuleEntry) -> Rule:
    """Return the rule that a checked *entry* describes."""
    name = entry.get("name", "")
    if entry["kind"] == "exclusion":
        return Exclusion(tags=frozenset(entry["tags"]), name=name)
    guests = frozenset(GuestId(guest) for guest in entry["guests"])
    if entry["kind"] == "pin":
        return Pin(guests=guests, name=name)
    strict = entry.get("strict", True)
    if entry["kind"] == "affinity":
        return Affinity(guests=guests, strict=strict, name=name)
    if entry["kind"] == "anti-affinity":
        return AntiAffinity(guests=guests, strict=strict, name=name)
    nodes = {NodeId(node): priority for node, priority in entry["nodes"].items()}
    return NodeAffinity(guests=guests, nodes=nodes, strict=strict, name=name)
