"""Pre-copy sends written memory in rounds until it converges."""

from __future__ import annotations

import math

import pytest

from opendrs.simulation.migration_model import (
    MIN_TRANSFER,
    DiskCopy,
    FixedDuration,
    PreCopy,
    TimedOperation,
)

MB = 10**6


def duration(work: TimedOperation, bandwidth: float, limit: float = 10_000.0) -> float:
    """Return the seconds of *work*, or infinity above *limit*."""
    passed = 0.0
    while passed < limit:
        step = work.time_to_event(bandwidth)
        work.run(step, bandwidth)
        passed += step
        if work.handle_event(bandwidth):
            return passed
    return math.inf


def test_pre_copy_idle_guest_sends_memory_once() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=0.0, working_set=0.0)

    assert duration(copy, bandwidth=100 * MB) == pytest.approx(10.0)


def test_pre_copy_round_sends_memory_dirtied_before() -> None:
    # By hand: rounds of 1000, 500, 250, 125, 62.5 and 31.25 MB; the last is
    # below 100 MB/s x 0.3 s = 30 MB only after one more: 15.625 MB.
    copy = PreCopy(1000 * MB, dirty_rate=50.0 * MB, working_set=1000.0 * MB)

    assert duration(copy, bandwidth=100 * MB) == pytest.approx(19.84375)


def test_pre_copy_working_set_is_sent_once_per_round() -> None:
    # By hand: 10 s for all of it, 1 s for the working set, and as the guest
    # writes 10 MB meanwhile, 0.1 s in which it stands still.
    copy = PreCopy(1000 * MB, dirty_rate=10.0 * MB, working_set=100.0 * MB)

    assert duration(copy, bandwidth=100 * MB) == pytest.approx(11.1)


def test_pre_copy_dirty_rate_above_bandwidth_never_converges() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=150.0 * MB, working_set=1000.0 * MB)

    assert duration(copy, bandwidth=100 * MB) == math.inf


def test_pre_copy_progress_has_remaining_bytes_and_downtime() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=10.0 * MB, working_set=100.0 * MB)
    copy.run(4.0, 100 * MB)

    progress = copy.progress(100 * MB)

    assert progress.remaining == 640 * MB
    assert progress.total == 1040 * MB
    assert progress.downtime == pytest.approx(6.4)
    assert copy.received == 400 * MB


def test_pre_copy_received_memory_is_at_most_guest_memory() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=150.0 * MB, working_set=1000.0 * MB)
    duration(copy, bandwidth=100 * MB, limit=100.0)

    assert copy.received == 1000 * MB


def test_pre_copy_has_minimum_transfer() -> None:
    copy = PreCopy(0, dirty_rate=0.0, working_set=0.0)

    assert duration(copy, bandwidth=MIN_TRANSFER) == pytest.approx(1.0)


def test_pre_copy_without_bandwidth_makes_no_progress() -> None:
    copy = PreCopy(1000 * MB, dirty_rate=0.0, working_set=0.0)

    assert copy.time_to_event(0.0) == math.inf
    assert copy.progress(0.0).downtime is None


def test_fixed_duration_takes_its_time() -> None:
    assert duration(FixedDuration(12.0), bandwidth=1.0) == pytest.approx(12.0)


def test_local_disks_are_copied_before_the_memory() -> None:
    # 20 s for the disks and 10 s for the memory.
    memory = PreCopy(1000 * MB, dirty_rate=0.0, working_set=0.0)
    copy = DiskCopy(2000 * MB, memory)

    copy.run(5.0, 100 * MB)

    assert copy.received == 0
    assert copy.progress(100 * MB).total == 3000 * MB
    assert copy.progress(100 * MB).remaining == 2500 * MB
    assert duration(copy, bandwidth=100 * MB) == pytest.approx(25.0)
    assert copy.received == 1000 * MB
