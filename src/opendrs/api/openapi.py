"""OpenAPI description of the API for host agents, with examples.

`python -m opendrs.api.app` prints docs/reference/openapi-agents.json.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from opendrs.api.problems import MEDIA_TYPE, ProblemError
from opendrs.api.request_parser import MAX_NUMBER_LENGTH
from opendrs.api.responses import described
from opendrs.api.schema.common import ApiProblem, ProblemDocument
from opendrs.config import api_schema

API_DESCRIPTION = """
The agent of each node sends a request in each interval. It contains the load state of
the node (normal, underloaded or overloaded), the guests to evict, and the samples. The
controller records a request before it responds, evaluates the newest requests of all
nodes together, and reports the status of each.

All operations except this document and `/health` require the token of a node:
`Authorization: Bearer TOKEN`.

Errors are problem details of RFC 9457. `type` and `code` are stable. Besides those of
each operation these are 404 for an unknown path, and 405 with `Allow` for a method that
a path does not support. The connection is closed after a response to a request that was
not read completely (401, 404, 405, 408, 413, 415, 429, 503; 422 for an invalid path),
and after any response to a client without a token.
"""
EXAMPLE_ID = "5c6f6ad0-6f0f-4f0e-9d5b-6a4c3d1d8a11"
_REQUEST = {
    "id": EXAMPLE_ID,
    "node": "h1",
    "sequence": 17,
    "taken_at": "2026-11-21T12:00:00Z",
    "load_state": "overloaded",
    "evict": ["vm:103"],
    "samples": {
        "interval": 300.0,
        "guests": {"vm:101": [0.3, 0.4], "vm:103": [3.1, 3.6]},
        "host_overhead": [0.1, 0.1],
    },
}
_QUEUED = {"id": EXAMPLE_ID, "state": "queued", "detail": "", "steps": []}
_DONE = {
    "id": EXAMPLE_ID,
    "state": "done",
    "detail": "",
    "steps": [
        {
            "id": "1",
            "action": {
                "kind": "live-migration",
                "guest": "vm:103",
                "source": "h1",
                "target": "h2",
            },
            "outcome": "done",
            "detail": "",
        }
    ],
}
_HISTORY = {
    "interval": 300.0,
    "taken_at": "2026-11-21T12:00:00Z",
    "samples": [3.1, 3.6],
}
_Responses = dict[int | str, dict[str, Any]]
REQUEST_BODY = {
    "required": True,
    "description": f"JSON in UTF-8 without `Content-Encoding`, with at most "
    f"{api_schema.MAX_BODY_BYTES} bytes, {api_schema.MAX_TOTAL_SAMPLES} samples in "
    f"all, {MAX_NUMBER_LENGTH} characters in a number, and each name of an object "
    "once.",
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/RequestBody"},
            "examples": {"overloaded": {"value": _REQUEST}},
        }
    },
}


def _response(description: str, model: type, example: object) -> dict[str, Any]:
    content = {"application/json": {"example": example}}
    return {"model": model, "description": description, "content": content}


def _stale_response() -> dict[str, Any]:
    problem = ProblemError(
        ApiProblem.REQUEST_STALE,
        "sequence: expected above 17, the last accepted of h1, got 17",
        last_sequence=17,
    )
    (response,) = described(412).values()
    example = problem.document.model_dump(mode="json", exclude_none=True)
    response["content"][MEDIA_TYPE]["example"] = example
    return response


_COMMON_RESPONSES = described(401, 429, 500, 503)
SUBMIT_RESPONSES: _Responses = {
    202: _response("The request is recorded.", api_schema.RequestStatus, _QUEUED),
    200: _response(
        "The request is known already: its status.", api_schema.RequestStatus, _DONE
    ),
    **_COMMON_RESPONSES,
    **described(400, 403, 408, 409, 413, 415, 422),
    412: _stale_response(),
}
STATUS_RESPONSES: _Responses = {
    200: _response("Status of the request.", api_schema.RequestStatus, _DONE),
    **_COMMON_RESPONSES,
    **described(403, 404, 422),
}
SAMPLES_RESPONSES: _Responses = {
    200: _response("The history.", api_schema.GuestSamples, _HISTORY),
    **_COMMON_RESPONSES,
    **described(404, 422),
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of the API."""
    if app.openapi_schema is None:
        description = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        _complete(description)
        app.openapi_schema = description
    return app.openapi_schema


def _complete(description: dict[str, Any]) -> None:
    """Add what FastAPI cannot derive: the manually parsed body and the token."""
    _, found = models_json_schema(
        [(api_schema.RequestBody, "validation"), (ProblemDocument, "serialization")],
        ref_template="#/components/schemas/{model}",
    )
    components = description["components"]
    schemas = components["schemas"]
    schemas.update(found["$defs"])
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            if path != api_schema.HEALTH_PATH:
                operation["security"] = [{"token": []}]
