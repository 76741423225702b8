"""Reader of documents in the format opendrs-snapshot/1."""

from __future__ import annotations

from collections.abc import Callable
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
from opendrs.config.snapshot_schema import (
    FIELDS,
    AllocationEntry,
    CapacityEntry,
    DiskEntry,
    ForecastEntry,
    GuestEntry,
    LimitEntry,
    NodeEntry,
    PressureEntry,
    SnapshotEntry,
    StallEntry,
    StorageEntry,
    UsageEntry,
)
from opendrs.config.snapshot_validation import (
    MAX_DIAGNOSTICS,
    dangling_references,
    validate_snapshot,
)
from opendrs.errors import InvalidFileError, ModelError
from opendrs.model import (
    NO_LOADS,
    PRIORITIES,
    UNKNOWN_PRESSURE,
    UNKNOWN_USAGE,
    Affinity,
    Allocation,
    AntiAffinity,
    Disk,
    DomainAffinity,
    Forecast,
    Guest,
    GuestId,
    GuestPriority,
    GuestState,
    MutualAntiAffinity,
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
    Storage,
    TagExclusion,
    Usage,
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
            guests and nodes, and no key is duplicate.

    Raises:
        InvalidFileError: The document has another format.
    """
    require_format(document, source, FileFormat.SNAPSHOT)
    entry, diagnostics = validate_snapshot(document)
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


def _snapshot(entry: SnapshotEntry) -> Snapshot:
    snapshot = Snapshot(
        taken_at=entry["taken_at"],
        nodes={
            NodeId(name): _node(name, node) for name, node in entry["nodes"].items()
        },
        guests={
            GuestId(name): _guest(name, guest)
            for name, guest in entry["guests"].items()
        },
        rules=tuple(rule_from_entry(rule) for rule in entry.get("rules", ())),
        bandwidth=entry.get("bandwidth"),
    )
    return with_chosen(snapshot)


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
        powered_on_at=entry.get("powered_on_at"),
        allocation=Allocation(**entry.get("allocation", AllocationEntry())),
        groups=frozenset(entry.get("groups", ())),
        failure_domain=entry.get("failure_domain"),
        storages=_storages(entry.get("storages")),
        jobs=None if "jobs" not in entry else tuple(entry["jobs"]),
        loads=entry.get("loads", NO_LOADS),
        load_capacities=entry.get("load_capacities", NO_LOADS),
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
        mobility=entry.get("mobility"),
        mobility_detail=entry.get("mobility_detail"),
        ha_managed=entry.get("ha_managed"),
        tags=frozenset(entry.get("tags", ())),
        cpu_model=entry.get("cpu_model"),
        migrating_to=None if target is None else NodeId(target),
        migrated_at=entry.get("migrated_at"),
        dirty_rate=entry.get("dirty_rate"),
        managed_by=entry.get("managed_by"),
        lock=entry.get("lock"),
        disks=_disks(entry.get("disks")),
        forecast=_forecast(entry.get("forecast")),
        loads=entry.get("loads", NO_LOADS),
    )


def _resources(entry: CapacityEntry | LimitEntry | None) -> Resources | None:
    return None if entry is None else Resources(entry["cpu"], entry["memory"])


def _usage(entry: UsageEntry | None) -> Usage:
    if entry is None:
        return UNKNOWN_USAGE
    return Usage(entry.get("cpu"), entry.get("memory"))


def _forecast(entry: ForecastEntry | None) -> Forecast | None:
    if entry is None:
        return None
    return Forecast(
        expected=_usage(entry.get("expected")), upper=_usage(entry.get("upper"))
    )


def _pressure(entry: PressureEntry | None) -> Pressure:
    if entry is None:
        return UNKNOWN_PRESSURE
    return Pressure(
        cpu=_stall(entry.get("cpu", {})),
        memory=_stall(entry.get("memory", {})),
        io=_stall(entry.get("io", {})),
    )


def _stall(entry: StallEntry) -> Stall:
    return Stall(entry.get("some"), entry.get("full"))


def _storages(entries: list[StorageEntry] | None) -> tuple[Storage, ...] | None:
    return None if entries is None else tuple(Storage(**each) for each in entries)


def _disks(entries: list[DiskEntry] | None) -> tuple[Disk, ...] | None:
    return None if entries is None else tuple(Disk(**each) for each in entries)


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
