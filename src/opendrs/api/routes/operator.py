"""State that operators set: mode, pause, circuit breakers and drains."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Path

from opendrs.api.context import ApiContext
from opendrs.api.operator_requests import perform
from opendrs.api.principal import Principal, operator, viewer
from opendrs.api.problems import ProblemError
from opendrs.api.responses import described
from opendrs.api.schema.common import MAX_NAME, PRINTABLE, ApiProblem
from opendrs.api.schema.operator import (
    BreakerState,
    DrainList,
    DrainRequest,
    ModeRequest,
    PauseRequest,
    PauseState,
    UndrainRequest,
)
from opendrs.api.schema.plans import RejectionRequest
from opendrs.api.schema.state import ModeDocument
from opendrs.controller import operator_commands as commands
from opendrs.controller.drained_nodes import drained_nodes
from opendrs.controller.modes import (
    BREAKER_KEY,
    OPERATOR_ENTRIES,
    Entries,
    open_api_breaker,
    overall_mode,
)
from opendrs.controller.views.state import (
    breaker_document,
    mode_document,
    pause_document,
)
from opendrs.model import NodeId, format_timestamp

NodeName = Annotated[
    str, Path(min_length=1, max_length=MAX_NAME, pattern=PRINTABLE, examples=["node1"])
]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of what operators set."""
    router = APIRouter(tags=["operator"])
    _add_mode_routes(router, context)
    _add_pause_routes(router, context)
    _add_breaker_routes(router, context)
    _add_drain_routes(router, context)
    _add_undrain_route(router, context)
    return router


def _entries(context: ApiContext) -> Entries:
    return context.stores.operators.entries(OPERATOR_ENTRIES)


def _add_mode_routes(router: APIRouter, context: ApiContext) -> None:
    def shown() -> dict[str, object]:
        settings = context.settings
        mode = overall_mode(settings, _entries(context), context.clock.now())
        return mode_document(mode, settings)

    @router.get("/mode", response_model=ModeDocument, summary="Get the mode")
    def get_mode(principal: Principal = viewer) -> dict[str, object]:
        """Get the mode that applies now, and why."""
        del principal
        return shown()

    @router.put("/mode", response_model=ModeDocument, summary="Set the mode")
    def set_mode(
        body: ModeRequest, principal: Principal = operator
    ) -> dict[str, object]:
        """Set the mode, which replaces the configured one until it is set again."""
        with perform(context, principal, "mode", {"mode": body.mode.value}):
            commands.set_mode(
                context.stores.operators, context.clock, principal.actor, body.mode
            )
            return shown()


def _add_pause_routes(router: APIRouter, context: ApiContext) -> None:
    stores, clock = context.stores, context.clock

    def shown() -> dict[str, object]:
        return {"pause": pause_document(_entries(context), clock.now())}

    @router.get("/pause", response_model=PauseState, summary="Get the pause")
    def get_pause(principal: Principal = viewer) -> dict[str, object]:
        """Get the pause that has not ended."""
        del principal
        return shown()

    @router.put("/pause", response_model=PauseState, summary="Pause the controller")
    def set_pause(
        body: PauseRequest, principal: Principal = operator
    ) -> dict[str, object]:
        """Pause the controller: no steps start until a time, or for some seconds."""
        arguments = body.model_dump(mode="json", exclude_none=True)
        with perform(context, principal, "pause", arguments):
            end, actor = _pause_end(body, clock.now()), principal.actor
            commands.pause(stores.operators, clock, actor, end, body.because)
            return shown()

    @router.delete("/pause", response_model=PauseState, summary="End the pause")
    def end_pause(principal: Principal = operator) -> dict[str, object]:
        """End the pause. Without one, nothing changes."""
        with perform(context, principal, "resume", {}):
            commands.resume(stores.operators, clock, principal.actor)
            return shown()


def _pause_end(body: PauseRequest, now: datetime) -> datetime:
    """Return the end of a pause.

    Raises:
        ProblemError: Neither or both are given, or the end is out of range.
    """
    problem = ""
    if (body.until is None) == (body.seconds is None):
        problem = "expected either until or seconds"
    elif body.until is not None and body.until.tzinfo is None:
        problem = "until: expected a time zone"
    else:
        end = commands.pause_end(now, body.seconds, body.until)
        if end is not None:
            return end
        days = commands.MAX_PAUSE // 86_400
        problem = f"expected the end of the pause in the next {days} days"
    raise ProblemError(ApiProblem.OUT_OF_RANGE, problem)


