"""The history: recorded cycles, moves, and figures over time."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response

from opendrs.api.context import ApiContext
from opendrs.api.json_responses import Conditions, conditions
from opendrs.api.principal import Principal, viewer
from opendrs.api.problems import ProblemError, unknown_cursor
from opendrs.api.responses import described
from opendrs.api.schema.common import MAX_NAME, ApiProblem, Cursor, IsoTime
from opendrs.api.schema.history import (
    ClusterSeries,
    CycleList,
    MovePage,
    RecordedClusterDocument,
)
from opendrs.controller.views.history_entries import (
    cycle_entry,
    move_entry,
    recorded_cluster,
    with_plan,
    with_plans,
)
from opendrs.controller.views.load_points import cluster_series
from opendrs.errors import StoreError
from opendrs.model import time_as_text, time_from_text
from opendrs.ports import CycleSummary, HistoryFilter, StepRecord

MAX_ENTRIES = 500  # of a list in one response
MAX_MOVES = 100  # the loads of each are read
MAX_POINTS = 240  # of a series in one response; as many of 20,000 guests are kept
DAY = timedelta(days=1)
DROPPED = "dropped"

Name = Annotated[str | None, Query(min_length=1, max_length=MAX_NAME)]
Time = Annotated[IsoTime | None, Query(description="With a time zone.")]
Points = Annotated[int, Query(ge=2, le=MAX_POINTS)]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of the history."""
    router = APIRouter(prefix="/history", tags=["history"])
    _add_cycles(router, context)
    _add_clusters(router, context)
    _add_moves(router, context)
    _add_series(router, context)
    return router


def _add_cycles(router: APIRouter, context: ApiContext) -> None:
    @router.get("/cycles", response_model=CycleList, summary="List recorded cycles")
    def list_cycles(  # noqa: PLR0913 - one for each parameter
        *,
        since: Time = None,
        until: Time = None,
        guest: Name = None,
        node: Name = None,
        with_plan: bool = False,
        cursor: Annotated[int | None, Query(ge=0, le=2**62)] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_ENTRIES)] = 50,
        principal: Principal = viewer,
    ) -> dict[str, object]:
        """List recorded cycles, the newest first.

        With `guest` or `node`, only cycles whose plan concerns it.
        """
        del principal
        chosen = history_filter(since, until, guest=guest, node=node)
        cycles = context.stores.history.cycles(
            chosen, with_plan=with_plan, before=cursor
        )
        page = list(islice(cycles, limit + 1))
        return {
            "cycles": with_plans(map(cycle_entry, page[:limit]), context.stores.plans),
            "next": str(page[limit - 1].id) if len(page) > limit else None,
        }


