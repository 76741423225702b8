"""From the model to a document in the format opendrs-snapshot/1.

Nodes and guests are in the order of their names and rules in that of the
operator, so that equal snapshots give equal files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import tomli_w

from opendrs.errors import InvalidFileError
from opendrs.escapes import escaped, escaped_toml
from opendrs.model import (
    AntiAffinity,
    Exclusion,
    Guest,
    GuestState,
    Node,
    NodeAffinity,
    NodeState,
    Pin,
    Pressure,
    Resources,
    Rule,
    Snapshot,
    Stall,
    Usage,
)
from opendrs.platforms.file.documents import shown_path
from opendrs.platforms.file.wire import FORMAT

Document = dict[str, object]


def write_snapshot(snapshot: Snapshot, path: Path) -> None:
    """Write *snapshot* to *path*: TOML when it is called so, JSON otherwise.

    The file is replaced at once: whoever reads it sees the old or the new one.

    Raises:
        InvalidFileError: It cannot be written.
    """
    text = toml_text(snapshot) if path.suffix == ".toml" else json_text(snapshot)
    try:
        _replace(path, text)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidFileError(f"cannot write {shown_path(path)}: {reason}") from error


def _replace(path: Path, text: str) -> None:
    goal = path.resolve()
    if goal.exists() and not goal.is_file():  # such as /dev/stdout
        goal.write_text(text, encoding="utf-8")
        return
    draft = goal.with_name(f".{goal.name}.{os.getpid()}")
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(goal)
    except BaseException:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
        raise


def toml_text(snapshot: Snapshot) -> str:
    """Return *snapshot* as TOML."""
    return escaped_toml(tomli_w.dumps(document(snapshot)))


def json_line(snapshot: Snapshot) -> str:
    """Return *snapshot* as JSON on one line, without its end."""
    return escaped(json.dumps(document(snapshot), ensure_ascii=False))


def json_text(snapshot: Snapshot) -> str:
    """Return *snapshot* as JSON, with one line for each node, guest and rule."""
    parts = document(snapshot)
    fields = [f"{_json(key)}: {_spread(value)}" for key, value in parts.items()]
    return escaped("{\n  " + ",\n  ".join(fields) + "\n}\n")


def _spread(value: object) -> str:
    if isinstance(value, Mapping):
        lines = [f"{_json(key)}: {_json(part)}" for key, part in value.items()]
        return _block("{", lines, "}")
    if isinstance(value, list):
        return _block("[", [_json(part) for part in value], "]")
    return _json(value)


def _block(start: str, lines: Iterable[str], end: str) -> str:
    inside = ",\n    ".join(lines)
    return f"{start}\n    {inside}\n  {end}" if inside else start + end


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def document(snapshot: Snapshot) -> Document:
    """Return *snapshot* as plain values; what is unknown is absent."""
    nodes, guests = snapshot.nodes, snapshot.guests
    written: Document = {
        "format": FORMAT,
        "taken_at": _moment(snapshot.taken_at),
        "nodes": {name: _node(nodes[name]) for name in sorted(nodes)},
        "guests": {name: _guest(guests[name]) for name in sorted(guests)},
    }
    if snapshot.rules:
        written["rules"] = [_rule(rule) for rule in snapshot.rules]
    return written


def _moment(instant: datetime) -> str:
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _node(node: Node) -> Document:
    return _known(
        capacity=_resources(node.capacity),
        usage=_usage(node.usage),
        state=None if node.state is NodeState.UNKNOWN else node.state.value,
        architecture=node.architecture,
        cpu_model=node.cpu_model,
        labels=sorted(node.labels) or None,
        load_average=_number(node.load_average),
        pressure=_pressure(node.pressure),
        ksm_shared=node.ksm_shared,
        woken_at=None if node.woken_at is None else _moment(node.woken_at),
    )


def _guest(guest: Guest) -> Document:
    return _known(
        node=guest.node,
        kind=guest.kind.value,
        state=None if guest.state is GuestState.UNKNOWN else guest.state.value,
        limit=_resources(guest.limit),
        usage=_usage(guest.usage),
        pressure=_pressure(guest.pressure),
        uptime=_number(guest.uptime),
        moves=None if guest.moves is None else guest.moves.value,
        obstacle=guest.obstacle,
        ha_managed=guest.ha_managed,
        tags=sorted(guest.tags) or None,
        cpu_model=guest.cpu_model,
        migrating_to=guest.migrating_to,
        moved_at=None if guest.moved_at is None else _moment(guest.moved_at),
        dirty_rate=_number(guest.dirty_rate),
    )


def _known(**fields: object) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _number(value: float | None) -> float | None:
    """Return *value*, as 16 rather than 16.0 when it is whole."""
    if value is None or not float(value).is_integer():
        return value
    return int(value)


def _resources(resources: Resources | None) -> Document | None:
    if resources is None:
        return None
    return {"cpu": _number(resources.cpu), "memory": resources.memory}


def _usage(usage: Usage) -> Document | None:
    return _known(cpu=_number(usage.cpu), memory=usage.memory) or None


def _pressure(pressure: Pressure) -> Document | None:
    stalls = {name: _stall(getattr(pressure, name)) for name in ("cpu", "memory", "io")}
    return _known(**stalls) or None


def _stall(stall: Stall) -> Document | None:
    return _known(some=_number(stall.some), full=_number(stall.full)) or None


def _rule(rule: Rule) -> Document:
    named: Document = {"name": rule.name} if rule.name else {}
    if isinstance(rule, Exclusion):
        return {"kind": "exclusion", "tags": sorted(rule.tags), **named}
    guests = sorted(rule.guests)
    if isinstance(rule, Pin):
        return {"kind": "pin", "guests": guests, **named}
    if isinstance(rule, NodeAffinity):
        nodes = {node: rule.nodes[node] for node in sorted(rule.nodes)}
        where: Document = {"kind": "node-affinity", "guests": guests, "nodes": nodes}
        return {**where, "strict": rule.strict, **named}
    kind = "anti-affinity" if isinstance(rule, AntiAffinity) else "affinity"
    return {"kind": kind, "guests": guests, "strict": rule.strict, **named}
