"""Outcome of a migration, determined from the state of both hosts.

The hosts are authoritative. The querying process may not have started the migration,
and an error of the start does not determine the location of the guest.
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
    """Observations about one migration.

    Attributes:
        source: The guest on the source node.
        target: The guest on the target node, or the error of the query.
        call_is_running: True while the migration call of this process has not
            returned.
        error_text: The error of that call; None without one.
        last_progress: The last progress that this process observed.
    """

    source: LocationReport
    target: LocationReport | PlatformError
    call_is_running: bool = False
    error_text: str | None = None
    last_progress: Progress | None = None


# Each pass sends the memory written during the previous one, so the remainder shrinks
# by the ratio of dirty rate and bandwidth: at 0.9, dozens of passes are needed.
MAX_DIRTY_RATIO = 0.9

_NOT_COPYING = "not copying memory at the moment"
NOT_FOUND = MigrationEvidence(
    source=LocationReport(domain=None), target=LocationReport(domain=None)
)


def migration_status(task: LibvirtTask, evidence: MigrationEvidence) -> TaskStatus:
    """Return the status of *task*.

    Raises:
        PlatformError: The status depends on the target, which cannot be queried.
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
            f"{task.guest}: seems to run on both {task.source} and {task.target}; "
            "stop one of them",
        )
    return TaskStatus(
        TaskState.FAILED,
        f"{_failure_detail(evidence)}; it continues to run on {task.source}",
    )


def _status_by_both(
    task: LibvirtTask, evidence: MigrationEvidence, target: LocationReport
) -> TaskStatus:
    """Return the status for a guest that does not run on its source."""
    at_source, at_target = evidence.source.domain, target.domain
    is_on_target = (
        at_target is not None and at_target.is_active and not at_target.is_incoming
    )
    if (at_source and at_source.is_split) or (at_target and at_target.is_split):
        return TaskStatus(
            TaskState.FAILED,
            f"{task.guest}: connection lost during post-copy; part of its memory is on "
            f"{task.source} and part on {task.target}; stop neither, and resume the "
            "migration with virsh migrate --postcopy-resume",
        )
    if at_source is not None and at_source.is_active:
        if is_on_target and at_source.is_handed_over:
            return TaskStatus(
                TaskState.RUNNING, f"{task.guest} continues on {task.target}"
            )
        return TaskStatus(
            TaskState.FAILED,
            f"{_failure_detail(evidence)}; it is paused on {task.source}",
        )
    if is_on_target or (at_target and task.is_relocation and at_source is None):
        state = "runs" if is_on_target else "is shut off"
        return TaskStatus(TaskState.DONE, f"{task.guest} {state} on {task.target}")
    if at_source is not None:
        detail = f"{task.guest} is shut off on {task.source}"
        return TaskStatus(TaskState.FAILED, f"{_failure_detail(evidence)}; {detail}")
    return TaskStatus(
        TaskState.LOST,
        f"{task.guest} is neither on {task.source} nor on {task.target}"
        + (f": {evidence.error_text}" if evidence.error_text else ""),
    )


def _failure_detail(evidence: MigrationEvidence) -> str:
    """Return why the migration is no longer in progress."""
    if evidence.error_text is None:
        return "no migration in progress: it failed, was aborted, or never started"
    if evidence.last_progress and (warning := _non_convergence(evidence.last_progress)):
        return f"{evidence.error_text}; {warning}"
    return evidence.error_text


def parse_progress(job: Mapping[str, object]) -> Progress:
    """Return the progress of a running migration from virDomainGetJobStats.

    During the first pass over the memory, the dirty rate is not measured and the
    downtime is only the limit, so both are None.

    Source:
        VIR_DOMAIN_JOB_* of libvirt: bytes, bytes per second, milliseconds, and pages
        per second.
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
    """Return the state of a running migration as text."""
    if warning := _non_convergence(progress):
        return warning
    if progress.total is None:
        return _NOT_COPYING  # at the start and at the end
    return "copying memory"


def _non_convergence(progress: Progress) -> str | None:
    """Return a warning if the migration does not converge; otherwise None."""
    dirty_rate, bandwidth = progress.dirty_rate, progress.bandwidth
    if not dirty_rate or not bandwidth or dirty_rate < MAX_DIRTY_RATIO * bandwidth:
        return None
    return (
        f"does not converge: dirty rate {dirty_rate / 1e6:.1f} MB/s, bandwidth "
        f"{bandwidth / 1e6:.1f} MB/s"
    )


def _bandwidth(job: Mapping[str, object]) -> float | None:
    speed = _integer(job, "memory_bps")
    return None if not speed else float(speed)


def _integer(job: Mapping[str, object], key: str) -> int | None:
    value = job.get(key)
    return value if isinstance(value, int) else None
