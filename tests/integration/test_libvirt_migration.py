"""Live migrations between real hosts."""

from __future__ import annotations

import pytest

from integration.libvirt_lab import MIB, LibvirtLab, eventually
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform
from opendrs.ports import Progress, TaskId, TaskState, TaskStatus

pytestmark = [pytest.mark.shared, pytest.mark.lab]

VM = GuestId("vm")
MOVE = LiveMigration(VM, NodeId("h1"), NodeId("h2"))


def wait_for_end(
    platform: LibvirtPlatform, task: TaskId, within: float = 30
) -> TaskStatus:
    """Wait for the end of *task* and return how it ended."""

    def over() -> bool:
        return platform.status(task).state is not TaskState.RUNNING

    eventually(over, within, f"{task} ends")
    return platform.status(task)


def test_guest_runs_on_the_target_host(lab: LibvirtLab) -> None:
    lab.vm(1, "vm", duty=10, dirty=50)
    eventually(lambda: len(lab.heartbeats("vm")) > 1, 20, "vm has started")
    platform = lab.platform()

    status = wait_for_end(platform, platform.start(MOVE))

    assert status == TaskStatus(TaskState.DONE, "vm runs on h2")
    assert lab.locate("vm") == (2,)
    lab.require_alive("vm")


def test_persistent_guest_keeps_its_definition(lab: LibvirtLab) -> None:
    lab.vm(1, "vm")
    lab.virsh(1, "destroy", "vm")
    lab.define(1, lab.description("vm"))
    lab.virsh(1, "start", "vm")
    platform = lab.platform()

    status = wait_for_end(platform, platform.start(MOVE))

    assert status.state is TaskState.DONE
    assert lab.virsh(2, "list", "--name", "--persistent").split() == ["vm"]
    assert lab.virsh(1, "list", "--name", "--all").split() == []


def test_progress_is_reported_and_bandwidth_is_limited(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=8 * MIB, auto_converge=False)
    task = platform.start(MOVE)
    eventually(lambda: bool(platform.status(task).progress), 60, "it has begun")

    found: list[Progress] = []

    def measured() -> bool:  # of a machine that is not busy at this moment
        progress = platform.status(task).progress
        if progress is None or progress.dirty_rate is None:
            return False
        found.append(progress)
        is_at_limit = progress.bandwidth == pytest.approx(8 * MIB, rel=0.3)
        return is_at_limit and progress.dirty_rate > MIB

    eventually(measured, 60, "the memory was sent once, at the limit")
    progress = found[-1]
    lab.fill_memory_faster(1, "vm")

    assert progress.total is not None
    assert progress.remaining is not None
    assert 0 < progress.remaining < progress.total
    assert progress.total > 32 * MIB
    assert progress.dirty_rate is not None
    assert progress.dirty_rate > MIB
    assert progress.downtime is not None
    assert wait_for_end(platform, task).state is TaskState.DONE


def test_two_migrations_at_once_do_not_disturb_each_other(lab: LibvirtLab) -> None:
    lab.vm(1, "one", duty=10)
    lab.vm(2, "two", duty=10)
    platform = lab.platform()
    there = platform.start(LiveMigration(GuestId("one"), NodeId("h1"), NodeId("h2")))
    back = platform.start(LiveMigration(GuestId("two"), NodeId("h2"), NodeId("h1")))

    states = {wait_for_end(platform, task).state for task in (there, back)}

    assert states == {TaskState.DONE}
    assert (lab.locate("one"), lab.locate("two")) == ((2,), (1,))


def test_post_copy_completes_a_non_converging_migration(lab: LibvirtLab) -> None:
    lab.slow_vm(1, "vm")
    platform = lab.platform(bandwidth=MIB, post_copy=True, post_copy_after=3.0)

    status = wait_for_end(platform, platform.start(MOVE))

    assert status.state is TaskState.DONE
    lab.require_alive("vm")
