"""Tasks on libvirt's driver test:///, which runs a guest and cannot migrate it."""

from __future__ import annotations

import pytest

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import GuestId, Migration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.task import Task
from opendrs.ports import TaskState, TaskStatus

pytest.importorskip("libvirt")

H1, H2 = NodeId("h1"), NodeId("h2")
MOVE = Migration(GuestId("test"), H1, H2)


@pytest.fixture
def platform() -> LibvirtPlatform:
    nodes = {"h1": "test:///default", "h2": "qemu:///system?socket=/nowhere"}
    peers = {"h2": "qemu+tcp://h2/system"}
    return LibvirtPlatform("lab", LibvirtSettings(nodes=nodes, migration_uris=peers))


def ended(platform: LibvirtPlatform, task: Task) -> TaskStatus:
    while (status := platform.status(task.id)).state is TaskState.RUNNING:
        pass
    return status


def test_a_host_that_cannot_migrate_says_so_in_its_own_words(
    platform: LibvirtPlatform,
) -> None:
    task = Task.read(platform.start(MOVE))

    status = ended(platform, task)

    assert status.state is TaskState.FAILED
    assert "not supported" in status.detail
    assert status.detail.endswith("; it runs on at h1")


def test_finds_the_task_that_it_would_start(platform: LibvirtPlatform) -> None:
    found = platform.find(MOVE)

    assert found == platform.start(MOVE)


def test_finds_a_guest_by_its_name_and_its_node(platform: LibvirtPlatform) -> None:
    plain = Task.read(platform.find(MOVE))
    apart = Task.read(platform.find(Migration(GuestId("test@h1"), H1, H2)))

    assert apart.uuid == plain.uuid
    assert apart.guest == "test@h1"


def test_a_guest_may_be_on_a_host_that_does_not_answer(
    platform: LibvirtPlatform,
) -> None:
    with pytest.raises(PlatformUnavailableError, match="h2 cannot be reached"):
        platform.find(Migration(GuestId("nobody"), H1, H2))


def test_does_not_start_what_is_not_there(platform: LibvirtPlatform) -> None:
    with pytest.raises(PlatformError, match="nobody is not on h1"):
        platform.start(Migration(GuestId("nobody"), H1, H2))


def test_aborting_what_is_not_under_way_changes_nothing(
    platform: LibvirtPlatform,
) -> None:
    task = platform.find(MOVE)

    platform.abort(task)

    assert platform.status(task).state is TaskState.FAILED


def test_a_guest_that_was_on_neither_host_is_lost(platform: LibvirtPlatform) -> None:
    task = Task(GuestId("nobody"), "", H1, H2)

    assert platform.status(task.id) == TaskStatus(
        TaskState.LOST, "nobody is neither on h1 nor on h2"
    )
