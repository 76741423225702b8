"""Jobs: what-if, place, drain preview, replay, backtest and drill."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path
from starlette.responses import JSONResponse, Response

from opendrs.api.context import ApiContext
from opendrs.api.jobs import Job, JobKeyReusedError, JobQueue, JobQueueFullError
from opendrs.api.json_responses import Conditions, conditions
from opendrs.api.principal import Principal, viewer
from opendrs.api.problems import ProblemError
from opendrs.api.responses import described
from opendrs.api.schema.common import MAX_NAME, ApiProblem
from opendrs.api.schema.jobs import JobDocument, JobList, JobRequest
from opendrs.model import format_timestamp

RETRY_AFTER = 10  # seconds until a full queue may have a place
JOBS_PATH = "/api/v1/jobs"

JobId = Annotated[str, Path(min_length=1, max_length=MAX_NAME)]
Key = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=MAX_NAME,
        description="A repeated request with the same key returns the same job.",
    ),
]


def routes(context: ApiContext) -> APIRouter:
    """Return the routes of the jobs. A viewer may use them: they change nothing."""
    router = APIRouter(prefix="/jobs", tags=["jobs"])
    _add_submission(router, context)
    _add_reads(router, context)
    return router


def _queue(context: ApiContext) -> JobQueue:
    if context.jobs is None:
        raise ProblemError(ApiProblem.NOT_FOUND, "this server has no jobs")
    return context.jobs


def _add_submission(router: APIRouter, context: ApiContext) -> None:
    @router.post(
        "",
        status_code=202,
        response_model=JobDocument,
        responses=described(404, 409),
        summary="Ask a question that takes long",
    )
    def submit_job(
        body: Annotated[JobRequest, Body()],
        idempotency_key: Key = None,
        principal: Principal = viewer,
    ) -> Response:
        """Ask a question; `Location` is the job with its answer.

        Jobs are computed one after the other, backtests and drills beside the others.
        Nothing is changed.
        """
        key = (
            None if idempotency_key is None else f"{principal.token}/{idempotency_key}"
        )
        arguments = body.model_dump(mode="json")
        kind = arguments.pop("kind")
        try:
            job = _queue(context).submit(kind, arguments, key)
        except JobQueueFullError as error:
            raise ProblemError(
                ApiProblem.RATE_LIMITED,
                "too many jobs wait; retry later",
                headers={"Retry-After": str(RETRY_AFTER)},
            ) from error
        except JobKeyReusedError as error:
            detail = "Idempotency-Key: was used for another question"
            raise ProblemError(ApiProblem.STATE_CONFLICT, detail) from error
        headers = {"Location": f"{JOBS_PATH}/{job.id}"}
        return JSONResponse(_document(job), status_code=202, headers=headers)


def _add_reads(router: APIRouter, context: ApiContext) -> None:
    @router.get("", response_model=JobList, summary="List jobs")
    def list_jobs(principal: Principal = viewer) -> dict[str, Any]:
        """List the jobs of the last hour, without their results."""
        del principal
        names = ("id", "kind", "state", "created_at", "ended_at", "progress")
        jobs = [_document(each) for each in _queue(context).jobs()]
        return {"jobs": [{name: each[name] for name in names} for each in jobs]}

    @router.get(
        "/{id}",
        response_model=JobDocument,
        responses=described(304, 404),
        summary="Get a job",
    )
    def get_job(
        id: JobId,  # noqa: A002 - as in the path
        form: Conditions = conditions,
        principal: Principal = viewer,
    ) -> Response:
        """Get a job, with its result once it is done."""
        del principal
        return form.response(_document(_known(_queue(context).job(id), id)))

    @router.delete(
        "/{id}",
        response_model=JobDocument,
        responses=described(404),
        summary="Cancel a job",
    )
    def cancel_job(
        id: JobId,  # noqa: A002 - as in the path
        principal: Principal = viewer,
    ) -> dict[str, Any]:
        """Cancel a job that has not ended."""
        del principal
        return _document(_known(_queue(context).cancel(id), id))


def _known(job: Job | None, name: str) -> Job:
    if job is None:
        detail = f"{name}: no such job; results are kept for an hour"
        raise ProblemError(ApiProblem.NOT_FOUND, detail)
    return job


def _document(job: Job) -> dict[str, Any]:
    started, ended = job.started_at, job.ended_at
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.state.value,
        "arguments": dict(job.arguments),
        "created_at": format_timestamp(job.created_at),
        "started_at": None if started is None else format_timestamp(started),
        "ended_at": None if ended is None else format_timestamp(ended),
        "progress": job.progress,
        "problem": None if job.problem is None else job.problem.value,
        "detail": job.detail,
        "result": job.result,
    }
