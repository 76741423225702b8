"""Nodes, guests and rules of the newest recorded cycle, or of an earlier one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from opendrs.api.context import ApiContext
from opendrs.api.json_responses import Conditions, conditions
from opendrs.api.principal import Principal, viewer
from opendrs.api.problems import ProblemError
from opendrs.api.recorded_clusters import RecordedCluster
from opendrs.api.responses import described
from opendrs.api.routes.history import DROPPED, Points, cycles_over_time
from opendrs.api.schema.common import MAX_NAME, ApiProblem
from opendrs.api.schema.subjects import (
    ConsolidationDocument,
    GuestDocument,
    NodeDocument,
    ReasonList,
    RuleList,
)
from opendrs.controller.drained_nodes import drained_nodes
from opendrs.controller.planned_steps import PlannedStep, planned_steps
from opendrs.controller.views.consolidation import consolidation_document
from opendrs.controller.views.history_entries import move_entry, with_plan
from opendrs.controller.views.load_points import LoadPoint, guest_series, node_series
from opendrs.controller.views.reasons import with_planned
from opendrs.controller.views.subjects import guest_page, node_page
from opendrs.model import format_timestamp
from opendrs.ports import OPEN_PLAN_STATES, CycleSummary, HistoryFilter

MAX_MOVES = 20  # of a node or a guest that are shown
MAX_POWER_STEPS = 1_000  # the newest steps among which power actions are searched

Name = Annotated[str, Path(min_length=1, max_length=MAX_NAME)]
Run = Annotated[
    str | None,
    Query(max_length=MAX_NAME, description="The cycle; the newest one without it."),
]
Series = Callable[[Iterable[LoadPoint], str], dict[str, Any]]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of nodes, guests, rules, reasons and consolidation."""
    router = APIRouter(tags=["cluster"])
    _add_nodes(router, context)
    _add_guests(router, context)
    _add_rules(router, context)
    _add_reasons(router, context)
    _add_consolidation(router, context)
    return router


def cycle_with_inputs(context: ApiContext, run: str | None) -> RecordedCluster | None:
    """Return the cycle *run*, or the newest one that has its inputs; None if none has.

    Raises:
        ProblemError: There is no cycle *run*, or its inputs are dropped.
        StoreError: The store cannot be read.
    """
    history = context.stores.history
    cycle: CycleSummary | None
    if run is None:
        kept = (e for e in history.cycles(HistoryFilter()) if e.inputs != DROPPED)
        cycle = next(kept, None)
    elif (cycle := history.cycle_of(run)) is None:
        raise ProblemError(ApiProblem.NOT_FOUND, f"{run}: no such cycle")
    if cycle is None:
        return None
    found = context.clusters.cluster(history, cycle)
    if found is None:
        detail = f"{cycle.run}: its cluster is not stored any more"
        raise ProblemError(ApiProblem.NOT_FOUND, detail)
    return found


def require_cycle(context: ApiContext, run: str | None) -> RecordedCluster:
    """Return the same; an error if no cycle is recorded.

    Raises:
        ProblemError: There is no such cycle.
        StoreError: The store cannot be read.
    """
    found = cycle_with_inputs(context, run)
    if found is None:
        raise ProblemError(ApiProblem.NOT_FOUND, "no cycle is recorded yet")
    return found


def cycle_header(found: RecordedCluster | None) -> dict[str, Any]:
    """Return the run and the time of a cycle; None without one."""
    if found is None:
        return {"run": None, "decided_at": None}
    cycle = found.cycle
    return {"run": cycle.run, "decided_at": format_timestamp(cycle.decided_at)}


def open_steps(context: ApiContext, run: str | None) -> list[PlannedStep]:
    """Return the steps that open plans will execute; none for a named cycle.

    Raises:
        StoreError: The store cannot be read.
    """
    if run is not None:
        return []
    plans = context.stores.plans.plans(OPEN_PLAN_STATES)
    history = context.stores.history
    records = (record for plan in plans for record in history.records_of(plan.run))
    return list(planned_steps(plans, records))