def _add_clusters(router: APIRouter, context: ApiContext) -> None:
    history = context.stores.history

    @router.get(
        "/cycles/{run}",
        response_model=RecordedClusterDocument,
        responses=described(304, 404),
        summary="Get the cluster as it was in a cycle",
    )
    def get_cycle(
        run: Annotated[str, Path(min_length=1, max_length=MAX_NAME)],
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """Get the cluster that a cycle evaluated, and the decision then made."""
        del principal
        cycle = history.cycle_of(run)
        if cycle is None:
            raise ProblemError(ApiProblem.NOT_FOUND, f"{run}: no such cycle")
        return _shown(context, cycle, form)

    @router.get(
        "/cluster",
        response_model=RecordedClusterDocument,
        responses=described(304, 404),
        summary="Get the cluster as it was at a time",
    )
    def get_cluster(
        at: Annotated[IsoTime, Query(description="With a time zone.")],
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """Get the cluster of the last cycle at or before a time that is stored."""
        del principal
        cycles = history.cycles(history_filter(None, at))
        cycle = next((each for each in cycles if each.inputs != DROPPED), None)
        if cycle is None:
            detail = f"{at.isoformat()}: no cycle is stored from before"
            raise ProblemError(ApiProblem.NOT_FOUND, detail)
        return _shown(context, cycle, form)


def _shown(context: ApiContext, cycle: CycleSummary, form: Conditions) -> Response:
    history = context.stores.history
    found = context.clusters.cluster(history, cycle)
    if found is None:
        detail = f"{cycle.run}: its cluster is not stored any more"
        raise ProblemError(ApiProblem.NOT_FOUND, detail)
    document = recorded_cluster(history, cycle, found.cycle)
    (entry,) = with_plans([document["cycle"]], context.stores.plans)
    return form.response({**document, "cycle": entry})


def _add_moves(router: APIRouter, context: ApiContext) -> None:
    history = context.stores.history

    @router.get("/moves", response_model=MovePage, summary="List started steps")
    def list_moves(  # noqa: PLR0913 - one for each parameter
        *,
        since: Time = None,
        until: Time = None,
        guest: Name = None,
        node: Name = None,
        cursor: Cursor | None = None,
        limit: Annotated[int, Query(ge=1, le=MAX_MOVES)] = 20,
        principal: Principal = viewer,
    ) -> dict[str, object]:
        """List started steps with prediction and result, the newest first."""
        del principal
        end, skipped = until, 0
        if cursor is not None:
            end, skipped = _position(cursor)
        chosen = history_filter(since, end, guest=guest, node=node)
        found = history.steps(chosen, skipped + limit + 1)[skipped:]
        page = found[:limit]
        has_more = len(found) > limit
        return {
            "moves": with_plan(
                (move_entry(history, each) for each in page),
                context.stores.plans,
                history,
            ),
            "next": _cursor(page, end, skipped) if has_more else None,
        }


def _cursor(page: tuple[StepRecord, ...], end: datetime | None, skipped: int) -> str:
    """Return the position after *page*: a time, and the steps of that time before."""
    last = page[-1].intended_at
    count = sum(each.intended_at == last for each in page)
    if last == end:
        count += skipped
    return f"{time_as_text(last)}~{count}"


def _position(cursor: str) -> tuple[datetime, int]:
    """Return the time and the number of steps that *cursor* names.

    Raises:
        ProblemError: It is not a cursor of this list.
    """
    text, _, count = cursor.partition("~")
    if not count.isdecimal() or len(count) > 5:
        raise unknown_cursor(cursor)
    try:
        return time_from_text(text), int(count)
    except StoreError as error:
        raise unknown_cursor(cursor) from error


def _add_series(router: APIRouter, context: ApiContext) -> None:
    @router.get(
        "/series",
        response_model=ClusterSeries,
        responses=described(304),
        summary="Get figures of the cluster over time",
    )
    def get_series(
        since: Time = None,
        until: Time = None,
        points: Points = 120,
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """Get imbalance, highest loads, violated rules and power over time.

        The default is the last day before `until`, or before now.
        """
        del principal
        cycles = cycles_over_time(context, since, until, points)
        found = context.clusters.loads(context.stores.history, cycles)
        series = cluster_series(found.points)
        return form.response({**series, "complete": found.complete})


def history_filter(
    since: datetime | None,
    until: datetime | None,
    *,
    guest: str | None = None,
    node: str | None = None,
) -> HistoryFilter:
    """Return the selection of the history.

    Raises:
        ProblemError: A time has no time zone.
    """
    for name, time in (("since", since), ("until", until)):
        if time is not None and time.tzinfo is None:
            detail = f"{name}: expected a time zone, such as Z"
            raise ProblemError(ApiProblem.OUT_OF_RANGE, detail)
    return HistoryFilter(since=since, until=until, guest=guest, node=node)


def cycles_over_time(
    context: ApiContext, since: datetime | None, until: datetime | None, count: int
) -> list[CycleSummary]:
    """Return the cycles with inputs of a time, or about *count* spread over it.

    They are then the first ones of intervals that do not depend on the present time, so
    that later requests select the same ones; and the newest cycle.

    Args:
        context: The store and the clock.
        since: Begin; None for a day before the end.
        until: End; None for now.
        count: Number of intervals.

    Raises:
        ProblemError: A time has no time zone.
        StoreError: The store cannot be read.
    """
    end = until or context.clock.now()
    begin = since or end - DAY
    chosen = history_filter(begin, end)
    history = context.stores.history
    kept = [each for each in history.cycles(chosen) if each.inputs != DROPPED]
    if len(kept) <= count:
        return kept
    width = (end - begin).total_seconds() / count
    first = {int(each.decided_at.timestamp() / width): each for each in kept}
    return list({each.id: each for each in (kept[0], *first.values())}.values())
