"""Jobs: questions that take long, answered one after the other by other processes.

The serving process stays responsive, and a job that takes too long, or too much memory,
ends without it. Jobs that take minutes, such as backtests, have a queue and a process
of their own, so that others do not wait for them. A process is started for its first
job and kept for the next ones, because its imports take seconds.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from time import monotonic
from typing import Any

from opendrs.api.job_process import (
    JobAnswer,
    JobFunction,
    JobProcess,
    JobProgress,
)
from opendrs.controller.events import LogEventCode, log_event
from opendrs.ports import Clock

TIME_LIMIT = 300.0  # seconds of one job
LONG_JOBS = frozenset({"backtest", "drill"})  # kinds with a queue of their own
LONG_TIME_LIMIT = 3_600.0  # seconds of one of these
MAX_WAITING = 10  # in each queue
MAX_KEPT = 50
KEPT_TIME = timedelta(hours=1)  # after the end of a job
_POLL = 0.1  # seconds between two checks of a running job for its cancellation


class JobState(StrEnum):
    """State of a job. The values are stable."""

    QUEUED = "queued"
    """Other jobs are before it."""
    RUNNING = "running"
    """It is computed."""
    DONE = "done"
    """The result is available."""
    FAILED = "failed"
    """There is no result; `detail` has the cause."""
    CANCELLED = "cancelled"
    """It was cancelled."""

    @property
    def is_final(self) -> bool:
        """Return True if the state does not change any more."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class JobProblem(StrEnum):
    """Cause of a job without a result. The values are stable."""

    JOB_REJECTED = "job-rejected"
    """The question names something that does not exist, or cannot be answered."""
    JOB_TIMED_OUT = "job-timed-out"
    """The answer was not found within the time limit."""
    JOB_FAILED = "job-failed"
    """The store cannot be read, or the process ended; the log has the details."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job.

    Attributes:
        id: Its id, which cannot be guessed.
        kind: Kind of the question.
        arguments: The question as plain values.
        state: Its state.
        created_at: Time of the request.
        started_at: Time at which its computation began; None before.
        ended_at: Time at which it ended; None before.
        progress: What is done while it runs; empty if unknown.
        result: The answer as plain values; None without one.
        problem: Why there is no answer; None if there is one, or before.
        detail: The same as a sentence; empty without a problem.
    """

    id: str
    kind: str
    arguments: Mapping[str, Any]
    state: JobState
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    progress: str = ""
    result: Any = None
    problem: JobProblem | None = None
    detail: str = ""


class JobQueueFullError(Exception):
    """Too many jobs wait."""


class JobKeyReusedError(Exception):
    """An idempotency key names another question."""


@dataclass(slots=True)
class _Worker:
    """Process that answers the jobs of some kinds, and the jobs that wait for it.

    Attributes:
        process: The process.
        time_limit: Seconds of one job.
        waiting: Ids of the waiting jobs, the first one next.
        thread: Thread that passes the jobs to the process; None before the first.
    """

    process: JobProcess
    time_limit: float
    waiting: deque[str] = field(default_factory=deque)
    thread: threading.Thread | None = None


