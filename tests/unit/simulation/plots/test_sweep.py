"""Plots of sweeps name the candidates on the front, with any number of candidates."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from opendrs.simulation.plots import PlottedCandidate, draw_sweep

NAMES = ("energy (kWh)", "SLAV")


def candidate(
    number: int, x: float, y: float, *, best: bool = True
) -> PlottedCandidate:
    return PlottedCandidate(
        label=f"ours t={number}", name="ours", x=x, y=y, on_front=best
    )


def drawn_texts(found: list[PlottedCandidate], path: Path) -> list[str]:
    """Return the texts in a plot."""
    draw_sweep("a $grid$", found, NAMES, path, path.suffix)
    return re.findall(r"<text[^>]*>([^<]*)", path.read_text())


def test_candidates_on_front_are_numbered_and_named(tmp_path: Path) -> None:
    found = [
        candidate(1, 110, 190),
        candidate(2, 120, 140),
        candidate(3, 120, 180, best=False),
        candidate(4, 129, 110),
    ]

    texts = drawn_texts(found, tmp_path / "x.svg")

    assert {"a $grid$", *NAMES, "ours", "on the front:"} <= set(texts)
    assert [text for text in texts if "t=" in text] == [
        " 1  ours t=1",
        " 2  ours t=2",
        " 3  ours t=4",
    ]
    assert texts.count("1") == texts.count("2") == texts.count("3") == 1


def test_close_points_share_a_label(tmp_path: Path) -> None:
    found = [candidate(1, 10, 9), candidate(2, 20, 4), candidate(3, 20.1, 3.9)]

    texts = drawn_texts(found, tmp_path / "x.svg")

    assert "2, 3" in texts
    assert "1" in texts


def test_wide_range_uses_log_scale(tmp_path: Path) -> None:
    near = drawn_texts(
        [candidate(1, 10, 9e-6), candidate(2, 20, 8e-6)], tmp_path / "a.svg"
    )
    far = drawn_texts(
        [candidate(1, 10, 9e-6), candidate(2, 20, 9e-8)], tmp_path / "b.svg"
    )

    assert "SLAV, in 1e-6" in far
    assert {"0.1", "0.2", "0.5", "1", "2", "5"} <= set(far)
    assert not {"0.1", "0.2", "0.5"} & set(near)


def test_zero_metric_can_be_drawn(tmp_path: Path) -> None:
    texts = drawn_texts([candidate(1, 10, 9), candidate(2, 90, 0)], tmp_path / "x.svg")

    assert "0" in texts


def test_number_of_named_candidates_is_limited(tmp_path: Path) -> None:
    found = [candidate(each, 100 + each, 100 - each) for each in range(60)]

    texts = drawn_texts(found, tmp_path / "x.svg")

    assert len([text for text in texts if "t=" in text]) == 24


@pytest.mark.parametrize(
    ("suffix", "begin"), [(".svg", b"<?xml"), (".png", b"\x89PNG"), (".pdf", b"%PDF")]
)
def test_equal_sweeps_give_equal_plots(
    tmp_path: Path, suffix: str, begin: bytes
) -> None:
    one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
    for path in (one, other):
        draw_sweep("x", [candidate(1, 10, 9)], NAMES, path, suffix)

    assert one.read_bytes().startswith(begin)
    assert one.read_bytes() == other.read_bytes()
