"""Jobs: the queue with its process, the routes, and the answers of each kind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from opendrs.api.jobs import (
    KEPT_TIME,
    MAX_WAITING,
    Job,
    JobKeyReusedError,
    JobProblem,
    JobQueue,
    JobQueueFullError,
    JobState,
)
from opendrs.cli.web_context import JobAnswers
from opendrs.config.controller_settings import Mode
from opendrs.controller import SystemClock
from opendrs.simulation import SimulatedClock
from opendrs.store import Access, SqliteStore
from support.advised_controller import AdvisedController
from support.api_client import api_client, api_context
from support.builders import NOON
from support.job_function import ExampleAnswers

DEADLINE = 300.0  # real seconds until a job must have ended


@pytest.fixture
def clock() -> SimulatedClock:
    return SimulatedClock(NOON)


@pytest.fixture
def queue(tmp_path: Path, clock: SimulatedClock) -> Iterator[JobQueue]:
    queue = JobQueue(ExampleAnswers(tmp_path), clock, time_limit=300)
    yield queue
    queue.close()


def ended(queue: JobQueue, job: Job) -> Job:
    """Return *job* once it has ended."""
    waits = SystemClock()
    deadline = waits.monotonic() + DEADLINE
    while waits.monotonic() < deadline:
        found = _known(queue, job)
        if found.state.is_final:
            return found
        waits.sleep(0.02)
    raise AssertionError(job)


def test_job_has_its_result(queue: JobQueue) -> None:
    found = ended(queue, queue.submit("echo", {"x": 1}, None))

    assert (found.state, found.result) == (JobState.DONE, {"kind": "echo", "x": 1})
    assert found.started_at == found.ended_at == NOON


def test_jobs_use_one_other_process(queue: JobQueue) -> None:
    results = {ended(queue, queue.submit("process", {}, None)).result for _ in range(2)}

    assert len(results) == 1
    assert os.getpid() not in results


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        ("reject", JobProblem.JOB_REJECTED),
        ("damage", JobProblem.JOB_FAILED),
        ("defect", JobProblem.JOB_FAILED),
        ("exit", JobProblem.JOB_FAILED),
    ],
)
def test_failed_job_has_its_cause_and_the_next_one_runs(
    queue: JobQueue, kind: str, problem: JobProblem
) -> None:
    found = ended(queue, queue.submit(kind, {}, None))
    after = ended(queue, queue.submit("echo", {}, None))

    assert (found.state, found.problem) == (JobState.FAILED, problem)
    assert found.detail
    assert after.state is JobState.DONE


def test_job_that_takes_too_long_ends(tmp_path: Path, clock: SimulatedClock) -> None:
    queue = JobQueue(ExampleAnswers(tmp_path), clock, time_limit=0.2)
    try:
        found = ended(queue, queue.submit("sleep", {"seconds": 600}, None))
    finally:
        queue.close()

    assert found.problem is JobProblem.JOB_TIMED_OUT


def test_running_and_waiting_jobs_can_be_cancelled(
    queue: JobQueue, tmp_path: Path
) -> None:
    running = queue.submit("sleep", {"seconds": 600}, None)
    waiting = queue.submit("echo", {}, None)
    waits = SystemClock()
    deadline = waits.monotonic() + DEADLINE
    while not (tmp_path / "started").exists() and waits.monotonic() < deadline:
        waits.sleep(0.02)

    for job in (waiting, running):
        cancelled = queue.cancel(job.id)
        assert cancelled is not None
        assert cancelled.state is JobState.CANCELLED

    assert ended(queue, queue.submit("echo", {}, None)).state is JobState.DONE
    assert ended(queue, running).result is None
    assert queue.cancel("zz") is None


def test_long_job_shows_its_progress_and_others_do_not_wait_for_it(
    queue: JobQueue,
) -> None:
    long = queue.submit("backtest", {}, None)
    short = ended(queue, queue.submit("echo", {}, None))
    waits = SystemClock()
    deadline = waits.monotonic() + DEADLINE
    while not (running := _known(queue, long)).progress:
        assert waits.monotonic() < deadline
        waits.sleep(0.02)
    cancelled = queue.cancel(long.id)

    assert short.state is JobState.DONE
    assert (running.state, running.progress) == (JobState.RUNNING, "half of it")
    assert cancelled is not None
    assert (cancelled.state, cancelled.progress) == (JobState.CANCELLED, "")


def _known(queue: JobQueue, job: Job) -> Job:
    found = queue.job(job.id)
    assert found is not None
    return found


def test_full_queue_accepts_no_job(queue: JobQueue) -> None:
    running = queue.submit("sleep", {"seconds": 600}, None)
    with pytest.raises(JobQueueFullError):  # noqa: PT012 - the first may have started
        for _ in range(MAX_WAITING + 1):
            queue.submit("echo", {}, None)

    queue.cancel(running.id)


def test_key_names_one_question(queue: JobQueue) -> None:
    first = queue.submit("echo", {"x": 1}, "key")

    assert queue.submit("echo", {"x": 1}, "key").id == first.id
    with pytest.raises(JobKeyReusedError):
        queue.submit("echo", {"x": 2}, "key")


def test_results_are_forgotten_after_an_hour(
    queue: JobQueue, clock: SimulatedClock
) -> None:
    job = ended(queue, queue.submit("echo", {}, None))

    clock.sleep(KEPT_TIME.total_seconds())
    assert queue.job(job.id) is not None
    clock.sleep(1)
    assert queue.job(job.id) is None
    assert queue.jobs() == ()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, list[str]]]:
    """Return a configuration whose store a controller has written, and its runs."""
    folder = tmp_path_factory.mktemp("lab")
    path = folder / "lab.sqlite"
    config = folder / "opendrs.toml"
    config.write_text(
        '[platform.lab]\nkind = "command"\nsnapshot_command = ["true"]\n'
        f'[store]\npath = "{path}"\n'
        '[[schedule]]\npolicy = "balance"\n'
    )
    with SqliteStore(path, Access.CONTROL) as store:
        store.save("platform", {"name": "lab"})
        controller = AdvisedController(store, mode=Mode.OBSERVE)
        for _ in range(3):
            controller.cycle()
            controller.simulation.clock.sleep(300)
        yield config, [cycle.run for cycle in store.cycles()]


@pytest.fixture(scope="module")
def client(lab: tuple[Path, list[str]]) -> Iterator[TestClient]:
    config, _ = lab
    clock = SimulatedClock(NOON + timedelta(hours=1))
    queue = JobQueue(JobAnswers("lab", config), clock)
    with SqliteStore(config.with_name("lab.sqlite"), Access.OPERATE) as store:
        yield api_client(api_context(store, clock, jobs=queue))
    queue.close()


def answer(client: TestClient, **question: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the job of *question* once it has ended."""
    response = client.post("/jobs", json=question)
    assert response.status_code == 202, response.text
    path = response.headers["location"].removeprefix("/api/v1")
    waits = SystemClock()
    deadline = waits.monotonic() + DEADLINE
    while waits.monotonic() < deadline:
        document: dict[str, Any] = client.get(path).json()
        if document["state"] not in ("queued", "running"):
            return document
        waits.sleep(0.05)
    raise AssertionError(question)


