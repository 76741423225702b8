"""Contract of all stores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta, timezone
from pathlib import Path

import pytest

from opendrs.errors import StoreError
from opendrs.model import (
    Action,
    ColdMigration,
    GuestId,
    LiveMigration,
    NodeId,
    PowerOff,
    PowerOn,
    StepId,
)
from opendrs.ports import CycleRecord, Outcome, StepRecord, Store, TaskId
from opendrs.store import MemoryStore, PostgresqlStore, SqliteStore
from opendrs.store.memory import MAX_CYCLES
from support.builders import NOON

A, B = NodeId("a"), NodeId("b")
MOVE = LiveMigration(GuestId("vm:1"), A, B)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "memory":
        yield MemoryStore()
    elif request.param == "sqlite":
        with SqliteStore(tmp_path / "record.db") as opened:
            yield opened
    else:
        url = request.getfixturevalue("postgresql_url")
        with PostgresqlStore(url, "lab") as connected:
            yield connected


def record(step: str, minute: int = 0, *, run: str = "run") -> StepRecord:
    return StepRecord(
        run=run,
        step=StepId(step),
        action=MOVE,
        intended_at=NOON + timedelta(minutes=minute),
    )


def test_empty_store_returns_nothing(store: Store) -> None:
    assert store.load("key") is None
    assert store.unfinished() == ()
    assert store.recent(NOON) == ()


def test_load_all_returns_entries_with_prefix(store: Store) -> None:
    store.save("operator/drain/n_2", {"at": "2"})
    store.save("operator/drain/n1", {"at": "1"})
    store.save("operator/drainage", {})
    store.save("operator/mode", {})

    assert store.load_all("operator/drain/") == {
        "operator/drain/n1": {"at": "1"},
        "operator/drain/n_2": {"at": "2"},
    }
    assert store.load_all("operator%drain") == {}


def test_load_returns_last_saved_value(store: Store) -> None:
    store.save("key", {"old": 1})
    store.save("other", {})
    store.save("key", {"count": 3, "names": ["a", "ä"], "deep": {"none": None}})

    assert store.load("key") == {
        "count": 3,
        "names": ["a", "ä"],
        "deep": {"none": None},
    }


def test_value_is_replaced_only_if_it_is_the_expected_one(store: Store) -> None:
    store.save("key", {"a": 1, "b": 2})

    replaced = [
        store.replace("key", {"b": 2, "a": 1}, {"a": 2}),
        store.replace("key", {"a": 1, "b": 2}, {"a": 3}),
        store.replace("absent", {}, {"a": 4}),
    ]

    assert replaced == [True, False, False]
    assert store.load("key") == {"a": 2}
    assert store.load("absent") is None


def test_saved_value_is_a_copy(store: Store) -> None:
    names = ["a"]
    store.save("key", {"names": names})

    names.append("b")

    assert store.load("key") == {"names": ["a"]}


@pytest.mark.parametrize("value", [object(), float("nan")])
def test_save_non_json_raises_store_error(store: Store, value: object) -> None:
    with pytest.raises(StoreError, match="not JSON"):
        store.save("key", {"value": value})


@pytest.mark.parametrize(
    "action", [MOVE, ColdMigration(GuestId("ct 'x'"), A, B), PowerOn(A), PowerOff(B)]
)
def test_write_each_action_returns_same_record(store: Store, action: Action) -> None:
    whole = StepRecord(
        run="run",
        step=StepId("1"),
        action=action,
        intended_at=NOON + timedelta(microseconds=1),
        task=TaskId("task / 1"),
        ended_at=NOON + timedelta(seconds=5),
        outcome=Outcome.ABORTED,
        detail="a 'word' or \"two\"\nand a line",
    )
    store.write(whole)

    assert store.recent(NOON) == (whole,)


def test_a_record_of_the_same_run_and_step_replaces_the_first(store: Store) -> None:
    store.write(record("1"))
    store.write(replace(record("1"), task=TaskId("task")))

    assert store.unfinished() == (replace(record("1"), task=TaskId("task")),)


def test_same_step_of_other_run_is_separate(store: Store) -> None:
    store.write(record("1", run="first"))
    store.write(record("1", run="second"))

    assert len(store.unfinished()) == 2


def test_a_record_with_an_outcome_is_finished(store: Store) -> None:
    store.write(record("1"))
    store.write(record("2"))
    store.write(replace(record("1"), outcome=Outcome.DONE, ended_at=NOON))

    assert store.unfinished() == (record("2"),)


def test_records_are_sorted_oldest_first(store: Store) -> None:
    for step, minute in (("late", 9), ("early", 1), ("middle", 5)):
        store.write(record(step, minute))

    assert [found.step for found in store.unfinished()] == ["early", "middle", "late"]
    assert [found.step for found in store.recent(NOON)] == ["early", "middle", "late"]


def test_keeps_the_order_of_records_of_one_instant(store: Store) -> None:
    for step in ("b", "c", "a"):
        store.write(record(step))
    store.write(replace(record("b"), task=TaskId("task")))

    assert [found.step for found in store.unfinished()] == ["b", "c", "a"]


def test_recent_excludes_older_records(store: Store) -> None:
    store.write(record("before", 4))
    store.write(record("then", 5))
    store.write(record("after", 6))

    found = store.recent(NOON + timedelta(minutes=5))

    assert [record.step for record in found] == ["then", "after"]


def test_recent_includes_records_ended_since(
    store: Store,
) -> None:
    ended = replace(record("1", 0), outcome=Outcome.DONE)
    store.write(replace(ended, ended_at=NOON + timedelta(hours=5)))
    store.write(replace(ended, step=StepId("2"), ended_at=NOON + timedelta(hours=3)))

    found = store.recent(NOON + timedelta(hours=4))

    assert [record.step for record in found] == ["1"]


def test_recent_compares_times_across_zones(store: Store) -> None:
    east = timezone(timedelta(hours=5))
    store.write(replace(record("1"), intended_at=NOON.astimezone(east)))

    assert len(store.recent(NOON)) == 1
    assert store.recent(NOON + timedelta(seconds=1)) == ()


def test_records_of_run_are_returned(store: Store) -> None:
    store.write(record("2", 1, run="this"))
    store.write(record("1", 0, run="this"))
    store.write(record("3", run="other"))

    assert [found.step for found in store.records_of("this")] == ["1", "2"]
    assert store.records_of("none") == ()


def cycle(number: int) -> CycleRecord:
    return CycleRecord(
        run=f"run {number}",
        decided_at=NOON + timedelta(minutes=number),
        document={"number": number, "words": ["ä", None, 0.1]},
    )


def test_cycles_are_returned_in_order(store: Store) -> None:
    # By what came first: a clock may have been set back in between.
    for number in (2, 1, 3):
        store.record_cycle(cycle(number))

    assert list(store.cycles()) == [cycle(2), cycle(1), cycle(3)]


def test_cycles_beyond_maximum_are_dropped() -> None:
    store = MemoryStore()
    for number in range(MAX_CYCLES + 2):
        store.record_cycle(cycle(number))

    kept = [found.document["number"] for found in store.cycles()]
    assert kept == list(range(2, MAX_CYCLES + 2))


def test_correct_times_sets_only_future_times(store: Store) -> None:
    done = {"outcome": Outcome.DONE, "ended_at": NOON + timedelta(hours=2)}
    past = replace(record("1", -5), outcome=Outcome.DONE, ended_at=NOON)
    ended_ahead = replace(record("2", -5), **done)  # type: ignore[arg-type]
    ahead = replace(record("3", 60), **done)  # type: ignore[arg-type]
    running = record("4", 60)
    for one in (past, ended_ahead, ahead, running):
        store.write(one)
    store.record_cycle(cycle(-1))
    store.record_cycle(cycle(1))

    found = store.correct_times(NOON), store.correct_times(NOON)

    assert found == (4, 0)
    assert store.records_of("run") == (
        past,
        replace(ended_ahead, ended_at=NOON),
        replace(ahead, intended_at=NOON, ended_at=NOON),
        replace(running, intended_at=NOON),
    )
    assert [one.decided_at for one in store.cycles()] == [
        NOON - timedelta(minutes=1),
        NOON,
    ]
