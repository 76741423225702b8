"""Unit tests of the check of heartbeats; no lab is needed."""

from __future__ import annotations

import pytest

from integration.heartbeats import heartbeat_error


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
def test_continuous_heartbeats_are_accepted(beats: list[int], moves: int) -> None:
    assert heartbeat_error(beats, moves) is None


@pytest.mark.parametrize(
    ("beats", "moves", "message"),
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
def test_lost_or_duplicated_guest_is_detected(
    beats: list[int], moves: int, message: str
) -> None:
    assert message in (heartbeat_error(beats, moves) or "")
