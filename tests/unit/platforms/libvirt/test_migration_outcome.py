"""Status of a migration, from the reports of both hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from opendrs.errors import PlatformUnavailableError
from opendrs.model import GuestId, NodeId
from opendrs.platforms.libvirt.migration import LibvirtTask
from opendrs.platforms.libvirt.migration_outcome import (
    MigrationEvidence,
    migration_status,
    parse_progress,
)
from opendrs.platforms.libvirt.responses import (
    DomainResponse,
    LocationReport,
    PausedReason,
)
from opendrs.ports import Progress, TaskState
from support.libvirt_responses import JOB, RUNNING, domain, incoming, shut_off

TASK = LibvirtTask(GuestId("vm"), "u1", NodeId("h1"), NodeId("h2"))
LEFT = domain(state__state=3, state__reason=PausedReason.MIGRATION)
SPLIT = domain(state__state=3, state__reason=PausedReason.POSTCOPY_FAILED)
PAUSED = domain(state__state=3, state__reason=1)
AWAY = PlatformUnavailableError("h2: unreachable")


def evidence_of(
    source: DomainResponse | None,
    target: DomainResponse | PlatformUnavailableError | None,
    job: Mapping[str, object] | None = None,
) -> MigrationEvidence:
    there = (
        target
        if isinstance(target, PlatformUnavailableError)
        else LocationReport(domain=target)
    )
    return MigrationEvidence(
        source=LocationReport(domain=source, job=job), target=there
    )


def state_of(evidence: MigrationEvidence) -> TaskState:
    return migration_status(TASK, evidence).state


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        pytest.param(None, RUNNING, TaskState.DONE, id="arrived"),
        pytest.param(None, PAUSED, TaskState.DONE, id="arrived, paused as it was"),
        pytest.param(shut_off(), RUNNING, TaskState.DONE, id="left a definition"),
        pytest.param(LEFT, RUNNING, TaskState.RUNNING, id="about to end"),
        pytest.param(RUNNING, None, TaskState.FAILED, id="never left"),
        pytest.param(RUNNING, shut_off(), TaskState.FAILED, id="defined over there"),
        pytest.param(RUNNING, incoming(), TaskState.FAILED, id="target cleans up"),
        pytest.param(RUNNING, AWAY, TaskState.FAILED, id="target died"),
        pytest.param(RUNNING, RUNNING, TaskState.FAILED, id="twice"),
        pytest.param(PAUSED, None, TaskState.FAILED, id="paused on the source"),
        pytest.param(LEFT, incoming(), TaskState.FAILED, id="stuck in between"),
        pytest.param(SPLIT, RUNNING, TaskState.FAILED, id="post-copy broke"),
        pytest.param(shut_off(), None, TaskState.FAILED, id="shut off meanwhile"),
        pytest.param(None, None, TaskState.LOST, id="nowhere"),
        pytest.param(None, incoming(), TaskState.LOST, id="source died"),
        pytest.param(None, shut_off(), TaskState.LOST, id="only defined over there"),
    ],
)
def test_status_follows_both_hosts(
    source: DomainResponse | None,
    target: DomainResponse | PlatformUnavailableError | None,
    expected: TaskState,
) -> None:
    assert state_of(evidence_of(source, target)) is expected


@pytest.mark.parametrize("source", [None, LEFT, PAUSED, shut_off()])
def test_status_with_required_unreachable_target_fails(
    source: DomainResponse | None,
) -> None:
    with pytest.raises(PlatformUnavailableError, match="h2: unreachable"):
        migration_status(TASK, evidence_of(source, AWAY))


def test_a_job_on_the_source_runs_whatever_the_target_says() -> None:
    status = migration_status(TASK, evidence_of(RUNNING, AWAY, JOB))

    assert status.state is TaskState.RUNNING
    assert status.progress == parse_progress(JOB)


def test_pending_call_is_running() -> None:
    evidence = replace(evidence_of(RUNNING, None), call_is_running=True)

    assert state_of(evidence) is TaskState.RUNNING


def test_failure_names_cause_and_location() -> None:
    evidence = replace(
        evidence_of(RUNNING, None), error_text="h2 is unreachable from h1"
    )

    assert migration_status(TASK, evidence).detail == (
        "h2 is unreachable from h1; it continues to run on h1"
    )


def test_error_with_guest_on_target_is_done() -> None:
    evidence = replace(evidence_of(None, RUNNING), error_text="the connection broke")

    assert state_of(evidence) is TaskState.DONE


def test_failure_without_known_cause_is_stated() -> None:
    assert migration_status(TASK, evidence_of(RUNNING, None)).detail == (
        "no migration in progress: it failed, was aborted, or never started; it "
        "continues to run on h1"
    )


def test_guest_on_both_hosts_is_a_failure() -> None:
    assert migration_status(TASK, evidence_of(RUNNING, RUNNING)).detail == (
        "vm: seems to run on both h1 and h2; stop one of them"
    )


def test_aborted_migration_reports_non_convergence() -> None:
    last = Progress(dirty_rate=8e6, bandwidth=4e6)
    evidence = replace(
        evidence_of(RUNNING, None), error_text="aborted", last_progress=last
    )

    assert migration_status(TASK, evidence).detail == (
        "aborted; does not converge: dirty rate 8.0 MB/s, bandwidth 4.0 MB/s; "
        "it continues to run on h1"
    )


def test_progress_is_parsed() -> None:
    assert parse_progress(JOB) == Progress(
        total=34086912,
        remaining=19787776,
        dirty_rate=1020 * 4096.0,
        bandwidth=1067220.0,
        downtime=3.969,
    )


def test_first_pass_has_no_dirty_rate() -> None:
    progress = parse_progress({**JOB, "memory_iteration": 1, "memory_dirty_rate": 0})

    assert (progress.dirty_rate, progress.downtime) == (None, None)
    assert progress.remaining == 19787776


def test_before_the_first_byte_nothing_is_known() -> None:
    job = {"type": 2, "operation": 5, "data_total": 0, "data_remaining": 0}

    assert parse_progress(job) == Progress()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "does not converge: dirty rate 4.2 MB/s, bandwidth 1.1 MB/s"),
        ({"memory_dirty_rate": 10}, "copying memory"),
        ({"memory_iteration": 1}, "copying memory"),
        ({"data_total": 0, "memory_iteration": 0}, "not copying memory at the moment"),
    ],
)
def test_progress_detail_describes_convergence(
    changes: Mapping[str, object], words: str
) -> None:
    status = migration_status(
        TASK, evidence_of(RUNNING, incoming(), {**JOB, **changes})
    )

    assert status.detail.startswith(words)
