"""Records of cycles in the tables `cycles` and `cycle_parts`.

A record is stored in parts: the decision, the nodes, the guests, and the other inputs
(settings and memory of the policy, rules). The inputs are stored as differences from a
base, the inputs of a cycle at most a day older. Each record can be restored exactly.

The newest cycles keep their inputs (`Retention.input_cycles`). Of older ones, these do:
the first of each hour, those of which a step was started, and the cycle after such a
one, which shows the result. The others keep their decision. All are deleted after
`Retention.seconds`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic_core import from_json
from sqlalchemy import Connection, Row, delete, exists, insert, select, update

from opendrs.escapes import repr_value
from opendrs.model import DamagedRecordError, decoding, require_type, value_as_text
from opendrs.ports import CycleRecord
from opendrs.store.tables import CYCLE_PARTS, CYCLES, STEPS, time_from_column

DECISION, NODES, GUESTS, OTHER = "decision", "nodes", "guests", "other"
INPUTS = (NODES, GUESTS, OTHER)
RECENT, KEPT, DROPPED = "recent", "kept", "dropped"  # states of the inputs of a cycle
BASE_AGE = timedelta(days=1)  # a new base is stored after it
BATCH = 20  # cycles that are compacted, and deleted, when one is recorded

Parts = dict[str, Any]
AnyRow = Row[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """Extent of the record.

    Attributes:
        seconds: Time for which the decisions of cycles are kept.
        input_cycles: Number of the newest cycles that all keep their inputs.
    """

    seconds: float = 30 * 86_400.0
    input_cycles: int = 360


DEFAULT_RETENTION = Retention()


@dataclass(frozen=True, slots=True)
class Base:
    """Inputs that those of the next cycles are compared with.

    Attributes:
        cycle: Id of the cycle.
        decided_at: Time of its decision.
        parts: Its inputs by part.
        size: Bytes that they occupy.
    """

    cycle: int
    decided_at: datetime
    parts: Mapping[str, Any]
    size: int


def split_document(document: Mapping[str, Any]) -> Parts:
    """Return the parts of *document*; None is in the place of those taken out."""
    parts: Parts = {}
    other = dict(document)
    if isinstance(other.get("decision"), Mapping):
        parts[DECISION], other["decision"] = other["decision"], None
    if isinstance(other.get("snapshot"), Mapping):
        snapshot = dict(other["snapshot"])
        for name in (NODES, GUESTS):
            if isinstance(snapshot.get(name), Mapping):
                parts[name], snapshot[name] = snapshot[name], None
        other["snapshot"] = snapshot
    return {**parts, OTHER: other}


def join_parts(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document that `split_document` has divided."""
    document: dict[str, Any] = dict(parts[OTHER])
    if DECISION in parts:
        document["decision"] = parts[DECISION]
    if NODES in parts or GUESTS in parts:
        found = {name: parts[name] for name in (NODES, GUESTS) if name in parts}
        document["snapshot"] = {**document["snapshot"], **found}
    return document


def add_cycle(connection: Connection, record: CycleRecord, base: Base | None) -> Base:
    """Add *record*; return the base of the next one.

    Raises:
        StoreError: JSON cannot represent the document.
    """
    parts = split_document(record.document)
    decision = parts.pop(DECISION, {})
    row = {"run": record.run, "decided_at": record.decided_at, **_columns(decision)}
    cycle = connection.execute(
        insert(CYCLES).values(row).returning(CYCLES.c.id)
    ).scalar_one()
    rows = [_part(cycle, DECISION, compress(decision))] if decision else []
    usable = base if base is not None and _is_stored(connection, base) else None
    deltas = _deltas(parts, usable, record.decided_at)
    if base is not None and deltas is not None:
        rows += [_part(cycle, name, deltas[name], base.cycle) for name in parts]
    else:
        full = {name: compress(part) for name, part in parts.items()}
        base = Base(cycle, record.decided_at, parts, _size(full))
        rows += [_part(cycle, name, content) for name, content in full.items()]
    connection.execute(insert(CYCLE_PARTS), rows)
    return base


def _is_stored(connection: Connection, base: Base) -> bool:
    """Return False if another process has dropped the base."""
    query = exists().where(
        CYCLE_PARTS.c.cycle == base.cycle, CYCLE_PARTS.c.part == OTHER
    )
    return bool(connection.scalar(select(query)))


