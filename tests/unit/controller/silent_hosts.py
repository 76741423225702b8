"""A simulated cluster whose hosts stop answering while a guest is being migrated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from builders import cluster
from opendrs.model import (
    GIB,
    GuestId,
    NodeId,
    Rule,
    Snapshot,
)
from opendrs.ports import Outcome, TaskId, TaskStatus
from stage import HASTY, Stage, migration, outcomes, step

A, B, C, D = (NodeId(name) for name in "abcd")
VM1 = GuestId("vm1")
LOST = Outcome.LOST
ONE = step("1", migration("vm1", "a", "b"))  # 40 GiB, which takes minutes
FIRST = step("0", migration("small", "c", "d"))  # 1 GiB, which takes seconds
SOON = 3.0  # seconds until a host stops answering


def crowd(*rules: Rule, on_b: float = 0.1) -> Snapshot:
    """Return four nodes of 100 GiB; what b uses is its own."""
    guests = {
        "vm1": ("a", 0.4),
        "vm2": ("c", 0.4),
        "small": ("c", 0.01),
    }
    return cluster({"a": 0.4, "b": on_b, "c": 0.41, "d": 0.0}, guests, rules)


def stage_of(origin: Snapshot, **limits: Any) -> Stage:  # noqa: ANN401
    return Stage(origin, limits=replace(HASTY, **limits), bandwidth=GIB / 4)


def silent(stage: Stage, name: NodeId, until: float | None = None) -> None:
    """Let *name* stop answering soon, and answer again after so many seconds."""
    stage.world.later(SOON, lambda: stage.world.isolate(name))
    if until is not None:
        stage.world.later(until, lambda: stage.world.rejoin(name))


def watched(stage: Stage, of: Callable[[Snapshot], float]) -> list[float]:
    """Return a list to which every call adds a number of the true cluster."""
    found: list[float] = []

    @contextmanager
    def tap(_: str) -> Iterator[None]:
        yield
        found.append(of(stage.world.truth()))

    stage.tap(tap)
    return found


def moves_of(place: NodeId) -> Callable[[Snapshot], float]:
    """Return what counts the guests that are being migrated from or to *place*."""
    return lambda seen: sum(
        place in one.locations
        for one in seen.guests.values()
        if one.migrating_to is not None
    )


def committed_on(place: NodeId) -> Callable[[Snapshot], float]:
    """Return what adds up the memory that the guests of *place* may come to use."""
    return lambda seen: sum(
        one.limit.memory / GIB
        for one in seen.guests.values()
        if one.limit is not None and place in one.locations
    )


def all_moves(seen: Snapshot) -> float:
    """Return how many guests are being migrated."""
    return sum(one.migrating_to is not None for one in seen.guests.values())


def lost(host: NodeId, origin: Snapshot | None = None, **limits: Any) -> Stage:  # noqa: ANN401
    """Return a stage on which the migration of vm1 was lost, and runs on.

    Args:
        host: The only host that does not answer any more.
        origin: The cluster in the beginning.
        limits: What the operator allows.
    """
    stage = stage_of(origin or crowd(), patience=60, **limits)
    stage.world.later(SOON, lambda: stage.world.isolate(A, B))
    assert outcomes(stage.play(ONE)) == [LOST]
    stage.world.rejoin(*{A, B} - {host})
    assert stage.world.truth().guests[VM1].migrating_to == B
    return stage


class KilledError(BaseException):
    """The process is gone."""


def killed_while_running(stage: Stage) -> None:
    """Start the migration of vm1 in a process that is killed then."""

    def killed(task: TaskId) -> TaskStatus:
        raise KilledError(task)

    stage.world.status = killed  # type: ignore[method-assign]
    with pytest.raises(KilledError):
        stage.play(ONE)
    del stage.world.status