def _add_breaker_routes(router: APIRouter, context: ApiContext) -> None:
    def shown() -> dict[str, object]:
        entries = _entries(context)
        return {
            "breaker": breaker_document(entries.get(BREAKER_KEY)),
            "api_breaker": breaker_document(open_api_breaker(entries)),
        }

    @router.get("/breaker", response_model=BreakerState, summary="Get the breakers")
    def get_breaker(principal: Principal = viewer) -> dict[str, object]:
        """Get the circuit breakers that are open."""
        del principal
        return shown()

    @router.delete(
        "/breaker", response_model=BreakerState, summary="Close the breakers"
    )
    def reset_breaker(
        body: RejectionRequest, principal: Principal = operator
    ) -> dict[str, object]:
        """Close both circuit breakers."""
        with perform(context, principal, "breaker --reset", {"because": body.because}):
            commands.reset_breakers(
                context.stores.operators,
                context.clock,
                principal.actor,
                body.because,
            )
            return shown()


def _drains(context: ApiContext) -> dict[str, object]:
    return {
        "drains": [
            {
                "node": each.node,
                "since": format_timestamp(each.since),
                "user": each.user,
                "because": each.because,
            }
            for each in drained_nodes(context.stores.store)
        ]
    }


def _add_drain_routes(router: APIRouter, context: ApiContext) -> None:
    stores, clock = context.stores, context.clock

    @router.get("/drains", response_model=DrainList, summary="List drained nodes")
    def get_drains(principal: Principal = viewer) -> dict[str, object]:
        """List the nodes that operators drain."""
        del principal
        return _drains(context)

    @router.put(
        "/nodes/{id}/drain",
        response_model=DrainList,
        responses=described(404, 409),
        summary="Drain a node",
    )
    def drain(
        id: NodeName,  # noqa: A002 - as in the path
        body: DrainRequest,
        principal: Principal = operator,
    ) -> dict[str, object]:
        """Migrate all guests off a node, and keep it empty until the drain ends."""
        arguments = {"node": id, "because": body.because}
        with perform(context, principal, "drain", arguments):
            _require_drainable(context, id)
            known, actor, node = (
                drained_nodes(stores.store),
                principal.actor,
                NodeId(id),
            )
            commands.start_drain(
                stores.operators, clock, actor, node, body.because, known
            )
            return _drains(context)


def _add_undrain_route(router: APIRouter, context: ApiContext) -> None:
    stores, clock = context.stores, context.clock

    @router.delete(
        "/nodes/{id}/drain",
        response_model=DrainList,
        responses=described(404),
        summary="End the drain of a node",
    )
    def undrain(
        id: NodeName,  # noqa: A002 - as in the path
        body: UndrainRequest | None = None,
        principal: Principal = operator,
    ) -> dict[str, object]:
        """Let a drained node receive guests again; its own may return to it."""
        bring_back = body is not None and body.bring_back
        arguments = {"node": id, "bring_back": bring_back}
        with perform(context, principal, "undrain", arguments):
            found = drained_nodes(stores.store)
            drained = next((each for each in found if each.node == id), None)
            if drained is None:
                raise ProblemError(ApiProblem.NOT_FOUND, f"{id}: is not drained")
            actor = principal.actor
            commands.end_drain(
                stores.operators, clock, actor, drained, bring_back=bring_back
            )
            return _drains(context)


def _require_drainable(context: ApiContext, name: str) -> None:
    """Check that the node *name* exists, responds and is not excluded.

    The serving process knows the nodes of the last recorded cycle.

    Raises:
        ProblemError: There is no such node, or it cannot be drained.
    """
    nodes = context.states.inputs().cluster.nodes
    states = dict(zip(nodes["id"], nodes["state"], strict=True))
    if name not in states:
        raise ProblemError(ApiProblem.NOT_FOUND, f"{name}: no such node")
    if states[name] not in ("online", "maintenance"):
        raise ProblemError(
            ApiProblem.STATE_CONFLICT,
            f"{name}: expected an online node, got state {states[name]}",
        )