def _deltas(
    parts: Parts, base: Base | None, decided_at: datetime
) -> dict[str, bytes] | None:
    """Return the differences from *base*; None if a new base is needed."""
    # Imported here: it loads NumPy, which no summary of a cycle needs.
    from opendrs.store.document_delta import encode_delta  # noqa: PLC0415

    if base is None or base.parts.keys() != parts.keys():
        return None
    if not timedelta() <= decided_at - base.decided_at < BASE_AGE:
        return None
    try:
        deltas = {name: encode_delta(base.parts[name], parts[name]) for name in parts}
    except ValueError:  # reported when the base is encoded
        return None
    return deltas if _size(deltas) < base.size else None


def _size(contents: Mapping[str, bytes]) -> int:
    return sum(map(len, contents.values()))


def _part(cycle: int, part: str, content: bytes, base: int | None = None) -> Parts:
    return {"cycle": cycle, "part": part, "base": base, "content": content}


def _columns(decision: Mapping[str, Any]) -> dict[str, object]:
    """Return the columns of `cycles` that describe *decision*."""
    texts = {
        name: str(decision.get(name, "")) for name in ("policy", "reason", "detail")
    }
    steps = decision.get("steps", ())
    return {**texts, "steps": len(steps) if isinstance(steps, list) else 0}


def compress(value: Mapping[str, Any]) -> bytes:
    """Return a part in full."""
    return zlib.compress(value_as_text(value).encode())


def decompress(content: bytes) -> dict[str, Any]:
    """Return the part that `compress` has encoded.

    Raises:
        TypeError, ValueError, zlib.error: The content is damaged.
    """
    text = zlib.decompress(content)
    try:
        value = from_json(text)  # faster than that of json
    except ValueError:  # it rejects lone surrogates, which `compress` encodes
        value = json.loads(text)
    require_type(dict, [value])
    found: dict[str, Any] = value
    return found


class CycleReader:
    """Reader of records; it keeps the last base, which many records share."""

    def __init__(self) -> None:
        self._bases: dict[tuple[int, str], dict[str, Any]] = {}

    def part(
        self, connection: Connection, cycle: int, name: str
    ) -> dict[str, Any] | None:
        """Return a part of a cycle; None if it is not stored.

        Raises:
            DamagedRecordError: It cannot be decoded.
        """
        row = _part_row(connection, cycle, name)
        if row is None:
            return None
        with decoding("a part of a cycle", [cycle, name]):
            if row.base is None:
                return decompress(row.content)
            from opendrs.store.document_delta import (  # noqa: PLC0415 - loads NumPy
                decode_delta,
            )

            return decode_delta(self._base(connection, row.base, name), row.content)

    def record(self, connection: Connection, cycle: int) -> CycleRecord | None:
        """Return the record of a cycle; None if its inputs are not stored.

        Raises:
            DamagedRecordError: It cannot be decoded.
        """
        this = CYCLES.c.id == cycle, CYCLES.c.inputs != DROPPED
        row = connection.execute(select(CYCLES).where(*this)).first()
        if row is None:
            return None
        query = select(CYCLE_PARTS.c.part).where(CYCLE_PARTS.c.cycle == cycle)
        with decoding("a cycle", row.run):
            require_type(str, [row.run])
            names = list(connection.scalars(query))
            return CycleRecord(
                run=row.run,
                decided_at=time_from_column(row.decided_at),
                document=join_parts(
                    {name: self.part(connection, cycle, name) for name in names}
                ),
            )

    def _base(self, connection: Connection, cycle: int, name: str) -> dict[str, Any]:
        if (cycle, name) not in self._bases:
            row = _part_row(connection, cycle, name)
            if row is None:
                raise DamagedRecordError(
                    f"expected a base of a cycle, got {repr_value(cycle)}"
                )
            self._bases = {
                key: part for key, part in self._bases.items() if key[0] == cycle
            }
            self._bases[cycle, name] = decompress(row.content)
        return self._bases[cycle, name]


def _part_row(connection: Connection, cycle: int, name: str) -> AnyRow | None:
    query = select(CYCLE_PARTS.c.base, CYCLE_PARTS.c.content)
    this = CYCLE_PARTS.c.cycle == cycle, CYCLE_PARTS.c.part == name
    return connection.execute(query.where(*this)).first()


