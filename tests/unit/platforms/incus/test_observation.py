"""Figures of members that never change."""

from __future__ import annotations

import pytest

from opendrs.platforms.incus.observation import STUCK_AFTER, UnchangedFigures

FIGURES, OTHERS = (1 << 30, 0.5), (2 << 30, 0.7)


def test_figures_that_never_change_are_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    figures = UnchangedFigures()
    times = (0.0, STUCK_AFTER - 1, STUCK_AFTER, STUCK_AFTER + 60)

    stuck = [figures.is_stuck("h1", "resources", FIGURES, at) for at in times]

    assert stuck == [False, False, True, True]
    (warning,) = caplog.records
    assert warning.args is not None
    assert tuple(warning.args)[:2] == ("h1", "resources")


def test_figures_that_change_again_are_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    figures = UnchangedFigures()
    figures.is_stuck("h1", "resources", FIGURES, 0.0)

    changed = figures.is_stuck("h1", "resources", OTHERS, STUCK_AFTER)
    soon = figures.is_stuck("h1", "resources", OTHERS, 2 * STUCK_AFTER - 1)
    later = figures.is_stuck("h1", "resources", OTHERS, 2 * STUCK_AFTER)

    assert (changed, soon, later) == (False, False, True)
    assert len(caplog.records) == 1


def test_figures_are_compared_by_member_and_path() -> None:
    figures = UnchangedFigures()
    figures.is_stuck("h1", "resources", FIGURES, 0.0)

    assert not figures.is_stuck("h2", "resources", FIGURES, STUCK_AFTER)
    assert not figures.is_stuck("h1", "state", FIGURES, STUCK_AFTER)
