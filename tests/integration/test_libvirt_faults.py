"""Failures of real migrations, and their messages.

After each failure the guest runs on one host, without an interruption, and the
message gives the cause in plain words.
"""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby

import pytest

from integration.libvirt_lab import MIB, LibvirtLab, eventually
from integration.test_libvirt_migration import MOVE, VM, wait_for_end
from opendrs.errors import PlatformError
from opendrs.model import LiveMigration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform
from opendrs.ports import TaskId, TaskState, TaskStatus

pytestmark = [pytest.mark.shared, pytest.mark.lab]


def wait_until_copying(platform: LibvirtPlatform) -> TaskId:
    """Start the move of a slow guest and return once memory is being copied."""
    task = platform.start(MOVE)

    def copying() -> bool:
        progress = platform.status(task).progress
        return progress is not None and progress.remaining is not None

    eventually(copying, 15, "memory is copied")
    return task


def test_failed_target_leaves_the_guest_on_its_source(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB)
    task = wait_until_copying(platform)

    lab.kill_host(2)
    status = wait_for_end(platform, task)

    assert status.state is TaskState.FAILED
    assert "the connection to h2 was lost, or h2 failed" in status.detail
    assert "it continues to run on h1" in status.detail
    lab.require_alive("vm")


def test_a_cut_link_ends_the_migration_and_not_the_guest(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB)
    task = wait_until_copying(platform)

    lab.cut_link(2)
    # libvirt gives a silent peer six signs of life, five seconds apart.
    status = wait_for_end(platform, task, within=60)

    assert status.state is TaskState.FAILED
    assert "the connection to h2 was lost, or h2 failed" in status.detail
    assert "it continues to run on h1" in status.detail
    lab.require_alive("vm")


def test_unreachable_target_fails_at_once(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    dead = {"h2": "qemu+tcp://127.0.0.1:1/system"}
    platform = lab.platform(migration_uris=dead)

    status = wait_for_end(platform, platform.start(MOVE))

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("h2 is unreachable from h1")
    assert lab.running("vm") == (1,)


def test_namesake_on_the_target_fails_the_migration(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    platform = lab.platform()
    lab.vm(2, "vm")

    status = wait_for_end(platform, platform.start(MOVE))

    assert status.state is TaskState.FAILED
    assert "another guest named vm is on h2" in status.detail
    assert "it continues to run on h1" in status.detail
    assert lab.running("vm") == (1, 2)


def aborted_without_convergence(platform: LibvirtPlatform) -> TaskStatus:
    """Return the status of a migration that is aborted once it does not converge."""
    task = wait_until_copying(platform)
    eventually(
        lambda: "does not converge" in platform.status(task).detail,
        120,
        "it is reported",
    )
    platform.abort(task)
    return wait_for_end(platform, task)


def test_non_converging_migration_is_reported_and_aborted(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    # So little that the guest exceeds it also while other tests use the machine.
    platform = lab.platform(bandwidth=MIB, auto_converge=False)
    for _ in range(5):
        status = aborted_without_convergence(platform)
        assert status.state is TaskState.FAILED
        assert "aborted" in status.detail
        assert "it continues to run on h1" in status.detail
        # The last measurement counts: other tests may just have slowed the guest down.
        if "does not converge" in status.detail:
            break
    else:
        pytest.fail(status.detail)

    assert lab.locate("vm") == (1,)
    lab.require_alive("vm")


PROCESS = """
import sys
from threading import Event
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings

settings = LibvirtSettings(
    nodes={"h1": sys.argv[1], "h2": sys.argv[2]},
    migration_uris={"h2": sys.argv[3]},
    bandwidth=1 << 20,
)
platform = LibvirtPlatform("lab", settings)
move = LiveMigration(GuestId("vm"), NodeId("h1"), NodeId("h2"))
print(platform.start(move), flush=True)
Event().wait()
"""


def start_and_kill(lab: LibvirtLab) -> TaskId:
    """Start the move in a process, kill that, and return the task it named."""
    uris = [lab.uri(1), lab.uri(2), lab.peer_uri(2)]
    command = [sys.executable, "-c", PROCESS, *uris]
    with subprocess.Popen(  # noqa: S603 -- this very Python
        command, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        task = TaskId(process.stdout.readline().strip())
        eventually(lambda: lab.locate("vm") == (1, 2), 15, "it is on both hosts")
        process.kill()
    return task


def test_a_migration_outlives_the_process_that_started_it(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")

    task = start_and_kill(lab)
    fresh = lab.platform()
    found, going = fresh.find(MOVE), fresh.status(task)
    seen = fresh.observe().guests[VM]
    with pytest.raises(PlatformError, match="another migration is in progress"):
        fresh.start(MOVE)
    lab.fill_memory_faster(1, "vm")
    status = wait_for_end(fresh, task)

    assert found == task
    assert going.state is TaskState.RUNNING
    assert going.progress is not None
    assert (seen.node, seen.migrating_to) == ("h1", "h2")
    assert status.state is TaskState.DONE
    assert lab.locate("vm") == (2,)
    lab.require_alive("vm")


def test_another_process_can_abort_a_migration(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")

    task = start_and_kill(lab)
    fresh = lab.platform()
    fresh.abort(task)
    status = wait_for_end(fresh, task)

    assert status.state is TaskState.FAILED
    assert status.detail.startswith("no migration in progress")
    assert "it continues to run on h1" in status.detail
    assert lab.locate("vm") == (1,)
    lab.require_alive("vm")


def test_stale_start_migrates_nothing(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    platform, stale = lab.platform(), lab.platform()
    wait_for_end(platform, platform.start(MOVE))

    with pytest.raises(PlatformError, match="vm: not on h1"):
        stale.start(LiveMigration(VM, NodeId("h1"), NodeId("h3")))

    assert lab.locate("vm") == (2,)


def test_two_starts_at_once_leave_one_guest(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    one, other = lab.platform(), lab.platform()
    elsewhere = LiveMigration(VM, NodeId("h1"), NodeId("h3"))
    tasks = [(one, one.start(MOVE))]
    try:
        tasks.append((other, other.start(elsewhere)))
    except PlatformError as error:
        assert "another migration is in progress" in str(error)  # noqa: PT017

    states = [wait_for_end(platform, task).state for platform, task in tasks]

    assert states.count(TaskState.DONE) == 1
    assert len(lab.locate("vm")) == 1
    lab.require_alive("vm")


def test_guest_killed_during_migration_is_lost(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB)
    task = wait_until_copying(platform)

    lab.virsh(1, "destroy", "vm")
    status = wait_for_end(platform, task)

    assert status.state is TaskState.LOST
    assert "vm is neither on h1 nor on h2" in status.detail


def test_migrating_guest_is_always_observed(lab: LibvirtLab) -> None:
    lab.vm(1, "vm", dirty=50)
    platform = lab.platform(sample=0.1)
    places: list[NodeId] = []
    for source, target in (("h1", "h2"), ("h2", "h3"), ("h3", "h1")):
        task = platform.start(LiveMigration(VM, NodeId(source), NodeId(target)))
        while platform.status(task).state is TaskState.RUNNING:
            guests = platform.observe().guests
            assert set(guests) == {VM}
            places.append(guests[VM].node)

    visited = [place for place, _ in groupby(places)]
    assert visited == ["h1", "h2", "h3", "h1"][: len(visited)]
    assert len(visited) > 2
