"""Simulated cluster whose nodes become unreachable during a migration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from opendrs.model import GIB, GuestId, NodeId, Rule, Snapshot
from opendrs.ports import Outcome, TaskId, TaskStatus
from support.builders import cluster
from support.simulated_cluster import (
    SHORT_LIMITS,
    SimulatedCluster,
    migration,
    outcomes,
    step,
)

A, B, C, D = (NodeId(name) for name in "abcd")
VM1 = GuestId("vm1")
LOST = Outcome.LOST
LONG_STEP = step("1", migration("vm1", "a", "b"))  # 40 GiB, which takes minutes
SHORT_STEP = step("0", migration("small", "c", "d"))  # 1 GiB, which takes seconds
DISCONNECT_DELAY = 3.0  # seconds until a host stops answering


def four_nodes(*rules: Rule, on_b: float = 0.1) -> Snapshot:
    """Return four nodes of 100 GiB; what b uses is its own."""
    guests = {
        "vm1": ("a", 0.4),
        "vm2": ("c", 0.4),
        "small": ("c", 0.01),
    }
    return cluster({"a": 0.4, "b": on_b, "c": 0.41, "d": 0.0}, guests, rules)


def cluster_of(origin: Snapshot, **limits: Any) -> SimulatedCluster:  # noqa: ANN401
    return SimulatedCluster(
        origin, limits=replace(SHORT_LIMITS, **limits), bandwidth=GIB / 4
    )


def disconnect_soon(
    simulation: SimulatedCluster, name: NodeId, until: float | None = None
) -> None:
    """Make *name* unreachable soon, and reachable again after *until* seconds."""
    simulation.simulated_platform.schedule_fault(
        DISCONNECT_DELAY, lambda: simulation.simulated_platform.isolate(name)
    )
    if until is not None:
        simulation.simulated_platform.schedule_fault(
            until, lambda: simulation.simulated_platform.rejoin(name)
        )


def record_values(
    simulation: SimulatedCluster, of: Callable[[Snapshot], float]
) -> list[float]:
    """Return a list to which every call adds a value of the true cluster."""
    values: list[float] = []

    @contextmanager
    def interceptor(_: str) -> Iterator[None]:
        yield
        values.append(of(simulation.simulated_platform.true_snapshot()))

    simulation.intercept(interceptor)
    return values


def migrations_of(node: NodeId) -> Callable[[Snapshot], float]:
    """Return a function that counts the migrations from or to *node*."""
    return lambda seen: sum(
        node in one.occupied_nodes
        for one in seen.guests.values()
        if one.migrating_to is not None
    )


def committed_on(node: NodeId) -> Callable[[Snapshot], float]:
    """Return a function that adds up the committed memory of *node*, in GiB."""
    return lambda seen: sum(
        one.limit.memory / GIB
        for one in seen.guests.values()
        if one.limit is not None and node in one.occupied_nodes
    )


def all_migrations(seen: Snapshot) -> float:
    """Return the number of migrations in progress."""
    return sum(one.migrating_to is not None for one in seen.guests.values())


def cluster_with_lost_migration(
    node: NodeId,
    origin: Snapshot | None = None,
    **limits: Any,  # noqa: ANN401
) -> SimulatedCluster:
    """Return a cluster on which the migration of vm1 was lost, and continues.

    Args:
        node: The only node that remains unreachable.
        origin: The cluster in the beginning.
        limits: Limits of the operator.
    """
    simulation = cluster_of(origin or four_nodes(), migration_timeout=60, **limits)
    simulation.simulated_platform.schedule_fault(
        DISCONNECT_DELAY, lambda: simulation.simulated_platform.isolate(A, B)
    )
    assert outcomes(simulation.execute(LONG_STEP)) == [LOST]
    simulation.simulated_platform.rejoin(*{A, B} - {node})
    assert simulation.simulated_platform.true_snapshot().guests[VM1].migrating_to == B
    return simulation


class KilledError(BaseException):
    """End of a process."""


def killed_while_running(simulation: SimulatedCluster) -> None:
    """Start the migration of vm1 in a process that is killed."""

    def killed(task: TaskId) -> TaskStatus:
        raise KilledError(task)

    simulation.simulated_platform.status = killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        simulation.execute(LONG_STEP)
    del simulation.simulated_platform.status