class JobQueue:
    """Queue of jobs, and the results of those that ended. Threads may share it.

    Args:
        function: Answers a question: kind, arguments and a function that reports the
            progress, to plain values. It must be picklable.
        clock: The time.
        time_limit: Seconds of one job.
        long_time_limit: Seconds of a job of `LONG_JOBS`.
    """

    def __init__(
        self,
        function: JobFunction,
        clock: Clock,
        time_limit: float = TIME_LIMIT,
        long_time_limit: float = LONG_TIME_LIMIT,
    ) -> None:
        self._short = _Worker(JobProcess(function), time_limit)
        self._long = _Worker(JobProcess(function), long_time_limit)
        self._clock = clock
        self._jobs: OrderedDict[str, Job] = OrderedDict()
        self._keys: dict[str, str] = {}
        self._changed = threading.Condition()
        self._closed = False

    def submit(self, kind: str, arguments: Mapping[str, Any], key: str | None) -> Job:
        """Add a job; return the former one if *key* names the same question.

        Args:
            kind: Kind of the question.
            arguments: The question as plain values.
            key: Idempotency key of the client; None without one.

        Raises:
            JobQueueFullError: Too many jobs wait.
            JobKeyReusedError: *key* names another question.
        """
        with self._changed:
            self._forget_old()
            if key is not None and (known := self._jobs.get(self._keys.get(key, ""))):
                if (known.kind, known.arguments) != (kind, arguments):
                    raise JobKeyReusedError
                return known
            worker = self._worker(kind)
            if len(worker.waiting) >= MAX_WAITING:
                raise JobQueueFullError
            job = Job(
                id=secrets.token_hex(8),
                kind=kind,
                arguments=arguments,
                state=JobState.QUEUED,
                created_at=self._clock.now(),
            )
            self._jobs[job.id] = job
            if key is not None:
                self._keys[key] = job.id
            worker.waiting.append(job.id)
            if worker.thread is None:
                worker.thread = threading.Thread(
                    target=self._run, args=(worker,), daemon=True
                )
                worker.thread.start()
            self._changed.notify_all()
            return job

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs, the newest first."""
        with self._changed:
            self._forget_old()
            return tuple(reversed(self._jobs.values()))

    def job(self, name: str) -> Job | None:
        """Return the job with the id *name*; None if there is none any more."""
        with self._changed:
            self._forget_old()
            return self._jobs.get(name)

    def cancel(self, name: str) -> Job | None:
        """Cancel a job that has not ended; return it, or None if there is none."""
        with self._changed:
            job = self._jobs.get(name)
            if job is not None and not job.state.is_final:
                waiting = self._worker(job.kind).waiting
                if name in waiting:
                    waiting.remove(name)
                job = self._end(job, JobState.CANCELLED)
            return job

    def close(self) -> None:
        """End the running jobs and the processes."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in (self._short, self._long):
            if worker.thread is not None:
                worker.thread.join()
            worker.process.kill()

    def _worker(self, kind: str) -> _Worker:
        return self._long if kind in LONG_JOBS else self._short

    def _run(self, worker: _Worker) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: worker.waiting or self._closed)
                if self._closed:
                    return
                name = worker.waiting.popleft()
                job = self._jobs[name] = replace(
                    self._jobs[name],
                    state=JobState.RUNNING,
                    started_at=self._clock.now(),
                )
            self._answer(job, worker)

    def _answer(self, job: Job, worker: _Worker) -> None:
        """Compute the answer of *job*, and record it."""
        worker.process.send(job.kind, job.arguments)
        found = self._received(job.id, worker)
        if found is None:
            worker.process.kill()
        with self._changed:
            if self._jobs[job.id].state is not JobState.RUNNING:
                return
            if found is None:
                detail = f"no answer within {worker.time_limit:g} s"
                self._fail(job, JobProblem.JOB_TIMED_OUT, detail)
            elif found.error:
                is_rejected = found.is_rejected
                code = JobProblem.JOB_REJECTED if is_rejected else JobProblem.JOB_FAILED
                self._fail(job, code, found.error)
            else:
                self._end(job, JobState.DONE, result=found.document)

    def _received(self, name: str, worker: _Worker) -> JobAnswer | None:
        """Return the answer; None if the job is cancelled or takes too long."""
        ends_at = monotonic() + worker.time_limit
        while (remaining := ends_at - monotonic()) > 0:
            with self._changed:
                job = self._jobs[name]
                if self._closed or job.state is not JobState.RUNNING:
                    break
            found = worker.process.receive(min(_POLL, remaining))
            if isinstance(found, JobAnswer):
                return found
            if isinstance(found, JobProgress):
                self._record_progress(name, found.text)
        return None

    def _record_progress(self, name: str, text: str) -> None:
        with self._changed:
            if self._jobs[name].state is JobState.RUNNING:
                self._jobs[name] = replace(self._jobs[name], progress=text)

    def _fail(self, job: Job, problem: JobProblem, detail: str) -> None:
        if problem is not JobProblem.JOB_REJECTED:
            log_event(
                LogEventCode.JOB_FAILED,
                f"job {job.kind}: {detail}",
                level=logging.WARNING,
                job=job.kind,
                problem=problem.value,
            )
        self._end(job, JobState.FAILED, problem=problem, detail=detail)

    def _end(self, job: Job, state: JobState, **changes: Any) -> Job:  # noqa: ANN401 - attributes of a job
        at = self._clock.now()
        ended = replace(job, state=state, ended_at=at, progress="", **changes)
        self._jobs[job.id] = ended
        self._changed.notify_all()
        return ended

    def _forget_old(self) -> None:
        """Forget jobs that ended long ago, and the oldest of many."""
        oldest = self._clock.now() - KEPT_TIME
        ended = [job for job in self._jobs.values() if job.ended_at is not None]
        surplus = len(self._jobs) - MAX_KEPT
        for number, job in enumerate(ended):
            if number < surplus or (job.ended_at or oldest) < oldest:
                del self._jobs[job.id]
        self._keys = {
            key: name for key, name in self._keys.items() if name in self._jobs
        }
