"""The state of the platform, and the stream of its changes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Query
from starlette.responses import Response

from opendrs.api.context import ApiContext
from opendrs.api.etags import matches
from opendrs.api.event_stream import EventStream
from opendrs.api.principal import Principal, viewer
from opendrs.api.responses import described
from opendrs.api.schema.operator import EventList
from opendrs.api.schema.state import StateDocument
from opendrs.api.state_feed import event_document

MAX_EVENTS = 1_000  # in one response


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of the state and its changes."""
    router = APIRouter(tags=["state"])
    _add_state(router, context)
    _add_events(router, context)
    _add_log(router, context)
    return router


def _add_state(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/state",
        response_model=StateDocument,
        responses=described(304),
        summary="Get the state of the platform",
    )
    def get_state(
        accept_encoding: Annotated[str, Header()] = "",
        if_none_match: Annotated[str, Header()] = "",
        principal: Principal = viewer,
    ) -> Response:
        """Get controller, mode, exceptions, loads and the plan, in columns.

        With `If-None-Match`, the response is 304 if nothing has changed but times.
        """
        del principal
        state = context.states.current()
        headers = {
            "ETag": f'W/"{state.etag}"',
            "Vary": "Accept-Encoding",
            "Cache-Control": "no-cache",
        }
        if matches(if_none_match, state.etag):
            return Response(status_code=304, headers=headers)
        body = state.body
        if "gzip" in accept_encoding:
            body = state.compressed
            headers["Content-Encoding"] = "gzip"
        return Response(body, media_type="application/json", headers=headers)


def _add_events(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/events",
        status_code=200,
        response_class=EventStream,
        responses={
            200: {
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
                "description": "Events: `state`, `plan`, `progress`, `log`, `mode` "
                "and `reset`. Each has JSON as its data.",
            },
            **described(503),
        },
        summary="Follow the changes",
    )
    def get_events(
        last_event_id: Annotated[str, Header()] = "",
        after: Annotated[int | None, Query(ge=0)] = None,
        principal: Principal = viewer,
    ) -> EventStream:
        """Follow the changes as server-sent events.

        The id of an event is the number of the last log event before it. A client that
        connects again sends it as `Last-Event-ID` (or `after`) and receives the log
        events in between; `reset` if they are not kept any more: then it requests
        `/state` again.
        """
        last = int(last_event_id) if last_event_id.isdecimal() else after
        return EventStream(context, principal, last)


def _add_log(router: APIRouter, context: ApiContext) -> None:
    @router.get("/log", response_model=EventList, summary="List log events")
    def get_log(
        after: Annotated[int | None, Query(ge=0, le=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_EVENTS)] = 100,
        principal: Principal = viewer,
    ) -> dict[str, object]:
        """List log events of the controller, oldest first; without `after` the newest.

        Events are kept as long as the decisions of cycles.
        """
        del principal
        events = context.stores.events
        found = events.newest(limit) if after is None else events.after(after, limit)
        last = found[-1].sequence if found else (after or events.last_sequence())
        return {"events": [event_document(each) for each in found], "next": last}
