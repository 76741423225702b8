"""Recorded states of Proxmox VE: observations, and the status of migrations."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from opendrs.config.snapshot_reading import snapshot_from
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import PlatformError, PlatformUnavailableError, UnsupportedError
from opendrs.model import GuestId, NodeId, Snapshot
from opendrs.platforms.proxmox import ProxmoxPlatform, ProxmoxSettings
from opendrs.platforms.proxmox.ha import HaStatus, parse_ha_status
from opendrs.platforms.proxmox.tasks import ProxmoxTask, Upid
from opendrs.ports import TaskState, TaskStatus
from support.https_server import Certificate, https_server
from support.pve_player import Pair, PvePlayer, positions
from support.pve_recordings import (
    FIXED_PATHS,
    LAB_LOGIN,
    assert_consistent,
    certificate,
    is_recorded,
    lab_settings,
    player,
    server,
    settings,
)

__all__ = ["certificate", "player", "server", "settings"]  # fixtures
pytestmark = pytest.mark.shared


def test_observe_in_each_recorded_state_is_consistent(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    platform = ProxmoxPlatform("lab", settings)

    for position in positions(player.recording.pairs, 10):
        player.position = position
        seen = observe(platform)
        if isinstance(seen, PlatformError):
            assert is_recorded(player, seen)
            continue
        assert_consistent(player, seen)
        document = json.loads(json.dumps(snapshot_document(seen)))
        assert snapshot_from(document, "test") == seen
    platform.close()


def observe(platform: ProxmoxPlatform) -> Snapshot | PlatformError:
    """Return what *platform* observes, or why it cannot."""
    try:
        return platform.observe()
    except PlatformError as error:
        return error


def test_observe_uses_another_host_where_one_fails(
    player: PvePlayer, certificate: Certificate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PVE_TOKEN", LAB_LOGIN)
    hosts = tuple(reversed(player.recording.hosts))
    players = [PvePlayer(player.recording, host=host) for host in hosts]
    with ExitStack() as stack:
        servers = [
            stack.enter_context(https_server(each.respond, certificate))
            for each in players
        ]
        addresses = [each.host for each in servers]
        platform = ProxmoxPlatform(
            "lab", lab_settings(*addresses, certificate=certificate)
        )
        for position in positions(player.recording.pairs, 5):
            for each in players:
                each.position = position
            seen = observe(platform)
            if isinstance(seen, PlatformUnavailableError):
                assert all(_fails(each) for each in players)
            elif isinstance(seen, PlatformError):
                assert is_recorded(players[-1], seen)
        platform.close()


def _fails(player: PvePlayer) -> bool:
    """Return True if the host of *player* fails a request about the whole cluster."""
    return any(
        not 200 <= pair.status < 500
        for pair in player.recording.pairs
        if (pair.host, pair.method) == (player.host, "GET") and pair.path in FIXED_PATHS
    )


def test_status_of_each_recorded_migration_follows_the_recorded_truth(
    player: PvePlayer, settings: ProxmoxSettings
) -> None:
    """Query each migration as the process that started it, and as another one."""
    pairs = player.recording.pairs
    for move in filter(is_accepted_move, pairs):
        task = task_of(move)
        later = [pair for pair in pairs if pair.index >= move.index]
        for position in {*positions(later, 6), later[-1].index}:
            player.position = position
            for is_starter in (True, False):
                platform = ProxmoxPlatform("lab", settings)
                if is_starter:  # as if this process had started it
                    platform._started.add(task, Upid.parse(move.data))  # noqa: SLF001
                try:
                    status = platform.status(task.id)
                except (PlatformUnavailableError, UnsupportedError):
                    assert not is_known(player, task)
                else:
                    assert_true(player, task, status)
                    assert not (
                        status.state is TaskState.FAILED
                        and is_running(player, task, move.data if is_starter else None)
                    )
                finally:
                    platform.close()


def is_known(player: PvePlayer, task: ProxmoxTask) -> bool:
    """Return True if the guest is on the target or the source answers."""
    answers = [
        pair.status
        for pair in player.recording.pairs
        if pair.path.startswith(f"/nodes/{task.source}/")
    ]
    return all(status in (200, 400) for status in answers)


def assert_true(player: PvePlayer, task: ProxmoxTask, status: TaskStatus) -> None:
    """Check that *status* claims an end only where the recording has it."""
    row = next(row for row in rows_of(player) if row["vmid"] == task.vmid)
    ha = ha_status(player)
    service = ha.services.get(task.sid)
    moving = service is not None and service.state in ("migrate", "relocate")
    if status.state is TaskState.DONE:
        assert (row["node"], row.get("lock")) == (task.target, None)
        assert ha.disarm_mode == "ignore" or not moving
    if status.state is TaskState.FAILED:
        assert row["node"] == task.source or "error" in status.detail
        assert status.detail
    if status.state is TaskState.LOST:
        assert row["node"] not in (task.source, task.target)


def is_running(player: PvePlayer, task: ProxmoxTask, upid: str | None) -> bool:
    """Return True if *upid*, or any task about the guest, was last seen running."""
    rows = player.answer(f"/nodes/{task.source}/tasks", {"vmid": str(task.vmid)})
    return any("endtime" not in row for row in rows if upid in (None, row["upid"]))


def rows_of(player: PvePlayer) -> Iterator[dict[str, object]]:
    """Yield the rows of guests at the position of *player*."""
    yield from player.answer("/cluster/resources", {"type": "vm"})


def ha_status(player: PvePlayer) -> HaStatus:
    answer = player.answer("/cluster/ha/status/manager_status")
    return parse_ha_status(answer, "test")


def task_of(move: Pair) -> ProxmoxTask:
    _, _, node, kind, vmid, _ = move.path.split("/")
    target = NodeId(move.params["target"])
    return ProxmoxTask(GuestId("x"), kind, int(vmid), NodeId(node), target)


def is_accepted_move(pair: Pair) -> bool:
    is_move = pair.method == "POST" and pair.path.endswith("/migrate")
    return is_move and pair.status == 200 and '"UPID:' in pair.text.replace(" ", "")
