"""Functions with which tests start the double of Proxmox VE and let its time pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from typing import TypeAlias

import pytest

from opendrs.platforms.proxmox import ProxmoxPlatform
from support.https_server import Certificate
from support.pve_cluster import PveCluster, PveGuest
from support.pve_double import (
    LOGIN,
    TOKEN_VARIABLE,
    RunningDouble,
    run_double,
    small_cluster,
)
from support.pve_schema import SCHEMA

Serve: TypeAlias = Callable[..., RunningDouble]
PVE_MARKS = [
    pytest.mark.shared,
    pytest.mark.skipif(not SCHEMA.exists(), reason=f"no {SCHEMA}; set OPENDRS_SHARED"),
]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """Return a function that serves a cluster until the end of the test."""
    monkeypatch.setenv(TOKEN_VARIABLE, LOGIN)
    certificate = Certificate()
    with ExitStack() as stack:

        def run(cluster: PveCluster, hosts: int = 1) -> RunningDouble:
            return stack.enter_context(run_double(cluster, certificate, hosts))

        yield run


def with_guests(*guests: PveGuest, version: str = "9.2.11") -> PveCluster:
    """Return a cluster of the nodes h1, h2 and h3 with *guests*."""
    cluster = small_cluster(version)
    cluster.add(*guests)
    return cluster


def platform_of(running: RunningDouble, **changes: object) -> ProxmoxPlatform:
    """Return a platform for the double, as a new process creates it."""
    return ProxmoxPlatform("double", running.settings(**changes))


class DoubleClock:
    """Clock whose time is that of the double; only `sleep` lets it pass."""

    def __init__(self, cluster: PveCluster) -> None:
        self._cluster = cluster

    def now(self) -> datetime:
        """Return the real time, which is that of observations."""
        return datetime.now(UTC)  # noqa: TID251 - as the adapter

    def monotonic(self) -> float:
        """Return the time of the double."""
        return self._cluster.now

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass in the double."""
        self._cluster.advance(seconds)


@contextmanager
def passing_time(cluster: PveCluster, speed: float) -> Iterator[None]:
    """Let the time of *cluster* pass, *speed* times as fast as real time."""
    stopping = Event()

    def run() -> None:
        while not stopping.wait(0.02):
            cluster.advance(0.02 * speed)

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()
