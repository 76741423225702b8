"""Tasks on libvirt's driver test:///, which runs a guest and cannot migrate it."""

from __future__ import annotations

import pytest

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import GuestId, LiveMigration, NodeId
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.libvirt.migration import LibvirtTask
from opendrs.ports import TaskState, TaskStatus

pytest.importorskip("libvirt")

H1, H2 = NodeId("h1"), NodeId("h2")
MOVE = LiveMigration(GuestId("test"), H1, H2)


@pytest.fixture
def platform() -> LibvirtPlatform:
    nodes = {"h1": "test:///default", "h2": "qemu:///system?socket=/nowhere"}
    peers = {"h2": "qemu+tcp://h2/system"}
    return LibvirtPlatform("lab", LibvirtSettings(nodes=nodes, migration_uris=peers))


def wait_for_end(platform: LibvirtPlatform, task: LibvirtTask) -> TaskStatus:
    while (status := platform.status(task.id)).state is TaskState.RUNNING:
        pass
    return status


def test_unsupported_migration_fails_with_the_message_of_libvirt(
    platform: LibvirtPlatform,
) -> None:
    task = LibvirtTask.parse(platform.start(MOVE))

    status = wait_for_end(platform, task)

    assert status.state is TaskState.FAILED
    assert "not supported" in status.detail
    assert status.detail.endswith("; it continues to run on h1")


def test_find_returns_the_task_of_start(platform: LibvirtPlatform) -> None:
    found = platform.find(MOVE)

    assert found == platform.start(MOVE)


def test_finds_a_guest_by_its_name_and_its_node(platform: LibvirtPlatform) -> None:
    plain = LibvirtTask.parse(platform.find(MOVE))
    apart = LibvirtTask.parse(platform.find(LiveMigration(GuestId("test@h1"), H1, H2)))

    assert apart.uuid == plain.uuid
    assert apart.guest == "test@h1"


def test_find_with_unreachable_host_fails(
    platform: LibvirtPlatform,
) -> None:
    with pytest.raises(PlatformUnavailableError, match="h2: unreachable"):
        platform.find(LiveMigration(GuestId("nobody"), H1, H2))


def test_start_of_missing_guest_fails(platform: LibvirtPlatform) -> None:
    with pytest.raises(PlatformError, match="nobody: not on h1"):
        platform.start(LiveMigration(GuestId("nobody"), H1, H2))


def test_abort_without_migration_changes_nothing(
    platform: LibvirtPlatform,
) -> None:
    task = platform.find(MOVE)

    platform.abort(task)

    assert platform.status(task).state is TaskState.FAILED


def test_a_guest_that_was_on_neither_host_is_lost(platform: LibvirtPlatform) -> None:
    task = LibvirtTask(GuestId("nobody"), "", H1, H2)

    assert platform.status(task.id) == TaskStatus(
        TaskState.LOST, "nobody is neither on h1 nor on h2"
    )
