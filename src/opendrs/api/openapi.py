"""OpenAPI description of the API, with examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from opendrs.api.messages import DETAILS
from opendrs.api.request_parser import MAX_NUMBER_LENGTH
from opendrs.config import api_schema
from opendrs.config.api_schema import ProblemCode

API_DESCRIPTION = """
The agent of each node sends a request in each interval. It contains the load state of
the node (normal, underloaded or overloaded), the guests to evict, and the samples. The
controller records a request before it responds, evaluates the newest requests of all
nodes together, and reports the status of each.

All operations except this document and `/v1/health` require the token of a node:
`Authorization: Bearer TOKEN`.

Every response that is not 2xx has a `ProblemDetails` body. Besides those of each
operation these are 404 for an unknown path, and 405 with `Allow` for a method that a
path does not support. The connection is closed after a response to a request that was
not read completely (401, 404, 405, 408, 413, 415, 429, 503), and after any response to
a client without a token.
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
_NO_SEQUENCE = {"last_sequence": None}

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


def _busy_problem(
    description: str, code: ProblemCode, detail: str = ""
) -> dict[str, Any]:
    """Return the description of a response after which the client retries."""
    header = {
        "description": "Seconds after which to retry the same request.",
        "schema": {"type": "integer"},
    }
    problem = _problem(description, code, detail)
    return {**problem, "headers": {"Retry-After": header}}


def _problem(
    description: str, code: ProblemCode, detail: str = "", **more: object
) -> dict[str, Any]:
    example = {
        "code": code.value,
        "detail": detail or DETAILS[code],
        **_NO_SEQUENCE,
        **more,
    }
    return _response(description, api_schema.ProblemDetails, example)


_COMMON_RESPONSES: _Responses = {
    401: _problem("Missing or unknown token.", ProblemCode.TOKEN_UNKNOWN),
    429: _busy_problem(
        "Other requests of this node are being processed.",
        ProblemCode.NODE_BUSY,
        "h1: another request is being processed; retry",
    ),
    500: _problem("Internal error.", ProblemCode.INTERNAL_ERROR),
    503: _busy_problem(
        "The store cannot be written, or other requests use all memory for bodies.",
        ProblemCode.STORE_FAILED,
    ),
}
_FORBIDDEN: _Responses = {
    403: _problem(
        "The token belongs to another node.",
        ProblemCode.TOKEN_MISMATCH,
        "token: expected that of h1, got h2",
    )
}
_INVALID_PATH: _Responses = {
    422: _problem("The path has an invalid parameter.", ProblemCode.PATH_INVALID)
}
_UNKNOWN_REQUEST: _Responses = {
    404: _problem(
        "The request is unknown, or not kept any more.",
        ProblemCode.REQUEST_UNKNOWN,
        f"unknown request: {EXAMPLE_ID}",
    )
}
_UNKNOWN_SAMPLES: _Responses = {
    404: _problem("There are no samples of the guest.", ProblemCode.SAMPLES_UNKNOWN)
}
SUBMIT_RESPONSES: _Responses = {
    202: _response("The request is recorded.", api_schema.RequestStatus, _QUEUED),
    200: _response(
        "The request is known already: its status.", api_schema.RequestStatus, _DONE
    ),
    400: _problem("The request is incomplete.", ProblemCode.BODY_INCOMPLETE),
    **_COMMON_RESPONSES,
    **_FORBIDDEN,
    408: _problem("The request was not received in time.", ProblemCode.BODY_TIMEOUT),
    409: _problem(
        "The id belongs to a request with other content.", ProblemCode.ID_CONFLICT
    ),
    412: _problem(
        "The request is stale: its sequence is not above that of the last accepted "
        "request of the node, or its samples are too old, or ahead of the clock of the "
        "controller.",
        ProblemCode.REQUEST_STALE,
        "sequence: expected above 17, the last accepted of h1, got 17",
        last_sequence=17,
    ),
    413: _problem("The request is too large.", ProblemCode.BODY_TOO_LARGE),
    415: _problem("The request is compressed.", ProblemCode.ENCODING_NOT_SUPPORTED),
    422: _problem(
        "The request is not valid, or a name in it contains a token. At most five "
        "problems are reported; parsing stops at the fifth.",
        ProblemCode.REQUEST_INVALID,
        "load_state: Input should be 'normal'",
    ),
}
STATUS_RESPONSES: _Responses = {
    200: _response("Status of the request.", api_schema.RequestStatus, _DONE),
    **_COMMON_RESPONSES,
    **_FORBIDDEN,
    **_UNKNOWN_REQUEST,
    **_INVALID_PATH,
}
SAMPLES_RESPONSES: _Responses = {
    200: _response("The history.", api_schema.GuestSamples, _HISTORY),
    **_COMMON_RESPONSES,
    **_UNKNOWN_SAMPLES,
    **_INVALID_PATH,
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
    body = api_schema.RequestBody.model_json_schema(
        ref_template="#/components/schemas/{model}"
    )
    components = description["components"]
    schemas = components["schemas"]
    schemas.update(body.pop("$defs"))
    schemas["RequestBody"] = body
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in description["paths"].items():
        for operation in operations.values():
            if path != api_schema.HEALTH_PATH:
                operation["security"] = [{"token": []}]
