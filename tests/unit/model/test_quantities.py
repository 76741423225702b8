"""Amounts with units in configuration."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from opendrs.model import (
    BYTES,
    GIB,
    SECONDS,
    SIZE,
    BytesPerSecond,
    Megabytes,
    MegabytesPerSecond,
    QuantityError,
    Seconds,
    parse_amount,
)
from opendrs.model.quantities import RATES


@pytest.mark.parametrize(
    ("kind", "text", "number"),
    [
        (Seconds, '"10 min"', 600),
        (Seconds, '"1.5h"', 5400),
        (Seconds, '"250 ms"', 0.25),
        (Seconds, '"1e3 S"', 1000),
        (Seconds, '"2 d"', 172_800),
        (Seconds, "600", 600),
        (Seconds | None, "null", None),
        (Seconds | None, '" 1 s "', 1),
        (BytesPerSecond, '"1 GiB/s"', GIB),
        (BytesPerSecond, '"1 Gbit/s"', 125_000_000),
        (BytesPerSecond, "125e6", 125_000_000),
        (Megabytes, '"64 GiB"', 65_536),
        (Megabytes, "65536", 65_536),
        (MegabytesPerSecond, '"62.5 MiB/s"', 62.5),
    ],
)
def test_a_text_with_a_unit_is_a_number(
    kind: Any,  # noqa: ANN401 - a type, for which typing has no name
    text: str,
    number: float | None,
) -> None:
    assert TypeAdapter(kind).validate_json(text, strict=True) == number


@pytest.mark.parametrize(
    "text",
    ["10", "10 GB", "min", "-1 min", "nan s", "inf s", "1e999 s", "1,5 h", "1 s 2", ""],
)
def test_parse_invalid_text_raises_error_with_units(
    text: str,
) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Seconds).validate_json(json.dumps(text), strict=True)

    (error,) = caught.value.errors()
    assert isinstance(error["ctx"]["error"], QuantityError)
    assert "(units: ms, s, min, h, d)" in str(error["ctx"]["error"])


@pytest.mark.parametrize(
    ("text", "size"),
    [("64 GiB", 64 * GIB), ("0.1 KiB", 102), ("1.5 GiB", 3 * GIB // 2), ("7 B", 7)],
)
def test_bytes_are_whole(text: str, size: int) -> None:
    assert (SIZE.parse(text), type(SIZE.parse(text))) == (size, int)


@given(
    st.sampled_from([BYTES, SECONDS, RATES]).flatmap(
        lambda units: st.tuples(st.just(units), st.sampled_from(sorted(units)))
    ),
    st.floats(0, 1e6, allow_nan=False),
)
def test_a_unit_counts_as_much_in_capital_and_in_small_letters(
    unit: tuple[dict[str, float], str], number: float
) -> None:
    units, name = unit

    wanted = pytest.approx(number * units[name])
    for text in (
        f"{number} {name}",
        f"{number}{name.upper()}",
        f"{number} {name.lower()}",
    ):
        assert parse_amount(text, units) == wanted


def test_the_schema_describes_what_is_read() -> None:
    schema = TypeAdapter(Seconds).json_schema()

    number, text = schema["anyOf"]
    assert number == {"type": "number"}
    assert re.search(text["pattern"], "10 min")
    assert not re.search(text["pattern"], "10")
    assert not re.search(text["pattern"], "10 GB")
