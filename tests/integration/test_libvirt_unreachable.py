"""A host that the controller cannot reach goes on migrating, and that counts.

Only the line from the controller to the host is cut: the host, its guests and the
migration between hosts run on.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread

import pytest

from integration.libvirt_lab import MIB, LibvirtLab, eventually
from opendrs.controller import (
    CancellationToken,
    ExecutionContext,
    SystemClock,
    execute,
    forget_ended_migrations,
)
from opendrs.guard import Rejection
from opendrs.model import GuestId, Limits, LiveMigration, NodeId, Plan, Step, StepId
from opendrs.platforms.libvirt import LibvirtPlatform
from opendrs.ports import Outcome, StepRecord, Store, TaskStatus
from opendrs.store import MemoryStore

pytestmark = [pytest.mark.shared, pytest.mark.lab]

H1, H2, H3 = (NodeId(f"h{host}") for host in (1, 2, 3))
FIRST = Step(StepId("1"), LiveMigration(GuestId("vm"), H1, H2))
SECOND = Step(StepId("2"), LiveMigration(GuestId("other"), H3, H2))


class ProxyLine:
    """The line from the controller to the socket of a host; it can be cut.

    Args:
        at: Where the controller connects to.
        host: The socket of the host.
    """

    def __init__(self, at: Path, host: Path) -> None:
        self.uri = f"qemu:///system?socket={at}"
        self._host = host
        self._whole = Event()
        self._whole.set()
        self._server = socket.socket(socket.AF_UNIX)
        self._open = [self._server]
        at.unlink(missing_ok=True)
        self._server.bind(str(at))
        self._server.listen()
        Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Pass on nothing, in either direction, from now on."""
        self._whole.clear()

    def restore(self) -> None:
        """Pass on what waits, and what comes."""
        self._whole.set()

    def close(self) -> None:
        """End all connections."""
        self.restore()
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._host))
                for source, target in ((near, far), (far, near)):
                    self._open.append(source)
                    Thread(
                        target=self._pass_on, args=(source, target), daemon=True
                    ).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._whole.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


class CopyingObserver:
    """A watcher that calls back while the memory of the first guest is copied."""

    def __init__(self, back: Callable[[], None]) -> None:
        self._back = back

    def step_started(self, step: Step) -> None:
        """Do nothing."""

    def step_progressed(self, step: Step, status: TaskStatus) -> None:
        """Call back once memory is being copied."""
        if step is FIRST and status.progress and status.progress.remaining:
            self._back()

    def step_waiting(self, step: Step, detail: str) -> None:
        """Do nothing."""

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Do nothing."""

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Do nothing."""

    def steps_polled(self) -> None:
        """Do nothing."""


@pytest.fixture
def proxy_line(lab: LibvirtLab) -> Iterator[ProxyLine]:
    """Return the line to the first host."""
    line = ProxyLine(lab.directory / "line", lab.directory / "h1/run/libvirt-sock")
    try:
        yield line
    finally:
        line.close()


def platform_over(proxy_line: ProxyLine, lab: LibvirtLab) -> LibvirtPlatform:
    """Return the lab with *proxy_line* to its first host."""
    nodes = {"h1": proxy_line.uri, "h2": lab.uri(2), "h3": lab.uri(3)}
    return lab.platform(nodes=nodes, bandwidth=MIB, sample=0.1, timeout=2.0)


def execution_context(
    platform: LibvirtPlatform,
    store: Store,
    observer: CopyingObserver,
    migration_timeout: float,
) -> ExecutionContext:
    """Return what carries out plans with one migration per host at a time."""
    limits = Limits(
        max_migrations_per_node=1, cooldown=0, migration_timeout=migration_timeout
    )
    return ExecutionContext(
        platform=platform,
        clock=SystemClock(),
        store=store,
        limits=limits,
        observer=observer,
        cancellation=CancellationToken(),
    )


def migrating_plan(lab: LibvirtLab) -> list[str]:
    """Return the guests that the second host has and another has as well."""
    return [name for name in lab.names(2) if len(lab.locate(name)) > 1]


def test_migration_from_unreachable_host_counts_against_limits(
    lab: LibvirtLab, proxy_line: ProxyLine
) -> None:
    lab.slow_vm(1, "vm")
    lab.vm(3, "other")
    platform, cut, most = platform_over(proxy_line, lab), Event(), [0]

    def silence() -> None:
        if not cut.is_set():
            proxy_line.cut()
            cut.set()

    def end_it_later() -> None:
        assert cut.wait(60)
        for _ in range(50):
            most[0] = max(most[0], len(migrating_plan(lab)))
            Event().wait(0.2)
        proxy_line.restore()
        lab.fill_memory_faster(1, "vm")

    helper = Thread(target=end_it_later)
    helper.start()
    given = execution_context(
        platform, MemoryStore(), CopyingObserver(silence), migration_timeout=300
    )
    report = execute(Plan((FIRST, SECOND)), given, run="run")
    helper.join()

    first, second = report.records
    assert report.all_done, report.records
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at
    assert most == [1]
    assert (lab.locate("vm"), lab.locate("other")) == ((2,), (2,))
    lab.require_alive("vm")


def test_lost_migration_counts_until_its_host_is_reachable(
    lab: LibvirtLab, proxy_line: ProxyLine
) -> None:
    lab.slow_vm(1, "vm")
    lab.vm(3, "other")
    platform, store = platform_over(proxy_line, lab), MemoryStore()
    given = execution_context(
        platform, store, CopyingObserver(proxy_line.cut), migration_timeout=15
    )
    lost = execute(Plan((FIRST,)), given, run="first").records[0]
    forget_ended_migrations(platform.observe(), store, platform)

    denied = execute(Plan((SECOND,)), given, run="second").records[0]
    proxy_line.restore()
    lab.fill_memory_faster(1, "vm")
    eventually(lambda: lab.locate("vm") == (2,), 60, "it has arrived")
    eventually(lambda: _nothing_left(platform, store), 30, "its end is seen")
    patient = replace(given, limits=replace(given.limits, migration_timeout=300))
    done = execute(Plan((SECOND,)), patient, run="third").records[0]

    assert lost.outcome is Outcome.LOST
    assert denied.outcome is Outcome.REJECTED
    assert denied.detail == "h2: 1 migration in progress, limit is 1"
    assert done.outcome is Outcome.DONE
    lab.require_alive("vm")


def _nothing_left(platform: LibvirtPlatform, store: Store) -> bool:
    forget_ended_migrations(platform.observe(), store, platform)
    return not (store.load("in flight") or {}).get("migrations")
