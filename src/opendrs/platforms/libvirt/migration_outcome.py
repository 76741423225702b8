"""How a migration stands, judged by what both hosts say.

The hosts know best: the process that asks need not be the one that started the
migration, and an error of the start does not tell where the guest is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendrs.errors import PlatformError
from opendrs.platforms.libvirt.migration import LibvirtTask
from opendrs.platforms.libvirt.responses import LocationReport
from opendrs.ports import Progress, TaskState, TaskStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationEvidence:
    """What is known about one migration.

    Attributes:
        source: What the node says that the guest leaves.
        target: What the node says that the guest goes to; the error when it
            could not be asked.
        call_is_running: Whether this process still waits for libvirt's answer.
        error_text: Why libvirt said it failed, where this process heard it.
        last_progress: The last progress this process saw.
    """

    source: LocationReport
    target: LocationReport | PlatformError
    call_is_running: bool = False
    error_text: str | None = None
    last_progress: Progress | None = None


# Each pass over the memory sends what was written during the one before, which
# shrinks by the ratio of both speeds: at nine tenths it takes dozens of passes.
MAX_DIRTY_RATIO = 0.9

_NOT_COPYING = "copies no memory at the moment"
NOT_FOUND = MigrationEvidence(
    source=LocationReport(domain=None), target=LocationReport(domain=None)
)


def migration_status(task: LibvirtTask, evidence: MigrationEvidence) -> TaskStatus:
    """Return how *task* stands.

    Raises:
        PlatformError: It depends on the target, which cannot be asked.
    """
    source = evidence.source.domain
    if evidence.source.job is not None:
        progress = parse_progress(evidence.source.job)
        return TaskStatus(TaskState.RUNNING, progress_detail(progress), progress)
    if evidence.call_is_running:
        return TaskStatus(TaskState.RUNNING, _NOT_COPYING)
    if source is not None and source.is_running:
        return _status_on_source(task, evidence)
    if isinstance(evidence.target, PlatformError):
        raise evidence.target
    return _status_by_both(task, evidence, evidence.target)


def _status_on_source(task: LibvirtTask, evidence: MigrationEvidence) -> TaskStatus:
    target = evidence.target
    if (
        isinstance(target, LocationReport)
        and target.domain
        and target.domain.is_running
    ):
        return TaskStatus(
            TaskState.FAILED,
            f"{task.guest} seems to run on {task.source} and on {task.target} at "
            "once: stop one of them",
        )
    return TaskStatus(
        TaskState.FAILED, f"{_failure_detail(evidence)}; it runs on at {task.source}"
    )


def _status_by_both(
    task: LibvirtTask, evidence: MigrationEvidence, target: LocationReport
) -> TaskStatus:
    """Judge a guest that does not run on its source."""
    at_source, at_target = evidence.source.domain, target.domain
    is_on_target = (
        at_target is not None and at_target.is_active and not at_target.is_incoming
    )
    if (at_source and at_source.is_split) or (at_target and at_target.is_split):
        return TaskStatus(
            TaskState.FAILED,
            f"the connection broke in post-copy: part of the memory of {task.guest} "
            f"is on {task.source} and part on {task.target}; stop neither, and "
            "resume the migration (virsh migrate --postcopy-resume)",
        )
    if at_source is not None and at_source.is_active:
        if is_on_target and at_source.is_handed_over:
            return TaskStatus(
                TaskState.RUNNING, f"{task.guest} goes on at {task.target}"
            )
        return TaskStatus(
            TaskState.FAILED,
            f"{_failure_detail(evidence)}; it stands still at {task.source}",
        )
    if is_on_target:
        return TaskStatus(TaskState.DONE, f"{task.guest} runs on {task.target}")
    if at_source is not None:
        detail = f"{task.guest} is shut off on {task.source}"
        return TaskStatus(TaskState.FAILED, f"{_failure_detail(evidence)}; {detail}")
    return TaskStatus(
        TaskState.LOST,
        f"{task.guest} is neither on {task.source} nor on {task.target}"
        + (f": {evidence.error_text}" if evidence.error_text else ""),
    )


def _failure_detail(evidence: MigrationEvidence) -> str:
    """Return why there is no migration any more."""
    if evidence.error_text is None:
        return "no migration is under way: it failed, was given up, or never began"
    if evidence.last_progress and (warning := _non_convergence(evidence.last_progress)):
        return f"{evidence.error_text}; {warning}"
    return evidence.error_text


def parse_progress(job: Mapping[str, object]) -> Progress:
    """Return what virDomainGetJobStats says of a migration that runs.

    Source:
        libvirt's VIR_DOMAIN_JOB_*: bytes, bytes a second, milliseconds, and
        pages a second. Until the memory was sent once, what is written anew
        was not measured, and the downtime is only the limit.
    """
    measured = (_integer(job, "memory_iteration") or 0) > 1
    pages = _integer(job, "memory_dirty_rate") if measured else None
    downtime = _integer(job, "downtime") if measured else None
    total = _integer(job, "data_total") or None
    return Progress(
        total=total,
        remaining=None if total is None else _integer(job, "data_remaining"),
        dirty_rate=None
        if pages is None
        else float(pages * (_integer(job, "memory_page_size") or 4096)),
        bandwidth=_bandwidth(job),
        downtime=None if downtime is None else downtime / 1000,
    )


def progress_detail(progress: Progress) -> str:
    """Return how a running migration gets on, in words."""
    if warning := _non_convergence(progress):
        return warning
    if progress.total is None:
        return _NOT_COPYING  # at the very beginning and at the very end
    return "copies memory"


def _non_convergence(progress: Progress) -> str | None:
    """Return that a migration does not converge, in words, when it does not."""
    dirty_rate, bandwidth = progress.dirty_rate, progress.bandwidth
    if not dirty_rate or not bandwidth or dirty_rate < MAX_DIRTY_RATIO * bandwidth:
        return None
    return (
        f"it writes {dirty_rate / 1e6:.1f} MB/s and {bandwidth / 1e6:.1f} MB/s are sent, so "
        "the copying does not converge"
    )


def _bandwidth(job: Mapping[str, object]) -> float | None:
    speed = _integer(job, "memory_bps")
    return None if not speed else float(speed)


def _integer(job: Mapping[str, object], key: str) -> int | None:
    value = job.get(key)
    return value if isinstance(value, int) else None
