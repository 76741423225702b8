"""Events of a controller in the table `events`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import Row, Select, delete, func, insert, select

from opendrs.model import decoding, require_type, value_as_text, value_from_text
from opendrs.ports import EventRecord
from opendrs.store.database import DatabaseStore
from opendrs.store.tables import EVENTS, time_from_column

BATCH = 500  # events that are deleted when others are recorded
MAX_EVENTS = 200_000  # that are kept
MAX_FACTS = 100_000  # characters; longer values of an event are not recorded


class DatabaseEventLog:
    """Implementation of `opendrs.ports.EventLog` in the database of a store.

    Args:
        store: The open store.
    """

    def __init__(self, store: DatabaseStore) -> None:
        self._store = store

    def add(self, events: Sequence[EventRecord]) -> None:
        """Record *events* in their order; delete those that are too old."""
        if not events:
            return
        oldest = events[-1].at - timedelta(seconds=self._store.retention.seconds)
        newest = select(func.max(EVENTS.c.id)).scalar_subquery()
        is_old = (EVENTS.c.at < oldest) | (EVENTS.c.id <= newest - MAX_EVENTS)
        # The newest one stays, so that the numbers continue after it.
        expired = select(EVENTS.c.id).where(is_old, EVENTS.c.id < newest)
        first = expired.order_by(EVENTS.c.id).limit(BATCH)
        with self._store.transaction() as connection:
            connection.execute(insert(EVENTS), [_to_row(event) for event in events])
            connection.execute(delete(EVENTS).where(EVENTS.c.id.in_(first)))

    def after(self, sequence: int, limit: int) -> tuple[EventRecord, ...]:
        """Return the first *limit* events with a number above *sequence*."""
        query = select(EVENTS).where(EVENTS.c.id > sequence).order_by(EVENTS.c.id)
        return self._store.read(query.limit(limit), _from_row)

    def newest(self, limit: int) -> tuple[EventRecord, ...]:
        """Return the newest *limit* events, oldest first."""
        query = select(EVENTS).order_by(EVENTS.c.id.desc()).limit(limit)
        return self._store.read(query, _from_row)[::-1]

    def first_sequence(self) -> int:
        """Return the number of the oldest event that is kept; 0 without events."""
        return self._number(select(func.min(EVENTS.c.id)))

    def last_sequence(self) -> int:
        """Return the number of the newest event; 0 without events."""
        return self._number(select(func.max(EVENTS.c.id)))

    def _number(self, query: Select[Any]) -> int:
        (found,) = self._store.read(query, lambda row: row[0])
        return found or 0


def _to_row(event: EventRecord) -> dict[str, object]:
    facts = value_as_text(event.facts)
    if len(facts) > MAX_FACTS:
        facts = json.dumps({"omitted": len(facts)})
    return {
        "at": event.at,
        "level": event.level,
        "code": event.code,
        "message": event.message,
        "facts": facts,
    }


def _from_row(row: Row[Any]) -> EventRecord:
    with decoding("an event", row.id):
        require_type(str, [row.level, row.code, row.message])
        return EventRecord(
            at=time_from_column(row.at),
            level=row.level,
            code=row.code,
            message=row.message,
            facts=value_from_text(row.facts),
            sequence=row.id,
        )
