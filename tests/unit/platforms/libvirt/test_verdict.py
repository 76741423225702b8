"""How a migration stands, by what both hosts say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from opendrs.errors import PlatformUnavailableError
from opendrs.model import GuestId, NodeId
from opendrs.platforms.libvirt.answers import DomainAnswer, Paused, Sight
from opendrs.platforms.libvirt.task import Task
from opendrs.platforms.libvirt.verdict import Evidence, progress_of, verdict
from opendrs.ports import Progress, TaskState
from unit.platforms.libvirt.recorded import JOB, RUNNING, arriving, domain, shut_off

TASK = Task(GuestId("vm"), "u1", NodeId("h1"), NodeId("h2"))
LEFT = domain(state__state=3, state__reason=Paused.MIGRATION)
TORN = domain(state__state=3, state__reason=Paused.POSTCOPY_FAILED)
PAUSED = domain(state__state=3, state__reason=1)
AWAY = PlatformUnavailableError("h2 cannot be reached")


def seen(
    source: DomainAnswer | None,
    target: DomainAnswer | PlatformUnavailableError | None,
    job: Mapping[str, object] | None = None,
) -> Evidence:
    there = (
        target if isinstance(target, PlatformUnavailableError) else Sight(domain=target)
    )
    return Evidence(source=Sight(domain=source, job=job), target=there)


def state(evidence: Evidence) -> TaskState:
    return verdict(TASK, evidence).state


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        pytest.param(None, RUNNING, TaskState.DONE, id="arrived"),
        pytest.param(None, PAUSED, TaskState.DONE, id="arrived, paused as it was"),
        pytest.param(shut_off(), RUNNING, TaskState.DONE, id="left a definition"),
        pytest.param(LEFT, RUNNING, TaskState.RUNNING, id="about to end"),
        pytest.param(RUNNING, None, TaskState.FAILED, id="never left"),
        pytest.param(RUNNING, shut_off(), TaskState.FAILED, id="defined over there"),
        pytest.param(RUNNING, arriving(), TaskState.FAILED, id="target cleans up"),
        pytest.param(RUNNING, AWAY, TaskState.FAILED, id="target died"),
        pytest.param(RUNNING, RUNNING, TaskState.FAILED, id="twice"),
        pytest.param(PAUSED, None, TaskState.FAILED, id="paused on the source"),
        pytest.param(LEFT, arriving(), TaskState.FAILED, id="stuck in between"),
        pytest.param(TORN, RUNNING, TaskState.FAILED, id="post-copy broke"),
        pytest.param(shut_off(), None, TaskState.FAILED, id="shut off meanwhile"),
        pytest.param(None, None, TaskState.LOST, id="nowhere"),
        pytest.param(None, arriving(), TaskState.LOST, id="source died"),
        pytest.param(None, shut_off(), TaskState.LOST, id="only defined over there"),
    ],
)
def test_the_hosts_decide(
    source: DomainAnswer | None,
    target: DomainAnswer | PlatformUnavailableError | None,
    expected: TaskState,
) -> None:
    assert state(seen(source, target)) is expected


@pytest.mark.parametrize("source", [None, LEFT, PAUSED, shut_off()])
def test_it_is_not_known_when_it_depends_on_a_target_that_does_not_answer(
    source: DomainAnswer | None,
) -> None:
    with pytest.raises(PlatformUnavailableError, match="h2 cannot be reached"):
        verdict(TASK, seen(source, AWAY))


def test_a_job_on_the_source_runs_whatever_the_target_says() -> None:
    status = verdict(TASK, seen(RUNNING, AWAY, JOB))

    assert status.state is TaskState.RUNNING
    assert status.progress == progress_of(JOB)


def test_a_call_that_has_not_returned_runs() -> None:
    evidence = replace(seen(RUNNING, None), under_way=True)

    assert state(evidence) is TaskState.RUNNING


def test_says_why_it_failed_and_where_the_guest_is() -> None:
    evidence = replace(seen(RUNNING, None), failure="h2 cannot be reached from h1")

    assert verdict(TASK, evidence).detail == (
        "h2 cannot be reached from h1; it runs on at h1"
    )


def test_an_error_of_the_call_does_not_deny_that_the_guest_arrived() -> None:
    evidence = replace(seen(None, RUNNING), failure="the connection broke")

    assert state(evidence) is TaskState.DONE


def test_a_process_that_did_not_hear_why_says_so() -> None:
    assert verdict(TASK, seen(RUNNING, None)).detail == (
        "no migration is under way: it failed, was given up, or never began; it "
        "runs on at h1"
    )


def test_a_guest_on_both_hosts_is_told_loudly() -> None:
    assert verdict(TASK, seen(RUNNING, RUNNING)).detail == (
        "vm seems to run on h1 and on h2 at once: stop one of them"
    )


def test_says_with_what_was_given_up_that_it_would_not_have_ended() -> None:
    last = Progress(dirty_rate=8e6, bandwidth=4e6)
    evidence = replace(seen(RUNNING, None), failure="it was given up", last=last)

    assert verdict(TASK, evidence).detail == (
        "it was given up; it writes 8.0 MB/s and 4.0 MB/s are sent, so the copying "
        "does not converge; it runs on at h1"
    )


def test_reads_how_far_it_is() -> None:
    assert progress_of(JOB) == Progress(
        total=34086912,
        remaining=19787776,
        dirty_rate=1020 * 4096.0,
        bandwidth=1067220.0,
        downtime=3.969,
    )


def test_in_the_first_pass_nothing_is_known_of_what_is_written_anew() -> None:
    progress = progress_of({**JOB, "memory_iteration": 1, "memory_dirty_rate": 0})

    assert (progress.dirty_rate, progress.downtime) == (None, None)
    assert progress.remaining == 19787776


def test_before_the_first_byte_nothing_is_known() -> None:
    job = {"type": 2, "operation": 5, "data_total": 0, "data_remaining": 0}

    assert progress_of(job) == Progress()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "it writes 4.2 MB/s and 1.1 MB/s are sent"),
        ({"memory_dirty_rate": 10}, "copies memory"),
        ({"memory_iteration": 1}, "copies memory"),
        ({"data_total": 0, "memory_iteration": 0}, "copies no memory at the moment"),
    ],
)
def test_says_how_it_gets_on(changes: Mapping[str, object], words: str) -> None:
    status = verdict(TASK, seen(RUNNING, arriving(), {**JOB, **changes}))

    assert status.detail.startswith(words)
