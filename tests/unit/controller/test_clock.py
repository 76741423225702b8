"""The time of this machine."""

from __future__ import annotations

from datetime import UTC

from opendrs.controller import SystemClock


def test_tells_the_time_in_utc() -> None:
    assert SystemClock().now().tzinfo is UTC


def test_time_does_not_stand_still_while_it_waits() -> None:
    clock = SystemClock()
    before = clock.now(), clock.monotonic()

    clock.sleep(0.001)

    assert clock.now() > before[0]
    assert clock.monotonic() >= before[1] + 0.001
