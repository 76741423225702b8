"""Evaluation of the requests of all host agents together, once per cycle."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from opendrs.config.settings import StalenessLimits
from opendrs.controller.consent import ApprovedPlan
from opendrs.controller.cycle import Evaluation
from opendrs.controller.events import LogEventCode, log_event
from opendrs.controller.modes import REPAIR_REASONS
from opendrs.controller.node_inventory import record_nodes
from opendrs.model import (
    GuestId,
    LoadState,
    Migration,
    NodeId,
    PowerOff,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    format_list,
)
from opendrs.policies import Decision, DecisionReason, first_repair
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.agent_requests import (
    AgentInput,
    AgentRequest,
    exclude_unresponsive,
)
from opendrs.ports import (
    Clock,
    Outcome,
    RequestRecord,
    RequestState,
    RequestStore,
    StepRecord,
    Store,
)

MAX_NAMED = 20  # guests of a request in one message
_POSSIBLE_CHANGES = (Outcome.DONE, Outcome.LOST)


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that is being evaluated.

    Attributes:
        request: The request.
        evict: Guests to evict that are still on the node, in order of preference.
        departed: Guests to evict that are not on the node any more.
    """

    request: RequestRecord
    evict: tuple[GuestId, ...]
    departed: tuple[GuestId, ...]


def pending_request(request: RequestRecord, snapshot: Snapshot) -> PendingRequest:
    """Return *request* with its guests divided by their current location."""
    present = [
        guest for guest in request.evict if _is_on(guest, request.node, snapshot)
    ]
    departed = [guest for guest in request.evict if guest not in present]
    return PendingRequest(request, tuple(present), tuple(departed))


def _is_on(name: GuestId, node: NodeId, snapshot: Snapshot) -> bool:
    guest = snapshot.guests.get(name)
    return guest is not None and guest.node == node


def last_changes(records: Iterable[StepRecord]) -> dict[NodeId, datetime]:
    """Return the time of the last step that may have changed each node."""
    changed_at: dict[NodeId, datetime] = {}
    for record in records:
        ended_at = record.ended_at
        if record.outcome in _POSSIBLE_CHANGES and ended_at is not None:
            for node in _changed_nodes(record.action):
                changed_at[node] = max(ended_at, changed_at.get(node, ended_at))
    return changed_at


def _changed_nodes(action: object) -> tuple[NodeId, ...]:
    if isinstance(action, Migration):
        return action.source, action.target
    return (action.node,) if isinstance(action, PowerOn | PowerOff) else ()


