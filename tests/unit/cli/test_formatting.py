"""Numbers as people read them."""

import io

import pytest

from opendrs.cli.formatting import (
    format_bytes,
    format_cores,
    format_duration,
    format_percent,
    format_used_cores,
    load_bar,
)
from opendrs.model import GIB


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "?"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (8 * GIB, "8.0 GiB"),
        (1023.99 * GIB, "1.0 TiB"),
        (10**18, "888.2 PiB"),
    ],
)
def test_format_bytes_uses_the_largest_unit(size: float | None, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "?"),
        (0, "0"),
        (1.5, "1.5"),
        (2.256, "2.26"),
        (128, "128"),
        (1e4, "10000"),
    ],
)
def test_format_cores_has_significant_digits(count: float | None, text: str) -> None:
    assert format_cores(count) == text


@pytest.mark.parametrize(
    ("count", "text"), [(None, "?"), (0.058, "0.06"), (1.7, "1.70"), (10.15, "10.15")]
)
def test_format_used_cores_has_two_decimals(count: float | None, text: str) -> None:
    assert format_used_cores(count) == text


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (None, "?"),
        (0.25, "250 ms"),
        (12.4, "12 s"),
        (59.7, "1 min 0 s"),
        (65, "1 min 5 s"),
        (3599, "59 min 59 s"),
        (17495, "4 h 51 min"),
    ],
)
def test_format_duration_uses_two_units(time: float | None, text: str) -> None:
    assert format_duration(time) == text


@pytest.mark.parametrize(
    ("part", "text"), [(None, "   ?"), (0.5, " 50%"), (1.0, "100%"), (1e9, "999%")]
)
def test_format_percent_has_constant_width(part: float | None, text: str) -> None:
    assert format_percent(part) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(None, "      ?"), (0, "░░   0%"), (0.5, "█░  50%"), (3.0, "██ 300%")],
)
def test_load_bar_is_filled_to_the_fraction(part: float | None, text: str) -> None:
    drawn = load_bar(part, width=2)

    assert drawn.styled.plain == text
    assert drawn.plain == text[2:].strip()


def test_load_bar_without_unicode_is_ascii(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", few)

    assert load_bar(0.5, width=2).styled.plain == "#.  50%"
