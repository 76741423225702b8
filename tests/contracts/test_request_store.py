"""Contract of the request store."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.errors import StoreError
from opendrs.model import GuestId, LiveMigration, NodeId, PowerOff, Step, StepId
from opendrs.ports import RequestRecord, RequestState, RequestStore, UsageHistory
from opendrs.store import DatabaseRequestStore, PostgresqlStore, SqliteStore
from support.builders import NOON

A, B = NodeId("a"), NodeId("b")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "record.db"


@pytest.fixture(params=["sqlite", "postgresql"])
def database(
    request: pytest.FixtureRequest, path: Path
) -> Iterator[SqliteStore | PostgresqlStore]:
    if request.param == "sqlite":
        with SqliteStore(path) as store:
            yield store
    else:
        url = request.getfixturevalue("postgresql_url")
        with PostgresqlStore(url, "lab") as store:
            yield store


@pytest.fixture
def request_store(database: SqliteStore | PostgresqlStore) -> RequestStore:
    return DatabaseRequestStore(database)


def request(node: NodeId = A, sequence: int = 1) -> RequestRecord:
    """Return a request that was accepted *sequence* minutes after noon."""
    return RequestRecord(
        id=f"{node} {sequence}",
        node=node,
        sequence=sequence,
        taken_at=NOON + timedelta(minutes=sequence, microseconds=-1),
        received_at=NOON + timedelta(minutes=sequence),
        interval=300.0,
        digest=f"digest of {sequence}",
        load_state="overloaded",
        evict=(GuestId("vm 'ä'"), GuestId("vm2")),
        host_overhead=(0.1, 2.0),
    )


def history(guest: str, minute: int = 0, node: NodeId = A) -> UsageHistory:
    return UsageHistory(
        guest=GuestId(guest),
        node=node,
        taken_at=NOON + timedelta(minutes=minute),
        interval=300.0,
        samples=(0.25, float(minute)),
    )


def accept(
    request_store: RequestStore,
    request: RequestRecord,
    histories: Collection[UsageHistory],
    keep: int = 100,
) -> None:
    request_store.accept(request, histories, keep=keep)


def place(request_store: RequestStore, node: NodeId, *guests: str) -> None:
    """Let *guests* be seen on *node*."""
    request_store.record_placements({GuestId(guest): node for guest in guests}, NOON)


def closed(one: RequestRecord) -> RequestRecord:
    return replace(one, state=RequestState.DONE)


def test_empty_store_returns_nothing(request_store: RequestStore) -> None:
    assert request_store.request("a 1") is None
    assert request_store.latest_per_node() == request_store.open_requests() == ()
    assert request_store.history(GuestId("vm")) is None
    assert request_store.histories(NOON) == ()


def test_accept_request_returns_same_record(request_store: RequestStore) -> None:
    accept(request_store, request(), [history("vm")])
    place(request_store, A, "vm")

    assert request_store.request("a 1") == request()
    assert (
        request_store.latest_per_node() == request_store.open_requests() == (request(),)
    )
    assert request_store.history(GuestId("vm")) == history("vm")


def test_update_request_returns_new_state(request_store: RequestStore) -> None:
    accept(request_store, request(), [])
    now = replace(
        request(),
        state=RequestState.EXECUTING,
        detail="why",
        run="run",
        steps=(
            Step(StepId("1"), LiveMigration(GuestId("vm"), A, B)),
            Step(StepId("2"), PowerOff(A)),
        ),
    )

    request_store.update([now])

    assert request_store.request("a 1") == now


def test_accept_newer_request_supersedes_queued_one(
    request_store: RequestStore,
) -> None:
    accept(request_store, request(A, 1), [])
    accept(request_store, request(B, 1), [])
    accept(request_store, request(A, 2), [])

    found = request_store.request("a 1")
    assert found is not None
    assert found.state is RequestState.SUPERSEDED
    assert found.detail == "request a 2 arrived before the evaluation"
    assert [one.id for one in request_store.open_requests()] == ["b 1", "a 2"]


@pytest.mark.parametrize(
    "state", [RequestState.EVALUATING, RequestState.EXECUTING, RequestState.DONE]
)
def test_accept_newer_request_keeps_evaluating_one(
    request_store: RequestStore, state: RequestState
) -> None:
    looked_at = replace(request(), state=state)
    accept(request_store, request(), [])
    request_store.update([looked_at])

    accept(request_store, request(A, 2), [])

    assert request_store.request("a 1") == looked_at


def test_claim_queued_request_is_evaluating(
    request_store: RequestStore,
) -> None:
    for one in (request(A, 1), request(A, 2), request(B, 1)):
        accept(request_store, one, [])

    # The first was superseded by the second before it could be claimed.
    claimed = request_store.claim(["a 1", "a 2", "unknown"])
    again = request_store.claim(["a 2"])
    accept(request_store, request(A, 3), [])

    looked_at = replace(request(A, 2), state=RequestState.EVALUATING)
    assert claimed == (looked_at,)
    assert again == ()
    assert request_store.open_requests() == (request(B, 1), looked_at, request(A, 3))


def test_latest_per_node_includes_closed_requests(request_store: RequestStore) -> None:
    for one in (request(A, 2), request(B, 7), request(A, 10)):
        accept(request_store, one, [])
    request_store.update([closed(request(B, 7))])

    assert [one.id for one in request_store.latest_per_node()] == ["a 10", "b 7"]
    assert request_store.latest(A) == request(A, 10)
    assert request_store.latest(B) == closed(request(B, 7))
    assert request_store.latest(NodeId("c")) is None


def test_accept_repeated_sequence_stores_nothing(request_store: RequestStore) -> None:
    accept(request_store, request(), [])

    with pytest.raises(StoreError):
        accept(request_store, replace(request(), id="other"), [history("vm")])
    place(request_store, A, "vm")

    assert request_store.latest_per_node() == (request(),)
    assert request_store.history(GuestId("vm")) is None


def test_history_of_migrated_guest_is_current(request_store: RequestStore) -> None:
    accept(request_store, request(A), [history("vm", 0), history("stays", 0)])
    place(request_store, A, "vm", "stays")
    accept(request_store, request(B), [history("vm", 5, B)])
    before = request_store.history(GuestId("vm"))

    place(request_store, B, "vm")

    assert before == history("vm", 0)
    assert request_store.history(GuestId("vm")) == history("vm", 5, B)
    assert request_store.histories(NOON) == (history("stays", 0), history("vm", 5, B))


def test_history_stays_current_until_new_node_reports(
    request_store: RequestStore,
) -> None:
    accept(
        request_store, request(B), [history("vm", -1, B)]
    )  # it was there before, too
    accept(request_store, request(A), [history("vm", 0)])
    place(request_store, A, "vm")

    place(request_store, B, "vm")

    assert request_store.history(GuestId("vm")) == history("vm", 0)


def test_history_from_other_node_is_not_current(request_store: RequestStore) -> None:
    accept(request_store, request(A), [history("vm", 0)])
    accept(request_store, request(B), [history("vm", 5, B), history("unseen", 5, B)])
    place(request_store, A, "vm")

    assert request_store.histories(NOON) == (history("vm", 0),)
    assert request_store.history(GuestId("vm")) == history("vm", 0)
    assert request_store.history(GuestId("unseen")) is None


def test_history_of_same_node_replaces_former(request_store: RequestStore) -> None:
    accept(request_store, request(A, 1), [history("vm", 5)])
    place(request_store, A, "vm")

    accept(request_store, request(A, 2), [history("vm", 4)])  # its clock was put right

    assert request_store.history(GuestId("vm")) == history("vm", 4)


def test_histories_since_time_excludes_older(request_store: RequestStore) -> None:
    accept(request_store, request(), [history("old", 4), history("new", 5)])
    place(request_store, A, "old", "new")

    assert request_store.histories(NOON + timedelta(minutes=5)) == (history("new", 5),)


def test_accept_prunes_older_closed_requests(
    request_store: RequestStore,
) -> None:
    accept(request_store, request(B, 1), [])
    for sequence in range(1, 7):
        accept(request_store, request(A, sequence), [], keep=3)

    left = [one for one in range(1, 7) if request_store.request(f"a {one}")]
    assert left == [4, 5, 6]
    assert request_store.request("b 1") is not None


def test_accept_keeps_open_requests(request_store: RequestStore) -> None:
    accept(request_store, request(A, 1), [])
    running = replace(request(A, 1), state=RequestState.EXECUTING)
    request_store.update([running])
    accept(request_store, request(A, 2), [], keep=1)

    assert request_store.open_requests() == (running, request(A, 2))


def test_histories_of_unplaced_guests_keep_last_report(
    request_store: RequestStore, database: SqliteStore | PostgresqlStore
) -> None:
    accept(request_store, request(A, 1), [history("here"), history("invented")])
    accept(request_store, request(B, 1), [history("of b", 0, B)])
    place(request_store, A, "here")

    accept(request_store, request(A, 2), [history("invented too")])

    with database.reading() as connection:
        query = "SELECT guest FROM usage_histories ORDER BY guest"
        kept = [row.guest for row in connection.exec_driver_sql(query)]
    assert kept == ["here", "invented too", "of b"]


def test_prune_removes_old_histories(request_store: RequestStore) -> None:
    accept(request_store, request(), [history("gone", 4), history("here", 5)])
    place(request_store, A, "gone", "here")

    request_store.prune(NOON + timedelta(minutes=5))

    assert request_store.history(GuestId("gone")) is None
    assert request_store.history(GuestId("here")) is not None


@pytest.mark.parametrize(
    "damage",
    [
        "requests SET evict = 'x'",
        "requests SET evict = '[1]'",
        "requests SET host_overhead = '[\"1\"]'",
        "requests SET host_overhead = '{}'",
        "requests SET state = 'asleep'",
        "requests SET steps = '[[1]]'",
        'requests SET steps = \'[["1", "{}"]]\'',
        "usage_histories SET samples = 'x'",
    ],
)
def test_damaged_row_raises_store_error(
    request_store: RequestStore, database: SqliteStore | PostgresqlStore, damage: str
) -> None:
    accept(request_store, request(), [history("vm")])
    place(request_store, A, "vm")
    with database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE {damage}")

    with pytest.raises(StoreError, match=r": expected "):
        (request_store.latest_per_node(), request_store.histories(NOON))


@pytest.mark.parametrize("table", ["requests", "usage_histories"])
def test_damaged_time_in_sqlite_raises_store_error(path: Path, table: str) -> None:
    with SqliteStore(path) as store:
        request_store = DatabaseRequestStore(store)
        accept(request_store, request(), [history("vm")])
        place(request_store, A, "vm")
        with store.transaction() as connection:
            damage = f"UPDATE {table} SET taken_at = 'never'"  # noqa: S608 - our own
            connection.exec_driver_sql(damage)

        with pytest.raises(StoreError, match=r"record\.db: expected a time"):
            (request_store.latest_per_node(), request_store.histories(NOON))
