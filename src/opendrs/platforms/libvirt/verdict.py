"""How a migration stands, judged by what both hosts say.

The hosts know best: the process that asks need not be the one that started the
migration, and an error of the start does not tell where the guest is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendrs.errors import PlatformError
from opendrs.platforms.libvirt.answers import Sight
from opendrs.platforms.libvirt.task import Task
from opendrs.ports import Progress, TaskState, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is known about one migration.

    Attributes:
        source: What the node says that the guest leaves.
        target: What the node says that the guest goes to; the error when it
            could not be asked.
        under_way: Whether this process still waits for libvirt's answer.
        failure: Why libvirt said it failed, where this process heard it.
        last: The last progress this process saw.
    """

    source: Sight
    target: Sight | PlatformError
    under_way: bool = False
    failure: str | None = None
    last: Progress | None = None


# Each pass over the memory sends what was written during the one before, which
# shrinks by the ratio of both speeds: at nine tenths it takes dozens of passes.
HOPELESS = 0.9

_NOT_COPYING = "copies no memory at the moment"
NOWHERE = Evidence(source=Sight(domain=None), target=Sight(domain=None))


def verdict(task: Task, evidence: Evidence) -> TaskStatus:
    """Return how *task* stands.

    Raises:
        PlatformError: It depends on the target, which cannot be asked.
    """
    source = evidence.source.domain
    if evidence.source.job is not None:
        progress = progress_of(evidence.source.job)
        return TaskStatus(TaskState.RUNNING, pace(progress), progress)
    if evidence.under_way:
        return TaskStatus(TaskState.RUNNING, _NOT_COPYING)
    if source is not None and source.running:
        return _still_on_source(task, evidence)
    if isinstance(evidence.target, PlatformError):
        raise evidence.target
    return _by_both(task, evidence, evidence.target)


def _still_on_source(task: Task, evidence: Evidence) -> TaskStatus:
    target = evidence.target
    if isinstance(target, Sight) and target.domain and target.domain.running:
        return TaskStatus(
            TaskState.FAILED,
            f"{task.guest} seems to run on {task.source} and on {task.target} at "
            "once: stop one of them",
        )
    return TaskStatus(
        TaskState.FAILED, f"{_why(evidence)}; it runs on at {task.source}"
    )


def _by_both(task: Task, evidence: Evidence, target: Sight) -> TaskStatus:
    """Judge a guest that does not run on its source."""
    here, there = evidence.source.domain, target.domain
    arrived = there is not None and there.active and not there.arriving
    if (here and here.torn) or (there and there.torn):
        return TaskStatus(
            TaskState.FAILED,
            f"the connection broke in post-copy: part of the memory of {task.guest} "
            f"is on {task.source} and part on {task.target}; stop neither, and "
            "resume the migration (virsh migrate --postcopy-resume)",
        )
    if here is not None and here.active:
        if arrived and here.handed_over:
            return TaskStatus(
                TaskState.RUNNING, f"{task.guest} goes on at {task.target}"
            )
        return TaskStatus(
            TaskState.FAILED, f"{_why(evidence)}; it stands still at {task.source}"
        )
    if arrived:
        return TaskStatus(TaskState.DONE, f"{task.guest} runs on {task.target}")
    if here is not None:
        words = f"{task.guest} is shut off on {task.source}"
        return TaskStatus(TaskState.FAILED, f"{_why(evidence)}; {words}")
    return TaskStatus(
        TaskState.LOST,
        f"{task.guest} is neither on {task.source} nor on {task.target}"
        + (f": {evidence.failure}" if evidence.failure else ""),
    )


def _why(evidence: Evidence) -> str:
    """Return why there is no migration any more."""
    if evidence.failure is None:
        return "no migration is under way: it failed, was given up, or never began"
    if evidence.last and (slow := _losing(evidence.last)):
        return f"{evidence.failure}; {slow}"
    return evidence.failure


def progress_of(job: Mapping[str, object]) -> Progress:
    """Return what virDomainGetJobStats says of a migration that runs.

    Source:
        libvirt's VIR_DOMAIN_JOB_*: bytes, bytes a second, milliseconds, and
        pages a second. Until the memory was sent once, what is written anew
        was not measured, and the downtime is only the limit.
    """
    measured = (_number(job, "memory_iteration") or 0) > 1
    pages = _number(job, "memory_dirty_rate") if measured else None
    downtime = _number(job, "downtime") if measured else None
    total = _number(job, "data_total") or None
    return Progress(
        total=total,
        remaining=None if total is None else _number(job, "data_remaining"),
        dirty_rate=None
        if pages is None
        else float(pages * (_number(job, "memory_page_size") or 4096)),
        bandwidth=_speed(job),
        downtime=None if downtime is None else downtime / 1000,
    )


def pace(progress: Progress) -> str:
    """Return how a running migration gets on, in words."""
    if slow := _losing(progress):
        return slow
    if progress.total is None:
        return _NOT_COPYING  # at the very beginning and at the very end
    return "copies memory"


def _losing(progress: Progress) -> str | None:
    """Return that a migration does not converge, in words, when it does not."""
    written, sent = progress.dirty_rate, progress.bandwidth
    if not written or not sent or written < HOPELESS * sent:
        return None
    return (
        f"it writes {written / 1e6:.1f} MB/s and {sent / 1e6:.1f} MB/s are sent, so "
        "the copying does not converge"
    )


def _speed(job: Mapping[str, object]) -> float | None:
    speed = _number(job, "memory_bps")
    return None if not speed else float(speed)


def _number(job: Mapping[str, object], key: str) -> int | None:
    value = job.get(key)
    return value if isinstance(value, int) else None
