"""A picture of a sweep names who is on the front, however many were tried."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendrs.sim.consolidation.pictures import Drawn, draw_sweep

NAMES = ("energy, kWh", "SLAV")


def candidate(number: int, x: float, y: float, *, best: bool = True) -> Drawn:
    return Drawn(label=f"ours t={number}", name="ours", x=x, y=y, best=best)


def words(found: list[Drawn], path: Path) -> list[str]:
    """Return the texts of a picture."""
    draw_sweep("a $grid$", found, NAMES, path, path.suffix)
    return re.findall(r"<text[^>]*>([^<]*)", path.read_text())


def test_who_is_on_the_front_is_numbered_and_named(tmp_path: Path) -> None:
    found = [
        candidate(1, 110, 190),
        candidate(2, 120, 140),
        candidate(3, 120, 180, best=False),
        candidate(4, 129, 110),
    ]

    texts = words(found, tmp_path / "x.svg")

    assert {"a $grid$", *NAMES, "ours", "on the front:"} <= set(texts)
    assert [text for text in texts if "t=" in text] == [
        " 1  ours t=1",
        " 2  ours t=2",
        " 3  ours t=4",
    ]
    assert texts.count("1") == texts.count("2") == texts.count("3") == 1


def test_numbers_of_points_that_nearly_touch_stand_together(tmp_path: Path) -> None:
    found = [candidate(1, 10, 9), candidate(2, 20, 4), candidate(3, 20.1, 3.9)]

    texts = words(found, tmp_path / "x.svg")

    assert "2, 3" in texts
    assert "1" in texts


def test_what_is_ten_times_as_much_is_drawn_as_a_ratio(tmp_path: Path) -> None:
    near = words([candidate(1, 10, 9e-6), candidate(2, 20, 8e-6)], tmp_path / "a.svg")
    far = words([candidate(1, 10, 9e-6), candidate(2, 20, 9e-8)], tmp_path / "b.svg")

    assert "SLAV, in 1e-6" in far
    assert {"0.1", "0.2", "0.5", "1", "2", "5"} <= set(far)
    assert not {"0.1", "0.2", "0.5"} & set(near)


def test_nothing_at_all_of_something_can_be_drawn(tmp_path: Path) -> None:
    texts = words([candidate(1, 10, 9), candidate(2, 90, 0)], tmp_path / "x.svg")

    assert "0" in texts


def test_of_a_long_front_the_first_are_named(tmp_path: Path) -> None:
    found = [candidate(each, 100 + each, 100 - each) for each in range(60)]

    texts = words(found, tmp_path / "x.svg")

    assert len([text for text in texts if "t=" in text]) == 24


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_equal_sweeps_give_equal_pictures(
    tmp_path: Path, suffix: str, begin: bytes
) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    for path in (one, other):
        draw_sweep("x", [candidate(1, 10, 9)], NAMES, path, suffix)

    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == other.read_bytes()
