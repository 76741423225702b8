"""Recorded answers of Proxmox VE, replayed to client, reading and platform."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opendrs.config.snapshot_reading import snapshot_from
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import (
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
    UnsupportedError,
)
from opendrs.model import GuestId, Mobility, NodeId, NodeState, Snapshot
from opendrs.platforms.proxmox import ProxmoxPlatform, ProxmoxSettings
from opendrs.platforms.proxmox.client import ProxmoxClient
from opendrs.platforms.proxmox.cluster_view import guest_ids, guest_rows
from opendrs.platforms.proxmox.errors import (
    ApiRequestError,
    LoginRejectedError,
    MissingPrivilegeError,
    NodeUnavailableError,
)
from opendrs.platforms.proxmox.ha import parse_auto_rebalance, parse_ha_status
from opendrs.platforms.proxmox.login import read_login
from opendrs.platforms.proxmox.permissions import parse_permissions
from opendrs.platforms.proxmox.preconditions import parse_preconditions
from opendrs.platforms.proxmox.responses import (
    ApiRow,
    ClusterRow,
    GuestRow,
    HaResourceRow,
    HaRuleRow,
    LogRow,
    NodeHistoryRow,
    ResourceRow,
    TaskRow,
    TaskStatusRow,
    VersionRow,
    parse_row,
    parse_rows,
)
from opendrs.platforms.proxmox.settings import GuestNaming
from opendrs.platforms.proxmox.tasks import ProxmoxTask, Upid
from opendrs.ports import TaskState, TaskStatus
from support.https_server import Certificate, HttpsServer, https_server
from support.pve_player import Pair, PvePlayer, Recording

pytestmark = pytest.mark.shared

PROJECT = Path(__file__).parents[2]
SHARED = Path(os.environ.get("OPENDRS_SHARED") or PROJECT.parent / "shared")
FOLDER = SHARED / "data" / "pve-api" / "recorded"
FILES = sorted(FOLDER.glob("*.json"))
LAB_LOGIN = "drs@pve!t1=aaaaaaaa-0000-4000-8000-000000000002"
ERRORS: dict[int, type[PlatformError]] = {
    400: ApiRequestError,
    401: LoginRejectedError,
    403: MissingPrivilegeError,
    500: ApiRequestError,
    501: UnsupportedError,
    **dict.fromkeys(range(595, 600), NodeUnavailableError),
}


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


def parser(model: type[ApiRow]) -> Callable[[Any], object]:
    return lambda data: parse_rows(model, data, "test")


READERS: tuple[tuple[str, Callable[[Any], object]], ...] = (
    (r"/version", lambda data: parse_row(VersionRow, data, "test")),
    (r"/cluster/status", parser(ClusterRow)),
    (r"/cluster/resources", parser(ResourceRow)),
    (r"/cluster/tasks|/nodes/[^/]+/tasks", parser(TaskRow)),
    (r"/cluster/ha/resources", parser(HaResourceRow)),
    (r"/cluster/ha/rules", parser(HaRuleRow)),
    (r"/cluster/options", lambda data: parse_auto_rebalance(data, "test")),
    (r"/cluster/ha/status/manager_status", lambda data: parse_ha_status(data, "test")),
    (r"/access/permissions", parse_permissions),
    (r"/nodes/[^/]+/rrddata", parser(NodeHistoryRow)),
    (r"/nodes/[^/]+/(qemu|lxc)", parser(GuestRow)),
    (r"/nodes/[^/]+/(qemu|lxc)/\d+/migrate", lambda d: parse_preconditions(d, "test")),
    (
        r"/nodes/[^/]+/tasks/UPID[^/]+/status",
        lambda data: parse_row(TaskStatusRow, data, "test"),
    ),
    (r"/nodes/[^/]+/tasks/UPID[^/]+/log", parser(LogRow)),
)


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    return Certificate()


def recordings() -> list[Any]:
    if not FILES:
        reason = f"no recordings in {FOLDER}; set OPENDRS_SHARED"
        return [pytest.param(None, marks=pytest.mark.skip(reason=reason))]
    return [pytest.param(path, id=path.stem) for path in FILES]


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
    return ProxmoxSettings(
        hosts=(server.host,),
        token_env="PVE_TOKEN",  # noqa: S106 - a name
        fingerprints=(certificate.fingerprint,),
    )


def is_playable(pair: Pair) -> bool:
    """Return True for what the client could send: no answers to other programs."""
    return pair.status != 0 and pair.method in ("GET", "POST", "PUT", "DELETE")


def test_client_understands_each_recorded_answer(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    client = ProxmoxClient(settings, read_login("lab", settings))

    for pair in filter(is_playable, player.recording.pairs):
        player.exact = pair
        outcome: object
        try:
            outcome = client.send(pair.method, pair.path, pair.params)
        except PlatformError as error:
            outcome = error
        assert_understood(pair, outcome)
    client.close()


def assert_understood(pair: Pair, outcome: object) -> None:
    if pair.status == 200:
        assert not isinstance(outcome, PlatformError), (pair, outcome)
        assert outcome == pair.data
        return
    expected = ERRORS.get(pair.status, UnexpectedResponseError)
    if pair.status == 500 and "no quorum" in pair.reason:
        expected = PlatformUnavailableError
    assert type(outcome) is expected, (pair, outcome)
    assert " ".join(pair.reason.split())[:60] in str(outcome)
    assert LAB_LOGIN.partition("=")[2] not in str(outcome)
    if isinstance(outcome, MissingPrivilegeError) and "(/" in pair.reason:
        assert f"({outcome.path}, {outcome.privileges})" in pair.reason
    if isinstance(outcome, ApiRequestError) and '"errors"' in pair.text:
        assert outcome.parameters.keys() == json.loads(pair.text)["errors"].keys()


def test_reading_understands_each_recorded_answer(player: PvePlayer) -> None:
    for pair in player.recording.pairs:
        if pair.method != "GET" or pair.status != 200:
            continue
        for pattern, read in READERS:
            if re.fullmatch(pattern, pair.path):
                rows = understood(read, pair.data)
                if isinstance(pair.data, list):
                    assert isinstance(rows, tuple)
                    assert_values_kept(pair.data, rows)


def understood(read: Callable[[Any], object], data: object) -> object:
    """Return what *read* makes of *data*; another formatter gives other shapes."""
    try:
        return read(data)
    except UnexpectedResponseError:
        assert data is None or isinstance(data, dict)
        return None


def assert_values_kept(data: list[dict[str, Any]], rows: tuple[ApiRow, ...]) -> None:
    assert len(rows) == len(data)
    for raw, row in zip(data, rows, strict=True):
        known = row.model_dump(by_alias=True)
        for key in raw.keys() & known.keys():
            if raw[key] is None:
                continue
            assert known[key] is not None, (key, raw[key])
            same = (raw[key], str(raw[key]), str(int(known[key] is True)))
            assert known[key] in same or str(raw[key]) in same


def test_tasks_are_parsed_from_each_started_task(player: PvePlayer) -> None:
    for pair in player.recording.pairs:
        if pair.method == "POST" and pair.status == 200 and "UPID" in pair.text:
            upid = Upid.parse(pair.data)

            assert upid.node in pair.path
            assert upid.id in pair.path


def test_observe_in_each_recorded_state_is_consistent(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    platform = ProxmoxPlatform("lab", settings)
    indexes = [
        pair.index
        for pair in player.recording.pairs
        if pair.path in ("/cluster/resources", "/cluster/ha/status/manager_status")
    ]
    positions = {*indexes[:1], *indexes[1:-1][::6], *indexes[-1:]}

    for position in sorted(positions):
        player.position = position
        try:
            snapshot = platform.observe()
        except PlatformError as error:
            failure = error
        else:
            assert_consistent(player, snapshot)
            document = json.loads(json.dumps(snapshot_document(snapshot)))
            assert snapshot_from(document, "test") == snapshot
            continue
        assert is_recorded(player, failure)
    platform.close()


def test_last_recorded_migration_has_the_recorded_outcome(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    moves = [pair for pair in player.recording.pairs if is_accepted_move(pair)]
    if not moves:
        return
    last = moves[-1]
    kind, vmid = last.path.split("/")[3:5]
    source, target = NodeId(last.path.split("/")[2]), NodeId(last.params["target"])
    task = ProxmoxTask(GuestId("x"), kind, int(vmid), source, target)
    platform = ProxmoxPlatform("lab", settings)
    player.position = player.recording.pairs[-1].index

    # As if this process had started it.
    platform._started[task] = Upid.parse(last.data)  # noqa: SLF001
    try:
        found: object = platform.status(task.id)
    except PlatformError as error:
        found = error
    platform.close()

    if isinstance(found, TaskStatus):
        assert found.state is recorded_state(player, task, last)
    else:
        assert player.not_recorded or isinstance(found, PlatformUnavailableError)


def recorded_state(player: PvePlayer, task: ProxmoxTask, last: Pair) -> TaskState:
    """Return the outcome according to the last recorded task and place of the guest."""
    answered = player.answer("/cluster/resources", {"type": "vm"})
    rows = parse_rows(ResourceRow, answered, "test")
    place = next(row for row in rows if row.vmid == task.vmid)
    polls = [p for p in player.recording.pairs if f"{last.data}/status" in p.path]
    if polls and polls[-1].status == 200 and polls[-1].data["status"] == "running":
        return TaskState.RUNNING
    if place.node == task.target:
        return TaskState.RUNNING if place.lock else TaskState.DONE
    return TaskState.FAILED if place.node == task.source else TaskState.LOST


def is_accepted_move(pair: Pair) -> bool:
    is_move = pair.method == "POST" and pair.path.endswith("/migrate")
    return is_move and pair.status == 200 and "UPID" in pair.text


def is_recorded(player: PvePlayer, error: PlatformError) -> bool:
    """Return True if the recording has the cause of *error*."""
    if isinstance(error, MissingPrivilegeError):
        granted = player.answer("/access/permissions")
        return error.privileges not in granted.get(error.path, {})
    return any(
        pair.status != 200 and pair.reason[:60] in str(error)
        for pair in player.recording.pairs
        if pair.path in FIXED_PATHS
    )


def assert_consistent(player: PvePlayer, snapshot: Snapshot) -> None:
    rows = parse_rows(ResourceRow, player.answer("/cluster/resources"), "test")
    manager = player.answer("/cluster/ha/status/manager_status")
    status = parse_ha_status(manager, "test")
    ids = guest_ids(guest_rows(rows), GuestNaming.NAME)
    by_id = {ids[row.vmid or 0]: row for row in guest_rows(rows)}
    nodes = {row.node: row for row in rows if row.type == "node"}
    assert len(snapshot.guests) == len(guest_rows(rows))
    for node in snapshot.nodes.values():
        if node.id not in nodes:
            continue
        row = nodes[node.id]
        assert not (node.online and row.status != "online")
        assert not (node.online and node.id in status.maintenance)
        assert not (node.online and row.hastate not in (None, "online"))
        assert (node.usage.cpu is None) or node.reachable
    for guest in snapshot.guests.values():
        row = by_id[guest.id]
        if row.lock:
            assert guest.lock == row.lock or guest.migrating_to
        if row.hastate in ("error", "freeze", "fence", "recovery"):
            assert guest.managed_by
        if guest.mobility is Mobility.NONE:
            assert guest.mobility_detail
    if any(row.get("quorate") == 0 for row in player.answer("/cluster/status")):
        assert {node.state for node in snapshot.nodes.values()} == {NodeState.UNKNOWN}
