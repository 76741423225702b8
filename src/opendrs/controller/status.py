"""Status of a controller, recorded in its store for other processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from opendrs import __version__
from opendrs.controller.cycle import CycleResult
from opendrs.controller.observers import NullControllerObserver
from opendrs.errors import PlatformError, StoreError
from opendrs.model import time_as_text, time_from_text
from opendrs.ports import Clock, LeaseHolder, StepRecord, Store

CONTROLLER_KEY = "controller"
CYCLE_KEY = "controller/cycle"
FAILED = "failed"  # reason code of a cycle without a decision
MAX_MISSED_INTERVALS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerProcess:
    """The controller that last held the lease.

    Attributes:
        host: Name of its machine.
        pid: Its process id.
        version: Its version of opendrs.
        started_at: Time at which it acquired the lease.
        policy: Its policy.
        interval: Seconds between two cycles.
    """

    host: str
    pid: int
    version: str
    started_at: datetime
    policy: str
    interval: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LastCycle:
    """The last cycle that ended.

    Attributes:
        ended_at: Time of its end.
        seconds: Its duration.
        reason: Code of the decision; `failed` if the platform was unreachable.
        detail: The reason as a sentence.
        steps: Number of planned steps.
        policy: Policy that decided, or `drain`; empty if none did, or in an old record.
    """

    ended_at: datetime
    seconds: float
    reason: str
    detail: str
    steps: int
    policy: str = ""


def is_running(holder: LeaseHolder | None, process: ControllerProcess | None) -> bool:
    """Return True if the *holder* of the lease is the controller *process*."""
    return (
        holder is not None
        and process is not None
        and (holder.host, holder.pid) == (process.host, process.pid)
    )


def is_recent(
    process: ControllerProcess | None,
    cycle: LastCycle | None,
    now: datetime,
    open_steps: Sequence[StepRecord],
) -> bool:
    """Return True if the last cycle did not fail and ended within three intervals.

    A controller that is executing a plan is in a cycle, which may take hours. Before
    the end of the first cycle, the start of the controller counts.
    """
    if process is None or (cycle is not None and cycle.reason == FAILED):
        return False
    since = process.started_at if cycle is None else cycle.ended_at
    limit = MAX_MISSED_INTERVALS * process.interval
    return (now - since).total_seconds() <= limit or bool(open_steps)


class StatusRecorder(NullControllerObserver):
    """Controller observer that records the status in the store.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._store: Store | None = None
        self._started_at = clock.now()

    def lease_acquired(self, store: Store) -> None:
        """Keep the store."""
        self._store, self._started_at = store, self._clock.now()

    def configured(self, policy: str, interval: float) -> None:
        """Record the process and its configuration."""
        self._save(
            CONTROLLER_KEY,
            {
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "version": __version__,
                "started_at": time_as_text(self._started_at),
                "policy": policy,
                "interval": interval,
            },
        )

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Record the decision."""
        if result.decided is not None:
            decision = result.decided.decision
            self._save_cycle(
                seconds,
                decision.reason.value,
                decision.detail,
                len(decision.plan.steps),
                result.decided.policy.name,
            )

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Record the error."""
        self._save_cycle(seconds, FAILED, str(error), 0)

    def _save_cycle(
        self, seconds: float, reason: str, detail: str, steps: int, policy: str = ""
    ) -> None:
        self._save(
            CYCLE_KEY,
            {
                "ended_at": time_as_text(self._clock.now()),
                "seconds": seconds,
                "reason": reason,
                "detail": detail,
                "steps": steps,
                "policy": policy,
            },
        )

    def _save(self, key: str, value: dict[str, object]) -> None:
        if self._store is not None:
            self._store.save(key, value)


def recorded_process(store: Store) -> ControllerProcess | None:
    """Return the controller that last held the lease; None if there was none.

    Raises:
        StoreError: The store cannot be read, or the record is damaged.
    """
    found = store.load(CONTROLLER_KEY)
    if found is None:
        return None
    try:
        return ControllerProcess(
            host=str(found["host"]),
            pid=int(str(found["pid"])),
            version=str(found["version"]),
            started_at=time_from_text(str(found["started_at"])),
            policy=str(found["policy"]),
            interval=float(str(found["interval"])),
        )
    except (KeyError, ValueError, StoreError) as error:
        raise StoreError(f"store: damaged: {CONTROLLER_KEY}") from error


def recorded_cycle(store: Store) -> LastCycle | None:
    """Return the last cycle that ended; None if there was none.

    Raises:
        StoreError: The store cannot be read, or the record is damaged.
    """
    found = store.load(CYCLE_KEY)
    if found is None:
        return None
    try:
        return LastCycle(
            ended_at=time_from_text(str(found["ended_at"])),
            seconds=float(str(found["seconds"])),
            reason=str(found["reason"]),
            detail=str(found["detail"]),
            steps=int(str(found["steps"])),
            policy=str(found.get("policy", "")),
        )
    except (KeyError, ValueError, StoreError) as error:
        raise StoreError(f"store: damaged: {CYCLE_KEY}") from error
