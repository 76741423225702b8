"""The requests of all nodes, decided about together, once in each cycle."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from opendrs.controller.cycle import Judgement
from opendrs.controller.nodes import keep_nodes
from opendrs.controller.requests.cases import Case, case_of, last_changes, opened
from opendrs.controller.requests.desk import is_silent
from opendrs.controller.requests.settings import Freshness
from opendrs.controller.requests.standing import result
from opendrs.controller.requests.wire import Verdict
from opendrs.controller.telling import tell
from opendrs.model import NodeId, Snapshot
from opendrs.policies import Consolidate, Decision
from opendrs.policies.consolidation.petitions import Petition, Petitions
from opendrs.ports import Clock, Inbox, RequestRecord, RequestState, StepRecord, Store

REMEMBERED = timedelta(days=1)  # the history of a guest is known for so long


class Docket:
    """What the agents ask for, as `opendrs.controller.deciding.Decider`.

    Each request is decided about once: afterwards what it brought in samples goes
    on to count, and what it asked for does not.

    Args:
        policy: Decides.
        inbox: The requests.
        store: What came of them.
        clock: The time.
        freshness: How long what an agent says holds.
    """

    def __init__(
        self,
        policy: Consolidate,
        inbox: Inbox,
        store: Store,
        clock: Clock,
        freshness: Freshness,
    ) -> None:
        self._policy = policy
        self._inbox = inbox
        self._store = store
        self._clock = clock
        self._freshness = freshness
        self._cases: tuple[Case, ...] = ()
        self._silent: frozenset[NodeId] = frozenset()

    @property
    def policy(self) -> Consolidate:
        """Return the policy that decides."""
        return self._policy

    def settle(self) -> None:
        """Close what was carried out, and queue again what was only looked at."""
        looked_at = self._looked_at()
        if looked_at:
            newest = {request.id for request in self._inbox.newest()}
            self._note([self._settled(request, newest) for request in looked_at])
        self._inbox.prune(self._clock.now() - REMEMBERED)

    def judge(self, snapshot: Snapshot) -> Judgement[Petitions]:
        """Return what to do about *snapshot*, by the newest request of each node."""
        keep_nodes(snapshot, self._store)
        now = self._clock.now()
        newest = self._inbox.newest()
        heard = [
            request
            for request in newest
            if request.node in snapshot.nodes
            and not is_silent(request, now, self._freshness)
        ]
        self._tell_silent(snapshot, heard)
        self._cases = self._admit(newest, heard, snapshot)
        memory = self._petitions(heard, snapshot, now)
        return Judgement(memory, self._policy.answer(snapshot, memory))

    def begin(self, snapshot: Snapshot, decision: Decision[Any], run: str) -> None:
        """Write down what follows from each request, before it is carried out."""
        del snapshot
        self._note([opened(case, decision, run) for case in self._cases])
        self._cases = ()

    def _looked_at(self) -> list[RequestRecord]:
        return [
            request
            for request in self._inbox.unclosed()
            if request.state is not RequestState.QUEUED
        ]

    def _settled(
        self, request: RequestRecord, newest: AbstractSet[str]
    ) -> RequestRecord:
        if request.run is None:
            if request.id in newest:
                return replace(request, state=RequestState.QUEUED)
            why = "a newer one came before it was decided about"
            return replace(request, state=RequestState.SUPERSEDED, detail=why)
        state, detail = result(request, self._store.of_run(request.run))
        return replace(request, state=state, detail=detail)

    def _admit(
        self,
        newest: Sequence[RequestRecord],
        heard: Sequence[RequestRecord],
        snapshot: Snapshot,
    ) -> tuple[Case, ...]:
        """Return what is decided about now; refuse what cannot be."""
        queued = [r.id for r in newest if r.state is RequestState.QUEUED]
        claimed = self._inbox.claim(queued)
        changes = last_changes(self._recent(heard))
        audible = {request.node for request in heard}
        objections = [_objection(r, audible, changes, snapshot) for r in claimed]
        self._note(
            [
                replace(request, state=RequestState.REFUSED, detail=why)
                for request, why in zip(claimed, objections, strict=True)
                if why is not None
            ]
        )
        return tuple(
            case_of(request, snapshot)
            for request, why in zip(claimed, objections, strict=True)
            if why is None
        )

    def _recent(self, heard: Iterable[RequestRecord]) -> Iterable[StepRecord]:
        """Return the records of what may have changed since *heard* was measured."""
        oldest = min((request.taken_at for request in heard), default=None)
        if oldest is None:
            return ()
        # What ended since then may have begun long before.
        patience = timedelta(seconds=2 * self._policy.limits.patience)
        return self._store.recent(oldest - patience)

    def _petitions(
        self, heard: Sequence[RequestRecord], snapshot: Snapshot, now: datetime
    ) -> Petitions:
        """Return what the agents have sent, as the policy takes it.

        Histories of another interval are left out: in one sum with the others they
        would say what never was.
        """
        since = now - timedelta(seconds=self._freshness.silence)
        interval = self._freshness.interval
        places = {guest.id: guest.node for guest in snapshot.guests.values()}
        self._inbox.place(places, since)
        asked = {case.request.node: case for case in self._cases}
        return {
            "guests": {
                history.guest: list(history.samples)
                for history in self._inbox.histories(since)
                if history.guest in snapshot.guests and history.interval == interval
            },
            "nodes": {
                request.node: list(request.own)
                for request in heard
                if request.interval == interval
            },
            "petitions": {
                request.node: _petition(asked.get(request.node)) for request in heard
            },
        }

    def _tell_silent(self, snapshot: Snapshot, heard: Iterable[RequestRecord]) -> None:
        online = {name for name, node in snapshot.nodes.items() if node.online}
        silent = frozenset(online - {request.node for request in heard})
        if silent != self._silent:
            names = sorted(silent)
            tell(
                "agents-silent" if silent else "agents-heard",
                f"not heard: {', '.join(names)}" if silent else "all agents are heard",
                level=logging.WARNING if silent else logging.INFO,
                nodes=names,
            )
        self._silent = silent

    def _note(self, requests: Sequence[RequestRecord]) -> None:
        if requests:
            self._inbox.note(requests)
        for request in requests:
            if request.state.closed:
                _tell_closed(request)


def _objection(
    request: RequestRecord,
    audible: AbstractSet[NodeId],
    changes: dict[NodeId, datetime],
    snapshot: Snapshot,
) -> str | None:
    """Return why *request* is not decided about, or None."""
    if request.node not in snapshot.nodes:
        return f"there is no node {request.node}"
    if request.node not in audible:
        return "it waited too long to be acted on"
    changed = changes.get(request.node)
    if changed is not None and request.taken_at < changed:
        return f"{request.node} has changed since its samples were taken"
    return None


def _petition(case: Case | None) -> Petition:
    if case is None:
        return {"verdict": Verdict.CALM.value, "leaving": []}
    return {"verdict": case.request.verdict, "leaving": list(case.leaving)}


def _tell_closed(request: RequestRecord) -> None:
    calm = request.verdict == Verdict.CALM
    why = f": {request.detail}" if request.detail else ""
    tell(
        "request-closed",
        f"{request.node}: the request ({request.verdict}) is {request.state}{why}",
        level=logging.DEBUG if calm else logging.INFO,
        node=request.node,
        id=request.id,
        state=request.state.value,
        detail=request.detail,
    )
