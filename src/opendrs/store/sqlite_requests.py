"""Request store in an SQLite file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from opendrs.model import (
    GuestId,
    NodeId,
    decoding,
    list_as_text,
    list_from_text,
    require_type,
    steps_as_text,
    steps_from_text,
    time_as_text,
    time_from_text,
)
from opendrs.ports import RequestRecord, RequestState, UsageHistory
from opendrs.store.sqlite import SqliteStore

_OPEN_STATES = ", ".join(f"'{state}'" for state in RequestState if not state.closed)
_INSERT = "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CLAIM = "UPDATE requests SET state = 'evaluating' WHERE id = ? AND state = 'queued'"
_REPLACE = "UPDATE requests SET state = ?, detail = ?, run = ?, steps = ? WHERE id = ?"
_SUPERSEDE = """
UPDATE requests SET state = 'superseded', detail = ?
WHERE node = ? AND state = 'queued'
"""
_KEEP_HISTORY = """
INSERT INTO histories VALUES (?, ?, ?, ?, ?, FALSE)
ON CONFLICT (guest, node) DO UPDATE SET
    taken_at = excluded.taken_at, interval = excluded.interval,
    samples = excluded.samples
"""
# Only changes are written: most guests stay on their node.
_RECORD_PLACEMENT = """
UPDATE histories SET is_current = (node = :node)
WHERE guest = :guest AND is_current <> (node = :node) AND EXISTS (
    SELECT * FROM histories
    WHERE guest = :guest AND node = :node AND taken_at >= :since
)
"""
_HISTORY_ROWS = "SELECT guest, node, taken_at, interval, samples FROM histories"
_REQUEST = "SELECT * FROM requests WHERE id = ?"
_LATEST_OF_NODE = "SELECT * FROM requests WHERE node = ? ORDER BY sequence DESC LIMIT 1"
_LATEST_PER_NODE = """
SELECT * FROM requests AS one WHERE sequence =
    (SELECT max(sequence) FROM requests WHERE node = one.node)
ORDER BY node
"""
_UNCLOSED = f"""
SELECT * FROM requests WHERE state IN ({_OPEN_STATES}) ORDER BY received_at, rowid
"""  # noqa: S608 - the states of an enum
_HISTORY = f"{_HISTORY_ROWS} WHERE is_current AND guest = ?"
_HISTORIES = f"{_HISTORY_ROWS} WHERE is_current AND taken_at >= ? ORDER BY guest"
_PRUNE_REQUESTS = f"""
DELETE FROM requests
WHERE node = :node AND state NOT IN ({_OPEN_STATES}) AND sequence <= (
    SELECT sequence FROM requests WHERE node = :node
    ORDER BY sequence DESC LIMIT 1 OFFSET :keep
)
"""  # noqa: S608 - the states of an enum
_PRUNE_REPLACED = "DELETE FROM histories WHERE node = ? AND NOT is_current"
_PRUNE_HISTORIES = "DELETE FROM histories WHERE taken_at < ?"

# In the order of the table columns.
_RequestRow = tuple[
    str, str, int, str, str, float, str, str, str, str, str, str, str | None, str
]
_HistoryRow = tuple[str, str, str, float, str]


class SqliteRequestStore:
    """Implementation of `opendrs.ports.RequestStore` in the file of a store.

    Args:
        store: The open store.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def request(self, name: str) -> RequestRecord | None:
        """Return the request with the id *name*, or None."""
        return next(iter(self._requests(_REQUEST, name)), None)

    def latest(self, node: NodeId) -> RequestRecord | None:
        """Return the request of *node* with the highest sequence, or None."""
        return next(iter(self._requests(_LATEST_OF_NODE, node)), None)

    def latest_per_node(self) -> tuple[RequestRecord, ...]:
        """Return the request with the highest sequence of each node."""
        return self._requests(_LATEST_PER_NODE)

    def open_requests(self) -> tuple[RequestRecord, ...]:
        """Return the requests that are not closed, oldest first."""
        return self._requests(_UNCLOSED)

    def history(self, guest: GuestId) -> UsageHistory | None:
        """Return the current history of *guest*, or None."""
        return next(iter(self._histories(_HISTORY, guest)), None)

    def histories(self, since: datetime) -> tuple[UsageHistory, ...]:
        """Return the current histories with samples at or after *since*."""
        return self._histories(_HISTORIES, time_as_text(since))

    def record_placements(
        self, placements: Mapping[GuestId, NodeId], since: datetime
    ) -> None:
        """Make the history of its present node the current one of each guest."""
        time = time_as_text(since)
        with self._store.transaction() as database:
            database.executemany(
                _RECORD_PLACEMENT,
                [
                    {"guest": guest, "node": node, "since": time}
                    for guest, node in placements.items()
                ],
            )

    def accept(
        self,
        request: RequestRecord,
        histories: Collection[UsageHistory],
        *,
        keep: int,
    ) -> None:
        """Add a new request and its histories in one transaction."""
        detail = f"request {request.id} arrived before the evaluation"
        with self._store.transaction() as database:
            database.execute(_SUPERSEDE, (detail, request.node))
            database.execute(_INSERT, _to_row(request))
            database.execute(_PRUNE_REQUESTS, {"node": request.node, "keep": keep})
            database.execute(_PRUNE_REPLACED, (request.node,))
            database.executemany(_KEEP_HISTORY, map(_to_history_row, histories))

    def claim(self, request_ids: Collection[str]) -> tuple[RequestRecord, ...]:
        """Set the queued ones of these requests to evaluating, and return them."""
        with self._store.transaction() as database:
            claimed = [
                name
                for name in request_ids
                if database.execute(_CLAIM, (name,)).rowcount
            ]
        records = [self.request(name) for name in claimed]
        return tuple(request for request in records if request is not None)

    def update(self, requests: Collection[RequestRecord]) -> None:
        """Update the state, detail, run and steps of *requests* in one transaction."""
        with self._store.transaction() as database:
            database.executemany(_REPLACE, map(_to_changed_row, requests))

    def prune(self, before: datetime) -> None:
        """Delete the histories without samples at or after *before*."""
        with self._store.database() as database:
            database.execute(_PRUNE_HISTORIES, (time_as_text(before),))

    def _requests(self, query: str, *values: str) -> tuple[RequestRecord, ...]:
        with self._store.database() as database:
            rows: Iterable[_RequestRow] = database.execute(query, values).fetchall()
            return tuple(map(_from_row, rows))

    def _histories(self, query: str, *values: str) -> tuple[UsageHistory, ...]:
        with self._store.database() as database:
            rows: Iterable[_HistoryRow] = database.execute(query, values).fetchall()
            return tuple(map(_from_history_row, rows))


