"""Contract of the event log, in SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.ports import EventRecord
from opendrs.store import (
    DatabaseEventLog,
    PostgresqlStore,
    Retention,
    SqliteStore,
)
from support.builders import NOON

RETENTION = Retention(seconds=3600)


@pytest.fixture(params=["sqlite", "postgresql"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DatabaseEventLog]:
    store: SqliteStore | PostgresqlStore
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "record.db", retention=RETENTION)
    else:
        url = request.getfixturevalue("postgresql_url")
        store = PostgresqlStore(url, "lab", retention=RETENTION)
    with store:
        yield DatabaseEventLog(store)


def event(minute: int, **facts: object) -> EventRecord:
    return EventRecord(
        at=NOON + timedelta(minutes=minute),
        level="info",
        code="decision-made",
        message=f"minute {minute}",
        facts=facts,
    )


def test_events_are_numbered_in_order(log: DatabaseEventLog) -> None:
    assert (log.first_sequence(), log.last_sequence()) == (0, 0)

    log.add([event(0, run="r1"), event(1)])
    log.add([])
    log.add([event(2)])

    found = log.after(0, 10)
    assert [replace(each, sequence=0) for each in found] == [
        event(0, run="r1"),
        event(1),
        event(2),
    ]
    numbers = [each.sequence for each in found]
    assert numbers == sorted(set(numbers))
    assert (log.first_sequence(), log.last_sequence()) == (numbers[0], numbers[-1])
    assert log.after(numbers[0], 1) == found[1:2]
    assert log.newest(2) == found[1:]


def test_old_events_are_deleted_and_numbers_continue(log: DatabaseEventLog) -> None:
    log.add([event(0), event(1)])
    last = log.last_sequence()

    log.add([event(600)])

    assert [each.message for each in log.after(0, 10)] == ["minute 600"]
    assert log.first_sequence() > last
    log.add([event(1800)])
    assert log.last_sequence() > log.first_sequence() - 1 > last
