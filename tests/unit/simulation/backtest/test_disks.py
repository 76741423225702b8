"""Disks of a backtest: recorded disks on simulated storages."""

from __future__ import annotations

from dataclasses import replace

from opendrs.model import (
    GIB,
    Disk,
    DiskMove,
    GuestId,
    Limits,
    LiveMigration,
    NodeId,
    Snapshot,
    StorageGroup,
)
from opendrs.policies.balance import Balance
from opendrs.policies.optimize import Repair
from opendrs.ports import TaskState
from opendrs.simulation.backtest import (
    BacktestRow,
    BacktestSettings,
    LoadRecord,
    run_backtest,
)
from opendrs.simulation.backtest.platform import RecordedPlatform
from support.recorded_load import (
    recorded_snapshots,
    two_storages,
    with_dirty_rate,
    with_full_storage,
)

A, B, V = NodeId("a"), NodeId("b"), GuestId("v")
MOVE = DiskMove(V, A, "scsi0", "one", "two")
GROUP = StorageGroup(name="fast", storages=("one", "two"), threshold=0.8)
LIMITS = Limits(bandwidth=0.1 * GIB, storage_groups=(GROUP,))


def recorded(*, shared: bool = False, size: int | None = 20 * GIB) -> list[Snapshot]:
    """Return a record of one guest, with its disk on a storage that fills."""
    snapshots = recorded_snapshots({"v": ("a", [0.3] * 3)})
    return with_full_storage(with_dirty_rate(snapshots, 0.0), shared=shared, size=size)


def platform_of(snapshots: list[Snapshot]) -> RecordedPlatform:
    return RecordedPlatform(LoadRecord(snapshots, "x"), seed=1, bandwidth=0.1 * GIB)


def free_of(snapshot: Snapshot, node: NodeId) -> list[float | None]:
    """Return the free GiB of the storages of *node*."""
    found = snapshot.nodes[node].storages or ()
    return [None if each.free is None else each.free / GIB for each in found]


def storage_of(snapshot: Snapshot) -> str:
    (disk,) = snapshot.guests[V].disks or ()
    return disk.storage


def test_moved_disk_stays_and_the_space_follows_it() -> None:
    platform = platform_of(recorded())
    task = platform.start(MOVE)

    platform.clock.sleep(201.0)  # 20 GiB at 0.1 GiB/s take 200 s
    done, moved = platform.status(task), platform.observe()
    platform.clock.sleep(400.0)
    later = platform.observe()

    assert done.state is TaskState.DONE
    assert (storage_of(moved), free_of(moved, A)) == ("two", [30, 40])
    # One GiB more is in use on the first storage in the second snapshot.
    assert (storage_of(later), free_of(later, A)) == ("two", [29, 40])
    assert free_of(later, B) == [9, 60]


def test_space_of_shared_storages_follows_on_all_nodes() -> None:
    platform = platform_of(recorded(shared=True))
    platform.start(MOVE)

    platform.clock.sleep(601.0)

    later = platform.observe()
    assert free_of(later, A) == free_of(later, B) == [29, 40]


def test_move_of_a_disk_continues_over_snapshots() -> None:
    platform = platform_of(recorded())
    platform.clock.sleep(500.0)
    task = platform.start(MOVE)

    platform.clock.sleep(199.0)

    assert platform.status(task).state is TaskState.RUNNING
    (disk,) = platform.observe().guests[V].disks or ()
    assert (disk.storage, disk.moving_to) == ("one", "two")
    platform.clock.sleep(2.0)
    assert platform.status(task).state is TaskState.DONE
    assert storage_of(platform.observe()) == "two"


def test_move_of_a_disk_that_is_gone_fails() -> None:
    first, second, third = recorded()
    gone = replace(second, guests={V: replace(second.guests[V], disks=())})
    platform = platform_of([first, gone, third])
    platform.clock.sleep(500.0)
    task = platform.start(MOVE)

    platform.clock.sleep(200.0)

    assert platform.status(task).state is TaskState.FAILED


def test_space_of_a_disk_of_unknown_size_is_unknown() -> None:
    platform = platform_of(recorded(size=None))
    platform.start(MOVE)

    platform.clock.sleep(601.0)

    later = platform.observe()
    assert (storage_of(later), free_of(later, A)) == ("two", [None, None])
    assert free_of(later, B) == [9, 60]


def test_copied_disks_of_a_migrated_guest_occupy_its_node() -> None:
    space = two_storages(50, 60)
    roomy = [
        replace(each, nodes={**each.nodes, B: replace(each.nodes[B], storages=space)})
        for each in recorded()
    ]
    platform = platform_of(roomy)
    platform.start(LiveMigration(V, A, B))  # 30 GiB of memory and 20 GiB: 500 s

    platform.clock.sleep(601.0)

    later = platform.observe()
    assert later.guests[V].node == B
    assert (free_of(later, A), free_of(later, B)) == ([29, 60], [30, 60])


def test_recorded_moves_of_disks_are_counted_and_not_repeated() -> None:
    first, second, third = recorded()
    moving = Disk(storage="one", size=20 * GIB, name="scsi0", moving_to="two")
    moved = Disk(storage="two", size=20 * GIB, name="scsi0")
    snapshots = [
        first,
        replace(second, guests={V: replace(second.guests[V], disks=(moving,))}),
        replace(third, guests={V: replace(third.guests[V], disks=(moved,))}),
    ]
    platform = platform_of(snapshots)

    rows = rows_of(snapshots)

    assert (rows["recorded"].disk_moves, rows["recorded"].disk_gib) == (1, 20.0)
    assert rows["static"].disk_moves == 0
    platform.clock.sleep(1201.0)
    later = platform.observe()
    # The record has 8 and 60 GiB free after the move; here the disk is on the first.
    assert (storage_of(later), free_of(later, A)) == ("one", [0, 80])


def rows_of(snapshots: list[Snapshot]) -> dict[str, BacktestRow]:
    settings = BacktestSettings(
        policies={"balance": Balance(limits=LIMITS), "repair": Repair(limits=LIMITS)},
        limits=LIMITS,
    )
    return {row.name: row for row in run_backtest(LoadRecord(snapshots, "x"), settings)}


def test_policy_moves_disks_away_from_a_full_storage() -> None:
    even = recorded_snapshots({"v": ("a", [0.3] * 4), "w": ("b", [0.3] * 4)})

    rows = rows_of(with_full_storage(even))

    # 90 % of the first storage are in use, and after the move 70 % up to 73 %.
    balance = rows["balance"]
    assert (balance.migrations, balance.gib) == (0, 0.0)
    assert (balance.disk_moves, balance.disk_gib) == (1, 20.0)
    assert balance.reasons == {"balanced": 3, "relieves-storage": 1}
    assert (rows["repair"].disk_moves, rows["repair"].disk_gib) == (0, 0.0)