def _to_row(request: RequestRecord) -> _RequestRow:
    return (
        request.id,
        request.node,
        request.sequence,
        time_as_text(request.taken_at),
        time_as_text(request.received_at),
        request.interval,
        request.digest,
        request.load_state,
        list_as_text(request.evict),
        list_as_text(request.host_overhead),
        request.state,
        request.detail,
        request.run,
        steps_as_text(request.steps),
    )


def _to_changed_row(request: RequestRecord) -> tuple[str | None, ...]:
    steps = steps_as_text(request.steps)
    return (request.state, request.detail, request.run, steps, request.id)


def _from_row(row: _RequestRow) -> RequestRecord:
    (
        name,
        node,
        sequence,
        taken_at,
        received_at,
        interval,
        digest,
        load_state,
        evict,
        host_overhead,
        state,
        detail,
        run,
        steps,
    ) = row
    with decoding("a request", name):
        require_type(str, (name, node, digest, detail, "" if run is None else run))
        require_type(int, [sequence])
        require_type(float, [interval])
        return RequestRecord(
            id=name,
            node=NodeId(node),
            sequence=sequence,
            taken_at=time_from_text(taken_at),
            received_at=time_from_text(received_at),
            interval=interval,
            digest=digest,
            load_state=load_state,
            evict=tuple(map(GuestId, list_from_text(evict, str))),
            host_overhead=list_from_text(host_overhead, float),
            state=RequestState(state),
            detail=detail,
            run=run,
            steps=steps_from_text(steps),
        )


def _to_history_row(history: UsageHistory) -> _HistoryRow:
    return (
        history.guest,
        history.node,
        time_as_text(history.taken_at),
        history.interval,
        list_as_text(history.samples),
    )


def _from_history_row(row: _HistoryRow) -> UsageHistory:
    guest, node, taken_at, interval, samples = row
    with decoding("a history", guest):
        require_type(str, (guest, node))
        require_type(float, [interval])
        return UsageHistory(
            guest=GuestId(guest),
            node=NodeId(node),
            taken_at=time_from_text(taken_at),
            interval=interval,
            samples=list_from_text(samples, float),
        )
