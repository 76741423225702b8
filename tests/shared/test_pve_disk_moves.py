"""Moves of disks on the double of Proxmox VE, and full storages by the command line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
)
from opendrs.model import Disk, DiskMove, Guest, GuestId, NodeId
from opendrs.platforms.proxmox import ProxmoxPlatform
from opendrs.ports import TaskId, TaskState, TaskStatus
from shared.test_pve_command_line import (
    APPLY,
    SPEED,
    configure,
    kill_at,
    request_number,
)
from support.forked_program import polling_opendrs, run_forked
from support.https_server import Answer, Certificate, Request
from support.pve_cluster import GIB, PveCluster, PveGuest
from support.pve_double import RunningDouble, run_double
from support.pve_fixtures import (
    PVE_MARKS,
    Serve,
    passing_time,
    platform_of,
    serve,
    with_guests,
)
from support.terminal import RunOpendrs
from unit.cli.conftest import opendrs

__all__ = ["opendrs", "serve"]  # fixtures
pytestmark = PVE_MARKS
H1 = NodeId("h1")
A = GuestId("a")
MOVE = DiskMove(A, H1, "scsi0", "one", "two")
PRIVILEGES = ("Datastore.Audit", "Datastore.AllocateSpace", "VM.Config.Disk")


def cluster_of(**changes: Any) -> PveCluster:  # noqa: ANN401 - fields of the guest
    """Return a cluster with a guest that has two disks of 10 GiB on a full storage."""
    volumes = ("one:vm-100-disk-0", "one:vm-100-disk-1")
    guest = PveGuest(100, "a", "h1", disks=volumes, disk_size=10 * GIB)
    cluster = with_guests(replace(guest, **changes))
    cluster.storages |= {"one": True, "two": True}
    cluster.used |= {"one": 85 * GIB, "two": 10 * GIB}
    return cluster


def served(serve: Serve, cluster: PveCluster) -> RunningDouble:
    running = serve(cluster)
    running.double.access.roles["Balancer"] |= set(PRIVILEGES)
    return running


def last_status(
    platform: ProxmoxPlatform, task: TaskId, cluster: PveCluster
) -> TaskStatus:
    for _ in range(200):
        status = platform.status(task)
        if status.state is not TaskState.RUNNING:
            return status
        cluster.advance(1)
    pytest.fail(f"{task} does not end")


def guest_of(platform: ProxmoxPlatform) -> Guest:
    return platform.observe().guests[A]


def names(disks: tuple[Disk, ...] | None) -> set[str | None]:
    return {disk.name for disk in disks or ()}


def posts(running: RunningDouble) -> list[str]:
    return [each for each in running.double.requests if each.startswith("POST")]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, {"scsi0", "scsi1"}),
        ({"status": "stopped"}, {"scsi0", "scsi1"}),
        ({"snapshot": "before-update"}, {None}),
        ({"protected": True}, {None}),
        ({"replicated": True}, {None}),
        ({"kind": "lxc"}, {None}),
        ({"kind": "lxc", "status": "stopped"}, {"rootfs", "mp0"}),
    ],
)
def test_only_disks_that_can_be_moved_have_names(
    serve: Serve, changes: dict[str, Any], expected: set[str | None]
) -> None:
    running = served(serve, cluster_of(**changes))

    assert names(guest_of(platform_of(running)).disks) == expected


def test_disks_stay_while_it_is_unknown_which_guests_are_replicated(
    serve: Serve,
) -> None:
    running = served(serve, cluster_of())
    running.double.fault = lambda request: (
        Answer(500, "failed") if request.path.endswith("/replication") else None
    )
    platform = platform_of(running)

    assert names(guest_of(platform).disks) == {None}
    running.double.fault = lambda _: None
    assert names(guest_of(platform).disks) == {"scsi0", "scsi1"}


def test_request_deletes_the_original_and_names_the_checked_configuration(
    serve: Serve,
) -> None:
    running = served(serve, cluster_of())
    sent: list[dict[str, str]] = []
    running.double.fault = lambda request: (
        sent.append(dict(request.form)) if request.method == "POST" else None
    )
    digest = running.cluster.guests[100].digest

    platform_of(running, bandwidth=100 << 10).start(MOVE)

    assert sent == [
        {
            "disk": "scsi0",
            "storage": "two",
            "delete": "1",
            "digest": digest,
            "bwlimit": "100",
        }
    ]
    assert posts(running) == ["POST /nodes/h1/qemu/100/move_disk"]


def test_volume_of_a_stopped_container_is_moved(serve: Serve) -> None:
    running = served(serve, cluster_of(kind="lxc", status="stopped"))
    platform = platform_of(running)

    task = platform.start(DiskMove(A, H1, "mp0", "one", "two"))

    assert last_status(platform, task, running.cluster).state is TaskState.DONE
    assert posts(running) == ["POST /nodes/h1/lxc/100/move_volume"]
    storages = {disk.name: disk.storage for disk in guest_of(platform).disks or ()}
    assert storages == {"rootfs": "one", "mp0": "two"}


@pytest.mark.parametrize(
    ("changes", "move"),
    [
        ({"lock": "backup"}, MOVE),
        ({"status": "paused"}, MOVE),
        ({"kind": "lxc"}, DiskMove(A, H1, "rootfs", "one", "two")),
        ({"node": "h2"}, MOVE),
        ({"disks": ("two:vm-100-disk-0",)}, MOVE),
        ({"disks": ()}, MOVE),
        ({}, DiskMove(A, H1, "scsi0", "one", "three")),
    ],
)
def test_move_that_is_not_possible_is_not_requested(
    serve: Serve, changes: dict[str, Any], move: DiskMove
) -> None:
    running = served(serve, cluster_of(**changes))

    with pytest.raises(PlatformError):
        platform_of(running).start(move)

    assert posts(running) == []


def test_move_to_a_storage_that_is_not_on_the_node_is_not_requested(
    serve: Serve,
) -> None:
    running = served(serve, cluster_of())
    running.cluster.absent.add(("h1", "two"))

    with pytest.raises(PlatformError, match="two not available: absent"):
        platform_of(running).start(MOVE)

    assert posts(running) == []


def test_disk_of_a_guest_on_which_the_ha_manager_acts_stays(serve: Serve) -> None:
    running = served(serve, cluster_of(ha="started"))
    running.cluster.services["vm:100"]["state"] = "recovery"

    with pytest.raises(PlatformError, match="HA state recovery"):
        platform_of(running).start(MOVE)

    assert posts(running) == []


def test_configuration_that_changes_after_the_check_prevents_the_move(
    serve: Serve,
) -> None:
    running = served(serve, cluster_of())

    def fault(request: Request) -> Answer | None:
        if request.method == "POST":
            running.cluster.guests[100].tags = "changed"
        return None

    running.double.fault = fault

    with pytest.raises(PlatformError, match="modified"):
        platform_of(running).start(MOVE)

    assert running.cluster.tasks == []


def test_snapshot_taken_since_the_observation_prevents_the_move(serve: Serve) -> None:
    running = served(serve, cluster_of())
    platform = platform_of(running)
    platform.observe()
    running.cluster.guests[100].snapshot = "before-update"

    with pytest.raises(PlatformError, match="snapshots"):
        platform.start(MOVE)

    assert platform.status(platform.find(MOVE)).state is TaskState.FAILED
    assert names(guest_of(platform).disks) == {None}


@pytest.mark.parametrize("privilege", ["VM.Config.Disk", "Datastore.AllocateSpace"])
def test_missing_privilege_is_named(serve: Serve, privilege: str) -> None:
    running = served(serve, cluster_of())
    running.double.access.roles["Balancer"].discard(privilege)

    with pytest.raises(PermissionDeniedError, match=privilege):
        platform_of(running).start(MOVE)

    assert running.cluster.tasks == []


def test_move_in_progress_is_requested_once(serve: Serve) -> None:
    running = served(serve, cluster_of(duration=100.0))
    platform = platform_of(running)

    assert platform.start(MOVE) == platform.start(MOVE)

    assert len(posts(running)) == 1


def test_other_disk_of_a_guest_waits_for_the_first(serve: Serve) -> None:
    running = served(serve, cluster_of(duration=100.0))
    platform = platform_of(running)
    platform.start(MOVE)

    with pytest.raises(PlatformError, match="being moved"):
        platform.start(DiskMove(A, H1, "scsi1", "one", "two"))

    assert len(posts(running)) == 1


def test_request_without_an_answer_is_followed_by_its_effect(serve: Serve) -> None:
    running = served(serve, cluster_of())

    def fault(request: Request) -> Answer | None:
        if request.method != "POST":
            return None
        with running.cluster.lock:
            running.double._respond(request)  # noqa: SLF001 - its answer is lost
        return Answer(502, "Bad Gateway")

    running.double.fault = fault
    platform = platform_of(running)

    with pytest.raises(PlatformError):
        platform.start(MOVE)

    task = platform.find(MOVE)
    assert platform.status(task).state is TaskState.RUNNING
    assert last_status(platform, task, running.cluster).state is TaskState.DONE
    assert len(running.cluster.tasks) == 1


def test_failed_move_has_the_cause_of_the_task(serve: Serve) -> None:
    running = served(serve, cluster_of(failure="no space left on device"))
    platform = platform_of(running)

    status = last_status(platform, platform.start(MOVE), running.cluster)

    assert status.state is TaskState.FAILED
    assert "no space left on device" in status.detail
    assert running.cluster.used == {"one": 85 * GIB, "two": 10 * GIB}


def test_original_that_could_not_be_deleted_is_reported(serve: Serve) -> None:
    running = served(serve, cluster_of(keeps_original=True))
    platform = platform_of(running)

    status = last_status(platform, platform.start(MOVE), running.cluster)

    assert status.state is TaskState.DONE
    assert "one has the unused disk unused0" in status.detail


def test_outcome_is_known_after_the_guest_has_migrated(serve: Serve) -> None:
    running = served(serve, cluster_of())
    platform = platform_of(running)
    task = platform.start(MOVE)
    running.cluster.advance(60)
    running.cluster.guests[100].node = "h2"

    assert platform_of(running).status(task).state is TaskState.DONE


@pytest.mark.parametrize(("place", "is_known"), [("h1", False), ("h2", True)])
def test_outcome_on_a_failed_node_is_known_once_the_guest_is_elsewhere(
    serve: Serve, place: str, *, is_known: bool
) -> None:
    running = served(serve, cluster_of(duration=100.0))
    platform = platform_of(running)
    task = platform.start(MOVE)
    running.cluster.nodes["h1"].failure = 595
    running.cluster.guests[100].node = place

    if is_known:
        assert platform.status(task).state is TaskState.FAILED
    else:
        with pytest.raises(PlatformUnavailableError):
            platform.status(task)


@pytest.mark.parametrize(
    "volumes", [(), ("three:vm-100-disk-0",)], ids=["removed", "elsewhere"]
)
def test_disk_that_is_on_neither_storage_is_lost(
    serve: Serve, volumes: tuple[str, ...]
) -> None:
    running = served(serve, cluster_of(disks=volumes))
    platform = platform_of(running)

    assert platform.status(platform.find(MOVE)).state is TaskState.LOST


def test_outcome_of_a_removed_guest_is_lost(serve: Serve) -> None:
    running = served(serve, cluster_of(duration=1.0))
    platform = platform_of(running)
    task = platform.start(MOVE)
    running.cluster.advance(60)
    del running.cluster.guests[100]

    assert platform.status(task).state is TaskState.LOST


def test_moved_disk_is_not_moving_while_the_task_list_is_older(serve: Serve) -> None:
    running = served(serve, cluster_of(duration=1.0))
    platform = platform_of(running)
    task = platform.start(MOVE)
    running.cluster.advance(5)
    status = platform.status(task)
    running.cluster.tasks[0].end = None

    guest = guest_of(platform)

    assert status.state is TaskState.DONE
    assert guest.moving_disk is None
    assert guest.lock == "move of disk"


def test_move_of_an_operator_locks_the_guest(serve: Serve) -> None:
    running = served(serve, cluster_of(duration=100.0))
    platform_of(running).start(MOVE)

    guest = guest_of(platform_of(running))

    assert guest.lock == "move of disk"
    assert guest.moving_disk is None  # the API does not report which


def test_disks_are_read_again_after_an_operator_has_moved_one(serve: Serve) -> None:
    running = served(serve, cluster_of())
    platform = platform_of(running)
    platform.observe()
    platform_of(running).start(MOVE)
    running.cluster.advance(60)

    storages = {disk.name: disk.storage for disk in guest_of(platform).disks or ()}

    assert storages == {"scsi0": "two", "scsi1": "one"}


def test_observation_needs_no_request_for_moves_of_disks(serve: Serve) -> None:
    running = served(serve, cluster_of())
    platform = platform_of(running)
    platform.observe()
    running.double.requests.clear()

    platform.observe()

    paths = [request.rpartition("/")[2] for request in running.double.requests]
    assert not {"config", "log", "replication"} & {*paths}


def configure_group(running: RunningDouble) -> None:
    """Write a configuration with a group of the storages one and two."""
    configure(running)
    group = {"name": "fast", "storages": ["one", "two"], "threshold": 0.8}
    limits = {"limits": {"storage_groups": [group]}}
    text = Path("opendrs.toml").read_text()
    Path("opendrs.toml").write_text(f"{text}\n{tomli_w.dumps(limits)}")


@pytest.mark.slow
def test_apply_moves_a_disk_from_a_full_storage(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = served(serve, cluster_of())
    configure_group(running)

    with passing_time(running.cluster, SPEED):
        applied = opendrs(*APPLY, "--format", "json")
        again = opendrs(*APPLY)

    assert (applied.status, again.status) == (0, 0), applied.err
    (record,) = json.loads(applied.out)["records"]
    assert record["outcome"] == "done"
    assert [task.type for task in running.cluster.tasks] == ["qmmove"]
    assert running.cluster.used == {"one": 75 * GIB, "two": 20 * GIB}


def test_storage_without_movable_disks_stays_full_with_the_cause(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = served(serve, cluster_of(kind="lxc"))
    configure_group(running)

    planned = opendrs("plan", "lab", "--format", "json")

    document = json.loads(planned.out)
    assert document["steps"] == []
    assert "the platform does not move this disk" in planned.out


@pytest.mark.slow
@pytest.mark.usefixtures("opendrs")  # for its directory
def test_apply_killed_at_each_request_moves_the_disk_once() -> None:
    certificate = Certificate()
    methods: list[str] = []
    for number in itertools.count(1):
        method = killed_and_resumed(
            cluster_of(duration=3.0), certificate, request_number(number)
        )
        if method is None:
            break
        methods.append(method)

    assert methods.count("POST") == 1
    assert len(methods) > 20


@pytest.mark.slow
@pytest.mark.usefixtures("opendrs")  # for its directory
@pytest.mark.parametrize("has_effect", [True, False])
@pytest.mark.parametrize(("kind", "status"), [("qemu", "running"), ("lxc", "stopped")])
def test_apply_killed_at_its_request_moves_the_disk_once(
    kind: str, status: str, *, has_effect: bool
) -> None:
    cluster = cluster_of(kind=kind, status=status, duration=3.0)

    method = killed_and_resumed(
        cluster,
        Certificate(),
        lambda request: request.method == "POST",
        has_effect=has_effect,
    )

    assert method == "POST"


def killed_and_resumed(
    cluster: PveCluster,
    certificate: Certificate,
    is_last: Callable[[Request], bool],
    *,
    has_effect: bool = True,
) -> str | None:
    """Return the method of the request at which `apply` was killed, and apply again."""
    Path("store.sqlite").unlink(missing_ok=True)
    with run_double(cluster, certificate) as running, passing_time(cluster, SPEED):
        running.double.access.roles["Balancer"] |= set(PRIVILEGES)
        configure_group(running)
        method = kill_at(running, is_last, has_effect=has_effect)
        again = run_forked(polling_opendrs, APPLY)

    assert again.returncode == 0, (again.stdout, again.stderr)
    assert len(cluster.tasks) == 1
    assert cluster.used == {"one": 75 * GIB, "two": 20 * GIB}
    return method


def test_check_names_the_privileges_to_move_disks(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(cluster_of())
    configure(running)
    without_group = opendrs("check", "opendrs.toml", "--online")
    configure_group(running)

    reading = failed_checks(opendrs)
    running.double.access.roles["Balancer"] |= {"Datastore.Audit"}
    moving = failed_checks(opendrs)
    grant(running, moving)

    assert without_group.status == 0
    assert [each["subject"] for each in reading] == [
        "Datastore.Audit on /storage/one",
        "Datastore.Audit on /storage/two",
    ]
    assert [each["subject"] for each in moving] == [
        "VM.Config.Disk on /vms",
        "Datastore.AllocateSpace on /storage/one",
        "Datastore.AllocateSpace on /storage/two",
    ]
    assert failed_checks(opendrs) == []


def test_check_of_a_cluster_without_the_storages_needs_no_further_privilege(
    serve: Serve, opendrs: RunOpendrs
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    running.double.access.roles["Balancer"] |= {"Datastore.Audit"}
    configure_group(running)

    assert failed_checks(opendrs) == []


def failed_checks(opendrs: RunOpendrs) -> list[dict[str, Any]]:
    result = opendrs("check", "opendrs.toml", "--online", "--format", "json")
    checks = json.loads(result.out)["online"]
    return [each for each in checks if not each["ok"]]


def grant(running: RunningDouble, found: list[dict[str, Any]]) -> None:
    """Run each command that grants what *found* reports as missing once."""
    for remedy in dict.fromkeys(each["remedy"] for each in found):
        for command in remedy.split(" && "):
            running.double.access.pveum(command)