def result(client: TestClient, **question: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the result of *question*."""
    job = answer(client, **question)
    assert job["state"] == "done", job["detail"]
    found: dict[str, Any] = job["result"]
    return found


def test_what_if_shows_the_cluster_after_a_failure(client: TestClient) -> None:
    found = result(client, kind="what-if", fail=["a"], policy="balance")

    assert found["fits"] is True
    assert {each["target"] for each in found["placed"]} == {"b"}
    assert found["policy"]["name"] == "balance"


def test_place_ranks_the_nodes(client: TestClient) -> None:
    found = result(client, kind="place", cpu=1, memory=2**30)

    assert found["nodes"] == ["b"]
    assert [each["node"] for each in found["ranked"]] == ["b", "a"]


def test_drain_preview_has_the_memory_of_the_targets(client: TestClient) -> None:
    found = result(client, kind="drain-preview", node="a")

    (target,) = found["targets"]
    assert target["node"] == "b"
    assert target["guests"] == 3
    assert (target["memory_before"], target["memory_after"]) == pytest.approx((0, 0.6))
    assert found["remaining"] == []


def test_replay_decides_again_and_with_another_policy(
    client: TestClient, lab: tuple[Path, list[str]]
) -> None:
    run = lab[1][0]

    same = result(client, kind="replay", run=run)
    other = result(
        client,
        kind="replay",
        run=run,
        policy="balance",
        settings={"threshold": 10.0},
    )

    assert (same["run"], same["same"]) == (run, True)
    assert same["recorded"]["reason"] == "improves-balance"
    assert (other["same"], other["replayed"]["reason"]) == (None, "balanced")


def test_backtest_has_a_row_for_each_policy(client: TestClient) -> None:
    found = result(client, kind="backtest", policies=["balance"])

    assert "balance" in {each["name"] for each in found["rows"]}
    assert found["record"]["snapshots"] == 3


@pytest.mark.parametrize("policies", [[], ["repair"]])
def test_backtest_runs_the_schedule_as_one_row(
    client: TestClient, policies: list[str]
) -> None:
    found = result(client, kind="backtest", policies=policies, schedule=True)

    run = [each for each in found["rows"] if each["kind"] in ("policy", "schedule")]
    assert [each["name"] for each in run] == [*policies, "schedule"]
    assert run[-1]["kind"] == "schedule"


def test_drill_shows_each_failure(client: TestClient) -> None:
    found = result(client, kind="drill", assume_ha=True)

    assert [each["nodes"] for each in found["failures"]] == [["a"], ["b"]]


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "what-if", "fail": ["zz"]},
        {"kind": "what-if", "fail": ["rack=zz"]},
        {"kind": "what-if", "settings": {"threshold": 1}},
        {"kind": "drain-preview", "node": "zz"},
        {"kind": "place"},
        {"kind": "replay", "policy": "zz"},
        {"kind": "replay", "run": "zz"},
        {"kind": "backtest", "policies": ["balance"], "settings": {"zz": {}}},
        {"kind": "drill", "nodes": ["zz"]},
    ],
)
def test_question_about_an_unknown_name_is_rejected(
    client: TestClient, question: dict[str, Any]
) -> None:
    job = answer(client, **question)

    assert (job["state"], job["problem"]) == ("failed", "job-rejected")
    assert job["detail"]


@pytest.mark.parametrize(
    "question",
    [
        {"kind": "zz"},
        {"kind": "what-if", "zz": 1},
        {"kind": "what-if", "growth": "1"},
        {"kind": "place", "count": 0},
        {"kind": "backtest"},
        {"kind": "backtest", "policies": []},
        {},
    ],
)
def test_malformed_question_is_no_job(
    client: TestClient, question: dict[str, Any]
) -> None:
    response = client.post("/jobs", json=question)

    assert (response.status_code, response.json()["code"]) == (422, "body-invalid")


def test_job_is_idempotent_listed_and_cancelled(client: TestClient) -> None:
    question = {"kind": "place", "cpu": 1, "memory": 2**30}
    headers = {"Idempotency-Key": "k1"}

    first = client.post("/jobs", json=question, headers=headers).json()
    again = client.post("/jobs", json=question, headers=headers).json()
    other = client.post("/jobs", json={**question, "cpu": 2}, headers=headers)

    assert first["id"] == again["id"]
    assert (other.status_code, other.json()["code"]) == (409, "state-conflict")
    assert first["id"] in {each["id"] for each in client.get("/jobs").json()["jobs"]}
    assert client.delete(f"/jobs/{first['id']}").status_code == 200
    assert client.get("/jobs/zz").json()["code"] == "not-found"
