"""FastAPI application of the operator API and the dashboard.

The import is slow; it is imported only where the API is served.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response

from opendrs import __version__
from opendrs.api.context import ApiContext
from opendrs.api.error_responses import (
    internal_error_response,
    invalid_response,
    no_route_response,
)
from opendrs.api.operator_requests import problem_of
from opendrs.api.principal import PRINCIPAL_KEY, Principal
from opendrs.api.problems import ProblemError, problem_response
from opendrs.api.responses import described
from opendrs.api.routes import (
    access,
    cluster,
    explanations,
    history,
    jobs,
    operator,
    plans,
    sign_in,
    state,
)
from opendrs.api.schema.access import HealthDocument
from opendrs.api.schema.common import ApiProblem
from opendrs.api.web_openapi import blank_context, openapi_document
from opendrs.controller.events import LogEventCode, log_event
from opendrs.errors import ConfigurationError, StoreError

PREFIX = "/api/v1"
DESCRIPTION = """
State of a platform and its controller, plans, and the commands of operators.

Every operation except `/health`, this document and those that sign in requires a token
(`Authorization: Bearer odrs_...`) or a browser session (`PUT /session`, or
`PUT /session/oidc`). Roles: a
viewer reads; an operator also approves plans, sets the mode, pauses, drains and closes
circuit breakers; an admin also reads the audit and manages tokens. A browser session
changes something only from a page of the same origin.

Errors are problem details of RFC 9457. `type` and `code` are stable. Unknown values are
null. CPU is in cores, memory in bytes, times in UTC.
"""
_LISTS = frozenset({"state"})  # parameters that may be repeated
_ALL = described(401, 403, 422, 429, 503)


def create_web_app(context: ApiContext) -> FastAPI:
    """Return the application without the limits of requests and the dashboard."""
    app = FastAPI(
        title="OpenDRS",
        description=DESCRIPTION,
        version="1",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    for router in _routers(context):
        app.include_router(
            router,
            prefix=PREFIX,
            responses=_ALL,
            dependencies=[Depends(_require_single)],
        )

    @app.get(
        f"{PREFIX}/health",
        response_model=HealthDocument,
        tags=["state"],
        summary="Check that the server responds",
    )
    async def get_health() -> dict[str, str]:
        """Check that the server responds; requires no token."""
        return {"status": "ok", "version": __version__}

    app.add_exception_handler(ProblemError, partial(_rejected, context))
    app.add_exception_handler(ConfigurationError, _problem)
    app.add_exception_handler(StoreError, _problem)
    app.add_exception_handler(RequestValidationError, invalid_response)
    app.add_exception_handler(HTTPException, no_route_response)
    app.add_exception_handler(Exception, internal_error_response)
    app.openapi = lambda: openapi_document(app)  # type: ignore[method-assign]  # as FastAPI has it
    return app


def _routers(context: ApiContext) -> Sequence[APIRouter]:
    subjects = (
        *(state, plans, operator, cluster, explanations, history, jobs),
        *(access, sign_in),
    )
    return [subject.routes(context) for subject in subjects]


def _require_single(http: HTTPConnection) -> None:
    """Check that no parameter that has one value is repeated.

    Raises:
        ProblemError: One is.
    """
    counts = Counter(name for name, _ in http.query_params.multi_items())
    repeated = [
        name for name, number in counts.items() if number > 1 and name not in _LISTS
    ]
    if repeated:
        raise ProblemError(
            ApiProblem.BODY_INVALID, f"{', '.join(repeated)}: expected once"
        )


def _rejected(context: ApiContext, http: Request, error: Exception) -> Response:
    """Respond with a problem; the audit has what a role did not allow to change."""
    assert isinstance(error, ProblemError)  # noqa: S101 - it is registered for these
    principal: Principal | None = http.scope.get(PRINCIPAL_KEY)
    is_write = http.method not in ("GET", "HEAD")
    if error.code is ApiProblem.FORBIDDEN and principal is not None and is_write:
        arguments = {"method": http.method, "path": http.url.path}
        action = principal.actor.action(context.clock, "request", arguments)
        with suppress(StoreError):
            context.stores.operators.record(replace(action, result=error.code.value))
    return problem_response(error)


def _problem(http: Request, error: Exception) -> Response:
    del http
    if isinstance(error, StoreError):
        log_event(LogEventCode.WEB_STORE_FAILED, str(error), level=logging.ERROR)
    return problem_response(problem_of(error))


def main() -> None:
    """Print the description of the API, for docs/reference/openapi.json."""
    document = openapi_document(create_web_app(blank_context()))
    text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
