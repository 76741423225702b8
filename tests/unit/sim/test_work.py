"""Pre-copy sends what was written meanwhile, again and again."""

from __future__ import annotations

import math

import pytest

from opendrs.sim.work import LEAST_MEMORY, Pause, PreCopy, Work

MB = 10**6


def duration(work: Work, bandwidth: float, most: float = 10_000.0) -> float:
    """Return the seconds *work* takes, or infinity when it takes more than *most*."""
    passed = 0.0
    while passed < most:
        step = work.attention_in(bandwidth)
        work.run(step, bandwidth)
        passed += step
        if work.attend(bandwidth):
            return passed
    return math.inf


def test_an_idle_guest_is_sent_once() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=0.0, working_set=0.0)

    assert duration(copy, bandwidth=100 * MB) == pytest.approx(10.0)


def test_each_round_sends_what_the_one_before_left_behind() -> None:
    # By hand: rounds of 1000, 500, 250, 125, 62.5 and 31.25 MB; the last is
    # below 100 MB/s x 0.3 s = 30 MB only after one more: 15.625 MB.
    copy = PreCopy(1000 * MB, dirty_rate=50.0 * MB, working_set=1000.0 * MB)

    assert duration(copy, bandwidth=100 * MB) == pytest.approx(19.84375)


def test_what_is_written_again_is_sent_once_a_round() -> None:
    # By hand: 10 s for all of it, 1 s for the working set, and as the guest
    # writes 10 MB meanwhile, 0.1 s in which it stands still.
    copy = PreCopy(1000 * MB, dirty_rate=10.0 * MB, working_set=100.0 * MB)

    assert duration(copy, bandwidth=100 * MB) == pytest.approx(11.1)


def test_a_guest_that_writes_faster_than_it_is_sent_never_converges() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=150.0 * MB, working_set=1000.0 * MB)

    assert duration(copy, bandwidth=100 * MB) == math.inf


def test_tells_what_remains_and_for_how_long_the_guest_would_stand_still() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=10.0 * MB, working_set=100.0 * MB)
    copy.run(4.0, 100 * MB)

    progress = copy.progress(100 * MB)

    assert progress.remaining == 640 * MB
    assert progress.total == 1040 * MB
    assert progress.downtime == pytest.approx(6.4)
    assert copy.arrived == 400 * MB


def test_the_target_never_holds_more_than_the_guest_has() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=150.0 * MB, working_set=1000.0 * MB)
    duration(copy, bandwidth=100 * MB, most=100.0)

    assert copy.arrived == 1000 * MB


def test_even_an_idle_guest_has_something_to_send() -> None:
    copy = PreCopy(0, dirty_rate=0.0, working_set=0.0)

    assert duration(copy, bandwidth=LEAST_MEMORY) == pytest.approx(1.0)


def test_nothing_is_sent_without_bandwidth() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=0.0, working_set=0.0)

    assert copy.attention_in(0.0) == math.inf
    assert copy.progress(0.0).downtime is None


def test_a_pause_takes_its_time() -> None:
    assert duration(Pause(12.0), bandwidth=1.0) == pytest.approx(12.0)
