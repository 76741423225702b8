"""Request store in a database."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BindParameter,
    Row,
    Select,
    Update,
    bindparam,
    delete,
    exists,
    func,
    insert,
    select,
    update,
)

from opendrs.model import (
    GuestId,
    NodeId,
    decoding,
    list_as_text,
    list_from_text,
    require_type,
    steps_as_text,
    steps_from_text,
)
from opendrs.ports import RequestRecord, RequestState, UsageHistory
from opendrs.store.database import DatabaseStore, upsert
from opendrs.store.tables import REQUESTS, USAGE_HISTORIES, time_from_column

_IS_OPEN = REQUESTS.c.state.in_(
    [state.value for state in RequestState if not state.closed]
)
_HISTORIES = select(USAGE_HISTORIES).where(USAGE_HISTORIES.c.is_current)


class DatabaseRequestStore:
    """Implementation of `opendrs.ports.RequestStore` in the database of a store.

    Args:
        store: The open store.
    """

    def __init__(self, store: DatabaseStore) -> None:
        self._store = store

    def request(self, name: str) -> RequestRecord | None:
        """Return the request with the id *name*, or None."""
        found = self._requests(select(REQUESTS).where(REQUESTS.c.id == name))
        return found[0] if found else None

    def latest(self, node: NodeId) -> RequestRecord | None:
        """Return the request of *node* with the highest sequence, or None."""
        of_node = select(REQUESTS).where(REQUESTS.c.node == node)
        found = self._requests(of_node.order_by(REQUESTS.c.sequence.desc()).limit(1))
        return found[0] if found else None

    def latest_per_node(self) -> tuple[RequestRecord, ...]:
        """Return the request with the highest sequence of each node."""
        other = REQUESTS.alias()
        highest = select(func.max(other.c.sequence)).where(
            other.c.node == REQUESTS.c.node
        )
        latest = select(REQUESTS).where(
            REQUESTS.c.sequence == highest.scalar_subquery()
        )
        return self._requests(latest.order_by(REQUESTS.c.node))

    def open_requests(self) -> tuple[RequestRecord, ...]:
        """Return the requests that are not closed, oldest first."""
        oldest_first = REQUESTS.c.received_at, REQUESTS.c.node, REQUESTS.c.sequence
        return self._requests(select(REQUESTS).where(_IS_OPEN).order_by(*oldest_first))

    def history(self, guest: GuestId) -> UsageHistory | None:
        """Return the current history of *guest*, or None."""
        found = self._histories(_HISTORIES.where(USAGE_HISTORIES.c.guest == guest))
        return found[0] if found else None

    def histories(self, since: datetime) -> tuple[UsageHistory, ...]:
        """Return the current histories with samples at or after *since*."""
        valid = _HISTORIES.where(USAGE_HISTORIES.c.taken_at >= since)
        return self._histories(valid.order_by(USAGE_HISTORIES.c.guest))

    def record_placements(
        self, placements: Mapping[GuestId, NodeId], since: datetime
    ) -> None:
        """Make the history of its present node the current one of each guest."""
        rows = [{"of_guest": g, "on_node": n} for g, n in placements.items()]
        if rows:
            with self._store.transaction() as connection:
                connection.execute(_record_placement(since), rows)

    def accept(
        self,
        request: RequestRecord,
        histories: Collection[UsageHistory],
        *,
        keep: int,
    ) -> None:
        """Add a new request and its histories in one transaction."""
        node = request.node
        superseded = (
            update(REQUESTS)
            .where(REQUESTS.c.node == node, REQUESTS.c.state == RequestState.QUEUED)
            .values(
                state=RequestState.SUPERSEDED.value,
                detail=f"request {request.id} arrived before the evaluation",
            )
        )
        replaced = USAGE_HISTORIES.c.node == node, ~USAGE_HISTORIES.c.is_current
        with self._store.transaction() as connection:
            connection.execute(superseded)
            connection.execute(insert(REQUESTS), _to_row(request))
            oldest_kept = connection.execute(_nth_newest(node, keep)).scalar()
            if oldest_kept is not None:
                older = REQUESTS.c.node == node, REQUESTS.c.sequence <= oldest_kept
                connection.execute(delete(REQUESTS).where(*older, ~_IS_OPEN))
            connection.execute(delete(USAGE_HISTORIES).where(*replaced))
            keys = [USAGE_HISTORIES.c.guest, USAGE_HISTORIES.c.node]
            statement = upsert(
                connection, USAGE_HISTORIES, keys, keeping=["is_current"]
            )
            for history in histories:
                connection.execute(statement, _to_history_row(history))

    def claim(self, request_ids: Collection[str]) -> tuple[RequestRecord, ...]:
        """Set the queued ones of these requests to evaluating, and return them."""
        queued = update(REQUESTS).where(REQUESTS.c.state == RequestState.QUEUED)
        claimed = queued.values(state=RequestState.EVALUATING.value)
        with self._store.transaction() as connection:
            names = [
                name
                for name in request_ids
                if connection.execute(claimed.where(REQUESTS.c.id == name)).rowcount
            ]
        records = [self.request(name) for name in names]
        return tuple(request for request in records if request is not None)

    def update(self, requests: Collection[RequestRecord]) -> None:
        """Update the state, detail, run and steps of *requests* in one transaction."""
        statement = update(REQUESTS).where(REQUESTS.c.id == bindparam("request_id"))
        rows = [_to_changed_row(request) for request in requests]
        if rows:
            with self._store.transaction() as connection:
                connection.execute(statement, rows)

    def prune(self, before: datetime) -> None:
        """Delete the histories without samples at or after *before*."""
        old = delete(USAGE_HISTORIES).where(USAGE_HISTORIES.c.taken_at < before)
        with self._store.transaction() as connection:
            connection.execute(old)

    def _requests(self, query: Select[Any]) -> tuple[RequestRecord, ...]:
        return self._store.read(query, _from_row)

    def _histories(self, query: Select[Any]) -> tuple[UsageHistory, ...]:
        return self._store.read(query, _from_history_row)


def _nth_newest(node: NodeId, keep: int) -> Select[Any]:
    """Return a query for the sequence of the newest request that is not kept."""
    newest_first = REQUESTS.c.sequence.desc()
    of_node = select(REQUESTS.c.sequence).where(REQUESTS.c.node == node)
    return of_node.order_by(newest_first).limit(1).offset(keep)


def _record_placement(since: datetime) -> Update:
    """Return an UPDATE of the histories of one guest, which is on one node.

    Only changes are written: most guests stay on their node.
    """
    guest: BindParameter[str] = bindparam("of_guest")
    node: BindParameter[str] = bindparam("on_node")
    table, reported = USAGE_HISTORIES, USAGE_HISTORIES.alias()
    is_reported = exists().where(
        reported.c.guest == guest,
        reported.c.node == node,
        reported.c.taken_at >= since,
    )
    is_there = table.c.node == node
    changed = table.c.is_current.is_distinct_from(is_there)
    return (
        update(table)
        .where(table.c.guest == guest, changed, is_reported)
        .values(is_current=is_there)
    )


def _to_row(request: RequestRecord) -> dict[str, object]:
    return {
        "id": request.id,
        "node": request.node,
        "sequence": request.sequence,
        "taken_at": request.taken_at,
        "received_at": request.received_at,
        "interval": request.interval,
        "digest": request.digest,
        "load_state": request.load_state,
        "evict": list_as_text(request.evict),
        "host_overhead": list_as_text(request.host_overhead),
        "state": request.state.value,
        "detail": request.detail,
        "run": request.run,
        "steps": steps_as_text(request.steps),
    }


def _to_changed_row(request: RequestRecord) -> dict[str, object]:
    row = _to_row(request)
    changed = {name: row[name] for name in ("state", "detail", "run", "steps")}
    return {"request_id": request.id, **changed}


def _from_row(row: Row[Any]) -> RequestRecord:
    with decoding("a request", row.id):
        run = "" if row.run is None else row.run
        require_type(str, (row.id, row.node, row.digest, row.detail, run))
        require_type(int, [row.sequence])
        require_type(float, [row.interval])
        return RequestRecord(
            id=row.id,
            node=NodeId(row.node),
            sequence=row.sequence,
            taken_at=time_from_column(row.taken_at),
            received_at=time_from_column(row.received_at),
            interval=row.interval,
            digest=row.digest,
            load_state=row.load_state,
            evict=tuple(map(GuestId, list_from_text(row.evict, str))),
            host_overhead=list_from_text(row.host_overhead, float),
            state=RequestState(row.state),
            detail=row.detail,
            run=row.run,
            steps=steps_from_text(row.steps),
        )


def _to_history_row(history: UsageHistory) -> dict[str, object]:
    return {
        "guest": history.guest,
        "node": history.node,
        "taken_at": history.taken_at,
        "interval": history.interval,
        "samples": list_as_text(history.samples),
        "is_current": False,
    }


def _from_history_row(row: Row[Any]) -> UsageHistory:
    with decoding("a history", row.guest):
        require_type(str, (row.guest, row.node))
        require_type(float, [row.interval])
        return UsageHistory(
            guest=GuestId(row.guest),
            node=NodeId(row.node),
            taken_at=time_from_column(row.taken_at),
            interval=row.interval,
            samples=list_from_text(row.samples, float),
        )
