"""Snapshots of a cloud, parts of which do not respond."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from opendrs.errors import PermissionDeniedError, PlatformUnavailableError
from opendrs.model import Snapshot
from opendrs.platforms.openstack.client import NotFoundError, OpenStackClient
from opendrs.platforms.openstack.observation import CloudReader
from opendrs.platforms.openstack.settings import OpenStackSettings
from support.cloud_responses import hypervisor, provider, server, service, uuid

HOSTS = ("h1", "h2", "h3")


class Responses:
    """Client that gives prepared responses.

    Attributes:
        lists: Lists of Nova by path.
        broken: Errors of resource providers, by host.
    """

    def __init__(self) -> None:
        self.lists: dict[str, list[Any]] = {
            "/os-services": [service(host).model_dump() for host in HOSTS],
            "/os-hypervisors/detail": [hypervisor(host).model_dump() for host in HOSTS],
            "/servers/detail": [server("a").model_dump(by_alias=True)],
        }
        self.broken: dict[str, Exception] = {}

    def get_list(self, path: str, key: str, **parameters: object) -> list[Any]:
        del key
        if path.endswith("/migrations"):
            raise NotFoundError(path)
        return [] if parameters.get("offset") else self.lists.get(path, [])

    def get_placement(self, path: str) -> Mapping[str, Any]:
        _, _, name, part = path.split("/")
        if error := self.broken.get(name.partition("-")[0]):
            raise error
        return {part: provider().model_dump()[part]}


@pytest.fixture
def responses() -> Responses:
    return Responses()


def observe(responses: Responses) -> Snapshot:
    reader = CloudReader(
        name="prod",
        client=cast("OpenStackClient", responses),
        settings=OpenStackSettings(cloud="prod"),
    )
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
