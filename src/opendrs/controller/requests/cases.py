"""What follows from a plan for each request, and what a request leaves to decide.

Pure: from values to values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from opendrs.controller.requests.wire import Verdict
from opendrs.model import (
    GuestId,
    Migration,
    NodeId,
    PowerOff,
    PowerOn,
    Relocation,
    Snapshot,
    Step,
)
from opendrs.model.listing import first_few
from opendrs.policies import Decision
from opendrs.ports import Outcome, RequestRecord, RequestState, StepRecord

MOST_NAMED = 20  # guests of a request in one sentence
_CHANGES = (Outcome.DONE, Outcome.LOST)


@dataclass(frozen=True, slots=True)
class Case:
    """A request that is decided about.

    Attributes:
        request: The request.
        leaving: Who should leave and is still on the node, the first first.
        gone: Who should leave and is not there any more.
    """

    request: RequestRecord
    leaving: tuple[GuestId, ...]
    gone: tuple[GuestId, ...]


def case_of(request: RequestRecord, snapshot: Snapshot) -> Case:
    """Return *request* as a case, by where its guests are now."""
    here = [guest for guest in request.leaving if _is_on(guest, request.node, snapshot)]
    gone = [guest for guest in request.leaving if guest not in here]
    return Case(request, tuple(here), tuple(gone))


def _is_on(name: GuestId, node: NodeId, snapshot: Snapshot) -> bool:
    guest = snapshot.guests.get(name)
    return guest is not None and guest.node == node


def last_changes(records: Iterable[StepRecord]) -> dict[NodeId, datetime]:
    """Return when each node was last changed by a step that may have been done."""
    found: dict[NodeId, datetime] = {}
    for record in records:
        ended_at = record.ended_at
        if record.outcome in _CHANGES and ended_at is not None:
            for node in _nodes(record.action):
                found[node] = max(ended_at, found.get(node, ended_at))
    return found


def _nodes(action: object) -> tuple[NodeId, ...]:
    if isinstance(action, Migration | Relocation):
        return action.source, action.target
    assert isinstance(action, PowerOn | PowerOff)  # noqa: S101 - there is no other
    return (action.node,)


def steps_of(node: NodeId, steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return which of *steps* follow from what is asked for *node*.

    These are those that empty or relieve it or put it to sleep, and those that wake
    a node for whoever leaves it.
    """
    own = [step for step in steps if _begins_on(step, node)]
    needed = {name for step in own for name in step.after}
    return tuple(
        Step(step.id, step.action)
        for step in steps
        if step in own or (step.id in needed and isinstance(step.action, PowerOn))
    )


def _begins_on(step: Step, node: NodeId) -> bool:
    action = step.action
    if isinstance(action, Migration | Relocation):
        return action.source == node
    return isinstance(action, PowerOff) and action.node == node


def opened(case: Case, decision: Decision[object], run: str) -> RequestRecord:
    """Return the request of *case* once *decision* is about to be carried out.

    Where nothing follows from it, it is closed with it.
    """
    request = case.request
    steps = steps_of(request.node, decision.plan.steps)
    if steps:
        state = RequestState.EXECUTING
    elif request.verdict == Verdict.CALM:
        state = RequestState.DONE
    else:
        state = RequestState.REFUSED
    return replace(
        request,
        state=state,
        detail="; ".join(_remarks(case, steps, decision)),
        run=run if steps else None,
        steps=steps,
    )


def _remarks(
    case: Case, steps: Sequence[Step], decision: Decision[object]
) -> Iterable[str]:
    if case.request.verdict == Verdict.CALM:
        return
    if not steps:
        yield f"nothing is done: {decision.reason}, {decision.detail}"
    moved = {
        step.action.guest
        for step in steps
        if isinstance(step.action, Migration | Relocation)
    }
    staying = [guest for guest in case.leaving if guest not in moved]
    if staying and steps:
        yield f"no place was found for {first_few(staying, MOST_NAMED)}"
    if case.gone:
        gone = first_few(case.gone, MOST_NAMED)
        yield f"not there any more, and left out: {gone}"
