"""The OpenAPI document of the operator API.

`python -m opendrs.api.web_openapi` prints docs/reference/openapi.json.
"""

from __future__ import annotations

import json
import sys
from typing import Any, cast

from opendrs.api.context import ApiContext, ApiStores
from opendrs.api.web_app import create_web_app


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


def main() -> None:
    """Print the document."""
    document = create_web_app(blank_context()).openapi()
    text = json.dumps(document, indent=2, ensure_ascii=False, sort_keys=True)
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    main()
