"""Validators that build the nodes and guests of the model from their entries.

They are made from the schema of the entries: one pass over a document validates it and
builds the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

from pydantic import ConfigDict, TypeAdapter
from pydantic_core import CoreSchema, SchemaValidator, core_schema

from opendrs.config.schema_types import Name
from opendrs.config.snapshot_schema import (
    AllocationEntry,
    CapacityEntry,
    DiskEntry,
    ForecastEntry,
    GuestEntry,
    LimitEntry,
    NodeEntry,
    PressureEntry,
    StallEntry,
    StorageEntry,
    UsageEntry,
)
from opendrs.model import (
    Allocation,
    Disk,
    Forecast,
    Guest,
    Node,
    Pressure,
    Resources,
    Stall,
    Storage,
    Usage,
)

_CLASSES: Mapping[type, type] = {
    NodeEntry: Node,
    GuestEntry: Guest,
    CapacityEntry: Resources,
    LimitEntry: Resources,
    UsageEntry: Usage,
    ForecastEntry: Forecast,
    PressureEntry: Pressure,
    StallEntry: Stall,
    AllocationEntry: Allocation,
    StorageEntry: Storage,
    DiskEntry: Disk,
}
_COLLECTIONS: Mapping[str, Callable[[Any], object]] = {
    "labels": frozenset,
    "groups": frozenset,
    "tags": frozenset,
    "storages": tuple,
    "disks": tuple,
    "jobs": tuple,
}  # types of the fields of the model that are lists in an entry


def table_validator(entry: type) -> SchemaValidator:
    """Return the validator of a table of entries by name.

    It returns the object of the model for each name.

    Args:
        entry: `NodeEntry` or `GuestEntry`. Each one in the table also has the key `id`,
            its name.
    """
    # Deferred, because it would be built twice: `rebuild` keeps the schema.
    deferred = ConfigDict(defer_build=True)
    adapter = TypeAdapter(dict[Name, entry], config=deferred)  # type: ignore[valid-type]
    adapter.rebuild()
    return SchemaValidator(_building(adapter.core_schema))


def _building(schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """Return *schema* with the classes of the model in place of the entries."""
    if isinstance(schema, list):
        return [_building(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "typed-dict":
        return _dataclass_schema(schema)
    return {key: _building(value) for key, value in schema.items()}


def _dataclass_schema(entry: Mapping[str, Any]) -> CoreSchema:
    built = _CLASSES[entry["cls"]]
    schemas = {name: each["schema"] for name, each in entry["fields"].items()}
    known = {field.name: field for field in fields(built)}
    if "id" in known and "id" not in schemas:
        schemas["id"] = core_schema.str_schema(min_length=1)
    arguments = [
        core_schema.dataclass_field(name, _field_schema(known[name], schema))
        for name, schema in schemas.items()
    ]
    return core_schema.dataclass_schema(
        built,
        core_schema.dataclass_args_schema(built.__name__, arguments),
        list(schemas),
        post_init=hasattr(built, "__post_init__"),
        slots=True,
        strict=False,  # strict would expect an object of the class
        config=entry["config"],
        ref=entry.get("ref"),
    )


def _field_schema(field: Field[Any], entry: Mapping[str, Any]) -> CoreSchema:
    schema: CoreSchema = _building(entry)
    if (collection := _COLLECTIONS.get(field.name)) is not None:
        schema = core_schema.no_info_after_validator_function(collection, schema)
    if field.default_factory is not MISSING:
        return core_schema.with_default_schema(
            schema, default_factory=field.default_factory
        )
    if field.default is not MISSING:
        return core_schema.with_default_schema(schema, default=field.default)
    return schema
