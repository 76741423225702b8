"""Rounds at a fixed pace, until somebody stops them."""

from __future__ import annotations

from collections.abc import Callable

from opendrs.agent.round import Agent
from opendrs.controller.pace import NAP, Pace
from opendrs.ports import Clock


class StoppedError(Exception):
    """Somebody has stopped it; nothing is wrong."""


def interruptible(
    clock: Clock, stopping: Callable[[], bool]
) -> Callable[[float], None]:
    """Return how to wait for some seconds, unless somebody stops it.

    What it returns raises StoppedError.
    """

    def sleep(seconds: float) -> None:
        until = clock.monotonic() + seconds
        while (left := until - clock.monotonic()) > 0:
            if stopping():
                raise StoppedError
            clock.sleep(min(NAP, left))
        if stopping():
            raise StoppedError

    return sleep


def keep_on(agent: Agent, sleep: Callable[[float], None]) -> None:
    """Let *agent* do its rounds, each an interval after the one before.

    A round that took longer leaves out those that should have been meanwhile.

    Raises:
        StoppedError: Somebody has stopped it.
        ConfigurationError: The platform has no node of that name.
        StoreError: What is to be remembered cannot be kept.
    """
    clock = agent.clock
    agent.catch_up()
    sleep((agent.due() - clock.now()).total_seconds())
    pace = Pace(agent.settings.interval, clock.monotonic())
    while True:
        pace.begun(clock.monotonic())
        agent.round()
        sleep(pace.left(clock.monotonic()))
