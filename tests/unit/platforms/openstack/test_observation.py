"""Snapshots of a cloud, parts of which do not respond."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from opendrs.errors import PermissionDeniedError, PlatformUnavailableError
from opendrs.model import Snapshot
from opendrs.platforms.openstack.client import NotFoundError, OpenStackClient
from opendrs.platforms.openstack.observation import (
    MAX_REQUESTS,
    CloudReader,
    query_all,
)
from opendrs.platforms.openstack.settings import OpenStackSettings
from support.cloud_responses import hypervisor, provider, server, service, uuid

HOSTS = ("h1", "h2", "h3")


class Responses:
    """Client that gives prepared responses.

    Attributes:
        lists: Lists of Nova by path.
        broken: Errors of resource providers, by host.
        generations: Generation of resource providers, by host.
        requests: Paths of requests to Placement.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {
            "/os-services": [service(host).model_dump() for host in HOSTS],
            "/os-hypervisors/detail": [hypervisor(host).model_dump() for host in HOSTS],
            "/servers/detail": [server("a").model_dump(by_alias=True)],
        }
        self.broken: dict[str, Exception] = {}
        self.generations: dict[str, int] = {}
        self.requests: list[str] = []

    def get_list(self, path: str, key: str, **parameters: object) -> list[Any]:
        del key
        if path.endswith("/migrations"):
            raise NotFoundError(path)
        return [] if parameters.get("offset") else self.lists.get(path, [])

    def get_placement(self, path: str) -> Mapping[str, Any]:
        self.requests.append(path)
        _, _, name, part = path.split("/")
        host = name.partition("-")[0]
        if error := self.broken.get(host):
            raise error
        generation = self.generations.get(host)
        body = {part: provider(cpus=16 + (generation or 0)).model_dump()[part]}
        return body | {"resource_provider_generation": generation}


@pytest.fixture
def responses() -> Responses:
    return Responses()


def reader_of(responses: Responses) -> CloudReader:
    return CloudReader(
        name="prod",
        client=cast("OpenStackClient", responses),
        settings=OpenStackSettings(cloud="prod"),
    )


def observe(responses: Responses, reader: CloudReader | None = None) -> Snapshot:
    reader = reader or reader_of(responses)
    snapshot, uuids = reader.read_snapshot(())
    assert set(snapshot.guests) <= set(uuids)
    return snapshot


def test_provider_that_does_not_respond_makes_its_node_unknown_alone(
    responses: Responses, caplog: pytest.LogCaptureFixture
) -> None:
    responses.broken["h2"] = PlatformUnavailableError("timeout")

    nodes = observe(responses).nodes

    assert [name for name, node in nodes.items() if node.capacity is None] == ["h2"]
    assert "h2-1: timeout" in caplog.text


@pytest.mark.parametrize(
    "error", [PlatformUnavailableError("timeout"), PermissionDeniedError("policy")]
)
def test_placement_that_does_not_respond_at_all_is_an_error(
    responses: Responses, error: Exception
) -> None:
    responses.broken = dict.fromkeys(HOSTS, error)

    with pytest.raises(type(error)):
        observe(responses)


def test_service_of_silent_cell_is_unknown_and_its_servers_are_reported(
    responses: Responses, caplog: pytest.LogCaptureFixture
) -> None:
    responses.lists["/os-services"][2] = {"host": "h3", "status": "UNKNOWN"}
    responses.lists["/servers/detail"].append({"id": uuid("z"), "status": "UNKNOWN"})

    with caplog.at_level(logging.WARNING):
        snapshot = observe(responses)

    assert not snapshot.nodes["h3"].reachable  # type: ignore[index]
    assert len(snapshot.guests) == 1
    assert "1 server without details" in caplog.text


def test_server_deleted_while_migrating_is_locked(responses: Responses) -> None:
    migrating = server("a", task_state="migrating").model_dump(by_alias=True)
    responses.lists["/servers/detail"] = [migrating]

    (guest,) = observe(responses).guests.values()

    assert (guest.migrating_to, guest.lock) == (None, "migrating")


def test_inventories_and_traits_are_read_again_if_the_generation_changed(
    responses: Responses,
) -> None:
    reader = reader_of(responses)
    responses.generations = dict.fromkeys(HOSTS, 1)
    observe(responses, reader)
    responses.requests.clear()
    responses.generations["h2"] = 2

    nodes = observe(responses, reader).nodes

    capacities = [node.capacity.cpu for node in nodes.values() if node.capacity]
    assert capacities == [17, 18, 17]
    assert sorted(responses.requests) == [
        "/resource_providers/h1-1/usages",
        "/resource_providers/h2-1/inventories",
        "/resource_providers/h2-1/traits",
        "/resource_providers/h2-1/usages",
        "/resource_providers/h3-1/usages",
    ]


def test_without_generation_everything_is_read_again(responses: Responses) -> None:
    reader = reader_of(responses)
    observe(responses, reader)
    responses.requests.clear()

    observe(responses, reader)

    assert len(responses.requests) == 3 * len(HOSTS)


def test_silent_service_is_not_queried_for_each_name() -> None:
    queried: list[str] = []

    def query(name: str) -> str:
        queried.append(name)
        raise PlatformUnavailableError("timeout")

    found, errors = query_all(map(str, range(1000)), query)

    assert (found, len(errors)) == ({}, 1000)
    assert len(queried) <= 2 * MAX_REQUESTS


def test_single_errors_do_not_end_the_queries() -> None:
    def query(name: str) -> str:
        if int(name) % 2:
            raise PlatformUnavailableError("timeout")
        return name

    found, _ = query_all(map(str, range(100)), query)

    assert len(found) == 50
