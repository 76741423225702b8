"""The recorded scenarios of Proxmox VE, and a platform that a player answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from opendrs.errors import PlatformError
from opendrs.model import Mobility, NodeState, Snapshot
from opendrs.platforms.proxmox import ProxmoxSettings
from opendrs.platforms.proxmox.cluster_view import guest_ids, guest_rows
from opendrs.platforms.proxmox.errors import MissingPrivilegeError
from opendrs.platforms.proxmox.ha import is_settled, parse_ha_status
from opendrs.platforms.proxmox.responses import ResourceRow, parse_rows
from opendrs.platforms.proxmox.settings import GuestNaming
from opendrs.platforms.proxmox.tasks import service_id
from support.https_server import Certificate, HttpsServer, https_server
from support.pve_player import PvePlayer, Recording

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED") or PROJECT.parent / "shared")
FOLDER = SHARED / "data" / "pve-api" / "recorded"
FILES = sorted(FOLDER.glob("*.json"))
LAB_LOGIN = "drs@pve!t1=aaaaaaaa-0000-4000-8000-000000000002"
FIXED_PATHS = {
    "/version",
    "/access/permissions",
    "/cluster/status",
    "/cluster/resources",
    "/cluster/tasks",
    "/cluster/options",
    "/cluster/ha/resources",
    "/cluster/ha/rules",
    "/cluster/ha/status/manager_status",
}


def recordings() -> list[Any]:
    """Return a parameter for each recording found."""
    if not FILES:
        reason = f"no recordings in {FOLDER}; set OPENDRS_SHARED"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.stem) for path in FILES]


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return Certificate()


@pytest.fixture(params=recordings())
def player(request: pytest.FixtureRequest) -> PvePlayer:
    return PvePlayer(Recording.load(request.param))


@pytest.fixture
def server(player: PvePlayer, certificate: Certificate) -> Iterator[HttpsServer]:
    with https_server(player.respond, certificate) as running:
        yield running


@pytest.fixture
def settings(
    server: HttpsServer, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> ProxmoxSettings:
    monkeypatch.setenv("PVE_TOKEN", LAB_LOGIN)
    return lab_settings(server.host, certificate=certificate)


def lab_settings(*hosts: str, certificate: Certificate) -> ProxmoxSettings:
    """Return the settings of *hosts*; the token is in the variable `PVE_TOKEN`."""
    return ProxmoxSettings(
        hosts=hosts,
        token_env="PVE_TOKEN",  # noqa: S106 - a name
        fingerprints=(certificate.fingerprint,),
    )


def is_recorded(player: PvePlayer, error: PlatformError) -> bool:
    """Return True if the recording has the cause of *error*."""
    if isinstance(error, MissingPrivilegeError):
        granted = player.answer("/access/permissions")
        if error.privileges not in granted.get(error.path, {}):
            return True
    return any(
        pair.status != 200 and pair.reason[:60] in str(error)
        for pair in player.recording.pairs
        if pair.path in FIXED_PATHS
    )


def assert_consistent(player: PvePlayer, snapshot: Snapshot) -> None:
    """Check that *snapshot* claims nothing that the answers do not say."""
    rows = parse_rows(ResourceRow, player.answer("/cluster/resources"), "test")
    manager = player.answer("/cluster/ha/status/manager_status")
    status = parse_ha_status(manager, "test")
    ids = guest_ids(guest_rows(rows), GuestNaming.NAME)
    by_id = {ids[row.vmid or 0]: row for row in guest_rows(rows)}
    nodes = {row.node: row for row in rows if row.type == "node"}
    assert snapshot.guests.keys() == by_id.keys()
    for node in snapshot.nodes.values():
        row = nodes.get(node.id)
        assert row is not None or not node.reachable
        if row is None:
            continue
        assert not (node.online and row.status != "online")
        assert not (node.online and node.id in status.maintenance)
        assert not (node.online and row.hastate not in (None, "online"))
        assert (node.usage.cpu is None) or node.reachable
        assert node.usage.memory in (None, row.mem)
    for guest in snapshot.guests.values():
        row = by_id[guest.id]
        assert guest.node == row.node
        assert guest.usage.cpu is None or snapshot.nodes[guest.node].reachable
        if row.lock:
            assert guest.lock == row.lock or guest.migrating_to
        service = status.services.get(service_id(row.type, row.vmid or 0))
        states = {row.hastate, service.state if service else row.hastate}
        if not any(is_settled(status, state) for state in states):
            assert guest.managed_by or guest.migrating_to
        if guest.mobility is Mobility.NONE:
            assert guest.mobility_detail
    if any(row.get("quorate") == 0 for row in player.answer("/cluster/status")):
        assert {node.state for node in snapshot.nodes.values()} == {NodeState.UNKNOWN}
