"""The OpenAPI document of the operator API.

`python -m opendrs.api.web_app` prints docs/reference/openapi.json.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.json_schema import models_json_schema

from opendrs.api.context import ApiContext, ApiStores
from opendrs.api.schema.common import ProblemDocument
from opendrs.api.schema.state import StateMessage

if TYPE_CHECKING:
    from pydantic import BaseModel

# Those that no response names.
_FURTHER: tuple[type[BaseModel], ...] = (ProblemDocument, StateMessage)
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "opendrs",
        "description": "Of a sign-in; `__Host-opendrs` over TLS.",
    },
}
_PUBLIC = frozenset(
    {
        ("get", "/api/v1/health"),
        ("get", "/api/v1/sign-in"),
        ("put", "/api/v1/session"),
        ("put", "/api/v1/session/oidc"),
        ("put", "/api/v1/sign-in/oidc"),
    }
)


def openapi_document(app: FastAPI) -> dict[str, Any]:
    """Return the description of *app* with all schemas."""
    if app.openapi_schema is not None:
        return app.openapi_schema
    document = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    _, schemas = models_json_schema(
        [(model, "serialization") for model in _FURTHER],
        ref_template="#/components/schemas/{model}",
    )
    components = document.setdefault("components", {})
    known = components.setdefault("schemas", {})
    components["schemas"] = dict(sorted({**schemas["$defs"], **known}.items()))
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    components["securitySchemes"] = _SECURITY
    _describe_operations(document)
    app.openapi_schema = document
    return document


def _describe_operations(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            is_public = (method, path) in _PUBLIC
            operation["security"] = (
                [] if is_public else [{"token": []}, {"session": []}]
            )


def blank_context() -> ApiContext:
    """Return a context for the description alone: no route can be called."""
    none = cast("Any", None)
    stores = ApiStores(
        store=none, history=none, events=none, plans=none, operators=none, access=none
    )
    return ApiContext(
        platform="",
        settings=none,
        config_path=None,
        clock=none,
        stores=stores,
        states=none,
        access=none,
    )
