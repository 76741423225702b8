"""The requests of agents in an SQLite file."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from opendrs.controller.stores.encoding import (
    require,
    steps_as_text,
    steps_from_text,
    time_as_text,
    time_from_text,
    understood,
    words_as_text,
    words_from_text,
)
from opendrs.controller.stores.sqlite import SqliteStore
from opendrs.model import GuestId, NodeId
from opendrs.ports import GuestHistory, RequestRecord, RequestState

_OPEN = ", ".join(f"'{state}'" for state in RequestState if not state.closed)
_INSERT = "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_CLAIM = "UPDATE requests SET state = 'deciding' WHERE id = ? AND state = 'queued'"
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
# Only what changes is written: most guests are where they were.
_PLACE = """
UPDATE histories SET counts = (node = :node)
WHERE guest = :guest AND counts <> (node = :node) AND EXISTS (
    SELECT * FROM histories
    WHERE guest = :guest AND node = :node AND taken_at >= :since
)
"""
_HISTORY_ROWS = "SELECT guest, node, taken_at, interval, samples FROM histories"
_REQUEST = "SELECT * FROM requests WHERE id = ?"
_LATEST = "SELECT * FROM requests WHERE node = ? ORDER BY sequence DESC LIMIT 1"
_NEWEST = """
SELECT * FROM requests AS one WHERE sequence =
    (SELECT max(sequence) FROM requests WHERE node = one.node)
