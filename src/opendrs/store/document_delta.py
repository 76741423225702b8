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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from opendrs.store.number_columns import Number, decode_numbers, encode_numbers

# A patch has these keys; no patch means that nothing but numbers has changed.
_VALUE = "="  # the new value as a whole
_REMOVED = "-"  # keys that were removed
_CHANGED = "~"  # patches of the values by key
_ADDED = "+"  # keys that were added, with their values
_SORTED = "s"  # the keys are sorted after that
_ENTRY = "*"  # in a path, in place of the name of an entry
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
    columns = _columns_at(sizes)
    result = _patched(base, patch, columns.get("", _NO_NUMBERS))
    for path, length in sizes.items():
        column = columns[path]
        values = decode_numbers(column.former, content[position : position + length])
        position += length
        for (container, key), value in zip(column.places, values, strict=True):
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


@dataclass(slots=True, eq=False)
class _Numbers:
    """Numbers at a path that change, and at the paths below it.

    Attributes:
        fields: Those below, by field.
        former: The numbers in the base.
        places: Mapping and key of each one in the result.
    """

    fields: dict[str, _Numbers] = field(default_factory=dict)
    former: list[Number] = field(default_factory=list)
    places: list[tuple[dict[str, Any], str]] = field(default_factory=list)


_NO_NUMBERS = _Numbers()


def _columns_at(paths: Iterable[str]) -> Mapping[str, _Numbers]:
    """Return the numbers at *paths*, and at each path that may be above one.

    A field may have a slash in its name, so a path has several possible fields.
    """
    columns: defaultdict[str, _Numbers] = defaultdict(_Numbers)
    for path in paths:
        above = [path[:end] for end, sign in enumerate(path) if sign == "/"]
        for upper, lower in combinations([*above, path], 2):
            columns[upper].fields[lower[len(upper) + 1 :]] = columns[lower]
    return columns


def _patched(
    base: Any,  # noqa: ANN401 - any JSON value
    patch: Patch | None,
    numbers: _Numbers,
    *,
    is_root: bool = True,
) -> Any:  # noqa: ANN401
    """Return *base* with *patch* applied; list the numbers that change.

    Values without a change are those of *base*, not copies.
    """
    patch = patch or {}
    if _VALUE in patch:
        return patch[_VALUE]
    if not isinstance(base, dict):
        return base
    result = dict(base)
    for key in patch.get(_REMOVED, ()):
        del result[key]
    changed, fields = patch.get(_CHANGED, {}), numbers.fields
    has_entries = _has_entries(base, is_root=is_root)
    entry = fields.get(_ENTRY, _NO_NUMBERS)
    for key, value in tuple(result.items()):
        inner = entry if has_entries else fields.get(key, _NO_NUMBERS)
        if part := changed.get(key):
            result[key] = _patched(value, part, inner, is_root=False)
        elif inner is not _NO_NUMBERS:
            _list_numbers(result, key, value, inner)
    result |= patch.get(_ADDED, {})
    if _SORTED in patch:
        ordered = {key: result[key] for key in sorted(result)}
        result.clear()  # the places refer to this object
        result.update(ordered)
    return result


def _list_numbers(
    container: dict[str, Any],
    key: str,
    value: Any,  # noqa: ANN401 - any JSON value
    numbers: _Numbers,
) -> None:
    """List the numbers in the *value* of *key*, which is a copy afterwards."""
    if _is_number(value):
        numbers.former.append(value)
        numbers.places.append((container, key))
    elif isinstance(value, dict) and _has_entries(value, is_root=False):
        container[key] = _patched(value, None, numbers, is_root=False)
    elif isinstance(value, dict):
        container[key] = copy = dict(value)
        fields = numbers.fields
        for name, part in value.items():
            if name in fields:
                _list_numbers(copy, name, part, fields[name])


def _has_entries(base: Document, *, is_root: bool) -> bool:
    """Return True if the keys of *base* are names of entries rather than fields."""
    return is_root or len(base) > _MAX_FIELDS


def _path_of(path: str, base: Document) -> Callable[[str], str]:
    """Return the function from a field of *base*, which is at *path*, to its path.

    Names of entries are not part of it.
    """
    if _has_entries(base, is_root=not path):
        entry = f"{path}/{_ENTRY}"
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
