"""What is believed of a guest by its heartbeats; no lab is needed for that."""

from __future__ import annotations

import pytest

from integration.heartbeats import complaint


@pytest.mark.parametrize(
    ("beats", "moves"),
    [
        ([1], 0),
        ([1, 2, 3, 4], 0),
        ([1, 2, 3, 4], 2),
        ([1, 2, 3, 3, 4], 1),
        ([1, 2, 2, 3, 4, 4], 2),
    ],
)
def test_a_guest_that_counts_on_has_run_all_the_time(
    beats: list[int], moves: int
) -> None:
    assert complaint(beats, moves) is None


@pytest.mark.parametrize(
    ("beats", "moves", "why"),
    [
        ([], 0, "never beaten"),
        ([2, 3, 4], 0, "started anew"),
        ([1, 2, 3, 1, 2], 1, "started anew"),
        ([1, 2, 4], 1, "lost"),
        ([1, 2, 2, 3], 0, "repeated, in 0 moves"),
        ([1, 2, 2, 3, 4, 4, 5], 1, "repeated, in 1 moves"),
        ([1, 2, 2, 3, 3, 4], 5, "ran twice"),
        ([1, 2, 2, 2, 3], 5, "ran twice"),
        ([1, 2, 3, 2, 3, 4], 5, "ran twice"),
    ],
)
def test_a_guest_that_was_lost_or_ran_twice_is_found_out(
    beats: list[int], moves: int, why: str
) -> None:
    assert why in (complaint(beats, moves) or "")
