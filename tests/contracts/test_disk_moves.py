"""Contract of the platforms that move disks between storages.

Each platform provides the same setup: a guest with a disk on a storage, another one
whose disk takes a chosen time, and a second storage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import PlatformError
from opendrs.model import (
    GIB,
    Disk,
    DiskMove,
    GuestId,
    NodeId,
    Snapshot,
    Storage,
    disk_named,
)
from opendrs.platforms.command import CommandPlatform, CommandPlatformSettings
from opendrs.platforms.proxmox import ProxmoxPlatform
from opendrs.ports import Platform, TaskId, TaskState
from opendrs.power import PoweredPlatform
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from support import command_cluster
from support.builders import cluster
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

NODE = NodeId("h1")
QUICK, SLOW = GuestId("quick"), GuestId("slow")
SOURCE, TARGET = "one", "two"


@dataclass(frozen=True, kw_only=True)
class DiskMoveSetup:
    """Two guests on h1, each with a disk on the storage one; h1 also has two.

    Attributes:
        platform: The platform under test.
        again: The same cluster, as another process gets to know it.
        wait: Lets so many seconds pass.
        hurry: Lets the move of the disk of the slow guest come to its end.
    """

    platform: Platform
    again: Callable[[], Platform]
    wait: Callable[[float], object]
    hurry: Callable[[], object]

    def disk_of(self, guest: GuestId) -> Disk:
        (disk,) = self.platform.observe().guests[guest].disks or ()
        return disk

    def move(self, guest: GuestId, target: str = TARGET) -> DiskMove:
        """Return the move of the disk of *guest* from where it is."""
        disk = self.disk_of(guest)
        assert disk.name is not None
        return DiskMove(guest, NODE, disk.name, disk.storage, target)

    def wait_until_ended(self, task: TaskId) -> TaskState:
        for _ in range(400):
            state = self.platform.status(task).state
            if state is not TaskState.RUNNING:
                return state
            self.wait(0.1)
        pytest.fail(f"{task} does not end")


def origin() -> Snapshot:
    plain = cluster(
        nodes={"h1": 0.5, "h2": 0.1},
        guests={"quick": ("h1", 0.01), "slow": ("h1", 0.4)},
    )
    storages = tuple(
        Storage(id=name, shared=True, capacity=10_000 * GIB, free=5_000 * GIB)
        for name in (SOURCE, TARGET)
    )
    sizes = {QUICK: 1 * GIB, SLOW: 1_000 * GIB}
    return replace(
        plain,
        nodes={n: replace(node, storages=storages) for n, node in plain.nodes.items()},
        guests={
            n: replace(g, disks=(Disk(storage=SOURCE, size=sizes[n], name="scsi0"),))
            for n, g in plain.guests.items()
        },
    )


def simulated(_: pytest.FixtureRequest) -> DiskMoveSetup:
    return _simulated(lambda platform: platform)


def powered(_: pytest.FixtureRequest) -> DiskMoveSetup:
    return _simulated(lambda platform: PoweredPlatform(platform, lambda _: None))


def _simulated(around: Callable[[Platform], Platform]) -> DiskMoveSetup:
    clock = SimulatedClock()
    world = SimulatedPlatform(origin(), clock)
    return DiskMoveSetup(
        platform=around(world),
        again=lambda: around(world),  # its world is in this process alone
        wait=clock.sleep,
        hurry=lambda: clock.sleep(6_000),
    )


def command(request: pytest.FixtureRequest) -> DiskMoveSetup:
    path: Path = request.getfixturevalue("tmp_path") / "state.json"
    command_cluster.create(path, snapshot_document(origin()), {"slow": 600.0})
    program = command_cluster.command(path)
    settings = CommandPlatformSettings(
        snapshot_command=(*program, "snapshot"), action_command=program
    )

    def hurry() -> None:
        def end(state: command_cluster.State) -> None:
            for task in state["tasks"].values():
                task["ends_at"] = 0

        command_cluster.change(path, end)

    return DiskMoveSetup(
        platform=CommandPlatform("pool", settings),
        again=lambda: CommandPlatform("pool", settings),
        wait=Event().wait,
        hurry=hurry,
    )


def proxmox(request: pytest.FixtureRequest) -> DiskMoveSetup:
    return _proxmox(request, "qemu", "running", None)


def proxmox_ha(request: pytest.FixtureRequest) -> DiskMoveSetup:
    return _proxmox(request, "qemu", "running", "started")


def proxmox_container(request: pytest.FixtureRequest) -> DiskMoveSetup:
    return _proxmox(request, "lxc", "stopped", None)


def _proxmox(
    request: pytest.FixtureRequest, kind: str, status: str, ha: str | None
) -> DiskMoveSetup:
    if not SCHEMA.exists():
        pytest.skip(f"no {SCHEMA}; set OPENDRS_SHARED")
    pve = small_cluster()
    pve.storages |= {SOURCE: True, TARGET: True}
    for vmid, name, duration in ((100, QUICK, 1.0), (101, SLOW, 10_000.0)):
        guest = PveGuest(vmid, name, NODE, kind=kind, status=status, ha=ha)
        guest.disks, guest.duration = (f"{SOURCE}:vm-{vmid}-disk-0",), duration
        pve.add(guest)
    running = request.getfixturevalue("run_pve")(pve)
    running.double.access.roles["Balancer"] |= {
        "Datastore.Audit",
        "Datastore.AllocateSpace",
        "VM.Config.Disk",
    }

    def platform() -> Platform:
        return ProxmoxPlatform("double", running.settings())

    return DiskMoveSetup(
        platform=platform(),
        again=platform,
        wait=lambda seconds: pve.advance(10 * seconds),
        hurry=lambda: pve.finish(101),
    )


@pytest.fixture
def run_pve(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[PveCluster], RunningDouble]]:
    """Return a function that serves a cluster until the end of the test."""
    monkeypatch.setenv(TOKEN_VARIABLE, LOGIN)
    with ExitStack() as stack:
        yield lambda cluster: stack.enter_context(run_double(cluster, Certificate()))


@pytest.fixture(
    params=[
        simulated,
        powered,
        command,
        pytest.param(proxmox, marks=pytest.mark.shared),
        pytest.param(proxmox_ha, marks=pytest.mark.shared),
        pytest.param(proxmox_container, marks=pytest.mark.shared),
    ]
)
def setup(request: pytest.FixtureRequest) -> DiskMoveSetup:
    setting: Callable[[pytest.FixtureRequest], DiskMoveSetup] = request.param
    return setting(request)


def test_moved_disk_is_on_the_target_and_the_guest_where_it_was(
    setup: DiskMoveSetup,
) -> None:
    before = setup.platform.observe().guests[QUICK]

    task = setup.platform.start(setup.move(QUICK))

    assert setup.wait_until_ended(task) is TaskState.DONE
    after = setup.platform.observe().guests[QUICK]
    (disk,) = after.disks or ()
    assert (disk.storage, disk.moving_to) == (TARGET, None)
    assert (after.node, after.state) == (before.node, before.state)
    assert after.lock is None


def test_disk_that_is_being_moved_is_on_its_source(setup: DiskMoveSetup) -> None:
    task = setup.platform.start(setup.move(SLOW))

    disk, status = setup.disk_of(SLOW), setup.platform.status(task)
    setup.hurry()

    assert (disk.storage, disk.moving_to) == (SOURCE, TARGET)
    assert status.state is TaskState.RUNNING
    assert setup.wait_until_ended(task) is TaskState.DONE


def test_another_process_knows_that_the_guest_must_wait(setup: DiskMoveSetup) -> None:
    setup.platform.start(setup.move(SLOW))

    guest = setup.again().observe().guests[SLOW]

    assert guest.lock is not None or guest.moving_disk is not None


def test_task_is_found_again_by_its_move(setup: DiskMoveSetup) -> None:
    move = setup.move(SLOW)
    before = setup.platform.find(move)
    unstarted = setup.platform.status(before).state
    task = setup.platform.start(move)
    during = setup.again().find(move)
    setup.hurry()
    setup.wait_until_ended(task)
    after = setup.again().find(move)

    assert unstarted in (TaskState.LOST, TaskState.FAILED)
    assert task == during == after


def test_find_moves_nothing(setup: DiskMoveSetup) -> None:
    setup.platform.find(setup.move(QUICK))
    setup.wait(1)

    assert setup.disk_of(QUICK).storage == SOURCE
    assert setup.disk_of(QUICK).moving_to is None


def test_another_process_can_follow_a_move_to_its_end(setup: DiskMoveSetup) -> None:
    task = setup.platform.start(setup.move(SLOW))
    follower = setup.again()
    going = follower.status(task).state
    setup.hurry()
    setup.wait_until_ended(task)

    assert going is TaskState.RUNNING
    assert follower.status(task).state is TaskState.DONE


def test_aborted_move_leaves_the_disk_where_it_was(setup: DiskMoveSetup) -> None:
    task = setup.platform.start(setup.move(SLOW))
    setup.wait(0.1)

    setup.again().abort(task)

    assert setup.wait_until_ended(task) is TaskState.FAILED
    assert setup.platform.status(task).detail
    assert setup.disk_of(SLOW).storage == SOURCE
    assert setup.disk_of(SLOW).moving_to is None


def test_abort_of_a_done_move_changes_nothing(setup: DiskMoveSetup) -> None:
    task = setup.platform.start(setup.move(QUICK))
    setup.wait_until_ended(task)

    setup.platform.abort(task)

    assert setup.platform.status(task).state is TaskState.DONE
    assert setup.disk_of(QUICK).storage == TARGET


def test_second_move_of_a_moving_disk_fails(setup: DiskMoveSetup) -> None:
    move = setup.move(SLOW)
    task = setup.platform.start(move)

    with pytest.raises(PlatformError):
        setup.again().start(move)
    setup.hurry()

    assert setup.wait_until_ended(task) is TaskState.DONE


def test_move_from_a_storage_that_the_disk_has_left_fails(setup: DiskMoveSetup) -> None:
    move = setup.move(QUICK)
    setup.wait_until_ended(setup.platform.start(move))

    with pytest.raises(PlatformError):
        setup.again().start(move)

    assert setup.disk_of(QUICK).storage == TARGET


@pytest.mark.parametrize(
    "changes",
    [
        {"guest": GuestId("nobody")},
        {"disk": "scsi9"},
        {"target_storage": "nowhere"},
        {"target_storage": SOURCE},
        {"node": NodeId("h2")},
    ],
    ids=str,
)
def test_move_that_is_not_possible_fails(
    setup: DiskMoveSetup, changes: dict[str, str]
) -> None:
    move = replace(setup.move(QUICK), **changes)  # type: ignore[arg-type]

    with pytest.raises(PlatformError):
        setup.platform.start(move)
    setup.wait(1)

    guest = setup.platform.observe().guests[QUICK]
    (disk,) = guest.disks or ()
    assert disk_named(guest, disk.name or "") == disk
    assert (disk.storage, disk.moving_to) == (SOURCE, None)
