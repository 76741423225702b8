"""How a request stands, and what came of it in the end."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from opendrs.controller.documents import action_document
from opendrs.controller.requests.wire import Deed, Standing, StepOutcome
from opendrs.model import Step, StepId
from opendrs.ports import Outcome, RequestRecord, RequestState, StepRecord

NEVER_STARTED = "the controller ended before it was started"
_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


def standing(request: RequestRecord, records: Iterable[StepRecord]) -> Standing:
    """Return how *request* stands.

    Args:
        request: The request.
        records: What is recorded of the execution that follows from it.
    """
    of_step = {record.step: record for record in records}
    return Standing(
        id=UUID(request.id),
        state=request.state,
        detail=request.detail,
        steps=[
            _step(step, of_step.get(step.id), request.state) for step in request.steps
        ],
    )


def _step(step: Step, record: StepRecord | None, state: RequestState) -> StepOutcome:
    action = Deed.model_validate(action_document(step.action))
    if record is not None:
        outcome, detail = record.outcome, record.detail
    elif state.closed:
        outcome, detail = Outcome.SKIPPED, NEVER_STARTED
    else:
        outcome, detail = None, ""
    return StepOutcome(id=step.id, action=action, outcome=outcome, detail=detail)


def result(
    request: RequestRecord, records: Iterable[StepRecord]
) -> tuple[RequestState, str]:
    """Return what *request* came to once nothing of it runs any more, and why.

    Args:
        request: A request from which steps follow.
        records: What is recorded of their execution.
    """
    of_step = {record.step: record for record in records}
    ends = {step.id: of_step.get(step.id) for step in request.steps}
    undone = [_undone(name, end) for name, end in ends.items() if not _done(end)]
    if not undone:
        return RequestState.DONE, request.detail
    failed = any(end is None or end.outcome in _FAILURES for end in ends.values())
    state = RequestState.FAILED if failed else RequestState.REFUSED
    return state, "; ".join([*undone, *filter(None, [request.detail])])


def _done(record: StepRecord | None) -> bool:
    return record is not None and record.outcome is Outcome.DONE


def _undone(name: StepId, record: StepRecord | None) -> str:
    if record is None or record.outcome is None:
        return f"step {name}: {NEVER_STARTED}"
    return f"step {name} {record.outcome}: {record.detail}".removesuffix(": ")
