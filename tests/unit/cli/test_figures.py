"""Numbers as people read them."""

import io

import pytest

from opendrs.cli.figures import amount, bar, cores, percent, seconds
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
def test_bytes_are_told_in_the_largest_unit(size: float | None, text: str) -> None:
    assert amount(size) == text


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
def test_cores_are_told_with_the_digits_that_matter(
    count: float | None, text: str
) -> None:
    assert cores(count) == text


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
def test_times_are_told_in_the_two_largest_units_that_matter(
    time: float | None, text: str
) -> None:
    assert seconds(time) == text


@pytest.mark.parametrize(
    ("part", "text"), [(None, "   ?"), (0.5, " 50%"), (1.0, "100%"), (1e9, "999%")]
)
def test_percentages_are_equally_wide(part: float | None, text: str) -> None:
    assert percent(part) == text


@pytest.mark.parametrize(
    ("part", "text"),
    [(None, "      ?"), (0, "░░   0%"), (0.5, "█░  50%"), (3.0, "██ 300%")],
)
def test_a_bar_is_filled_as_far_as_it_goes(part: float | None, text: str) -> None:
    drawn = bar(part, width=2)

    assert drawn.drawn.plain == text
    assert drawn.plain == text[2:].strip()


def test_a_terminal_of_few_characters_gets_plain_bars(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", few)

    assert bar(0.5, width=2).drawn.plain == "#.  50%"
