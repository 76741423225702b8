"""Exact difference between two documents of named entries, such as those of all guests.

A document is a mapping from names to fields. Numbers that both documents have form one
column for each field, such as `usage/cpu`; `store.number_columns` compresses it. All
other changes are a patch in JSON. The result restores the document with its types and
the order of its keys.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from opendrs.store.number_columns import Number, decode_numbers, encode_numbers

# A patch has these keys; no patch means that nothing but numbers has changed.
_VALUE = "="  # the new value as a whole
_REMOVED = "-"  # keys that were removed
_CHANGED = "~"  # patches of the values by key
_ADDED = "+"  # keys that were added, with their values
_SORTED = "s"  # the keys are sorted after that
_LENGTH = struct.Struct("<I")
_MAX_FIELDS = 50  # mappings with more keys have entries rather than fields

Document = Mapping[str, Any]
Patch = dict[str, Any]
_Columns = defaultdict[str, tuple[list[Number], list[Number]]]


def encode_delta(base: Document, new: Document) -> bytes:
    """Return the difference that changes *base* to *new*.

    Raises:
        ValueError: JSON cannot represent *new*.
    """
    columns: _Columns = defaultdict(lambda: ([], []))
    patch = _difference(base, new, "", columns)
    contents = {
        path: encode_numbers(former, values)
        for path, (former, values) in columns.items()
        if former != values or not _same_types(former, values)
    }
    sizes = {path: len(content) for path, content in contents.items()}
    header = zlib.compress(json.dumps([patch, sizes], allow_nan=False).encode())
    return b"".join([_LENGTH.pack(len(header)), header, *contents.values()])


def decode_delta(base: Document, content: bytes) -> dict[str, Any]:
    """Return the document that `encode_delta` has compared with *base*.

    Raises:
        LookupError, TypeError, ValueError, zlib.error: The content is damaged, or
            *base* is another document.
    """
    try:
        return _decode(base, content)
    except struct.error as error:
        raise ValueError(str(error)) from error


def _decode(base: Document, content: bytes) -> dict[str, Any]:
    (size,) = _LENGTH.unpack_from(content)
    position = _LENGTH.size + size
    patch, sizes = json.loads(zlib.decompress(content[_LENGTH.size : position]))
    encoded = {}
    for path, length in sizes.items():
        encoded[path] = content[position : position + length]
        position += length
    columns: _Columns = defaultdict(lambda: ([], []))
    places: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    result = _patched(base, patch, "", columns, places)
    for path, column in encoded.items():
        values = decode_numbers(columns[path][0], column)
        for (container, key), value in zip(places[path], values, strict=True):
            container[key] = value
    if not isinstance(result, dict):
        raise TypeError("expected a document")
    return result


def _difference(base: Any, new: Any, path: str, columns: _Columns) -> Patch | None:  # noqa: ANN401 - any JSON value
    """Return the patch from *base* to *new*; None if at most numbers differ."""
    if _is_number(base) and _is_number(new):
        former, values = columns[path]
        former.append(base)
        values.append(new)
        return None
    if isinstance(base, dict) and isinstance(new, dict):
        return _mapping_difference(base, new, path, columns)
    return None if type(base) is type(new) and _same(base, new) else {_VALUE: new}


def _mapping_difference(
    base: Document, new: Document, path: str, columns: _Columns
) -> Patch | None:
    patch: Patch = {}
    if base.keys() != new.keys() or list(base) != list(new):
        removed = [key for key in base if key not in new]
        added = {key: value for key, value in new.items() if key not in base}
        order = [*(key for key in base if key in new), *added]
        if order != list(new):
            if sorted(order) != list(new):
                return {_VALUE: new}
            patch[_SORTED] = True
        if removed:
            patch[_REMOVED] = removed
        if added:
            patch[_ADDED] = added
    changed, path_of = {}, _path_of(path, base)
    for key, value in base.items():
        if key in new:
            part = _difference(value, new[key], path_of(key), columns)
            if part is not None:
                changed[key] = part
    if changed:
        patch[_CHANGED] = changed
    return patch or None


def _patched(
    base: Any,  # noqa: ANN401 - any JSON value
    patch: Patch | None,
    path: str,
    columns: _Columns,
    places: dict[str, list[tuple[Any, Any]]],
) -> Any:  # noqa: ANN401
    """Return *base* with *patch* applied; list the numbers in it by column."""
    patch = patch or {}
    if _VALUE in patch:
        return patch[_VALUE]
    if not isinstance(base, dict):
        return base
    removed, changed = set(patch.get(_REMOVED, ())), patch.get(_CHANGED, {})
    result: dict[str, Any] = {}
    path_of = _path_of(path, base)
    for key, value in base.items():
        if key in removed:
            continue
        part, inner = changed.get(key), path_of(key)
        if part or isinstance(value, dict):
            result[key] = _patched(value, part, inner, columns, places)
            continue
        if _is_number(value):
            columns[inner][0].append(value)
            places[inner].append((result, key))
        result[key] = value
    result |= patch.get(_ADDED, {})
    if _SORTED in patch:
        ordered = {key: result[key] for key in sorted(result)}
        result.clear()  # the places refer to this object
        result.update(ordered)
    return result


def _path_of(path: str, base: Document) -> Callable[[str], str]:
    """Return the function from a field of *base*, which is at *path*, to its path.

    Names of entries are not part of it.
    """
    if not path or len(base) > _MAX_FIELDS:
        entry = f"{path}/*"
        return lambda _: entry
    return lambda key: f"{path}/{key}"


def _is_number(value: object) -> bool:
    return type(value) is int or type(value) is float


def _same_types(one: Sequence[Number], other: Sequence[Number]) -> bool:
    return all(map(lambda a, b: type(a) is type(b), one, other))


def _same(one: object, other: object) -> bool:
    """Return True if both values have the same JSON form."""
    return one == other and (
        isinstance(one, str | bool | None) or json.dumps(one) == json.dumps(other)
    )
