"""Large files with a JSON object a line, a part at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from typing import Any

from opendrs.errors import InvalidFileError
from opendrs.sim.consolidation.readers.tables import (
    MOST,
    BadValueError,
    Batch,
    Form,
    checked,
    first_line,
)
from opendrs.sim.consolidation.sources import Source, readable

FURTHER = 10_000  # lines that are looked at after the first that is wrong
SNIFFED = 100  # lines by which it is known what is a string and what a number
BLOCK = 8 << 20  # bytes read at a time


def read_json(source: Source, form: Form) -> Iterator[Batch]:
    """Yield the objects of a file; a dot in the name of a field leads into another.

    Numbers may be strings, as BigQuery writes whole ones.

    Raises:
        InvalidFileError: It cannot be read, or an object is not as *form* says.
    """
    import pyarrow as pa  # noqa: PLC0415 - takes long to load
    from pyarrow import json as arrow  # noqa: PLC0415

    with readable(source.label), closing(source.open()) as content:
        try:
            reader = arrow.open_json(
                content,
                arrow.ReadOptions(block_size=BLOCK),
                arrow.ParseOptions(
                    explicit_schema=_schema(source, form),
                    unexpected_field_behavior="ignore",
                ),
            )
            for rows in reader:
                flat = pa.Table.from_batches([rows]).flatten().combine_chunks()
                for part in flat.to_batches():
                    yield checked(part, form)
        except (pa.ArrowException, BadValueError) as error:
            found = tuple(_complaints(source, form))
            raise InvalidFileError(
                *(found or (f"{source.label}: {first_line(error)}",))
            ) from error


def _schema(source: Source, form: Form) -> Any:  # noqa: ANN401 - Arrow has no types
    """Return of what type each field is, by the first lines."""
    import pyarrow as pa  # noqa: PLC0415 - takes long to load

    types = {name: pa.string() for name in form.key}
    types.update({each.name: pa.float64() for each in form.fields})
    unseen = set(types)
    with closing(source.open()) as content:
        for line in islice(content, SNIFFED):
            for name in tuple(unseen):
                value = _value(line, name)
                if value is not None:
                    unseen.discard(name)
                    if isinstance(value, str):
                        types[name] = pa.string()
                    elif isinstance(value, int) and name in form.key:
                        types[name] = pa.int64()
    nested: dict[str, list[tuple[str, Any]]] = {}
    for name, kind in types.items():
        outer, dot, inner = name.partition(".")
        nested.setdefault(outer, []).append((inner if dot else "", kind))
    return pa.schema(
        [
            (outer, kinds[0][1] if kinds[0][0] == "" else pa.struct(kinds))
            for outer, kinds in nested.items()
        ]
    )


def _value(line: bytes, name: str) -> object:
    """Return what *line* has under *name*, or None."""
    try:
        return _inside(json.loads(line), name)
    except ValueError:
        return None


def _inside(record: object, name: str) -> object:
    for step in name.split("."):
        if not isinstance(record, dict):
            return None
        record = record.get(step)
    return record


def _complaints(source: Source, form: Form) -> Iterator[str]:
    """Yield what is wrong with the lines of a file."""
    told, since = 0, 0
    with io.TextIOWrapper(source.open(), "utf-8", "replace") as lines:
        for number, line in enumerate(lines, 1):
            since += told > 0
            if told == MOST or since > FURTHER:
                return
            why = _complaint(line, form) if line.strip() else None
            if why:
                told += 1
                yield f"{source.label}, line {number}: {why}"


def _complaint(line: str, form: Form) -> str | None:
    try:
        record = json.loads(line)
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(record, dict):
        return "expected an object in braces"
    for name in form.key:
        if _inside(record, name) in (None, ""):
            return f"{name}: expected a name, found nothing"
    for each in form.fields:
        value = _inside(record, each.name)
        why = each.complaint("" if value is None else str(value))
        if why:
            return why
    return None
