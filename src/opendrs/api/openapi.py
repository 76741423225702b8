"""OpenAPI description of the API, with examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from opendrs.api import schema
from opendrs.api.request_parser import MAX_NUMBER_LENGTH

API_DESCRIPTION = """
The agent of each node sends a request each interval: that all is calm, that the node
could be emptied, or who should leave it because it is overloaded; and with it what was
measured. The controller writes a request down before it answers, decides about the
newest requests of all nodes together, and tells how each stands.

All but this document and `/v1/health` needs the token of a node:
`Authorization: Bearer TOKEN`.

Every answer that is not 2xx has a `ProblemDetails` as its body. Besides those of each
operation these are 404 for a path that does not exist, and 405 with `Allow` for a
method that a path does not have. An answer to a request that was not read to its end
(401, 404, 405, 408, 413, 415, 429, 503), and any answer to a peer without a token, ends
the connection.
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
    f"{schema.MAX_BODY_BYTES} bytes, {schema.MAX_TOTAL_SAMPLES} samples in all, "
    f"{MAX_NUMBER_LENGTH} characters in a number, and each name of an object once.",
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


def _busy_problem(description: str, detail: str) -> dict[str, Any]:
    """Return the description of an answer after which a request is sent again."""
    header = {
        "description": "Seconds after which to send the same request again.",
        "schema": {"type": "integer"},
    }
    return {**_problem(description, detail), "headers": {"Retry-After": header}}


def _problem(description: str, detail: str, **more: object) -> dict[str, Any]:
    return _response(
        description, schema.ProblemDetails, {"detail": detail, **_NO_SEQUENCE, **more}
    )


_COMMON_RESPONSES: _Responses = {
    401: _problem("No token, or one that is not known.", "show the token of a node"),
    429: _busy_problem(
        "Other requests of this node are being processed.",
        "h1: another request is being processed; try again",
    ),
    500: _problem("A bug in opendrs.", "this is a bug in opendrs; its log says more"),
    503: _busy_problem(
        "The record cannot be written now, or other requests take the memory that "
        "there is for them.",
        "it cannot be kept now; send it again",
    ),
}
_FORBIDDEN: _Responses = {
    403: _problem(
        "The token is that of another node.", "this is the token of h2, not h1"
    )
}
_INVALID_PATH: _Responses = {
    422: _problem("The path does not fit.", "the path does not fit")
}
_NOT_FOUND: _Responses = {
    404: _problem("It is not known, or not any more.", "nothing is known of it")
}
SUBMIT_RESPONSES: _Responses = {
    202: _response("It is written down.", schema.RequestStatus, _QUEUED),
    200: _response("It was known: how it stands now.", schema.RequestStatus, _DONE),
    400: _problem("It ended too early.", "the request ended too early"),
    **_COMMON_RESPONSES,
    **_FORBIDDEN,
    408: _problem("It did not come in time.", "the request did not come in time"),
    409: _problem(
        "A request of this id said something else.",
        "a request of this id said something else",
    ),
    412: _problem(
        "It is stale: its sequence is not above that of the last accepted request of "
        "the node, or its samples are too old, or ahead of the controller's clock.",
        "sequence 17 is not above 17, the last accepted of h1",
        last_sequence=17,
    ),
    413: _problem(
        "It is too large.", f"a request has at most {schema.MAX_BODY_BYTES} bytes"
    ),
    415: _problem(
        "It is compressed.", "Content-Encoding: not supported; send plain JSON"
    ),
    422: _problem(
        "It does not fit, or a name in it contains a token. At most five problems are "
        "named, and reading ends with the fifth.",
        "load_state: Input should be 'normal'",
    ),
}
STATUS_RESPONSES: _Responses = {
    200: _response("How it stands.", schema.RequestStatus, _DONE),
    **_COMMON_RESPONSES,
    **_FORBIDDEN,
    **_NOT_FOUND,
    **_INVALID_PATH,
}
SAMPLES_RESPONSES: _Responses = {
    200: _response("The history.", schema.GuestSamples, _HISTORY),
    **_COMMON_RESPONSES,
    **_NOT_FOUND,
    **_INVALID_PATH,
}


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the description of the interface, as OpenAPI has it."""
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
    """Add what FastAPI cannot see: the body that is read by hand, and the token."""
    body = schema.RequestBody.model_json_schema(
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
            if path != schema.HEALTH_PATH:
                operation["security"] = [{"token": []}]