def steps_for(node: NodeId, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps that result from the request of *node*.

    These are migrations from the node, its power-off, and the power-ons of nodes that
    these migrations depend on.
    """
    starting = [step for step in steps if _starts_on(step, node)]
    needed = {name for step in starting for name in step.depends_on}
    return tuple(
        Step(step.id, step.action)
        for step in steps
        if step in starting or (step.id in needed and isinstance(step.action, PowerOn))
    )


def _starts_on(step: Step, node: NodeId) -> bool:
    action = step.action
    if isinstance(action, Migration):
        return action.source == node
    return isinstance(action, PowerOff) and action.node == node


def start_request(
    pending: PendingRequest,
    decision: Decision[object],
    run: str,
    started: Sequence[Step],
) -> RequestRecord | None:
    """Return the request of *pending* as it is when steps are about to be executed.

    A request without resulting steps is closed.

    Args:
        pending: The request.
        decision: The decision about it.
        run: Name of the execution.
        started: The steps of the decision that are executed.

    Returns:
        None if all steps that result from the request wait for an approval.
    """
    request = pending.request
    steps = steps_for(request.node, started)
    if not steps and steps_for(request.node, decision.plan.steps):
        return None
    if steps:
        state = RequestState.EXECUTING
    elif request.load_state == LoadState.NORMAL:
        state = RequestState.DONE
    else:
        state = RequestState.REJECTED
    return replace(
        request,
        state=state,
        detail="; ".join(_details(pending, steps, decision)),
        run=run if steps else None,
        steps=steps,
    )


def _details(
    pending: PendingRequest, steps: Sequence[Step], decision: Decision[object]
) -> Iterable[str]:
    if pending.request.load_state == LoadState.NORMAL:
        return
    if not steps:
        yield f"no action: {decision.reason}, {decision.detail}"
    planned = _migrated(decision.plan.steps)
    staying = [guest for guest in pending.evict if guest not in planned]
    if staying and steps:
        yield f"no target node found for {format_list(staying, MAX_NAMED)}"
    waiting = [guest for guest in pending.evict if guest in planned - _migrated(steps)]
    if waiting and steps:
        yield f"approval required for {format_list(waiting, MAX_NAMED)}"
    if pending.departed:
        departed = format_list(pending.departed, MAX_NAMED)
        yield f"not on the node any more: {departed}"


def _migrated(steps: Iterable[Step]) -> set[GuestId]:
    return {step.action.guest for step in steps if isinstance(step.action, Migration)}


def answered_request(request: RequestRecord, approved: ApprovedPlan) -> RequestRecord:
    """Return *request* as it is when a plan of an earlier cycle answers it."""
    steps = steps_for(request.node, approved.plan.steps)
    missing = [guest for guest in request.evict if guest not in _migrated(steps)]
    detail = f"not in the approved plan: {format_list(missing, MAX_NAMED)}"
    return replace(
        request,
        state=RequestState.EXECUTING,
        detail=detail if missing else "",
        run=approved.run,
        steps=steps,
    )


HISTORY_RETENTION = timedelta(days=1)  # for the sample history of a guest


def repair_before_requests(
    policy: Consolidate, snapshot: Snapshot, memory: AgentInput
) -> Decision[AgentInput] | None:
    """Return the repair that precedes the requests of the agents, or None.

    Nodes with an unresponsive agent are unknown to it.
    """
    visible = exclude_unresponsive(snapshot, memory["requests"])
    return first_repair(policy, visible, memory)


class AgentLog:
    """Log of the agents that are unresponsive, with a line for each change."""

    def __init__(self) -> None:
        self._unresponsive: frozenset[NodeId] = frozenset()

    def update(self, snapshot: Snapshot, responsive: Iterable[RequestRecord]) -> None:
        """Log the online nodes without a request in *responsive*, if they changed."""
        online = {name for name, node in snapshot.nodes.items() if node.online}
        unresponsive = frozenset(online - {request.node for request in responsive})
        if unresponsive != self._unresponsive:
            names = sorted(unresponsive)
            log_event(
                LogEventCode.AGENTS_UNRESPONSIVE
                if unresponsive
                else LogEventCode.AGENTS_RECOVERED,
                f"agents unresponsive: {', '.join(names)}"
                if unresponsive
                else "all agents are responsive",
                level=logging.WARNING if unresponsive else logging.INFO,
                nodes=names,
            )
        self._unresponsive = unresponsive


class RequestBatch:
    """Decision source that evaluates the newest request of each host agent.

    Each request is evaluated once. Its samples remain in use, its load state and
    evictions do not.

    Args:
        policy: The policy.
        request_store: Contains the requests.
        store: Contains the step records.
        clock: The time.
        limits: Validity of requests and samples.
        schedule: Name of the entry of the schedule that it decides for, or empty.
        agent_log: Log of the agents, shared by the entries of a schedule; None for one
            of its own.
    """

    def __init__(  # noqa: PLR0913 - each a dependency of a decision
        self,
        policy: Consolidate,
        request_store: RequestStore,
        store: Store,
        clock: Clock,
        limits: StalenessLimits,
        *,
        schedule: str = "",
        agent_log: AgentLog | None = None,
    ) -> None:
        self._policy = policy
        self._request_store = request_store
        self._store = store
        self._clock = clock
        self._limits = limits
        self._schedule = schedule
        self._pending: tuple[PendingRequest, ...] = ()
        self._agent_log = agent_log or AgentLog()

    @property
    def policy(self) -> Consolidate:
        """Return the policy that is evaluated."""
        return self._policy

    def has_requests(self) -> bool:
        """Return True if a request for an action waits for a decision."""
        return any(
            request.state is RequestState.QUEUED
            and request.load_state != LoadState.NORMAL
            for request in self._request_store.latest_per_node()
        )

    def reconcile(self) -> None:
        """Close executed requests; queue requests again that were only evaluated."""
        unsettled = self._unsettled()
        if unsettled:
            latest = {request.id for request in self._request_store.latest_per_node()}
            self._update([self._reconciled(request, latest) for request in unsettled])
        self._request_store.prune(self._clock.now() - HISTORY_RETENTION)

    def evaluations(self, snapshot: Snapshot) -> Iterator[Evaluation[AgentInput]]:
        """Yield the repair of violated strict rules, if any, and the decision.

        The decision is about the newest request of each node. Requests stay in the
        queue while rules are repaired.
        """
        record_nodes(snapshot, self._store)
        now = self._clock.now()
        latest = self._request_store.latest_per_node()
        responsive = [
            request
            for request in latest
            if request.node in snapshot.nodes
            and not is_unresponsive(request, now, self._limits)
        ]
        self._agent_log.update(snapshot, responsive)
        self._pending = ()
        without_samples: AgentInput = {
            "guests": {},
            "nodes": {},
            "requests": {each.node: _agent_request(None) for each in responsive},
        }
        repair = repair_before_requests(self._policy, snapshot, without_samples)
        if repair is not None:
            yield Evaluation(without_samples, repair, schedule=self._schedule)
        self._pending = self._claim_queued(latest, responsive, snapshot)
        memory = self._agent_input(responsive, snapshot, now)
        decision = self._policy.decide_requests(snapshot, memory)
        yield Evaluation(memory, decision, schedule=self._schedule)

    def record_decision(
        self, decision: Decision[Any], run: str, started: Sequence[Step]
    ) -> None:
        """Record the steps that result from each request, before they start."""
        requests = [
            start_request(pending, decision, run, started) for pending in self._pending
        ]
        self._update([request for request in requests if request is not None])
        self._pending = ()

    def record_approved(self, approved: ApprovedPlan) -> None:
        """Record the newest requests that the plan answers, before it starts.

        Repairs answer no request.
        """
        is_repair = approved.reason in (
            *REPAIR_REASONS,
            DecisionReason.RESTORES_TOLERANCE.value,
        )
        if approved.policy != self._policy.name or is_repair:
            return
        answered = [
            request.id
            for request in self._request_store.latest_per_node()
            if request.state is RequestState.QUEUED
            and request.load_state != LoadState.NORMAL
            and steps_for(request.node, approved.plan.steps)
        ]
        claimed = self._request_store.claim(answered)
        self._update([answered_request(request, approved) for request in claimed])

    def _unsettled(self) -> list[RequestRecord]:
        return [
            request
            for request in self._request_store.open_requests()
            if request.state is not RequestState.QUEUED
        ]

    def _reconciled(
        self, request: RequestRecord, latest: AbstractSet[str]
    ) -> RequestRecord:
        if request.run is None:
            if request.id in latest:
                return replace(request, state=RequestState.QUEUED)
            superseded = "a newer request arrived before the evaluation"
            return replace(request, state=RequestState.SUPERSEDED, detail=superseded)
        state, detail = final_state(request, self._store.records_of(request.run))
        return replace(request, state=state, detail=detail)

    def _claim_queued(
        self,
        latest: Sequence[RequestRecord],
        responsive: Sequence[RequestRecord],
        snapshot: Snapshot,
    ) -> tuple[PendingRequest, ...]:
        """Return the requests to evaluate now; reject those that are not valid."""
        queued = [r.id for r in latest if r.state is RequestState.QUEUED]
        claimed = self._request_store.claim(queued)
        changes = last_changes(self._recent_steps(responsive))
        responsive_nodes = {request.node for request in responsive}
        details = [
            _rejection_detail(r, responsive_nodes, changes, snapshot) for r in claimed
        ]
        self._update(
            [
                replace(request, state=RequestState.REJECTED, detail=detail)
                for request, detail in zip(claimed, details, strict=True)
                if detail is not None
            ]
        )
        return tuple(
            pending_request(request, snapshot)
            for request, detail in zip(claimed, details, strict=True)
            if detail is None
        )

    def _recent_steps(
        self, responsive: Iterable[RequestRecord]
    ) -> Iterable[StepRecord]:
        """Return the records of steps that may have ended since the oldest samples."""
        oldest = min((request.taken_at for request in responsive), default=None)
        if oldest is None:
            return ()
        # A step that ended since then may have started long before.
        longest = timedelta(seconds=2 * self._policy.limits.migration_timeout)
        return self._store.recent(oldest - longest)

    def _agent_input(
        self, responsive: Sequence[RequestRecord], snapshot: Snapshot, now: datetime
    ) -> AgentInput:
        """Return the samples and requests of the agents as input of the policy.

        Histories with another interval are omitted: samples of different intervals
        cannot be added up.
        """
        since = now - timedelta(seconds=self._limits.agent_timeout)
        interval = self._limits.interval
        placements = {guest.id: guest.node for guest in snapshot.guests.values()}
        self._request_store.record_placements(placements, since)
        pending = {each.request.node: each for each in self._pending}
        return {
            "guests": {
                history.guest: list(history.samples)
                for history in self._request_store.histories(since)
                if history.guest in snapshot.guests and history.interval == interval
            },
            "nodes": {
                request.node: list(request.host_overhead)
                for request in responsive
                if request.interval == interval
            },
            "requests": {
                request.node: _agent_request(pending.get(request.node))
                for request in responsive
            },
        }

    def _update(self, requests: Sequence[RequestRecord]) -> None:
        if requests:
            self._request_store.update(requests)
        for request in requests:
            if request.state.closed:
                _log_completed(request)


def _rejection_detail(
    request: RequestRecord,
    responsive_nodes: AbstractSet[NodeId],
    changes: dict[NodeId, datetime],
    snapshot: Snapshot,
) -> str | None:
    """Return the reason why *request* is not evaluated, or None."""
    if request.node not in snapshot.nodes:
        return f"unknown node: {request.node}"
    if request.node not in responsive_nodes:
        return "agent timeout exceeded before the evaluation"
    changed = changes.get(request.node)
    if changed is not None and request.taken_at < changed:
        return f"node changed since the samples were taken: {request.node}"
    return None


def _agent_request(pending: PendingRequest | None) -> AgentRequest:
    if pending is None:
        return {"load_state": LoadState.NORMAL.value, "evict": []}
    return {"load_state": pending.request.load_state, "evict": list(pending.evict)}


def _log_completed(request: RequestRecord) -> None:
    is_normal = request.load_state == LoadState.NORMAL
    suffix = f": {request.detail}" if request.detail else ""
    log_event(
        LogEventCode.REQUEST_COMPLETED,
        f"{request.node}: request ({request.load_state}) {request.state}{suffix}",
        level=logging.DEBUG if is_normal else logging.INFO,
        node=request.node,
        id=request.id,
        state=request.state.value,
        detail=request.detail,
    )


NEVER_STARTED = "never started: the controller stopped before"
_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


def final_state(
    request: RequestRecord, records: Iterable[StepRecord]
) -> tuple[RequestState, str]:
    """Return the final state and detail of *request* once none of its steps runs.

    Args:
        request: A request with resulting steps.
        records: Step records of the execution.
    """
    of_step = {record.step: record for record in records}
    step_records = {step.id: of_step.get(step.id) for step in request.steps}
    details = [
        _undone_detail(name, each)
        for name, each in step_records.items()
        if not _is_done(each)
    ]
    if not details:
        return RequestState.DONE, request.detail
    failed = any(
        each is None or each.outcome in _FAILURES for each in step_records.values()
    )
    state = RequestState.FAILED if failed else RequestState.REJECTED
    return state, "; ".join([*details, *filter(None, [request.detail])])


def _is_done(record: StepRecord | None) -> bool:
    return record is not None and record.outcome is Outcome.DONE


def _undone_detail(name: StepId, record: StepRecord | None) -> str:
    if record is None or record.outcome is None:
        return f"step {name}: {NEVER_STARTED}"
    return f"step {name} {record.outcome}: {record.detail}".removesuffix(": ")


def is_unresponsive(
    request: RequestRecord, now: datetime, limits: StalenessLimits
) -> bool:
    """Return True if *request*, the newest of its node, exceeds the agent timeout."""
    return now - request.received_at > timedelta(seconds=limits.agent_timeout)
