"""Requests of the platform, against a cloud with state."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from opendrs.errors import PlatformError
from opendrs.model import AntiAffinity, LiveMigration, NodeId, NodeState
from opendrs.platforms.openstack import OpenStackPlatform
from opendrs.platforms.openstack.settings import BlockMigration
from opendrs.ports import TaskState
from support.nova_double import (
    AFTER,
    CloudServer,
    NovaDouble,
    ignore,
    served,
)

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("openstack") is None,
    reason="openstacksdk is not installed",
)

HOSTS = ("h1", "h2", "h3")
Connect = Callable[..., OpenStackPlatform]


@pytest.fixture
def connect(tmp_path: Path) -> Iterator[Connect]:
    """Return a function that serves a cloud, and returns it as a platform."""
    with ExitStack() as stack:

        def create(cloud: NovaDouble, **changes: Any) -> OpenStackPlatform:  # noqa: ANN401
            settings = stack.enter_context(served(cloud, tmp_path)).settings
            return OpenStackPlatform("prod", replace(settings, **changes))

        yield create


def slow_server(name: str = "a") -> CloudServer:
    return CloudServer(name, "h1", duration=math.inf)


def move(server: CloudServer, target: str = "h2") -> LiveMigration:
    return LiveMigration(server.guest, NodeId("h1"), NodeId(target))


@pytest.mark.parametrize(
    ("setting", "sent"), [(BlockMigration.AUTO, "auto"), (BlockMigration.NEVER, False)]
)
def test_migration_copies_disks_as_the_settings_say(
    connect: Connect, setting: BlockMigration, sent: object
) -> None:
    server = slow_server()
    cloud = NovaDouble(HOSTS, server)

    connect(cloud, block_migration=setting).start(move(server))

    assert cloud.bodies == [{"host": "h2", "block_migration": sent}]


def test_migration_that_completes_during_find_is_found(connect: Connect) -> None:
    server = slow_server()
    cloud = NovaDouble(HOSTS, server)
    platform = connect(cloud)
    task = platform.start(move(server))
    first = len(cloud.requests) + 1

    def complete(moment: str, number: int) -> None:
        if (moment, number) == (AFTER, first):
            cloud.finish(server.name)

    cloud.on_request = complete
    found = platform.find(move(server))
    cloud.on_request = ignore

    assert found == task
    assert platform.status(found).state is TaskState.DONE


def test_migration_is_forced_to_complete_once(connect: Connect) -> None:
    server = slow_server()
    cloud = NovaDouble(HOSTS, server)
    platform = connect(cloud, force_complete_after=0.001)

    task = platform.start(move(server))
    states = [platform.status(task).state for _ in range(3)]

    assert states[-1] is TaskState.DONE
    forced = [each for each in cloud.requests if each.endswith("/1/action")]
    assert len(forced) == 1


def test_aborted_migration_leaves_the_server_and_can_be_repeated(
    connect: Connect,
) -> None:
    server = slow_server()
    cloud = NovaDouble(HOSTS, server)
    platform = connect(cloud)

    task = platform.start(move(server))
    platform.abort(task)
    platform.abort(task)
    again = platform.start(move(server))

    assert platform.status(task).state is TaskState.FAILED
    assert platform.status(again).state is TaskState.RUNNING
    assert cloud.placement == {"a": "h1"}


def test_host_with_disabled_service_is_no_target(connect: Connect) -> None:
    server = slow_server()
    cloud = NovaDouble(HOSTS, server)
    cloud.disabled.add("h2")
    platform = connect(cloud)

    state = platform.observe().nodes[NodeId("h2")].state

    assert state is NodeState.MAINTENANCE
    with pytest.raises(PlatformError, match="No valid host"):
        platform.start(move(server))


def test_observation_reads_all_pages(connect: Connect) -> None:
    servers = [CloudServer(f"s{n}", f"h{n % 7}") for n in range(23)]
    cloud = NovaDouble([f"h{n}" for n in range(7)], *servers)
    cloud.page_size = 3
    cloud.groups = [
        {
            "id": f"g{n}",
            "name": f"g{n}",
            "policy": "anti-affinity",
            "members": [servers[2 * n].id, servers[2 * n + 1].id],
        }
        for n in range(10)
    ]

    snapshot = connect(cloud).observe()

    assert all(node.capacity is not None for node in snapshot.nodes.values())
    assert snapshot.guests.keys() == {each.guest for each in servers}
    assert [type(rule) for rule in snapshot.rules] == [AntiAffinity] * 10


def test_observation_of_large_cloud_takes_a_request_for_each_host(
    connect: Connect,
) -> None:
    hosts = [f"h{n}" for n in range(200)]
    servers = (CloudServer(f"s{n}", hosts[n % 200]) for n in range(4000))
    cloud = NovaDouble(hosts, *servers)
    platform = connect(cloud)

    first = platform.observe()
    requests = len(cloud.requests)
    second = platform.observe()

    # Four pages of servers, services, hypervisors, migrations, aggregates, groups.
    assert requests == 9 + 3 * 200
    assert len(cloud.requests) - requests == 9 + 200
    assert len(first.nodes) == 200
    assert len(first.guests) == 4000
    assert second.nodes == first.nodes
