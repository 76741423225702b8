"""Execution of moves of disks on a simulated cluster, and what the record says."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller.history import last_migrations
from opendrs.controller.in_flight import load_open_migrations
from opendrs.controller.protection import CircuitBreaker
from opendrs.controller.step_groups import group_steps
from opendrs.controller.step_serialization import action_document, document_path
from opendrs.guard import RejectionReason
from opendrs.model import (
    DEFAULT_PROTECTION,
    GIB,
    Affinity,
    Disk,
    DiskMove,
    GuestId,
    Limits,
    NodeId,
    Snapshot,
    Storage,
    StorageGroup,
)
from opendrs.ports import Outcome
from support.builders import NOON, cluster, guest_ids
from support.simulated_cluster import SimulatedCluster, migration, outcomes, step

GROUP = StorageGroup(name="all", storages=("one", "two"), threshold=1.0)
LIMITS = Limits(storage_groups=(GROUP,), migration_timeout=300)
A = NodeId("a")


def move(guest: str) -> DiskMove:
    return DiskMove(GuestId(guest), A, "scsi0", "one", "two")


def lab(free: int = 100, limits: Limits = LIMITS) -> SimulatedCluster:
    """Return a cluster that copies 1 GiB per second; three guests have 40 GiB each."""
    plain = cluster({"a": 0.3, "b": 0.1}, dict.fromkeys(("x", "y", "z"), ("a", 0.05)))
    disk = Disk(storage="one", size=40 * GIB, name="scsi0")
    storages = (
        Storage(id="one", shared=False, capacity=200 * GIB, free=0),
        Storage(id="two", shared=False, capacity=200 * GIB, free=free * GIB),
    )
    origin = replace(
        plain,
        nodes={n: replace(node, storages=storages) for n, node in plain.nodes.items()},
        guests={n: replace(g, disks=(disk,)) for n, g in plain.guests.items()},
    )
    return SimulatedCluster(origin, limits)


def storage_of(snapshot: Snapshot, guest: str) -> list[tuple[str, str | None]]:
    disks = snapshot.guests[GuestId(guest)].disks or ()
    return [(disk.storage, disk.moving_to) for disk in disks]


def test_disk_is_on_its_target_after_the_copy() -> None:
    cluster_ = lab()

    report = cluster_.execute(step("s1", move("x")))

    assert outcomes(report) == [Outcome.DONE]
    assert cluster_.elapsed >= 40
    snapshot = cluster_.platform.observe()
    assert storage_of(snapshot, "x") == [("two", None)]
    assert [each.free for each in snapshot.nodes[A].storages or ()] == [
        40 * GIB,
        60 * GIB,
    ]
    assert snapshot.guests[GuestId("x")].node == A


def test_moves_share_the_space_of_the_target() -> None:
    # 100 GiB are free for three disks of 40 GiB.
    cluster_ = lab()

    report = cluster_.execute(*(step(name, move(name)) for name in ("x", "y", "z")))

    assert outcomes(report) == [Outcome.DONE, Outcome.DONE, Outcome.REJECTED]
    assert cluster_.observer.rejections == [("z", RejectionReason.INSUFFICIENT_STORAGE)]


def test_no_more_run_than_migrations_may() -> None:
    cluster_ = lab(free=200, limits=replace(LIMITS, max_migrations_per_node=1))

    report = cluster_.execute(*(step(name, move(name)) for name in ("x", "y", "z")))

    assert outcomes(report) == [Outcome.DONE] * 3
    assert cluster_.elapsed >= 120


def test_guest_with_a_moving_disk_is_not_migrated() -> None:
    cluster_ = lab()
    cluster_.platform.start(move("x"))

    report = cluster_.execute(step("s1", migration("x", "a", "b")))

    assert outcomes(report) == [Outcome.REJECTED]
    assert cluster_.observer.rejections == [("s1", RejectionReason.STALE_PLAN)]


def test_moves_of_an_affinity_start_one_by_one() -> None:
    steps = (step("x", move("x")), step("y", move("y")))
    together = Affinity(guests=guest_ids("x", "y"))
    assert group_steps(steps, [together]) == ((steps[0],), (steps[1],))


def test_move_that_takes_too_long_is_aborted() -> None:
    cluster_ = lab(limits=replace(LIMITS, migration_timeout=20))

    report = cluster_.execute(step("s1", move("x")))

    assert outcomes(report) == [Outcome.ABORTED]
    assert "storage of scsi0: one" in report.records[0].detail
    assert storage_of(cluster_.platform.observe(), "x") == [("one", None)]


@pytest.mark.parametrize("elapsed", [0.0, 5.0, 60.0])
def test_move_of_a_killed_controller_is_followed(
    elapsed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The platform has 1 GiB/s for 40 GiB: after 60 s the copy has ended.
    cluster_ = lab()
    killed = step("s1", move("x"))

    class Killed(BaseException):
        pass

    def kill(_: float) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(cluster_.clock, "sleep", kill)
        with pytest.raises(Killed):
            cluster_.execute(killed)
    cluster_.clock.sleep(elapsed)

    (record,) = cluster_.recover()

    assert record.outcome is Outcome.DONE
    assert cluster_.simulated_platform.starts[killed.action] == 1
    assert storage_of(cluster_.platform.observe(), "x") == [("two", None)]
    assert load_open_migrations(cluster_.store) == ()


def test_move_is_no_migration_for_cooldown_and_breaker() -> None:
    cluster_ = lab(limits=replace(LIMITS, cooldown=3600))
    cluster_.execute(step("s1", move("x")))
    cluster_.clock.sleep(120)
    now = cluster_.clock.now()

    breaker = CircuitBreaker(
        cluster_.store,
        replace(DEFAULT_PROTECTION, max_failures=1),
        cluster_.limits,
        "simulation",
    )

    assert now > NOON + timedelta(seconds=120)
    assert last_migrations(cluster_.store, cluster_.limits, now) == {}
    # The guest is on its source still: a migration would count as failed.
    assert breaker.update(now, cluster_.platform.observe()) is None


def test_document_names_node_disk_and_storages() -> None:
    document = action_document(move("x"))

    assert document == {
        "kind": "disk-move",
        "guest": "x",
        "source": "a",
        "target": "a",
        "disk": {"name": "scsi0", "source": "one", "target": "two"},
    }
    assert document_path(document) == ("x (scsi0)", "one", "two")