ORDER BY node
"""
_UNCLOSED = f"""
SELECT * FROM requests WHERE state IN ({_OPEN}) ORDER BY received_at, rowid
"""  # noqa: S608 - our own words
_HISTORY = f"{_HISTORY_ROWS} WHERE counts AND guest = ?"
_HISTORIES = f"{_HISTORY_ROWS} WHERE counts AND taken_at >= ? ORDER BY guest"
_FORGET = f"""
DELETE FROM requests WHERE node = :node AND state NOT IN ({_OPEN}) AND sequence <= (
    SELECT sequence FROM requests WHERE node = :node
    ORDER BY sequence DESC LIMIT 1 OFFSET :keep
)
"""  # noqa: S608 - our own words
_FORGET_UNSEEN = "DELETE FROM histories WHERE node = ? AND NOT counts"
_FORGET_HISTORIES = "DELETE FROM histories WHERE taken_at < ?"

_Row = tuple[
    str, str, int, str, str, float, str, str, str, str, str, str, str | None, str
]  # as the table has them
_HistoryRow = tuple[str, str, str, float, str]


class SqliteInbox:
    """The requests of agents, in the same file as the record.

    Args:
        store: The record, which is open while this is used.
    """

    def __init__(self, store: SqliteStore) -> None:
        self._store = store

    def request(self, name: str) -> RequestRecord | None:
        """Return the request of that id, or None."""
        return next(iter(self._requests(_REQUEST, name)), None)

    def latest(self, node: NodeId) -> RequestRecord | None:
        """Return the request of the highest sequence of *node*, or None."""
        return next(iter(self._requests(_LATEST, node)), None)

    def newest(self) -> tuple[RequestRecord, ...]:
        """Return the request of the highest sequence of each node."""
        return self._requests(_NEWEST)

    def unclosed(self) -> tuple[RequestRecord, ...]:
        """Return the requests of which something may still come, the oldest first."""
        return self._requests(_UNCLOSED)

    def history(self, guest: GuestId) -> GuestHistory | None:
        """Return the history of *guest* that counts, or None."""
        return next(iter(self._histories(_HISTORY, guest)), None)

    def histories(self, since: datetime) -> tuple[GuestHistory, ...]:
        """Return those histories that count, and were taken at or after *since*."""
        return self._histories(_HISTORIES, time_as_text(since))

    def place(self, places: Mapping[GuestId, NodeId], since: datetime) -> None:
        """Take note of where guests are, by which it is told whose history counts."""
        time = time_as_text(since)
        with self._store.transaction() as database:
            database.executemany(
                _PLACE,
                [
                    {"guest": guest, "node": node, "since": time}
                    for guest, node in places.items()
                ],
            )

    def accept(
        self,
        request: RequestRecord,
        histories: Collection[GuestHistory],
        *,
        keep: int,
    ) -> None:
        """Keep a new request and its histories, all or nothing."""
        detail = f"{request.id} came before it was looked at"
        with self._store.transaction() as database:
            database.execute(_SUPERSEDE, (detail, request.node))
            database.execute(_INSERT, _as_row(request))
            database.execute(_FORGET, {"node": request.node, "keep": keep})
            database.execute(_FORGET_UNSEEN, (request.node,))
            database.executemany(_KEEP_HISTORY, map(_as_history_row, histories))

    def claim(self, names: Collection[str]) -> tuple[RequestRecord, ...]:
        """Return those of these requests that were still queued: deciding by now."""
        with self._store.transaction() as database:
            claimed = [
                name for name in names if database.execute(_CLAIM, (name,)).rowcount
            ]
        found = [self.request(name) for name in claimed]
        return tuple(request for request in found if request is not None)

    def note(self, requests: Collection[RequestRecord]) -> None:
        """Replace these requests by what they are now, all or nothing."""
        with self._store.transaction() as database:
            database.executemany(_REPLACE, map(_changes, requests))

    def prune(self, before: datetime) -> None:
        """Forget the histories that were taken before that."""
        with self._store.database() as database:
            database.execute(_FORGET_HISTORIES, (time_as_text(before),))

    def _requests(self, query: str, *values: str) -> tuple[RequestRecord, ...]:
        with self._store.database() as database:
            rows: Iterable[_Row] = database.execute(query, values).fetchall()
            return tuple(map(_from_row, rows))

    def _histories(self, query: str, *values: str) -> tuple[GuestHistory, ...]:
        with self._store.database() as database:
            rows: Iterable[_HistoryRow] = database.execute(query, values).fetchall()
            return tuple(map(_from_history_row, rows))


def _as_row(request: RequestRecord) -> _Row:
    return (
        request.id,
        request.node,
        request.sequence,
        time_as_text(request.taken_at),
        time_as_text(request.received_at),
        request.interval,
        request.digest,
        request.verdict,
        words_as_text(request.leaving),
        words_as_text(request.own),
        request.state,
        request.detail,
        request.run,
        steps_as_text(request.steps),
    )


def _changes(request: RequestRecord) -> tuple[str | None, ...]:
    steps = steps_as_text(request.steps)
    return (request.state, request.detail, request.run, steps, request.id)


def _from_row(row: _Row) -> RequestRecord:
    (
        name,
        node,
        sequence,
        taken_at,
        received_at,
        interval,
        digest,
        verdict,
        leaving,
        own,
        state,
        detail,
        run,
        steps,
    ) = row
    with understood("a request", name):
        require(str, (name, node, digest, detail, "" if run is None else run))
        require(int, [sequence])
        require(float, [interval])
        return RequestRecord(
            id=name,
            node=NodeId(node),
            sequence=sequence,
            taken_at=time_from_text(taken_at),
            received_at=time_from_text(received_at),
            interval=interval,
            digest=digest,
            verdict=verdict,
            leaving=tuple(map(GuestId, words_from_text(leaving, str))),
            own=words_from_text(own, float),
            state=RequestState(state),
            detail=detail,
            run=run,
            steps=steps_from_text(steps),
        )


def _as_history_row(history: GuestHistory) -> _HistoryRow:
    return (
        history.guest,
        history.node,
        time_as_text(history.taken_at),
        history.interval,
        words_as_text(history.samples),
    )


def _from_history_row(row: _HistoryRow) -> GuestHistory:
    guest, node, taken_at, interval, samples = row
    with understood("a history", guest):
        require(str, (guest, node))
        require(float, [interval])
        return GuestHistory(
            guest=GuestId(guest),
            node=NodeId(node),
            taken_at=time_from_text(taken_at),
            interval=interval,
            samples=words_from_text(samples, float),
        )
