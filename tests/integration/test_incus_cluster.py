"""Incus adapter on a cluster of the test, over HTTPS: observe, move, fail."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event

import pytest

from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnsupportedError,
)
from opendrs.model import (
    ColdMigration,
    GuestId,
    GuestState,
    LiveMigration,
    Mobility,
    NodeId,
    NodeState,
)
from opendrs.platforms.incus import IncusPlatform, IncusSettings
from opendrs.platforms.incus.settings import RebalancerState
from opendrs.ports import TaskId, TaskState
from support.incus_documents import (
    double,
    instance,
    member,
    metrics,
    network_metrics,
    resources,
    server,
    state,
)
from support.incus_double import SECRET, Failure, IncusDouble, TlsFiles, serve_socket

V1, H1, H2, H3 = GuestId("v1"), NodeId("h1"), NodeId("h2"), NodeId("h3")
MOVE = LiveMigration(V1, H1, H2)
LAST_MOVE = "volatile.rebalance.last_move"


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> TlsFiles:
    return TlsFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def cluster() -> IncusDouble:
    return double(instance("v1"), instance("v2"))


@pytest.fixture
def settings(tls: TlsFiles, cluster: IncusDouble) -> Iterator[IncusSettings]:
    with tls.serve(cluster) as url:
        yield tls.settings(url)


@pytest.fixture
def platform(settings: IncusSettings) -> IncusPlatform:
    return IncusPlatform("lab", settings)


def ended(platform: IncusPlatform, task: TaskId) -> TaskState:
    for _ in range(1000):
        state = platform.status(task).state
        if state is not TaskState.RUNNING:
            return state
        Event().wait(0.05)
    pytest.fail("the task does not end")


def test_observe_returns_nodes_and_guests(platform: IncusPlatform) -> None:
    seen = platform.observe()

    assert set(seen.nodes) == {H1, H2, H3}
    assert all(node.online and node.capacity for node in seen.nodes.values())
    assert {guest.node for guest in seen.guests.values()} == {H1}
    assert seen.guests[V1].mobility is Mobility.LIVE
    assert seen.guests[V1].managed_by is None


@pytest.mark.parametrize("part", ["state", "resources", "metrics"])
@pytest.mark.parametrize("status", [403, 500, 503])
def test_member_that_fails_marks_that_member_alone(
    cluster: IncusDouble,
    settings: IncusSettings,
    platform: IncusPlatform,
    part: str,
    status: int,
) -> None:
    whole = platform.observe()
    cluster.failures = [Failure(f"({part}.*h3|h3/{part})", status=status)]

    seen = IncusPlatform("lab", settings).observe()

    expected = NodeState.UNKNOWN if part == "state" else NodeState.ONLINE
    assert seen.nodes[H3].state is expected
    assert (seen.nodes[H3].capacity is None) is (part in ("state", "resources"))
    for name in (H1, H2):
        assert seen.nodes[name].usage == whole.nodes[name].usage


def test_offline_member_is_unknown_and_not_queried(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.members[2]["status"] = "Offline"

    seen = platform.observe()

    assert seen.nodes[H3].state is NodeState.UNKNOWN
    assert not any("h3" in request for request in cluster.requests)


def test_hanging_instance_is_marked_and_the_others_are_observed(
    cluster: IncusDouble, settings: IncusSettings, tls: TlsFiles
) -> None:
    for timeout in (1.5, 10.0, 60.0):  # a busy machine is late with other answers too
        cluster.failures = []
        platform = IncusPlatform("lab", tls.settings(*settings.urls, timeout=timeout))
        with suppress(PlatformUnavailableError):
            platform.observe()
            cluster.failures = [
                Failure(r"/instances\?recursion", delay=1000),
                Failure("/instances/v1", delay=1000),
            ]
            seen = platform.observe()
            if seen.guests[GuestId("v2")].state is GuestState.RUNNING:
                break

    assert seen.guests[V1].state is GuestState.UNKNOWN
    assert seen.guests[V1].lock
    assert seen.guests[GuestId("v2")].state is GuestState.RUNNING
    assert seen.guests[GuestId("v2")].lock is None


def test_resources_that_never_change_are_reported_and_not_used(
    cluster: IncusDouble,
    platform: IncusPlatform,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("opendrs.platforms.incus.observation.STUCK_AFTER", 0.2)
    cluster.resources["h1"] = resources(used=0.1)
    before = platform.observe().nodes[H1].usage.memory
    Event().wait(0.3)
    cluster.states = {name: state(used=0.6, load=2.0) for name in cluster.states}
    for name in ("h2", "h3"):
        cluster.resources[name] = resources(used=0.1, load=2.0)

    after = platform.observe().nodes

    total = 16 << 30
    assert before == int(0.1 * total)
    assert after[H1].usage.memory == pytest.approx(0.6 * total, abs=1)
    assert after[H2].usage.memory == int(0.1 * total)
    reported = [each.args for each in caplog.records if each.args]
    assert [tuple(each)[:2] for each in reported] == [("h1", "resources")]


def test_requests_of_a_large_cluster_grow_with_its_members_alone(
    tls: TlsFiles,
) -> None:
    names = [f"h{number}" for number in range(1, 51)]
    instances = [instance(f"v{at}", names[at % 50]) for at in range(2000)]
    large = double(*instances)
    large.members = [member(name) for name in names]
    large.states = {name: state() for name in names}
    large.resources = {name: resources() for name in names}
    large.metrics = {
        name: "".join(metrics(each["name"]) for each in instances[at::50])
        for at, name in enumerate(names)
    }

    with tls.serve(large) as url:
        seen = IncusPlatform("lab", tls.settings(url)).observe()

    assert len(seen.nodes) == 50
    assert sum(each.usage.memory is not None for each in seen.guests.values()) == 2000
    assert len(large.requests) == 3 * 50 + 6


def test_untrusted_certificate_is_denied(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.server = {"auth": "untrusted", "api_extensions": []}

    with pytest.raises(PermissionDeniedError):
        platform.observe()


@pytest.mark.parametrize("changes", [{"server": "lxd"}, {"server_clustered": False}])
def test_other_server_is_unsupported(
    cluster: IncusDouble, platform: IncusPlatform, changes: dict[str, object]
) -> None:
    cluster.server["environment"].update(changes)

    with pytest.raises(UnsupportedError):
        platform.observe()


def test_cpu_use_of_guests_needs_two_samples(
    cluster: IncusDouble, platform: IncusPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opendrs.platforms.incus.observation.MIN_SAMPLE_AGE", 0.2)
    cluster.metrics["h1"] = metrics("v1", seconds=10)
    first = platform.observe().guests[V1].usage
    Event().wait(0.3)
    cluster.metrics["h1"] = metrics("v1", seconds=10.1)
    second = platform.observe().guests[V1].usage

    assert first.cpu is None
    assert first.memory == second.memory == 1 << 29
    assert second.cpu is not None
    assert 0 < second.cpu < 1


def test_traffic_needs_two_samples_and_no_further_requests(
    cluster: IncusDouble, settings: IncusSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opendrs.platforms.incus.observation.MIN_SAMPLE_AGE", 0.2)
    cluster.instance("v1")["expanded_devices"]["eth0"] = {"type": "nic"}
    measuring = replace(settings, network_capacity=1.25e9)
    IncusPlatform("plain", settings).observe()
    plain = len(cluster.requests)

    seen = []
    platform = IncusPlatform("lab", measuring)
    for count in (0, 10**6):
        texts = [metrics("v1"), metrics("v2"), network_metrics("v1", {"eth0": count})]
        cluster.metrics["h1"] = "".join(texts)
        seen.append(platform.observe())
        Event().wait(0.3)

    first, second = seen
    assert first.guests[V1].loads == first.nodes[H1].loads == {}
    assert 0 < second.guests[V1].loads["network"] < 1e6 / 0.3
    assert second.nodes[H1].loads == second.guests[V1].loads
    assert second.nodes[H2].loads == {"network": 0}
    assert second.nodes[H2].load_capacities == {"network": 1.25e9}
    assert len(cluster.requests) == 3 * plain - 1  # the storage pool is read once
    assert len([each for each in cluster.requests if "metrics" in each]) == 3


def test_migration_is_followed_to_its_end_and_recorded(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    before = datetime.now(UTC)  # noqa: TID251 - compared with a time of the cluster
    task = platform.start(MOVE)

    assert ended(platform, task) is TaskState.DONE
    stamp = int(cluster.instance("v1")["config"][LAST_MOVE])
    assert stamp >= int(before.timestamp())
    assert platform.observe().guests[V1].node == H2
    assert platform.observe().guests[V1].migrated_at == datetime.fromtimestamp(
        stamp, UTC
    )


def test_move_is_recorded_once(cluster: IncusDouble, platform: IncusPlatform) -> None:
    task = platform.start(MOVE)
    ended(platform, task)
    for _ in range(3):
        platform.status(task)

    assert len([each for each in cluster.requests if each.startswith("PATCH")]) == 1


def test_move_that_cannot_be_recorded_is_done(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.failures = [Failure("PATCH", status=403)]

    assert ended(platform, platform.start(MOVE)) is TaskState.DONE


def test_failed_migration_has_the_reason_of_incus(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.move_error = "Live migration requires migration.stateful"
    task = platform.start(MOVE)

    assert ended(platform, task) is TaskState.FAILED
    assert cluster.move_error in platform.status(task).detail
    assert LAST_MOVE not in cluster.instance("v1")["config"]


def test_reason_of_a_forgotten_operation_is_kept(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.move_error = "disk full"
    task = platform.start(MOVE)
    ended(platform, task)
    cluster.operations.clear()

    assert "disk full" in platform.status(task).detail


def test_operations_of_the_oldest_tasks_are_forgotten(
    platform: IncusPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opendrs.platforms.incus.platform.MAX_FOLLOWED", 2)
    route = [H1, H2, H3, H1, H2]
    moves = [LiveMigration(V1, *each) for each in itertools.pairwise(route)]

    tasks = []
    for each in moves:
        tasks.append(platform.start(each))
        assert ended(platform, tasks[-1]) is TaskState.DONE

    kept = vars(platform)["_followed"]
    assert [task.id for task in kept] == [tasks[-2], tasks[-1]]


def test_forgotten_operation_is_judged_by_location(
    cluster: IncusDouble, settings: IncusSettings, platform: IncusPlatform
) -> None:
    task = platform.start(MOVE)
    ended(platform, task)
    cluster.operations.clear()
    other = IncusPlatform("lab", settings)
    done = other.status(task).state
    cluster.instance("v1")["location"] = "h1"
    failed = other.status(task).state
    cluster.instance("v1")["location"] = "h3"
    elsewhere = other.status(task).state
    cluster.instances.clear()

    assert (done, failed, elsewhere) == (
        TaskState.DONE,
        TaskState.FAILED,
        TaskState.LOST,
    )
    assert other.status(task).state is TaskState.LOST


@pytest.mark.parametrize("status", ["Offline", "Online"])
@pytest.mark.parametrize(
    ("is_running", "failure"),
    [
        (False, Failure("/instances/v1", status=503)),
        (
            True,  # its operation is on the source
            Failure("/operations/", message="Target cluster member is unavailable"),
        ),
    ],
)
def test_task_on_an_offline_source_is_lost(
    cluster: IncusDouble,
    platform: IncusPlatform,
    status: str,
    is_running: bool,  # noqa: FBT001
    failure: Failure,
) -> None:
    cluster.slow["v1"] = 60.0
    task = platform.start(MOVE) if is_running else platform.find(MOVE)
    cluster.members[0]["status"] = status
    cluster.failures = [failure]

    if status == "Offline":
        assert platform.status(task).state is TaskState.LOST
    else:
        with pytest.raises(PlatformUnavailableError):
            platform.status(task)


def test_instance_of_the_same_name_is_another_guest(
    cluster: IncusDouble, settings: IncusSettings, platform: IncusPlatform
) -> None:
    task = platform.start(MOVE)
    ended(platform, task)
    cluster.operations.clear()
    cluster.instance("v1")["config"]["volatile.uuid"] = "another"

    assert IncusPlatform("lab", settings).status(task).state is TaskState.LOST


def test_rejected_start_marks_the_guest(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    message = "Instances with backups cannot be moved"
    cluster.failures = [Failure("POST", status=400, message=message)]

    with pytest.raises(PlatformError):
        platform.start(MOVE)

    seen = platform.observe().guests[V1]
    assert seen.mobility is Mobility.NONE
    assert message in (seen.mobility_detail or "")


def test_unavailable_start_marks_no_guest(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.failures = [Failure("POST", status=503)]

    with pytest.raises(PlatformUnavailableError):
        platform.start(MOVE)

    assert platform.observe().guests[V1].mobility is Mobility.LIVE


@pytest.mark.parametrize("status", ["Evacuated", "Evacuating", "Restoring", "Offline"])
def test_start_to_member_that_is_not_online_fails(
    cluster: IncusDouble, platform: IncusPlatform, status: str
) -> None:
    cluster.members[1]["status"] = status

    with pytest.raises(PlatformError):
        platform.start(MOVE)

    assert cluster.starts() == []


def test_start_with_a_disk_on_another_pool_than_observed_fails(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    platform.observe()
    cluster.instance("v1")["expanded_devices"]["root"]["pool"] = "moved"

    with pytest.raises(PlatformError, match="disk on moved"):
        platform.start(MOVE)

    assert cluster.starts() == []


def test_start_of_instance_with_an_operation_fails(
    cluster: IncusDouble, settings: IncusSettings, platform: IncusPlatform
) -> None:
    cluster.move_time = 60
    platform.start(MOVE)

    with pytest.raises(PlatformError):
        IncusPlatform("lab", settings).start(LiveMigration(V1, H1, H3))

    assert len(cluster.starts()) == 1


def test_start_twice_in_one_process_sends_one_request(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.move_time = 60
    task = platform.start(MOVE)

    assert platform.start(MOVE) == task
    assert len(cluster.starts()) == 1


@pytest.mark.parametrize(
    "action", [ColdMigration(V1, H1, H2), LiveMigration(V1, H1, H1)]
)
def test_start_of_other_actions_is_unsupported(
    platform: IncusPlatform, action: ColdMigration | LiveMigration
) -> None:
    with pytest.raises(UnsupportedError):
        platform.start(action)


def test_start_outside_the_projects_is_unsupported(
    settings: IncusSettings, tls: TlsFiles
) -> None:
    platform = IncusPlatform("lab", tls.settings(*settings.urls, projects=("web",)))

    assert platform.observe().guests == {}
    with pytest.raises(UnsupportedError):
        platform.start(MOVE)


def test_running_migration_cannot_be_aborted(
    cluster: IncusDouble, platform: IncusPlatform
) -> None:
    cluster.move_time = 60
    task = platform.start(MOVE)

    with pytest.raises(UnsupportedError):
        platform.abort(task)

    assert not any(each.startswith("DELETE") for each in cluster.requests)


def test_secrets_of_operations_are_shown_nowhere(
    cluster: IncusDouble,
    settings: IncusSettings,
    platform: IncusPlatform,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("DEBUG", "opendrs")
    cluster.move_time = 60
    task = platform.start(MOVE)
    other = IncusPlatform("lab", settings)

    shown = f"{other.status(task)} {other.observe()} {vars(other)} {caplog.text}"

    assert SECRET not in shown


def test_hidden_configuration_leaves_guests_to_incus(
    cluster: IncusDouble, tls: TlsFiles, settings: IncusSettings
) -> None:
    cluster.server = server(config={})
    unknown = IncusPlatform("lab", settings).observe()
    off = IncusPlatform(
        "lab", tls.settings(*settings.urls, rebalancer=RebalancerState.OFF)
    )

    assert unknown.guests[V1].managed_by
    assert off.observe().guests[V1].managed_by is None


def test_restricted_certificate_reads_metrics_by_project(
    cluster: IncusDouble, settings: IncusSettings
) -> None:
    cluster.server = server(config={})
    cluster.instances.append(instance("v1", "h2", project="web"))
    cluster.projects.append({"name": "web", "config": {}})

    seen = IncusPlatform("lab", settings).observe()

    queries = [each for each in cluster.requests if "metrics" in each]
    assert sorted(each.partition("?")[2] for each in queries) == [
        "target=h1&project=default",
        "target=h2&project=web",
    ]
    assert set(seen.guests) == {"v1", "v2", "web/v1"}


def test_migration_over_unix_socket_is_done(
    tmp_path: Path, cluster: IncusDouble
) -> None:
    with serve_socket(cluster, tmp_path / "unix.socket") as socket_settings:
        platform = IncusPlatform("lab", socket_settings)

        assert ended(platform, platform.start(MOVE)) is TaskState.DONE