def cycles_with_inputs(
    connection: Connection,
    run: str | None = None,
    last: int | None = None,
    since: datetime | None = None,
) -> list[int]:
    """Return the ids of the cycles with inputs, oldest first."""
    query = select(CYCLES.c.id).where(CYCLES.c.inputs != DROPPED)
    if run is not None:
        query = query.where(CYCLES.c.run == run)
    if since is not None:
        query = query.where(CYCLES.c.decided_at >= since)
    newest_first = query.order_by(CYCLES.c.id.desc()).limit(last)
    return list(connection.scalars(newest_first))[::-1]


def compact(
    connection: Connection, retention: Retention, now: datetime, base: Base
) -> None:
    """Drop inputs of older cycles, and delete expired cycles; at most `BATCH` each.

    The limit bounds what a clock that is ahead can delete.

    Args:
        connection: A connection in a transaction.
        retention: Extent of the record.
        now: Time of the newest decision.
        base: Base of the next cycle, which is kept.
    """
    ids = select(CYCLES.c.id).order_by(CYCLES.c.id.desc())
    newest = connection.scalar(ids.offset(retention.input_cycles).limit(1))
    if newest is not None:
        old = CYCLES.c.inputs == RECENT, CYCLES.c.id <= newest
        query = select(CYCLES.c.id, CYCLES.c.run, CYCLES.c.decided_at).where(*old)
        for row in connection.execute(query.order_by(CYCLES.c.id).limit(BATCH)).all():
            _compact_cycle(connection, row, base)
    _delete_expired(connection, now - timedelta(seconds=retention.seconds), base)


def _compact_cycle(connection: Connection, row: AnyRow, base: Base) -> None:
    keeps = row.id == base.cycle or _is_base(connection, row.id)
    keeps = keeps or _shows_steps(connection, row)
    keeps = keeps or _is_first_of_hour(connection, row)
    state = KEPT if keeps else DROPPED
    this = CYCLES.c.id == row.id
    connection.execute(update(CYCLES).where(this).values(inputs=state))
    if not keeps:
        inputs = CYCLE_PARTS.c.cycle == row.id, CYCLE_PARTS.c.part.in_(INPUTS)
        connection.execute(delete(CYCLE_PARTS).where(*inputs))


def _is_base(connection: Connection, cycle: int) -> bool:
    query = select(exists().where(CYCLE_PARTS.c.base == cycle))
    return bool(connection.scalar(query))


def _shows_steps(connection: Connection, row: AnyRow) -> bool:
    """Return True if a step of this cycle, or of the one before, was started."""
    before = (
        select(CYCLES.c.run)
        .where(CYCLES.c.id < row.id)
        .order_by(CYCLES.c.id.desc())
        .limit(1)
    )
    runs = [row.run, connection.scalar(before)]
    started = STEPS.c.run.in_(runs), STEPS.c.task.is_not(None)
    return bool(connection.scalar(select(exists().where(*started))))


def _is_first_of_hour(connection: Connection, row: AnyRow) -> bool:
    """Return True if no cycle before in the same hour has kept its inputs."""
    hour = _hour(row)
    kept = (
        select(CYCLES.c.decided_at)
        .where(CYCLES.c.inputs == KEPT, CYCLES.c.id < row.id)
        .order_by(CYCLES.c.id.desc())
        .limit(1)
    )
    before = connection.execute(kept).first()
    return before is None or _hour(before) != hour


def _hour(row: AnyRow) -> datetime | None:
    """Return the hour of a decision; None if its time is damaged."""
    try:
        time = time_from_column(row.decided_at)
    except DamagedRecordError:
        return None
    return time.replace(minute=0, second=0, microsecond=0)


def _delete_expired(connection: Connection, limit: datetime, base: Base) -> None:
    """Delete the oldest cycles before *limit*, except bases of newer ones."""
    in_use = exists().where(CYCLE_PARTS.c.base == CYCLES.c.id)
    expired = CYCLES.c.decided_at < limit, CYCLES.c.id != base.cycle, ~in_use
    query = select(CYCLES.c.id).where(*expired).order_by(CYCLES.c.id).limit(BATCH)
    ids = list(connection.scalars(query))
    if ids:
        connection.execute(delete(CYCLE_PARTS).where(CYCLE_PARTS.c.cycle.in_(ids)))
        connection.execute(delete(CYCLES).where(CYCLES.c.id.in_(ids)))
