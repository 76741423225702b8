"""Reader of the history: cycles and started steps, newest first."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, or_, select

from opendrs.model import decoding, require_type
from opendrs.ports import CycleRecord, CycleSummary, HistoryFilter, StepRecord
from opendrs.store.cycle_records import DECISION, NODES, OTHER, CycleReader
from opendrs.store.database import DatabaseStore, step_from_row
from opendrs.store.tables import CYCLE_PARTS, CYCLES, STEPS, time_from_column

MAX_SEARCHED = 5_000  # plans in which a guest or node is searched
_BLOCK = 200  # cycles read at once


class History:
    """History of a store. Each method may raise `StoreError`.

    Args:
        store: The store, open for reading.
    """

    def __init__(self, store: DatabaseStore) -> None:
        self._store = store
        self._reader = CycleReader()

    def cycles(
        self,
        chosen: HistoryFilter,
        *,
        with_plan: bool = False,
        before: int | None = None,
    ) -> Iterator[CycleSummary]:
        """Yield the cycles of the selected time, newest first.

        Args:
            chosen: The selection. With a guest or node, only cycles whose plan
                concerns it; the newest `MAX_SEARCHED` plans are searched.
            with_plan: Only cycles with a plan.
            before: Only cycles with a smaller number.
        """
        query = select(CYCLES).where(*_between(CYCLES.c.decided_at, chosen))
        if with_plan or chosen.names_subject:
            query = query.where(CYCLES.c.steps > 0)
        if chosen.names_subject:
            parts = CYCLE_PARTS.c.cycle == CYCLES.c.id, CYCLE_PARTS.c.part == DECISION
            query = query.add_columns(CYCLE_PARTS.c.content).where(*parts)
        search = _SubjectSearch(chosen)
        found: tuple[Any, ...]
        last = before
        searched = 0
        while not chosen.names_subject or searched < MAX_SEARCHED:
            block = query if last is None else query.where(CYCLES.c.id < last)
            ordered = block.order_by(CYCLES.c.id.desc()).limit(_BLOCK)
            if chosen.names_subject:
                found = self._store.read(ordered, lambda row: row)
                yield from search.found(found)
            else:
                found = self._store.read(ordered, _summary)
                yield from found
            searched += len(found)
            if len(found) < _BLOCK:
                return
            last = found[-1].id

    def steps(self, chosen: HistoryFilter, limit: int) -> tuple[StepRecord, ...]:
        """Return the newest *limit* selected steps, newest first."""
        query = select(STEPS).where(*_between(STEPS.c.intended_at, chosen))
        if chosen.guest is not None:
            query = query.where(STEPS.c.guest == chosen.guest)
        if chosen.node is not None:
            ends = STEPS.c.source == chosen.node, STEPS.c.target == chosen.node
            query = query.where(or_(*ends))
        newest = query.order_by(STEPS.c.intended_at.desc(), STEPS.c.id.desc())
        return self._store.read(newest.limit(limit), step_from_row)

    def records_of(self, run: str) -> tuple[StepRecord, ...]:
        """Return the started steps of *run*, oldest first."""
        return self._store.records_of(run)

    def cycle_of(self, run: str) -> CycleSummary | None:
        """Return the cycle with this run, or None."""
        return self._first(select(CYCLES).where(CYCLES.c.run == run))

    def newest(self, at: datetime | None = None) -> CycleSummary | None:
        """Return the newest cycle, decided at or before *at* if given."""
        query = select(CYCLES)
        if at is not None:
            query = query.where(CYCLES.c.decided_at <= at)
        return self._first(query.order_by(CYCLES.c.id.desc()))

    def next_with_inputs(self, time: datetime) -> CycleSummary | None:
        """Return the first cycle after *time*, if it has its inputs."""
        query = select(CYCLES).where(CYCLES.c.decided_at >= time)
        found = self._first(query.order_by(CYCLES.c.decided_at, CYCLES.c.id))
        return None if found is None or found.inputs == "dropped" else found

    def decision(self, cycle: CycleSummary) -> dict[str, Any]:
        """Return the decision of *cycle* as plain values; empty if none is stored."""
        return self._part(cycle, DECISION)

    def nodes(self, cycle: CycleSummary) -> dict[str, Any]:
        """Return the nodes of *cycle* as plain values; empty if dropped."""
        return self._part(cycle, NODES)

    def estimates(self, cycle: CycleSummary) -> dict[str, Any]:
        """Return the estimated seconds of the steps of *cycle*; empty if dropped."""
        found = self._part(cycle, OTHER).get("estimates", {})
        return found if isinstance(found, dict) else {}

    def record(self, cycle: CycleSummary) -> CycleRecord | None:
        """Return the complete record of *cycle*; None if its inputs are dropped."""
        with self._store.reading() as connection:
            return self._reader.record(connection, cycle.id)

    def _part(self, cycle: CycleSummary, name: str) -> dict[str, Any]:
        with self._store.reading() as connection:
            return self._reader.part(connection, cycle.id, name) or {}

    def _first(self, query: Select[Any]) -> CycleSummary | None:
        found = self._store.read(query.limit(1), _summary)
        return found[0] if found else None


class _SubjectSearch:
    """Search of the cycles whose plan concerns a guest and a node.

    Args:
        chosen: The guest, the node, or both.
    """

    def __init__(self, chosen: HistoryFilter) -> None:
        self._chosen = chosen
        names = (chosen.guest, chosen.node)
        self._quoted = [json.dumps(each).encode() for each in names if each is not None]

    def found(self, rows: Iterable[Any]) -> Iterator[CycleSummary]:
        """Yield the cycles of *rows* whose plan concerns them.

        They are decoded one by one: a damaged plan does not hide the newer ones.
        """
        for row in rows:
            with decoding("a decision", row.run):
                text = zlib.decompress(row.content)
                if not all(name in text for name in self._quoted):
                    continue
                steps = json.loads(text).get("steps", ())
            if any(_concerns(step, self._chosen) for step in steps):
                yield _summary(row)


def _concerns(step: dict[str, Any], chosen: HistoryFilter) -> bool:
    return chosen.guest in (None, step.get("guest")) and chosen.node in (
        None,
        step.get("source"),
        step.get("target"),
    )


def _between(column: ColumnElement[Any], chosen: HistoryFilter) -> list[Any]:
    limits = []
    if chosen.since is not None:
        limits.append(column >= chosen.since)
    if chosen.until is not None:
        limits.append(column <= chosen.until)
    return [and_(*limits)] if limits else []


def _summary(row: Any) -> CycleSummary:  # noqa: ANN401 - a row of any type
    with decoding("a cycle", row.run):
        texts = row.run, row.policy, row.reason, row.detail, row.inputs
        require_type(str, texts)
        require_type(int, [row.steps])
        return CycleSummary(
            id=row.id,
            run=row.run,
            decided_at=time_from_column(row.decided_at),
            policy=row.policy,
            reason=row.reason,
            detail=row.detail,
            steps=row.steps,
            inputs=row.inputs,
        )