def _add_nodes(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/nodes/{id}",
        response_model=NodeDocument,
        responses=described(304, 404),
        summary="Get a node",
    )
    def get_node(
        id: Name,  # noqa: A002 - as in the path
        *,
        run: Run = None,
        points: Points = 60,
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """Get a node: load over the last day, guests, planned steps, rules, moves."""
        del principal
        found = require_cycle(context, run)
        page = node_page(found.cycle, id, found.rules, open_steps(context, run))
        if page is None:
            raise ProblemError(ApiProblem.NOT_FOUND, f"{id}: no such node")
        drained = {each.node: each for each in drained_nodes(context.stores.store)}
        drain = drained.get(page["id"])
        page["drain"] = None
        if drain is not None:
            page["drain"] = {"node": id, **drain.entry}
        chosen = HistoryFilter(node=id)
        return form.response(
            {
                **cycle_header(found),
                **page,
                **_over_time(context, id, chosen, points, node_series),
            }
        )


def _add_guests(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/guests/{id}",
        response_model=GuestDocument,
        responses=described(304, 404),
        summary="Get a guest",
    )
    def get_guest(
        id: Name,  # noqa: A002 - as in the path
        *,
        run: Run = None,
        points: Points = 60,
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """Get a guest: use, planned steps, rules, moves, and why it stays."""
        del principal
        found = require_cycle(context, run)
        page = guest_page(found.cycle, id, found.rules, open_steps(context, run))
        if page is None:
            raise ProblemError(ApiProblem.NOT_FOUND, f"{id}: no such guest")
        chosen = HistoryFilter(guest=id)
        return form.response(
            {
                **cycle_header(found),
                **page,
                **_over_time(context, id, chosen, points, guest_series),
            }
        )


def _over_time(
    context: ApiContext, name: str, chosen: HistoryFilter, count: int, series: Series
) -> dict[str, Any]:
    """Return loads of the last day, and the newest moves, of a node or guest."""
    history = context.stores.history
    loads = context.clusters.loads(
        history, cycles_over_time(context, None, None, count)
    )
    return {
        "series": {**series(loads.points, name), "complete": loads.complete},
        "moves": with_plan(
            (move_entry(history, each) for each in history.steps(chosen, MAX_MOVES)),
            context.stores.plans,
            history,
        ),
    }


def _add_rules(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/rules",
        response_model=RuleList,
        responses=described(304, 404),
        summary="List the rules",
    )
    def list_rules(
        run: Run = None,
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """List the rules with state, origin, contradictions, and what repairs them."""
        del principal
        found = cycle_with_inputs(context, run)
        rules = [] if found is None else found.rules
        limits = context.settings.limits
        return form.response(
            {
                **cycle_header(found),
                "rules": rules,
                "tolerated_failures": limits.tolerated_failures,
                "tolerated_domain": limits.tolerated_domain,
            }
        )


def _add_reasons(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/reasons",
        response_model=ReasonList,
        responses=described(304, 404),
        summary="List why guests stay and nodes receive none",
    )
    def list_reasons(
        run: Run = None,
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """List the reasons of a cycle, each with its guests or nodes."""
        del principal
        found = cycle_with_inputs(context, run)
        reasons = [] if found is None else found.reasons
        reasons = with_planned(reasons, open_steps(context, run))
        return form.response({**cycle_header(found), "reasons": reasons})


def _add_consolidation(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/consolidation",
        response_model=ConsolidationDocument,
        responses=described(304, 404),
        summary="Get power and sleeping nodes",
    )
    def get_consolidation(
        form: Conditions = conditions, principal: Principal = viewer
    ) -> Response:
        """Get the nodes that are off, the power actions, and the estimated power."""
        del principal
        found = require_cycle(context, None)
        steps = context.stores.history.steps(HistoryFilter(), MAX_POWER_STEPS)
        document = consolidation_document(found.cycle, steps)
        return form.response({**cycle_header(found), **document})
