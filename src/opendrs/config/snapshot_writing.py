"""Writer of documents in the format opendrs-snapshot/1.

Nodes and guests are sorted by name, rules keep their order, so that equal snapshots
result in equal files.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import tomli_w

from opendrs.config.parsing import display_path
from opendrs.config.snapshot_schema import FORMAT
from opendrs.errors import InvalidFileError
from opendrs.escapes import escape_text, escape_toml
from opendrs.model import (
    DERIVED_ORIGINS,
    RULE_KINDS,
    Allocation,
    AntiAffinity,
    Disk,
    DomainAffinity,
    Forecast,
    Guest,
    GuestPriority,
    GuestState,
    LoadAmounts,
    MutualAntiAffinity,
    Node,
    NodeAffinity,
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
    format_timestamp,
)
from opendrs.rules import Choices

Document = dict[str, object]


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write *snapshot* to *path*: TOML for the suffix .toml, JSON otherwise.

    The file is replaced atomically.

    Raises:
        InvalidFileError: The file cannot be written.
    """
    replace_file(
        path, toml_text(snapshot) if path.suffix == ".toml" else json_text(snapshot)
    )


def replace_file(path: Path, text: str) -> None:
    """Write *text* to *path*, which is never incomplete and keeps its permissions.

    Raises:
        InvalidFileError: The file cannot be written.
    """
    try:
        _replace_file(path, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(
            f"cannot write {display_path(path)}: {reason}"
        ) from error


def _replace_file(path: Path, text: str) -> None:
    target = path.resolve()
    if target.exists() and not target.is_file():  # such as /dev/stdout
        target.write_text(text, encoding="utf-8")
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with temporary.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def toml_text(snapshot: Snapshot) -> str:
    """Return *snapshot* as TOML."""
    return escape_toml(tomli_w.dumps(snapshot_document(snapshot)))


def json_line(snapshot: Snapshot) -> str:
    """Return *snapshot* as JSON on one line, without a line break."""
    return escape_text(json.dumps(snapshot_document(snapshot), ensure_ascii=False))


def json_text(snapshot: Snapshot) -> str:
    """Return *snapshot* as JSON, with one line for each node, guest and rule."""
    parts = snapshot_document(snapshot)
    fields = [
        f"{_compact_json(key)}: {_multiline_json(value)}"
        for key, value in parts.items()
    ]
    return escape_text("{\n  " + ",\n  ".join(fields) + "\n}\n")


def _multiline_json(value: object) -> str:
    if isinstance(value, Mapping):
        lines = [
            f"{_compact_json(key)}: {_compact_json(part)}"
            for key, part in value.items()
        ]
        return _json_block("{", lines, "}")
    if isinstance(value, list):
        return _json_block("[", [_compact_json(part) for part in value], "]")
    return _compact_json(value)


def _json_block(start: str, lines: Iterable[str], end: str) -> str:
    inside = ",\n    ".join(lines)
    return f"{start}\n    {inside}\n  {end}" if inside else start + end


def _compact_json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def snapshot_document(snapshot: Snapshot) -> Document:
    """Return *snapshot* as plain values; unknown values are absent."""
    nodes, guests = snapshot.nodes, snapshot.guests
    fields: Document = {
        "format": FORMAT,
        "taken_at": format_timestamp(snapshot.taken_at),
        "nodes": {name: _node(nodes[name]) for name in sorted(nodes)},
        "guests": {name: _guest(guests[name]) for name in sorted(guests)},
    }
    if snapshot.bandwidth is not None:
        fields["bandwidth"] = _number(snapshot.bandwidth)
    if snapshot.rules:
        rules = (x for x in snapshot.rules if x.origin not in DERIVED_ORIGINS)
        choices = Choices(snapshot)
        fields["rules"] = [_rule(rule, choices) for rule in rules]
    return fields


def _node(node: Node) -> Document:
    return _without_none(
        capacity=_resources(node.capacity),
        usage=_usage(node.usage),
        state=None if node.state is NodeState.UNKNOWN else node.state.value,
        architecture=node.architecture,
        cpu_model=node.cpu_model,
        labels=sorted(node.labels) or None,
        load_average=_number(node.load_average),
        pressure=_pressure(node.pressure),
        ksm_shared=node.ksm_shared,
        powered_on_at=None
        if node.powered_on_at is None
        else format_timestamp(node.powered_on_at),
        allocation=_fields(node.allocation) or None,
        groups=sorted(node.groups) or None,
        failure_domain=node.failure_domain,
        storages=_entries(node.storages),
        jobs=None if node.jobs is None else list(node.jobs),
        loads=_loads(node.loads),
        load_capacities=_loads(node.load_capacities),
    )


def _guest(guest: Guest) -> Document:
    return _without_none(
        node=guest.node,
        kind=guest.kind.value,
        state=None if guest.state is GuestState.UNKNOWN else guest.state.value,
        limit=_resources(guest.limit),
        usage=_usage(guest.usage),
        pressure=_pressure(guest.pressure),
        uptime=_number(guest.uptime),
        mobility=None if guest.mobility is None else guest.mobility.value,
        mobility_detail=guest.mobility_detail,
        ha_managed=guest.ha_managed,
        tags=sorted(guest.tags) or None,
        cpu_model=guest.cpu_model,
        migrating_to=guest.migrating_to,
        migrated_at=None
        if guest.migrated_at is None
        else format_timestamp(guest.migrated_at),
        dirty_rate=_number(guest.dirty_rate),
        managed_by=guest.managed_by,
        lock=guest.lock,
        disks=_entries(guest.disks),
        forecast=_forecast(guest.forecast),
        loads=_loads(guest.loads),
    )


def _without_none(**fields: object) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _fields(value: Allocation | Storage | Disk) -> Document:
    """Return the known fields of *value*."""
    return _without_none(
        **{
            name: _number(part) if isinstance(part, float) else part
            for name in value.__slots__
            if (part := getattr(value, name)) is not None
        }
    )


def _entries(values: Sequence[Storage | Disk] | None) -> list[Document] | None:
    return None if values is None else [_fields(value) for value in values]


def _number(value: float | None) -> float | None:
    """Return *value*, converted to an integer if it is whole."""
    if value is None or not float(value).is_integer():
        return value
    return int(value)


def _resources(resources: Resources | None) -> Document | None:
    if resources is None:
        return None
    return {"cpu": _number(resources.cpu), "memory": resources.memory}


def _usage(usage: Usage) -> Document | None:
    return _without_none(cpu=_number(usage.cpu), memory=usage.memory) or None


def _forecast(forecast: Forecast | None) -> Document | None:
    if forecast is None:
        return None
    return _without_none(
        expected=_usage(forecast.expected), upper=_usage(forecast.upper)
    )


def _loads(amounts: LoadAmounts) -> Document | None:
    return {name: _number(amounts[name]) for name in sorted(amounts)} or None


def _pressure(pressure: Pressure) -> Document | None:
    stalls = {name: _stall(getattr(pressure, name)) for name in ("cpu", "memory", "io")}
    return _without_none(**stalls) or None


def _stall(stall: Stall) -> Document | None:
    return _without_none(some=_number(stall.some), full=_number(stall.full)) or None


def _rule(rule: Rule, choices: Choices) -> Document:
    """Return *rule* without the guests and nodes that its tags and labels choose."""
    kind = RULE_KINDS[type(rule)]
    named = {"name": rule.name, "origin": rule.origin}
    name_field: Document = {key: text for key, text in named.items() if text}
    if isinstance(rule, TagExclusion):
        return {"kind": kind, "tags": sorted(rule.tags), **name_field}
    if isinstance(rule, GuestPriority):
        guests = sorted(rule.guests)
        members = _without_none(guests=guests or None, tags=sorted(rule.tags) or None)
        value = _number(rule.value)
        return {"kind": kind, "value": value, **members, **name_field}
    if isinstance(rule, Pin):
        return {"kind": kind, "guests": sorted(rule.guests), **name_field}
    chosen = choices.guests(rule.tags)
    members = _without_none(
        guests=sorted(rule.guests - chosen) or None, tags=sorted(rule.tags) or None
    )
    strict: Document = {"strict": rule.strict}
    if rule.weight != 1:
        strict["weight"] = _number(rule.weight)
    if isinstance(rule, NodeAffinity):
        nodes = _rule_nodes(rule, choices)
        return {"kind": kind, **members, **nodes, **strict, **name_field}
    limit: Document = {}
    if isinstance(rule, MutualAntiAffinity):
        limit = _other_side(rule, choices)
    if isinstance(rule, AntiAffinity) and rule.max_guests > 1:
        limit["max_guests"] = rule.max_guests
    if isinstance(rule, AntiAffinity | DomainAffinity) and rule.domain:
        limit = {"domain": rule.domain, **limit}
    return {
        "kind": kind,
        **members,
        **limit,
        **strict,
        **name_field,
    }


def _other_side(rule: MutualAntiAffinity, choices: Choices) -> Document:
    chosen = choices.guests(rule.other_tags) - choices.guests(rule.tags)
    return _without_none(
        other_guests=sorted(rule.other_guests - chosen) or None,
        other_tags=sorted(rule.other_tags) or None,
    )


def _rule_nodes(rule: NodeAffinity, choices: Choices) -> Document:
    chosen = choices.nodes(rule)
    nodes = {
        node: rule.nodes[node]
        for node in sorted(rule.nodes)
        if rule.nodes[node] or node not in chosen
    }
    return _without_none(
        nodes=nodes or None,
        labels=sorted(rule.labels) or None,
        groups=sorted(rule.groups) or None,
        exclusive=rule.exclusive or None,
    )
