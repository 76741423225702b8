"""Decisions about maintenance: drain nodes, and return guests after a drain.

They precede those of the policy, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from opendrs.arrays import SkipReason
from opendrs.controller.consent import ApprovedPlan
from opendrs.controller.cycle import DecisionSource, Evaluation
from opendrs.controller.drained_nodes import (
    DRAIN_PREFIX,
    RETURN_PREFIX,
    GuestReturn,
    drained_nodes,
    guest_returns,
    maintenance_limits,
)
from opendrs.controller.node_inventory import record_nodes
from opendrs.controller.serialization import DrainReport
from opendrs.errors import StoreError
from opendrs.model import Action, Limits, Migration, Snapshot, Step
from opendrs.policies import (
    Decision,
    DecisionReason,
    Drain,
    Policy,
    Return,
    ReturnMemory,
    nodes_in_maintenance,
)
from opendrs.ports import Outcome, StepRecord, Store

MAX_WAIT = timedelta(hours=1)  # for the measurements of guests that are to return


class MaintenanceDecisionSource:
    """Decision source that drains nodes and returns guests, before another one decides.

    Args:
        source: Decides if there is no maintenance to do; None to do only maintenance.
        policy: Policy with the limits of the operator.
        store: Contains the requests of the operators and the records of steps.
        notify: Called to request a further cycle, which continues the maintenance.
    """

    def __init__(
        self,
        source: DecisionSource | None,
        policy: Policy[Any],
        store: Store,
        notify: Callable[[], None] = lambda: None,
    ) -> None:
        self._source = source
        self._policy = policy
        self._store = store
        self._notify = notify
        self._delegated = False
        self._last_actions: tuple[Action, ...] = ()

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that is evaluated without maintenance."""
        return self._policy if self._source is None else self._source.policy

    def reconcile(self) -> None:
        """Settle open requests."""
        if self._source is not None:
            self._source.reconcile()

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[Any]]:
        """Yield the drain and the returns that have a plan, then the other decisions.

        Without another source, an empty plan may be the last one.
        """
        record_nodes(snapshot, self._store)
        self._delegated = False
        limits = maintenance_limits(self._policy.limits)
        drain = Drain(limits=limits)
        decision = drain.decide(snapshot, None)
        report = self._report(snapshot, decision)
        drained: Evaluation[Any] = Evaluation(
            None, decision, policy=drain, drain=report
        )
        if decision.plan.steps:
            yield drained
        for request in guest_returns(self._store):
            if not request.finished and self._is_visible(request, snapshot):
                returned = self._return_guests(request, snapshot, limits)
                is_waiting = self._source is None and _waits(returned.decision)
                if returned.decision.plan.steps or is_waiting:
                    yield replace(returned, drain=report)
        if self._source is None:
            yield drained
            return
        self._delegated = True
        for evaluation in self._source.evaluations(snapshot):
            yield replace(evaluation, drain=report)

    def _report(
        self, snapshot: Snapshot, decision: Decision[None]
    ) -> DrainReport | None:
        """Return the drains that *decision* is about; None without any."""
        if not nodes_in_maintenance(snapshot):
            return None
        nodes = frozenset(each.node for each in drained_nodes(self._store))
        return DrainReport(nodes=nodes, remaining=decision.skipped)

    def record_decision(
        self, decision: Decision[Any], run: str, started: Sequence[Step]
    ) -> None:
        """Record the decision of the other source, if it decided.

        Otherwise a further cycle is requested, unless the same plan was tried before.
        """
        if self._delegated and self._source is not None:
            self._source.record_decision(decision, run, started)
            return
        actions = tuple(step.action for step in decision.plan.steps)
        if actions != self._last_actions:
            self._notify()
        self._last_actions = actions

    def record_approved(self, approved: ApprovedPlan) -> None:
        """Record that a plan of an earlier cycle is about to be executed.

        A further cycle is requested if it drains a node or returns guests.
        """
        if approved.policy in (Drain.name, Return.name):
            self._notify()
        if self._source is not None:
            self._source.record_approved(approved)

    def _is_visible(self, request: GuestReturn, snapshot: Snapshot) -> bool:
        """Return False if the node of *request* may still be drained in *snapshot*.

        An operator may end a drain while a controller runs a cycle. Without another
        source, this process has ended the drain before.
        """
        return self._source is None or request.requested_at <= snapshot.taken_at

    def _return_guests(
        self, request: GuestReturn, snapshot: Snapshot, limits: Limits
    ) -> Evaluation[ReturnMemory]:
        """Return the decision about *request*; finish it if nothing is left to do."""
        policy = Return(limits=limits)
        memory = return_memory(request, self._store.recent(request.since))
        decision = policy.decide(snapshot, memory)
        is_late = snapshot.taken_at - request.requested_at > MAX_WAIT
        if not decision.plan.steps and (is_late or not _waits(decision)):
            finished = replace(request, finished=True)
            self._store.replace(request.key, request.entry, finished.entry)
        return Evaluation(memory, decision, policy=policy)


def _waits(decision: Decision[Any]) -> bool:
    """Return True if a later decision may return more guests."""
    return decision.reason is DecisionReason.MIGRATION_IN_PROGRESS or any(
        each.reason is SkipReason.METRICS_MISSING for each in decision.skipped.values()
    )


def return_memory(request: GuestReturn, records: Iterable[StepRecord]) -> ReturnMemory:
    """Return where the drain of *request* has moved its guests.

    A guest whose return was tried is absent, whatever the outcome.

    Args:
        request: The request.
        records: The steps since the drain began, the oldest first.
    """
    runs: dict[str, str] = {}
    guests: dict[str, str] = {}
    for record in records:
        action = record.action
        if not isinstance(action, Migration) or record.intended_at < request.since:
            continue
        if action.target == request.node and record.intended_at >= request.requested_at:
            guests.pop(action.guest, None)
        elif record.outcome is not Outcome.DONE:
            continue
        elif action.source == request.node:
            runs[action.guest], guests[action.guest] = record.run, action.target
        elif runs.get(action.guest) == record.run:  # the rest of a detour
            guests[action.guest] = action.target
    return {"node": request.node, "guests": guests}


class MaintenanceWatch:
    """Detection of new requests of operators, for an early cycle.

    Args:
        store: Contains the requests.
        notify: Called when they have changed.
    """

    def __init__(self, store: Store, notify: Callable[[], None]) -> None:
        self._store = store
        self._notify = notify
        self._seen = self._requests()

    def check(self) -> None:
        """Notify if the requests have changed since the last call.

        An unreadable store is ignored: the next cycle reports it.
        """
        try:
            requests = self._requests()
        except StoreError:
            return
        if requests != self._seen:
            self._seen = requests
            self._notify()

    def _requests(self) -> frozenset[tuple[str, str]]:
        return frozenset(
            (key, str(entry.get("since")) + str(entry.get("requested_at")))
            for prefix in (DRAIN_PREFIX, RETURN_PREFIX)
            for key, entry in self._store.load_all(prefix).items()
        )
