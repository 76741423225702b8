"""Status of a controller, recorded in its store for other processes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opendrs.errors import StoreError
from opendrs.model import decoding, time_from_text
from opendrs.ports import LeaseHolder, StepRecord, Store

CONTROLLER_KEY = "controller"
CYCLE_KEY = "controller/cycle"
PROGRESS_KEY = "controller/progress"
SCHEDULE_PREFIX = "schedule/"  # entries with the start of the last cycle
STARTED_AT = "started_at"
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
    steps: Iterable[StepRecord],
) -> bool:
    """Return True if the last cycle did not fail and ended within three intervals.

    A controller that is executing a plan is in a cycle, which may take hours: while a
    step of *steps* runs, the cycle is recent, and after its end the interval counts
    from there. Before the end of the first cycle, the start of the controller counts.
    """
    if process is None or (cycle is not None and cycle.reason == FAILED):
        return False
    ends = [process.started_at if cycle is None else cycle.ended_at]
    for step in steps:
        if step.outcome is None:
            return True
        if step.ended_at is not None:
            ends.append(step.ended_at)
    limit = MAX_MISSED_INTERVALS * process.interval
    return (now - max(ends)).total_seconds() <= limit


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


def cycle_starts(store: Store) -> dict[str, datetime]:
    """Return the start of the last cycle of each entry of a schedule, by name.

    Raises:
        StoreError: The store cannot be read, or a record is damaged.
    """
    return {
        key.removeprefix(SCHEDULE_PREFIX): _cycle_start(key, entry)
        for key, entry in store.load_all(SCHEDULE_PREFIX).items()
    }


def _cycle_start(key: str, entry: Mapping[str, object]) -> datetime:
    with decoding(f"the entry {key}", entry):
        return time_from_text(str(entry[STARTED_AT]))


def recorded_progress(store: Store) -> list[dict[str, Any]]:
    """Return the progress of running migrations; empty if none is recorded.

    Raises:
        StoreError: The store cannot be read.
    """
    found = store.load(PROGRESS_KEY) or {}
    steps = found.get("steps")
    if not isinstance(steps, list):
        return []
    return [each for each in steps if isinstance(each, dict)]
