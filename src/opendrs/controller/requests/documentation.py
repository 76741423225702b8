"""What the generated description of the interface says, with examples."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from opendrs.controller.requests import wire
from opendrs.controller.requests.reading import LONGEST_NUMBER

ABOUT = """
The agent of each node sends a request each interval: that all is calm, that the node
could be emptied, or who should leave it because it is overloaded; and with it what was
measured. The controller writes a request down before it answers, decides about the
newest requests of all nodes together, and tells how each stands.

All but this document and `/v1/health` needs the token of a node:
`Authorization: Bearer TOKEN`.

Every answer that is not 2xx has a `Problem` as its body. Besides those of each
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
    "verdict": "overloaded",
    "leaving": ["vm:103"],
    "samples": {
        "interval": 300.0,
        "guests": {"vm:101": [0.3, 0.4], "vm:103": [3.1, 3.6]},
        "own": [0.1, 0.1],
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
                "kind": "migrate",
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
_NO = {"last_sequence": None}

_Answers = dict[int | str, dict[str, Any]]
BODY = {
    "required": True,
    "description": f"JSON in UTF-8 without `Content-Encoding`, with at most "
    f"{wire.LARGEST_BODY} bytes, {wire.MOST_SAMPLES_IN_ALL} samples in all, "
    f"{LONGEST_NUMBER} characters in a number, and each name of an object once.",
    "content": {
        "application/json": {
            "schema": {"$ref": "#/components/schemas/Request"},
            "examples": {"overloaded": {"value": _REQUEST}},
        }
    },
}


def _answer(what: str, model: type, example: object) -> dict[str, Any]:
    content = {"application/json": {"example": example}}
    return {"model": model, "description": what, "content": content}


def _busy(what: str, detail: str) -> dict[str, Any]:
    """Return the description of an answer after which a request is sent again."""
    header = {
        "description": "Seconds after which to send the same request again.",
        "schema": {"type": "integer"},
    }
    return {**_problem(what, detail), "headers": {"Retry-After": header}}


def _problem(what: str, detail: str, **more: object) -> dict[str, Any]:
    return _answer(what, wire.Problem, {"detail": detail, **_NO, **more})


_UNAUTHORISED: _Answers = {
    401: _problem("No token, or one that is not known.", "show the token of a node"),
    429: _busy(
        "Other requests of this node are being processed.",
        "h1: another request is being processed; try again",
    ),
    500: _problem("A bug in opendrs.", "this is a bug in opendrs; its log says more"),
    503: _busy(
        "The record cannot be written now, or other requests take the memory that "
        "there is for them.",
        "it cannot be kept now; send it again",
    ),
}
_OTHERS: _Answers = {
    403: _problem(
        "The token is that of another node.", "this is the token of h2, not h1"
    )
}
_MISADDRESSED: _Answers = {
    422: _problem("The path does not fit.", "the path does not fit")
}
_UNKNOWN: _Answers = {
    404: _problem("It is not known, or not any more.", "nothing is known of it")
}
TAKE_ANSWERS: _Answers = {
    202: _answer("It is written down.", wire.Standing, _QUEUED),
    200: _answer("It was known: how it stands now.", wire.Standing, _DONE),
    400: _problem("It ended too early.", "the request ended too early"),
    **_UNAUTHORISED,
    **_OTHERS,
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
        "It is too large.", f"a request has at most {wire.LARGEST_BODY} bytes"
    ),
    415: _problem(
        "It is compressed.", "Content-Encoding: not supported; send plain JSON"
    ),
    422: _problem(
        "It does not fit, or a name in it contains a token. At most five problems are "
        "named, and reading ends with the fifth.",
        "verdict: Input should be 'calm'",
    ),
}
LOOK_UP_ANSWERS: _Answers = {
    200: _answer("How it stands.", wire.Standing, _DONE),
    **_UNAUTHORISED,
    **_OTHERS,
    **_UNKNOWN,
    **_MISADDRESSED,
}
SAMPLES_ANSWERS: _Answers = {
    200: _answer("The history.", wire.GuestSamples, _HISTORY),
    **_UNAUTHORISED,
    **_UNKNOWN,
    **_MISADDRESSED,
}


def document(app: FastAPI) -> dict[str, Any]:
    """Return the description of the interface, as OpenAPI has it."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
        )
        _complete(made)
        app.openapi_schema = made
    return app.openapi_schema


def _complete(made: dict[str, Any]) -> None:
    """Add what FastAPI cannot see: the body that is read by hand, and the token."""
    body = wire.Request.model_json_schema(ref_template="#/components/schemas/{model}")
    components = made["components"]
    schemas = components["schemas"]
    schemas.update(body.pop("$defs"))
    schemas["Request"] = body
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in made["paths"].items():
        for operation in operations.values():
            if path != wire.HEALTH:
                operation["security"] = [{"token": []}]
