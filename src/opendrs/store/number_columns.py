"""Lossless compression of a column of numbers relative to a former column.

Measurements change in every cycle, mostly by little. Three forms are tried:

- Integers: differences, divided by their greatest common divisor (a page of memory).
- Decimal numbers with few digits, such as 0.125: differences of the integers that they
  are after multiplication with a power of ten.
- Other floating-point numbers: exclusive or of the bits.

The bytes are sorted by significance before zlib compresses them.

Source:
    Decimal form: Afroozeh et al., ALP: Adaptive Lossless floating-Point Compression,
    SIGMOD 2023. Exclusive or: Pelkonen et al., Gorilla, VLDB 2015.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = int | float
Bits = NDArray[np.uint64]

_HEADER = struct.Struct("<cBIQ")  # form, exponent, number of values, divisor
_LENGTH = struct.Struct("<I")
_INTEGER, _DECIMAL, _BITS, _JSON = b"i", b"d", b"x", b"j"
_MAX_EXPONENT = 9  # decimal digits after the point
_MAX_EXACT = 2.0**53  # integers up to it are exact as floating-point numbers
_MAX_INTEGER = 2**62  # differences of smaller ones fit 64 bits
_BYTES = 8


def encode_numbers(base: Sequence[Number], new: Sequence[Number]) -> bytes:
    """Return *new* compressed relative to *base*, which has the same length.

    The result restores each number with its type, and each bit of it.

    Raises:
        ValueError: A number is not finite.
    """
    if all(type(value) is int for value in (*base, *new)):
        return _encode_integers(base, new) or _encode_json(new)
    return _encode_floats(base, new) or _encode_json(new)


def decode_numbers(base: Sequence[Number], content: bytes) -> list[Number]:
    """Return the numbers that `encode_numbers` has compressed relative to *base*.

    Raises:
        ValueError, zlib.error, struct.error: The content is damaged.
    """
    form, exponent, count, divisor = _HEADER.unpack_from(content)
    body = content[_HEADER.size :]
    if form == _JSON:
        values: list[Number] = json.loads(zlib.decompress(body))
        return values
    if count != len(base):
        raise ValueError(f"expected {len(base)} numbers, got {count}")
    if form == _INTEGER:
        differences = _from_zigzag(_unpack(body, count)) * np.int64(divisor)
        return (np.array(base, np.int64) + differences).tolist()  # type: ignore[no-any-return]
    whole_size = _LENGTH.unpack_from(body)[0]
    start = _LENGTH.size + whole_size
    whole = _unpack_flags(body[_LENGTH.size : start], count)
    bits = _unpack(body[start:], count)
    former = np.array(base, np.float64)
    if form == _DECIMAL:
        differences = _from_zigzag(bits) * np.int64(divisor)
        scaled = _scaled(former, exponent).astype(np.int64) + differences
        floats = scaled / 10.0**exponent
    else:
        floats = (bits ^ former.view(np.uint64)).view(np.float64)
    return [
        int(value) if is_whole else value
        for value, is_whole in zip(floats.tolist(), whole.tolist(), strict=True)
    ]


def _encode_integers(base: Sequence[Number], new: Sequence[Number]) -> bytes | None:
    """Return the differences; None if they may exceed 64 bits."""
    if any(abs(value) >= _MAX_INTEGER for value in (*base, *new)):
        return None
    differences = np.array(new, np.int64) - np.array(base, np.int64)
    divisor, content = _encode_differences(differences)
    return _HEADER.pack(_INTEGER, 0, len(new), divisor) + content


def _encode_floats(base: Sequence[Number], new: Sequence[Number]) -> bytes | None:
    """Return numbers of which some are not integers; None for large integers."""
    if any(type(each) is int and abs(each) >= _MAX_EXACT for each in (*base, *new)):
        return None
    former, values = np.array(base, np.float64), np.array(new, np.float64)
    if not np.isfinite(values).all():
        return None
    whole = zlib.compress(np.packbits([type(each) is int for each in new]).tobytes())
    flags = _LENGTH.pack(len(whole)) + whole
    for exponent in range(_MAX_EXPONENT + 1):
        scaled = _scaled(values, exponent)
        if not np.array_equal(
            (scaled / 10.0**exponent).view(np.uint64), values.view(np.uint64)
        ):
            continue
        scaled_former = _scaled(former, exponent)
        if max(np.abs(scaled).max(), np.abs(scaled_former).max()) >= _MAX_EXACT:
            break
        differences = scaled.astype(np.int64) - scaled_former.astype(np.int64)
        divisor, content = _encode_differences(differences)
        header = _HEADER.pack(_DECIMAL, exponent, len(new), divisor)
        return header + flags + content
    bits = values.view(np.uint64) ^ former.view(np.uint64)
    return _HEADER.pack(_BITS, 0, len(new), 1) + flags + _pack(bits)


def _encode_json(new: Sequence[Number]) -> bytes:
    header = _HEADER.pack(_JSON, 0, len(new), 1)
    return header + zlib.compress(json.dumps(new, allow_nan=False).encode())


def _scaled(values: NDArray[np.float64], exponent: int) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        result: NDArray[np.float64] = np.rint(values * 10.0**exponent)
    return result + 0.0  # integers have no -0.0


def _encode_differences(differences: NDArray[np.int64]) -> tuple[int, bytes]:
    """Return the greatest common divisor, and the compressed quotients."""
    divisor = int(np.gcd.reduce(differences)) or 1
    return divisor, _pack(_to_zigzag(differences // divisor))


def _to_zigzag(values: NDArray[np.int64]) -> Bits:
    """Return numbers without sign: 0, -1, 1, -2 become 0, 1, 2, 3."""
    return ((values << 1) ^ (values >> 63)).view(np.uint64)


def _from_zigzag(values: Bits) -> NDArray[np.int64]:
    one = np.uint64(1)
    return (values >> one).view(np.int64) ^ -(values & one).view(np.int64)


def _pack(values: Bits) -> bytes:
    """Return the bytes, sorted by significance; higher zero bytes are left out."""
    planes = values.astype("<u8").view(np.uint8).reshape(-1, _BYTES)
    width = max((i + 1 for i in range(_BYTES) if planes[:, i].any()), default=0)
    parts = [zlib.compress(planes[:, i].tobytes()) for i in range(width)]
    return b"".join(_LENGTH.pack(len(part)) + part for part in parts)


def _unpack(content: bytes, count: int) -> Bits:
    planes = np.zeros((count, _BYTES), np.uint8)
    position = plane = 0
    while position < len(content):
        (size,) = _LENGTH.unpack_from(content, position)
        position += _LENGTH.size
        part = zlib.decompress(content[position : position + size])
        planes[:, plane] = np.frombuffer(part, np.uint8)
        position, plane = position + size, plane + 1
    return planes.view("<u8").reshape(-1).astype(np.uint64)


def _unpack_flags(content: bytes, count: int) -> NDArray[Any]:
    packed = np.frombuffer(zlib.decompress(content), np.uint8)
    return np.unpackbits(packed, count=count).astype(bool)
