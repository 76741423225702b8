"""Plans, and the decisions of operators about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query
from starlette.responses import JSONResponse, Response

from opendrs.api.context import ApiContext
from opendrs.api.etags import matches
from opendrs.api.operator_requests import perform
from opendrs.api.principal import Principal, operator, viewer
from opendrs.api.problems import ProblemError, unknown_cursor
from opendrs.api.responses import described
from opendrs.api.schema.common import MAX_NAME, PRINTABLE, ApiProblem, Cursor
from opendrs.api.schema.plans import (
    ApprovalRequest,
    CancellationRequest,
    PlanDocument,
    PlanList,
    RejectionRequest,
)
from opendrs.controller import operator_commands as commands
from opendrs.controller.operator_commands import PlanChangedError
from opendrs.controller.views.plan import plan_view
from opendrs.controller.views.state import plan_summary
from opendrs.ports import PlanRecord, PlanState

MAX_PLANS = 200  # in one response
PlanId = Annotated[
    str, Path(min_length=1, max_length=MAX_NAME, pattern=PRINTABLE, examples=["k7w2x"])
]
Digest = Annotated[
    str | None, Header(description="ETag of the plan that was shown; required.")
]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of the plans."""
    router = APIRouter(prefix="/plans", tags=["plans"])
    _add_reads(router, context)
    _add_approval(router, context)
    _add_ends(router, context)
    return router


def _add_reads(router: APIRouter, context: ApiContext) -> None:
    plans = context.stores.plans

    @router.get("", response_model=PlanList, summary="List plans")
    def list_plans(
        state: Annotated[list[PlanState] | None, Query()] = None,
        cursor: Cursor | None = None,
        limit: Annotated[int, Query(ge=1, le=MAX_PLANS)] = 50,
        principal: Principal = viewer,
    ) -> dict[str, object]:
        """List plans, the newest first."""
        del principal
        found = list(reversed(plans.plans(state or tuple(PlanState))))
        if cursor is not None:
            names = [plan.id for plan in plans.plans()]
            if cursor not in names:
                raise unknown_cursor(cursor)
            older = set(names[: names.index(cursor)])
            found = [plan for plan in found if plan.id in older]
        page = found[:limit]
        return {
            "plans": [plan_summary(plan) for plan in page],
            "next": page[-1].id if len(found) > limit else None,
        }

    @router.get(
        "/{id}",
        response_model=PlanDocument,
        responses=described(404),
        summary="Get a plan with its steps",
    )
    def get_plan(id: PlanId, principal: Principal = viewer) -> Response:  # noqa: A002 - as in the path
        """Get a plan, with the reasons, outcomes and estimates of its steps."""
        del principal
        return _shown(context, commands.find_plan(plans, context.platform, id))


def _add_approval(router: APIRouter, context: ApiContext) -> None:
    @router.put(
        "/{id}/approval",
        response_model=PlanDocument,
        responses=described(404, 409, 412, 428),
        summary="Approve a plan",
    )
    def approve_plan(
        id: PlanId,  # noqa: A002 - as in the path
        body: ApprovalRequest,
        if_match: Digest = None,
        principal: Principal = operator,
    ) -> Response:
        """Approve a plan, or some of its steps with all that they depend on.

        `If-Match` has the ETag of the plan that was shown. An approval of the same
        steps again has no effect.
        """
        run = partial(_approve, context, principal, body, if_match)
        return _decide(context, principal, "approve", id, run)


def _add_ends(router: APIRouter, context: ApiContext) -> None:
    @router.put(
        "/{id}/rejection",
        response_model=PlanDocument,
        responses=described(404, 409),
        summary="Reject a plan",
    )
    def reject_plan(
        id: PlanId,  # noqa: A002 - as in the path
        body: RejectionRequest,
        principal: Principal = operator,
    ) -> Response:
        """Reject a proposed plan. The same steps are not proposed again for a time."""
        run = partial(_reject, context, principal, body.because)
        return _decide(context, principal, "reject", id, run)

    @router.put(
        "/{id}/cancellation",
        response_model=PlanDocument,
        responses=described(404, 409),
        summary="Cancel a plan",
    )
    def cancel_plan(
        id: PlanId,  # noqa: A002 - as in the path
        body: CancellationRequest,
        principal: Principal = operator,
    ) -> Response:
        """Cancel an approved or running plan. Steps that run finish."""
        run = partial(_cancel, context, principal, body.because)
        return _decide(context, principal, "cancel", id, run)


def _shown(context: ApiContext, plan: PlanRecord) -> Response:
    """Return *plan* with its steps; the ETag is its digest."""
    headers = {"ETag": f'"{plan.digest}"', "Cache-Control": "no-cache"}
    document = plan_view(plan, context.stores.history, context.settings.limits)
    return JSONResponse(document, headers=headers)


def _decide(
    context: ApiContext,
    principal: Principal,
    command: str,
    name: str,
    run: Callable[[PlanRecord], PlanRecord],
) -> Response:
    """Return the plan *name* after the decision that *run* records."""
    with perform(context, principal, command, {"plan": name}):
        plan = commands.find_plan(context.stores.plans, context.platform, name)
        return _shown(context, run(plan))


def _approve(
    context: ApiContext,
    principal: Principal,
    body: ApprovalRequest,
    if_match: str | None,
    plan: PlanRecord,
) -> PlanRecord:
    """Return the plan after its approval, which an earlier one may have been.

    Raises:
        ProblemError: The header `If-Match` is missing.
        PlanChangedError: It names another plan.
    """
    if if_match is None:
        raise ProblemError(
            ApiProblem.PRECONDITION_REQUIRED,
            "If-Match: expected the ETag of the plan that was shown",
        )
    if if_match.strip() == "*" or not matches(if_match, plan.digest, weak=False):
        raise PlanChangedError(f"plan {plan.id}: not the plan that was shown")
    steps = commands.chosen_steps(plan, body.steps or ())
    approval = plan.approval
    if (
        approval is not None
        and (approval.steps, approval.digest) == (steps, plan.digest)
        and plan.state in (PlanState.APPROVED, PlanState.RUNNING, PlanState.DONE)
    ):
        return plan
    return commands.approve(
        context.stores.plans,
        context.clock,
        principal.actor,
        plan,
        chosen=body.steps or (),
    )


def _reject(
    context: ApiContext, principal: Principal, because: str, plan: PlanRecord
) -> PlanRecord:
    """Return the plan after its rejection, which an earlier one may have been."""
    if plan.state is PlanState.REJECTED:
        return plan
    plans, clock = context.stores.plans, context.clock
    return commands.reject(plans, clock, principal.actor, plan, because)


def _cancel(
    context: ApiContext, principal: Principal, because: str, plan: PlanRecord
) -> PlanRecord:
    """Return the plan after its cancellation, which an earlier one may have been."""
    if plan.state is PlanState.CANCELLED:
        return plan
    plans, clock = context.stores.plans, context.clock
    return commands.cancel(plans, clock, principal.actor, plan, because)
