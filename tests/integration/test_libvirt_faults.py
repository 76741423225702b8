"""What goes wrong with real migrations, and what is told of it.

After each: the guest runs on one host, has run all the time, and the operator
is told why in plain words.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby

import pytest

from integration.lab import MIB, Lab, eventually
from integration.test_libvirt_migration import MOVE, VM, ended
from opendrs.errors import PlatformError
from opendrs.model import Migration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform
from opendrs.ports import TaskId, TaskState

pytestmark = [pytest.mark.shared, pytest.mark.lab]


def under_way(platform: LibvirtPlatform) -> TaskId:
    """Start the move of a slow guest and return once memory is being copied."""
    task = platform.start(MOVE)

    def copying() -> bool:
        progress = platform.status(task).progress
        return progress is not None and progress.remaining is not None

    eventually(copying, 15, "memory is copied")
    return task


def test_a_target_that_dies_leaves_the_guest_on_its_source(lab: Lab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB)
    task = under_way(platform)

    lab.kill_host(2)
    status = ended(platform, task)

    assert status.state is TaskState.FAILED
    assert "the connection to h2 broke, or h2 failed" in status.detail
    assert "it runs on at h1" in status.detail
    lab.require_alive("vm")


def test_a_cut_link_ends_the_migration_and_not_the_guest(lab: Lab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB)
    task = under_way(platform)

    lab.cut_link(2)
    # libvirt gives a silent peer six signs of life, five seconds apart.
    status = ended(platform, task, within=60)

    assert status.state is TaskState.FAILED
    assert "the connection to h2 broke, or h2 failed" in status.detail
    assert "it runs on at h1" in status.detail
    lab.require_alive("vm")


def test_a_target_out_of_reach_is_told_at_once(lab: Lab) -> None:
    lab.vm(1, "vm")
    dead = {"h2": "qemu+tcp://127.0.0.1:1/system"}
    platform = lab.platform(migration_uris=dead)

    status = ended(platform, platform.start(MOVE))

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("h2 cannot be reached from h1")
    assert lab.running("vm") == (1,)


def test_a_guest_of_the_same_name_on_the_target_is_told(lab: Lab) -> None:
    lab.vm(1, "vm")
    platform = lab.platform()
    lab.vm(2, "vm")

    status = ended(platform, platform.start(MOVE))

    assert status.state is TaskState.FAILED
    assert "another guest called vm is on h2" in status.detail
    assert "it runs on at h1" in status.detail
    assert lab.running("vm") == (1, 2)


def test_copying_that_does_not_converge_is_told_and_can_be_given_up(lab: Lab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=4 * MIB, auto_converge=False)
    task = under_way(platform)
    eventually(
        lambda: "does not converge" in platform.status(task).detail, 40, "it is told"
    )

    platform.abort(task)
    status = ended(platform, task)

    assert status.state is TaskState.FAILED
    assert "it was given up" in status.detail
    assert "does not converge" in status.detail
    assert "it runs on at h1" in status.detail
    assert lab.where("vm") == (1,)
    lab.require_alive("vm")


PROCESS = """
import sys
from threading import Event
from opendrs.model import GuestId, Migration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings

settings = LibvirtSettings(
    nodes={"h1": sys.argv[1], "h2": sys.argv[2]},
    migration_uris={"h2": sys.argv[3]},
    bandwidth=1 << 20,
)
platform = LibvirtPlatform("lab", settings)
print(platform.start(Migration(GuestId("vm"), NodeId("h1"), NodeId("h2"))), flush=True)
Event().wait()
"""


def killed_in_the_middle(lab: Lab) -> TaskId:
    """Start the move in a process, kill that, and return the task it named."""
    uris = [lab.uri(1), lab.uri(2), lab.peer_uri(2)]
    command = [sys.executable, "-c", PROCESS, *uris]
    with subprocess.Popen(  # noqa: S603 -- this very Python
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        task = TaskId(process.stdout.readline().strip())
        eventually(lambda: lab.where("vm") == (1, 2), 15, "it is on both hosts")
        process.kill()
    return task


def test_a_migration_outlives_the_process_that_started_it(lab: Lab) -> None:
    lab.slow_vm(1, "vm")

    task = killed_in_the_middle(lab)
    fresh = lab.platform()
    found, going = fresh.find(MOVE), fresh.status(task)
    seen = fresh.observe().guests[VM]
    with pytest.raises(PlatformError, match="is being migrated already"):
        fresh.start(MOVE)
    lab.hurry(1, "vm")
    status = ended(fresh, task)

    assert found == task
    assert going.state is TaskState.RUNNING
    assert going.progress is not None
    assert (seen.node, seen.migrating_to) == ("h1", "h2")
    assert status.state is TaskState.DONE
    assert lab.where("vm") == (2,)
    lab.require_alive("vm")


def test_another_process_can_give_a_migration_up(lab: Lab) -> None:
    lab.slow_vm(1, "vm")

    task = killed_in_the_middle(lab)
    fresh = lab.platform()
    fresh.abort(task)
    status = ended(fresh, task)

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("no migration is under way")
    assert "it runs on at h1" in status.detail
    assert lab.where("vm") == (1,)
    lab.require_alive("vm")


def test_a_stale_start_moves_nothing(lab: Lab) -> None:
    lab.vm(1, "vm")
    platform, stale = lab.platform(), lab.platform()
    ended(platform, platform.start(MOVE))

    with pytest.raises(PlatformError, match="vm is not on h1"):
        stale.start(Migration(VM, NodeId("h1"), NodeId("h3")))

    assert lab.where("vm") == (2,)


def test_two_starts_at_once_leave_one_guest(lab: Lab) -> None:
    lab.slow_vm(1, "vm")
    one, other = lab.platform(), lab.platform()
    elsewhere = Migration(VM, NodeId("h1"), NodeId("h3"))
    tasks = [(one, one.start(MOVE))]
    try:
        tasks.append((other, other.start(elsewhere)))
    except PlatformError as error:
        assert "is being migrated already" in str(error)  # noqa: PT017

    states = [ended(platform, task).state for platform, task in tasks]

    assert states.count(TaskState.DONE) == 1
    assert len(lab.where("vm")) == 1
    lab.require_alive("vm")


def test_a_guest_that_is_shot_on_the_way_is_lost(lab: Lab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB)
    task = under_way(platform)

    lab.virsh(1, "destroy", "vm")
    status = ended(platform, task)

    assert status.state is TaskState.LOST
    assert "vm is neither on h1 nor on h2" in status.detail


def test_a_guest_is_never_lost_from_sight_on_its_way(lab: Lab) -> None:
    lab.vm(1, "vm", dirty=50)
    platform = lab.platform(sample=0.1)
    places: list[NodeId] = []
    for source, target in (("h1", "h2"), ("h2", "h3"), ("h3", "h1")):
        task = platform.start(Migration(VM, NodeId(source), NodeId(target)))
        while platform.status(task).state is TaskState.RUNNING:
            guests = platform.observe().guests
            assert set(guests) == {VM}
            places.append(guests[VM].node)

    visited = [place for place, _ in groupby(places)]
    assert visited == ["h1", "h2", "h3", "h1"][: len(visited)]
    assert len(visited) > 2
