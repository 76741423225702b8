"""JSON Schema of the format opendrs-snapshot/1, generated from `snapshot_schema`.

`python -m opendrs.config.schema` prints it.
"""

from __future__ import annotations

import json
import sys

from pydantic.json_schema import GenerateJsonSchema

from opendrs.config.snapshot_schema import SNAPSHOT


def snapshot_schema() -> dict[str, object]:
    """Return the schema as plain values."""
    schema = SNAPSHOT.json_schema()
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "$id": "urn:opendrs:schema:opendrs-snapshot-1",
        "title": "opendrs-snapshot/1",
        **{
            key: _without_titles(part) for key, part in schema.items() if key != "title"
        },
    }


def _without_titles(value: object) -> object:
    """Return *value* without titles, which only repeat the names of fields."""
    if isinstance(value, dict):
        return {
            key: _without_titles(part)
            for key, part in value.items()
            if not (key == "title" and isinstance(part, str))
        }
    return (
        [_without_titles(part) for part in value] if isinstance(value, list) else value
    )


def main() -> None:
    """Print the schema."""
    json.dump(snapshot_schema(), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
