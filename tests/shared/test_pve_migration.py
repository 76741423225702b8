"""Migrations on the double of Proxmox VE, with the cases that users of others met."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from opendrs.controller.execution_context import (
    CancellationToken,
    ExecutionContext,
    NullObserver,
)
from opendrs.controller.executor import execute
from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.guard import RejectionReason, check
from opendrs.metrics import LoadModel
from opendrs.model import (
    DEFAULT_LIMITS,
    ColdMigration,
    GuestId,
    LiveMigration,
    Migration,
    NodeId,
    PowerOff,
    Snapshot,
)
from opendrs.platforms.proxmox import ProxmoxPlatform
from opendrs.policies.balance import Balance
from opendrs.ports import Outcome, StepRecord, TaskId, TaskState, TaskStatus
from opendrs.store.memory import MemoryStore
from support.https_server import Answer, Request
from support.pve_cluster import PveCluster, PveGuest
from support.pve_clusters import imbalanced_cluster
from support.pve_double import RunningDouble
from support.pve_fixtures import (
    PVE_MARKS,
    DoubleClock,
    Serve,
    platform_of,
    serve,
    with_guests,
)

__all__ = ["serve"]  # a fixture
pytestmark = PVE_MARKS
H1, H2, H3 = NodeId("h1"), NodeId("h2"), NodeId("h3")
A = GuestId("a")
MOVE = LiveMigration(A, H1, H2)


def statuses(
    platform: ProxmoxPlatform, task: TaskId, cluster: PveCluster, seconds: int = 200
) -> Iterator[TaskStatus]:
    """Yield the status each second until the task has ended."""
    for _ in range(seconds):
        status = platform.status(task)
        yield status
        if status.state is not TaskState.RUNNING:
            return
        cluster.advance(1)
    pytest.fail(f"{task} does not end")


def last_status(
    platform: ProxmoxPlatform, task: TaskId, cluster: PveCluster
) -> TaskStatus:
    return list(statuses(platform, task, cluster))[-1]


def test_ha_request_is_not_the_migration(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", ha="started")))
    platform = platform_of(running)
    task = platform.start(MOVE)

    seen = list(statuses(platform, task, running.cluster))

    assert [each for each, _ in _changes(seen)] == [TaskState.RUNNING, TaskState.DONE]
    assert len(seen) > 15  # the request alone ends after two seconds
    assert running.cluster.migrations_started() == [
        (100, "hamigrate"),
        (100, "qmigrate"),
    ]
    assert running.cluster.services["vm:100"] == {"state": "started", "node": "h2"}


def _changes(seen: list[TaskStatus]) -> list[tuple[TaskState, str]]:
    states = [each.state for each in seen]
    return [
        (state, seen[index].detail)
        for index, state in enumerate(states)
        if index == 0 or states[index - 1] is not state
    ]


def test_ha_migration_that_fails_has_the_cause_of_the_log(serve: Serve) -> None:
    guest = PveGuest(100, "a", "h1", ha="started", failure="no such CPU flag")
    running = serve(with_guests(guest))
    platform = platform_of(running)

    status = last_status(platform, platform.start(MOVE), running.cluster)

    assert status.state is TaskState.FAILED
    assert "migration aborted" in status.detail
    assert "no such CPU flag" in status.detail


def test_ha_request_that_is_dropped_fails_after_the_timeout(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", ha="started")))
    platform = platform_of(running, ha_timeout=40)
    task = platform.start(MOVE)
    running.cluster.nodes["h2"].maintenance = True  # the request is dropped silently

    seen = list(statuses(platform, task, running.cluster))

    assert seen[-1].state is TaskState.FAILED
    assert 35 < len(seen) < 60
    assert running.cluster.migrations_started() == [(100, "hamigrate")]


def test_ha_request_against_a_rule_fails_with_its_cause(serve: Serve) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "a", "h1", ha="started"),
            PveGuest(101, "b", "h2", ha="started"),
        )
    )
    rule = {"rule": "r", "type": "resource-affinity", "affinity": "negative"}
    running.cluster.rules.append({**rule, "resources": "vm:100,vm:101"})
    platform = platform_of(running)

    status = last_status(platform, platform.start(MOVE), running.cluster)

    assert status.state is TaskState.FAILED
    assert "vm:101" in status.detail


def test_ha_guests_that_migrate_along_are_requested_once(serve: Serve) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "a", "h1", ha="started"),
            PveGuest(101, "b", "h1", ha="started"),
        )
    )
    rule = {"rule": "r", "type": "resource-affinity", "affinity": "positive"}
    running.cluster.rules.append({**rule, "resources": "vm:100,vm:101"})
    platform = platform_of(running)
    first = platform.start(MOVE)
    running.cluster.advance(15)

    second = platform.start(LiveMigration(GuestId("b"), H1, H2))

    assert last_status(platform, first, running.cluster).state is TaskState.DONE
    assert last_status(platform, second, running.cluster).state is TaskState.DONE
    requests = [kind for _, kind in running.cluster.migrations_started()]
    assert requests.count("hamigrate") == 1


@pytest.mark.parametrize("state", ["started", "request_stop"])
def test_disarmed_ha_ignores_guests_which_migrate_plainly(
    serve: Serve, state: str
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", ha="started")))
    running.cluster.disarm = "ignore"
    running.cluster.services["vm:100"]["state"] = state  # stays until it is armed
    platform = platform_of(running)

    status = last_status(platform, platform.start(MOVE), running.cluster)

    assert status.state is TaskState.DONE
    assert running.cluster.migrations_started() == [(100, "qmigrate")]


@pytest.mark.parametrize("version", ["8.4.1", "9.2.11"])
def test_only_parameters_of_the_version_are_sent(serve: Serve, version: str) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "a", "h1", disks=("local:disk",)),
            PveGuest(101, "c", "h1", kind="lxc"),
            version=version,
        )
    )
    running.cluster.storages["local"] = False
    running.double.access.roles["Balancer"] |= {"VM.Config.Disk", "Datastore.Audit"}
    platform = platform_of(
        running,
        keep_connections=True,
        target_storage="fast",
        bandwidth=100 << 20,
        restart_containers=True,
    )
    platform.observe()

    tasks = [
        platform.start(MOVE),
        platform.start(ColdMigration(GuestId("c"), H1, H2)),
    ]

    for task in tasks:
        assert last_status(platform, task, running.cluster).state is TaskState.DONE
    sent = [request for request in running.servers[0].requests if request.body]
    forms = [dict(request.form) for request in sent]
    assert forms[0] | {"with-conntrack-state": "1"} == {
        "target": "h2",
        "online": "1",
        "with-local-disks": "1",
        "targetstorage": "fast",
        "bwlimit": "102400",
        "with-conntrack-state": "1",
    }
    assert ("with-conntrack-state" in forms[0]) is version.startswith("9")
    assert forms[1] == {
        "target": "h2",
        "restart": "1",
        "timeout": "180",
        "target-storage": "fast",
        "bwlimit": "102400",
    }


@pytest.mark.parametrize("kind", ["qemu", "lxc"])
def test_a_local_disk_that_is_not_in_the_snapshot_is_not_copied(
    serve: Serve, kind: str
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", kind=kind)))
    running.cluster.storages["local"] = False
    running.double.access.roles["Balancer"] |= {"Datastore.Audit"}
    platform = platform_of(running, restart_containers=True)
    action: Migration = MOVE if kind == "qemu" else ColdMigration(A, H1, H2)
    platform.observe()
    running.cluster.guests[100].disks = ("local:disk",)

    with pytest.raises(PlatformError, match="disk on local is not in"):
        platform.start(action)

    assert running.cluster.tasks == []
    # The next snapshot contains it, and the limits decide.
    seen = platform.observe()
    rejected = check([action], seen, DEFAULT_LIMITS)
    assert rejected is not None
    assert rejected.reason is RejectionReason.LOCAL_DISKS
    assert platform.start(action)


def test_a_container_on_a_shared_storage_is_migrated_without_a_copy(
    serve: Serve,
) -> None:
    disks = ("ceph:disk",)
    running = serve(with_guests(PveGuest(100, "a", "h1", kind="lxc", disks=disks)))
    running.cluster.storages["ceph"] = True
    running.double.access.roles["Balancer"] |= {"Datastore.Audit"}
    platform = platform_of(running, restart_containers=True)
    platform.observe()

    assert platform.start(ColdMigration(A, H1, H2))


@pytest.mark.parametrize("status", [400, 403, 500, 595])
def test_a_rejected_request_is_sent_once(serve: Serve, status: int) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")), hosts=2)
    running.double.fault = lambda request: (
        Answer(status, "no") if request.method == "POST" else None
    )

    with pytest.raises(PlatformError):
        platform_of(running).start(MOVE)

    sent = [each for server in running.servers for each in server.requests]
    assert [request.method for request in sent].count("POST") == 1


def test_a_failed_migration_has_the_cause_of_the_log(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", failure="disk full")))
    platform = platform_of(running)

    status = last_status(platform, platform.start(MOVE), running.cluster)

    assert status.state is TaskState.FAILED
    assert "disk full" in status.detail
    assert platform.observe().guests[A].node == H1


def test_status_does_not_depend_on_the_answer_of_the_target(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    platform = platform_of(running)
    task = platform.start(MOVE)

    running.cluster.nodes["h2"].failure = 595

    assert last_status(platform, task, running.cluster).state is TaskState.DONE


def test_status_of_a_guest_on_a_source_that_is_silent_is_unavailable(
    serve: Serve,
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    platform = platform_of(running)
    task = platform.start(MOVE)

    running.cluster.nodes["h1"].failure = 595

    with pytest.raises(PlatformUnavailableError):
        platform.status(task)


def test_status_of_a_guest_that_left_a_dead_source_is_done(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    platform = platform_of(running)
    task = platform.start(MOVE)
    running.cluster.advance(10)

    running.cluster.nodes["h1"].online = False

    assert platform.status(task).state is TaskState.DONE


@pytest.mark.parametrize(
    "change",
    [
        {"lock": "backup"},
        {"status": "stopped"},
        {"devices": ("hostpci0",)},
        {"disks": ("local:disk",)},
        {"lacking": {"h2": "fast"}},
    ],
)
def test_start_of_a_guest_that_cannot_migrate_requests_nothing(
    serve: Serve, change: dict[str, object]
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", **change)))  # type: ignore[arg-type]

    with pytest.raises(PlatformError):
        platform_of(running).start(MOVE)

    assert running.cluster.tasks == []


@pytest.mark.parametrize("ha", [None, "started"])
def test_start_to_a_node_in_maintenance_requests_nothing(
    serve: Serve, ha: str | None
) -> None:
    other = PveGuest(101, "b", "h3", ha="started")  # HA shows maintenance
    running = serve(with_guests(PveGuest(100, "a", "h1", ha=ha), other))
    running.cluster.nodes["h2"].maintenance = True

    with pytest.raises(PlatformError):
        platform_of(running).start(MOVE)

    assert running.cluster.tasks == []


def test_unsupported_actions_are_rejected(serve: Serve) -> None:
    running = serve(
        with_guests(PveGuest(100, "a", "h1"), PveGuest(101, "c", "h1", kind="lxc"))
    )
    platform = platform_of(running)

    for action in (
        PowerOff(H1),
        ColdMigration(A, H1, H2),
        LiveMigration(GuestId("c"), H1, H2),
        ColdMigration(GuestId("c"), H1, H2),  # not allowed by the settings
    ):
        with pytest.raises(UnsupportedError):
            platform.start(action)


def test_abort_of_a_migration_by_the_ha_manager_names_the_privilege(
    serve: Serve,
) -> None:
    guest = PveGuest(100, "a", "h1", ha="started", duration=500)
    running = serve(with_guests(guest))
    platform = platform_of(running)
    task = platform.start(MOVE)
    running.cluster.advance(20)

    with pytest.raises(PermissionDeniedError, match=r"Sys\.Modify on /nodes/h1"):
        platform.abort(task)


def request_count(serve: Serve) -> int:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    platform_of(running).start(MOVE)
    return len(running.double.requests)


@pytest.mark.parametrize("ha", [None, "started"])
@pytest.mark.parametrize("arrives", [False, True])
def test_process_that_ends_at_any_request_starts_nothing_twice(
    serve: Serve, ha: str | None, *, arrives: bool
) -> None:
    for number in range(1, request_count(serve) + 1):
        running = serve(with_guests(PveGuest(100, "a", "h1", ha=ha)))
        with pytest.raises(PlatformError):
            start_and_lose(running, number, arrives=arrives)
        resumed = platform_of(running)
        task = resumed.find(MOVE)

        if resumed.status(task).state is TaskState.FAILED:  # it was never started
            task = resumed.start(MOVE)

        assert last_status(resumed, task, running.cluster).state is TaskState.DONE
        started = [kind for _, kind in running.cluster.migrations_started()]
        assert started.count("qmigrate") == 1


def start_and_lose(running: RunningDouble, number: int, *, arrives: bool) -> None:
    """Start a migration whose request *number* is lost, or its answer if it arrives."""
    seen: list[Request] = []

    def fault(request: Request) -> Answer | None:
        seen.append(request)
        if len(seen) < number:
            return None
        if arrives and len(seen) == number:
            running.double._respond(request)  # noqa: SLF001 - the answer is lost
        return Answer(200, "OK", b"{", content_length=50)

    running.double.fault = fault
    try:
        platform_of(running).start(MOVE)
    finally:
        running.double.fault = lambda _: None


def balance(
    platform: ProxmoxPlatform,
    cluster: PveCluster,
    before: Snapshot,
    **changes: Any,  # noqa: ANN401
) -> tuple[StepRecord, ...]:
    """Plan and execute with the production code; return the records of all steps."""
    store, limits = MemoryStore(), DEFAULT_LIMITS
    settings = {"min_improvement": 0.01, **changes}
    policy = Balance(limits=limits, load_model=LoadModel.STATIC, **settings)
    decision = policy.decide(before, None)  # without the repair before it
    context = ExecutionContext(
        platform=platform,
        clock=DoubleClock(cluster),
        store=store,
        limits=limits,
        observer=NullObserver(),
        cancellation=CancellationToken(),
    )
    return execute(decision.plan, context, run="run-1").records


@pytest.mark.slow
@pytest.mark.parametrize("version", ["8.4.1", "9.1.2", "9.2.11"])
def test_cluster_is_balanced_over_tls(serve: Serve, version: str) -> None:
    cluster = imbalanced_cluster(version, nodes=3, guests=60)
    if version == "9.2.11":
        cluster.crs = {"ha": "dynamic", "ha-auto-rebalance": 1}
    running = serve(cluster)
    platform = platform_of(running, load_window=0, restart_containers=True)
    before = platform.observe()

    records = balance(platform, cluster, before)

    assert {record.outcome for record in records} == {Outcome.DONE}
    assert len(records) >= 5
    after = platform.observe()
    assert worst(after) < worst(before)
    moved = [
        name
        for name, guest in after.guests.items()
        if guest.node != before.guests[name].node
    ]
    managed = [name for name in moved if before.guests[name].ha_managed]
    assert bool(managed) is not version.startswith("9.2")  # CRS owns guests under HA


@pytest.mark.slow
def test_node_in_maintenance_receives_nothing(serve: Serve) -> None:
    """A guest outside HA stays on the node, and can leave it; none comes back."""
    cluster = imbalanced_cluster("9.1.2", nodes=4, guests=48)
    cluster.add(PveGuest(900, "outside", "pve4"))
    cluster.nodes["pve4"].maintenance = True
    platform = platform_of(serve(cluster), load_window=0)
    before = platform.observe()

    records = balance(platform, cluster, before)

    on_node = [g.id for g in platform.observe().guests.values() if g.node == "pve4"]
    assert records
    assert on_node == ["outside"]
    assert "pve4" not in {getattr(each.action, "target", "") for each in records}
    leave = LiveMigration(GuestId("outside"), NodeId("pve4"), NodeId("pve3"))
    task = platform.start(leave)
    assert last_status(platform, task, cluster).state is TaskState.DONE


@pytest.mark.slow
def test_large_cluster_is_improved_over_tls(serve: Serve) -> None:
    cluster = imbalanced_cluster("9.2.11", nodes=200, guests=4000)
    platform = platform_of(serve(cluster), load_window=0)
    before = platform.observe()

    records = balance(platform, cluster, before, max_migrations=12, min_improvement=0)

    assert [record.outcome for record in records] == [Outcome.DONE] * 12
    after = platform.observe()
    moved = {
        name
        for name, guest in after.guests.items()
        if guest.node != before.guests[name].node
    }
    assert moved == {record.action.guest for record in records}  # type: ignore[union-attr]


@pytest.mark.slow
def test_node_that_goes_away_in_the_middle_concerns_its_steps_alone(
    serve: Serve,
) -> None:
    cluster = imbalanced_cluster("9.1.2", nodes=4, guests=48)
    running = serve(cluster)
    platform = platform_of(running, load_window=0)
    before = platform.observe()

    def cut() -> None:
        cluster.nodes["pve4"].online = False

    cluster.at(4.0, cut)

    records = balance(platform, cluster, before)

    outcomes = Counter(
        (getattr(record.action, "target", ""), record.outcome) for record in records
    )
    others = {key: count for key, count in outcomes.items() if key[0] != "pve4"}
    assert {outcome for _, outcome in others} == {Outcome.DONE}
    assert any(key[0] == "pve4" and key[1] is not Outcome.DONE for key in outcomes)
    assert not any(task.end is None for task in cluster.tasks)


def worst(snapshot: Snapshot) -> int:
    """Return the number of guests on the node with most of them."""
    return max(Counter(guest.node for guest in snapshot.guests.values()).values())
