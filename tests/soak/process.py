"""The production controller as a process that can be killed, here or for real.

Everything that it does beyond its own memory goes through one function: platform,
clock, log, and notice of what it is about to record. In a process of its own, that
function asks the cluster over a pipe, and the process dies by SIGKILL.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection as SqlConnection

from opendrs.cli.platforms import ClusterSource
from opendrs.cli.wiring import ClusterObserver
from opendrs.config.controller_settings import ControllerSettings
from opendrs.controller import CancellationToken, ExecutionContext
from opendrs.controller.approvals import PlanApprovals
from opendrs.controller.cycle import PolicyDecisionSource
from opendrs.controller.event_log import LoggingObserver
from opendrs.controller.events import LOGGER
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.controller.maintenance import MaintenanceDecisionSource, MaintenanceWatch
from opendrs.errors import OpenDRSError, StoreError
from opendrs.model import Action, Protection, Rule, Snapshot
from opendrs.policies import Policy
from opendrs.ports import CycleRecord, StepRecord, TaskId, TaskStatus
from opendrs.store import DatabasePlanStore, PostgresqlStore, SqliteStore
from opendrs.store.database import DatabaseStore
from soak.platform import plain

Call = Callable[..., Any]
EXPECTED = "PermissionDeniedError", "UnsupportedError", "StoreError"
CRASHED, ENDED, KILLED = "crashed", "ended", "killed"


class KilledError(BaseException):
    """The controller dies here, or stops; nothing in it catches this.

    Args:
        detail: Where.
        by: How.
        answer: What it would have been answered.

    Attributes:
        by: How.
        answer: What it would have been answered.
    """

    def __init__(self, detail: str, by: str = "", answer: object = None) -> None:
        super().__init__(detail)
        self.by = by
        self.answer = answer


@dataclass(frozen=True, kw_only=True)
class ControllerConfig:
    """All that a controller is started with.

    Attributes:
        policy: Its policy, with the limits.
        interval: Seconds from one cycle to the next.
        database: Its record.
        rules: The rules that the platform has.
        consent: What it may start.
        protection: Protection of the cluster.
        url: A database of PostgreSQL in place of the file; empty for none.
        lease_time: Real seconds of its lease.
    """

    policy: Policy[Any]
    interval: float
    database: Path
    rules: tuple[Rule, ...]
    consent: ControllerSettings
    protection: Protection
    url: str = ""
    lease_time: float = 0.0


class Answers(Protocol):
    """Answers a controller, and decides when it dies."""

    def answer(self, method: str, *arguments: Any) -> Any:  # noqa: ANN401
        """Return what *method* returns, or the error it raises.

        Raises:
            KilledError: The controller dies now.
        """

    def delay(self) -> float | None:
        """Return after how many real seconds to kill a process; None to let it live."""


class _Platform:
    """The cluster on the other side, as `opendrs.ports.Platform`."""

    name = "soak"

    def __init__(self, ask: Call, rules: tuple[Rule, ...]) -> None:
        self._ask = ask
        self._rules = rules  # which do not go through a pipe

    def observe(self) -> Snapshot:
        found: Snapshot = self._ask("observe")
        return replace(found, rules=self._rules)

    def start(self, action: Action) -> TaskId:
        return TaskId(self._ask("start", action))

    def find(self, action: Action) -> TaskId:
        return TaskId(self._ask("find", action))

    def status(self, task: TaskId) -> TaskStatus:
        found: TaskStatus = self._ask("status", task)
        return found

    def abort(self, task: TaskId) -> None:
        self._ask("abort", task)


class _Clock:
    """The clock on the other side; while it sleeps, signals arrive."""

    def __init__(self, ask: Call, cancellation: CancellationToken) -> None:
        self._ask = ask
        self._cancellation = cancellation
        self._signals = 0

    def now(self) -> datetime:
        found: datetime = self._ask("now")
        return found

    def monotonic(self) -> float:
        found: float = self._ask("monotonic")
        return found

    def sleep(self, seconds: float) -> None:
        signals = self._ask("sleep", seconds)
        for _ in range(signals - self._signals):
            self._cancellation.cancel()
        self._signals = signals


class _NotifyingStore(DatabaseStore):
    """The record; the other side is notified before and after each change."""

    ask: Call

    def write(self, record: StepRecord) -> None:
        facts = (record.run, record.step, record.outcome, *plain(record.action))
        self.ask("writing", *facts)
        super().write(record)
        self.ask("written", *facts)

    def record_cycle(self, cycle: CycleRecord) -> None:
        decision: Any = cycle.document["decision"]
        moves = [(each["guest"] or "", each["target"]) for each in decision["steps"]]
        self.ask("cycle", cycle.run, moves)
        super().record_cycle(cycle)

    @contextmanager
    def transaction(self) -> Iterator[SqlConnection]:
        self.ask("changing")
        with super().transaction() as connection:
            yield connection
            # As long as the transaction is open, no other controller can lead.
            self.ask("committing")
        self.ask("changed")

    @contextmanager
    def _begin(self) -> Iterator[SqlConnection]:
        self.ask("store")
        with super()._begin() as connection:
            yield connection


class _SqliteStore(_NotifyingStore, SqliteStore):
    """The record in a file."""


class _PostgresqlStore(_NotifyingStore, PostgresqlStore):
    """The record in PostgreSQL."""


@contextmanager
def _open_store(setup: ControllerConfig, ask: Call) -> Iterator[_NotifyingStore]:
    """Yield the store; wait as long as another controller leads, or without a server.

    A service manager starts a controller again that ends because of the server.
    """
    if not setup.url:
        store = _SqliteStore(setup.database)
        store.ask = ask
        with store:
            yield store
        return
    while True:
        shared = _PostgresqlStore(setup.url, "soak", lease_time=setup.lease_time)
        shared.ask = ask
        with ExitStack() as stack:
            try:
                stack.enter_context(shared)
            except StoreError:
                threading.Event().wait(0.05)
                continue
            ask("leads")
            yield shared
            return


class _Log(logging.Handler):
    """Sends log lines to the other side."""

    def __init__(self, ask: Call) -> None:
        super().__init__(logging.INFO)
        self._ask = ask

    def emit(self, record: logging.LogRecord) -> None:
        self._ask("log", record.getMessage())


def control(setup: ControllerConfig, ask: Call) -> None:
    """Run the controller until it is stopped, or dies.

    Raises:
        OpenDRSError: It gives up.
        KilledError: It dies.
    """

    def call(method: str, *arguments: object) -> Any:  # noqa: ANN401
        found = ask(method, *arguments)
        if isinstance(found, OpenDRSError):
            raise found
        return found

    cancellation = CancellationToken()
    platform, clock = _Platform(call, setup.rules), _Clock(call, cancellation)
    with _logged(call), _open_store(setup, call) as store:
        _controller(setup, platform, clock, store, cancellation).run_forever()


def _controller(
    setup: ControllerConfig,
    platform: _Platform,
    clock: _Clock,
    store: DatabaseStore,
    cancellation: CancellationToken,
) -> Controller:
    """Return a controller of the parts that `opendrs run` has."""
    context = ExecutionContext(
        platform=platform,
        clock=clock,
        store=store,
        limits=setup.policy.limits,
        protection=setup.protection,
        observer=LoggingObserver(cancellation),
        cancellation=cancellation,
    )
    wakeup_event = WakeupEvent()
    settings = LoopSettings(
        interval=setup.interval,
        batch_window=0.0,
        observe=ClusterObserver(ClusterSource(platform=platform, clock=clock)).observe,
        require_alive=MaintenanceWatch(store, wakeup_event.set).check,
    )
    source = PolicyDecisionSource(setup.policy, store)
    approvals = PlanApprovals(
        DatabasePlanStore(store),
        store,
        clock,
        setup.consent,
        cancellation,
        target=platform.name,
    )
    maintenance = MaintenanceDecisionSource(
        source, source.policy, store, wakeup_event.set
    )
    return Controller(settings, context, maintenance, wakeup_event, approvals)


@contextmanager
def _logged(ask: Call) -> Iterator[None]:
    handler = _Log(ask)
    level = LOGGER.level
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)


def run_here(setup: ControllerConfig, answers: Answers) -> tuple[str, str]:
    """Run a controller in this process; return how it ended, and why."""
    try:
        control(setup, answers.answer)
    except KilledError as death:
        return KILLED, str(death)
    except Exception as error:  # noqa: BLE001 - nothing may end it but what is expected
        return _ending(error), traceback.format_exc()
    return ENDED, "stopped"


def run_forked(setup: ControllerConfig, answers: Answers) -> tuple[str, str]:
    """Run a controller in a process of its own, and kill that with SIGKILL."""
    ours, theirs = Pipe()
    pid = os.fork()
    if pid == 0:
        ours.close()
        live(setup, theirs)
    theirs.close()
    try:
        return _serve(pid, ours, answers)
    finally:
        ours.close()
        os.kill(pid, signal.SIGKILL)  # also when it has ended: it is not reaped yet
        os.waitpid(pid, 0)


def live(setup: ControllerConfig, line: Connection[Any, Any]) -> None:
    """Be the controller, in the process that was just forked; never return."""

    def ask(*request: object) -> object:
        line.send(request)
        return line.recv()

    try:
        ending = (ENDED, "stopped")
        try:
            control(setup, ask)
        except Exception as error:  # noqa: BLE001 - as above
            ending = (_ending(error), traceback.format_exc())
        line.send(("ending", *ending))
    finally:
        os._exit(0)


def _serve(pid: int, line: Connection[Any, Any], answers: Answers) -> tuple[str, str]:
    """Answer process *pid* until it ends, or is killed."""
    while True:
        request = line.recv()
        if request[0] == "ending":
            return request[1], request[2]
        try:
            line.send(answers.answer(*request))
        except KilledError as death:
            return KILLED, str(death)
        delay = answers.delay()
        if delay is not None:
            threading.Event().wait(delay)
            os.kill(pid, signal.SIGKILL)
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
            with suppress(EOFError, OSError, KilledError):
                # What it asked for in its last moment is done all the same.
                if line.poll() and (last := line.recv())[0] != "ending":
                    answers.answer(*last)
            return KILLED, f"after {1000 * delay:.1f} ms"


def _ending(error: Exception) -> str:
    expected = any(kind.__name__ in EXPECTED for kind in type(error).__mro__)
    return ENDED if expected else CRASHED
