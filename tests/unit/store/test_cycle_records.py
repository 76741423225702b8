"""Records of cycles as differences, and what the retention keeps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from opendrs.errors import StoreError
from opendrs.model import GuestId, LiveMigration, NodeId, StepId
from opendrs.ports import CycleRecord, HistoryFilter, StepRecord, TaskId
from opendrs.store import Access, History, Retention, SqliteStore
from opendrs.store.document_delta import decode_delta, encode_delta
from opendrs.store.number_columns import decode_numbers, encode_numbers
from opendrs.store.tables import CYCLE_PARTS, CYCLES
from support.builders import NOON

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.integers(0, 1000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(0, 100).map(lambda value: round(value, 3)),
)
KEYS = st.sampled_from(["cpu", "memory", "a", "b", "ä", "a/b", "*"])
VALUES = st.recursive(
    st.one_of(NUMBERS, st.none(), st.booleans(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=5)


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30))
def test_numbers_are_restored_with_type_and_bits(
    pairs: list[tuple[float, float]],
) -> None:
    base, new = [one for one, _ in pairs], [other for _, other in pairs]

    found = decode_numbers(base, encode_numbers(base, new))

    assert repr(found) == repr(new)


@pytest.mark.parametrize(
    "new", [[0.1, 0.25], [4096, 8192], [1, 0.5], [1e-300, -0.0], [2, -0.0]]
)
def test_each_form_of_numbers_is_restored(new: list[float]) -> None:
    found = decode_numbers([3, 0.7], encode_numbers([3, 0.7], new))

    assert repr(found) == repr(new)


def test_infinite_number_is_rejected() -> None:
    with pytest.raises(ValueError, match="JSON"):
        encode_numbers([1.0], [float("inf")])


@given(DOCUMENTS, DOCUMENTS)
def test_delta_restores_document_with_order(
    base: dict[str, Any], new: dict[str, Any]
) -> None:
    found = decode_delta(base, encode_delta(base, new))

    assert json.dumps(found) == json.dumps(new)


def test_delta_restores_fields_with_a_slash_in_their_names() -> None:
    base = {"vm": {"loads": {"net/in": 1, "net": {"in": 2, "out": 3}}}}
    new = {"vm": {"loads": {"net/in": 4, "net": {"in": 5, "out": 6}}}}

    assert decode_delta(base, encode_delta(base, new)) == new


@pytest.mark.parametrize("count", [50, 51])
def test_delta_restores_the_numbers_of_an_entry_with_many_fields(count: int) -> None:
    def documents(change: int) -> dict[str, Any]:
        loads = {f"load{i}": {"used": i + change} for i in range(count)}
        return {"vm": {"loads": loads}}

    content = encode_delta(documents(0), documents(1))

    base = documents(0)
    assert decode_delta(base, content) == documents(1)
    assert base == documents(0)


def test_delta_of_many_entries_has_one_column_per_field() -> None:
    base = {f"vm{i}": {"usage": {"cpu": i / 7}, "node": "a"} for i in range(2000)}
    new = {
        **{name: {**each, "usage": {"cpu": 0.5}} for name, each in base.items()},
        "vm7": {"usage": {}, "node": "b"},
    }
    del new["vm3"]

    content = encode_delta(base, new)

    assert decode_delta(base, content) == new
    assert len(content) < 15_000  # 2,000 numbers of 52 random bits


def document(minute: int, *, steps: int = 0) -> dict[str, Any]:
    guests = {
        f"vm{i}": {"node": "a", "usage": {"cpu": (i * 7 + minute) % 13 / 8}}
        for i in range(60)
    }
    return {
        "settings": {"limits": {"cooldown": 60.0}},
        "memory": None,
        "snapshot": {
            "taken_at": f"minute {minute}",
            "nodes": {"a": {"capacity": {"cpu": 32}}},
            "guests": guests,
            "rules": [{"kind": "pin"}],
        },
        "decision": {
            "policy": "balance",
            "reason": "balanced",
            "detail": f"minute {minute}",
            "steps": [{"id": f"s{i}"} for i in range(steps)],
        },
    }


def cycle(minute: int, **parts: Any) -> CycleRecord:  # noqa: ANN401
    return CycleRecord(
        run=f"run {minute}",
        decided_at=NOON + timedelta(minutes=minute),
        document=document(minute, **parts),
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    retention = Retention(seconds=6 * 3600.0, input_cycles=30)
    with SqliteStore(tmp_path / "store.sqlite", retention=retention) as opened:
        yield opened


def bases(store: SqliteStore) -> int:
    """Return the number of cycles that are stored in full."""
    query = select(func.count(CYCLE_PARTS.c.cycle.distinct())).where(
        CYCLE_PARTS.c.base.is_(None), CYCLE_PARTS.c.part == "other"
    )
    with store.reading() as connection:
        return connection.scalar(query) or 0


def times(store: SqliteStore) -> list[datetime]:
    """Return the times of all cycles, with and without inputs."""
    query = select(CYCLES.c.decided_at).order_by(CYCLES.c.id)
    with store.reading() as connection:
        return [datetime.fromisoformat(each) for each in connection.scalars(query)]


def test_cycles_are_restored_exactly_from_one_base(store: SqliteStore) -> None:
    for minute in range(20):
        store.record_cycle(cycle(minute))

    assert bases(store) == 1
    found = [json.dumps(each.document) for each in store.cycles()]
    assert found == [json.dumps(document(minute)) for minute in range(20)]


def test_name_that_is_not_unicode_is_restored(store: SqliteStore) -> None:
    content = document(0)
    content["snapshot"]["guests"]["\ud800"] = {"node": "a"}

    store.record_cycle(replace(cycle(0), document=content))

    assert [each.document for each in store.cycles()] == [content]


def test_damaged_plan_does_not_hide_newer_ones(store: SqliteStore) -> None:
    for minute in range(3):
        content = document(minute)
        content["decision"]["steps"] = [{"id": "s1", "guest": "vm1"}]
        store.record_cycle(replace(cycle(minute), document=content))
    damage = update(CYCLE_PARTS).where(CYCLE_PARTS.c.part == "decision")
    with store.reading() as connection:
        oldest = connection.scalar(select(func.min(CYCLE_PARTS.c.cycle)))
        connection.execute(
            damage.where(CYCLE_PARTS.c.cycle == oldest).values(content=b"damaged")
        )

    cycles = History(store).cycles(HistoryFilter(guest="vm1"))

    assert [next(cycles).run, next(cycles).run] == ["run 2", "run 1"]
    with pytest.raises(StoreError, match="a decision"):
        next(cycles)


def test_reopened_store_begins_with_a_base(tmp_path: Path) -> None:
    for minute in range(3):
        with SqliteStore(tmp_path / "store.sqlite") as store:
            store.record_cycle(cycle(minute))
            assert bases(store) == minute + 1

    with SqliteStore(tmp_path / "store.sqlite", Access.READ) as store:
        assert list(store.cycles(last=2)) == [cycle(1), cycle(2)]
        assert list(store.cycles(run="run 1")) == [cycle(1)]
        assert list(store.cycles(since=cycle(1).decided_at)) == [cycle(1), cycle(2)]


@pytest.mark.parametrize("minute", [24 * 60 + 1, -1])
def test_base_of_another_day_is_replaced(tmp_path: Path, minute: int) -> None:
    with SqliteStore(tmp_path / "store.sqlite") as store:
        store.record_cycle(cycle(0))
        store.record_cycle(cycle(minute))

        assert bases(store) == 2


def test_dropped_base_is_not_used(store: SqliteStore) -> None:
    store.record_cycle(cycle(0))
    with store.transaction() as connection:
        connection.execute(CYCLE_PARTS.delete())

    store.record_cycle(cycle(1))

    assert bases(store) == 1
    assert list(store.cycles(last=1)) == [cycle(1)]


def test_older_cycles_keep_inputs_once_per_hour(store: SqliteStore) -> None:
    for minute in range(200):
        store.record_cycle(cycle(minute))

    kept = [int(each.run.split()[1]) for each in store.cycles()]
    assert kept == [0, 60, 120, *range(170, 200)]
    assert len(times(store)) == 200


def test_started_cycle_and_the_next_keep_inputs(store: SqliteStore) -> None:
    step = StepRecord(
        run="run 10",
        step=StepId("s1"),
        action=LiveMigration(GuestId("vm1"), NodeId("a"), NodeId("b")),
        intended_at=NOON,
    )
    store.write(replace(step, task=TaskId("task")))
    store.write(replace(step, run="run 20"))  # not started
    for minute in range(60):
        store.record_cycle(cycle(minute, steps=minute in (10, 20)))

    kept = [int(each.run.split()[1]) for each in store.cycles()]
    assert kept == [0, 10, 11, *range(30, 60)]


def test_expired_cycles_are_deleted_except_bases_in_use(store: SqliteStore) -> None:
    for minute in range(0, 800, 5):
        store.record_cycle(cycle(minute))

    newest = NOON + timedelta(minutes=795)
    expected = [0, *range(795 - 360, 800, 5)]
    assert times(store) == [NOON + timedelta(minutes=each) for each in expected]
    assert [each.decided_at for each in store.cycles()][-1] == newest


def test_clock_far_ahead_deletes_little(store: SqliteStore) -> None:
    for minute in range(100):
        store.record_cycle(cycle(minute))

    store.record_cycle(cycle(10**6))

    assert len(times(store)) == 101 - 20


_RECORDER = """
import sys
from datetime import timedelta
from pathlib import Path
from opendrs.ports import CycleRecord
from opendrs.store import Retention, SqliteStore
from support.builders import NOON
guests = {f"vm{i}": {"usage": {"cpu": i / 7}} for i in range(500)}
retention = Retention(input_cycles=5)
with SqliteStore(Path(sys.argv[1]), retention=retention) as store:
    for i in range(10**6):
        document = {"snapshot": {"guests": guests}, "decision": {"detail": str(i)}}
        time = NOON + timedelta(minutes=i)
        store.record_cycle(CycleRecord(run=f"{i}", decided_at=time, document=document))
        print(i, flush=True)
"""


def test_killed_process_loses_no_committed_cycle(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    for _ in range(3):
        path.unlink(missing_ok=True)
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and program
            [sys.executable, "-c", _RECORDER, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert process.stdout is not None
        printed = [int(process.stdout.readline()) for _ in range(12)]
        process.kill()
        printed += [int(line) for line in process.communicate()[0].splitlines()]

        with SqliteStore(path) as store:
            count = len(times(store))
            assert count - len(printed) in (0, 1)  # the last may not be printed yet
            runs = [each.run for each in store.cycles(last=5)]
            assert runs == [str(count - 5 + i) for i in range(5)]
            store.record_cycle(cycle(count))
        for each in tmp_path.iterdir():
            each.unlink()


def test_value_that_is_not_json_is_rejected(store: SqliteStore) -> None:
    store.record_cycle(cycle(0))
    bad = document(1)
    bad["snapshot"]["guests"]["vm1"]["usage"]["cpu"] = float("nan")

    with pytest.raises(StoreError, match="JSON"):
        store.record_cycle(replace(cycle(1), document=bad))

    store.record_cycle(cycle(2))
    assert list(store.cycles()) == [cycle(0), cycle(2)]
