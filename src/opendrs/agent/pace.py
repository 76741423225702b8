"""Rounds at a fixed pace, until somebody stops them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from opendrs.agent.round import Agent
from opendrs.ports import Clock

_NAP = 0.5  # seconds after which it is seen that somebody has stopped it


class StoppedError(Exception):
    """Somebody has stopped it; nothing is wrong."""


def interruptible(
    clock: Clock, stopping: Callable[[], bool]
) -> Callable[[float], None]:
    """Return how to wait for some seconds, unless somebody stops it.

    What it returns raises StoppedError.
    """

    def sleep(seconds: float) -> None:
        until = clock.now() + timedelta(seconds=seconds)
        left = seconds
        while left > 0:
            if stopping():
                raise StoppedError
            clock.sleep(min(_NAP, left))
            # A clock that is set back must not make anybody wait for hours.
            left = min(left - _NAP, (until - clock.now()).total_seconds())
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
    interval = timedelta(seconds=agent.settings.interval)
    agent.catch_up()
    due = agent.due()
    while True:
        sleep((due - agent.clock.now()).total_seconds())
        agent.round()
        now = agent.clock.now()
        missed = max(0, (now - due) // interval)
        due = min(due + (missed + 1) * interval, now + interval)
