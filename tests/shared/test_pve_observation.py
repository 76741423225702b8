"""Observation of the double of Proxmox VE."""

from __future__ import annotations

import time

import pytest

from opendrs.errors import (
    PermissionDeniedError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Disk,
    GuestId,
    GuestState,
    LiveMigration,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Snapshot,
)
from opendrs.platforms.proxmox import client as client_module
from opendrs.platforms.proxmox.errors import LoginRejectedError, MissingPrivilegeError
from opendrs.platforms.proxmox.settings import GuestNaming
from support.https_server import Answer, Request
from support.pve_cluster import PveGuest, PveTask
from support.pve_clusters import imbalanced_cluster
from support.pve_double import RunningDouble
from support.pve_fixtures import PVE_MARKS, Serve, platform_of, serve, with_guests

pytestmark = PVE_MARKS
__all__ = ["serve"]  # a fixture
H1, H2, H3 = NodeId("h1"), NodeId("h2"), NodeId("h3")


@pytest.mark.parametrize("version", ["8.4.1", "9.1.2", "9.2.11"])
def test_observe_cluster_of_each_version_reads_everything(
    serve: Serve, version: str
) -> None:
    running = serve(imbalanced_cluster(version, nodes=3, guests=60))

    snapshot = platform_of(running).observe()

    assert len(snapshot.nodes) == 3
    assert len(snapshot.guests) == 60
    assert all(node.online and node.usage.resources for node in snapshot.nodes.values())
    assert all(node.cpu_model == "Double CPU" for node in snapshot.nodes.values())
    assert snapshot.nodes[NodeId("pve1")].usage.cpu == pytest.approx(
        running.cluster.nodes["pve1"].cpu * 32
    )
    pressure = snapshot.nodes[NodeId("pve1")].pressure.cpu.some
    guest = snapshot.guests[GuestId("guest101")]
    assert guest.usage.cpu == pytest.approx(0.5)
    if version.startswith("8"):
        assert pressure is None
        assert guest.pressure.cpu.some is None
        assert [type(rule) for rule in snapshot.rules] == [NodeAffinity]
    else:
        assert pressure == pytest.approx(0.05)
        assert guest.pressure.cpu.some == pytest.approx(0.01)
        assert [type(rule) for rule in snapshot.rules] == [AntiAffinity, NodeAffinity]
    assert all(rule.origin for rule in snapshot.rules)


def test_observe_large_cluster_needs_few_requests(serve: Serve) -> None:
    running = serve(imbalanced_cluster("9.2.11", nodes=200, guests=4000))
    platform = platform_of(running)

    counts = []
    for _ in range(3):
        before = len(running.double.requests)
        snapshot = platform.observe()
        counts.append(len(running.double.requests) - before)

    assert len(snapshot.guests) == 4000
    assert all(node.online for node in snapshot.nodes.values())
    assert max(counts) <= 60


def test_observe_repeatedly_reads_each_node(serve: Serve) -> None:
    cluster = imbalanced_cluster("9.2.11", nodes=30, guests=60)
    platform = platform_of(serve(cluster))

    for _ in range(4):
        snapshot = platform.observe()

    assert all(node.load_average is None for node in snapshot.nodes.values())
    assert all(node.cpu_model for node in snapshot.nodes.values())


def test_observe_silent_node_is_unknown_and_nothing_else(serve: Serve) -> None:
    guests = [PveGuest(100 + n, f"g{n}", f"h{n % 3 + 1}") for n in range(6)]
    running = serve(with_guests(*guests))
    running.cluster.nodes["h2"].failure = 596

    snapshot = platform_of(running).observe()

    states = {name: node.state for name, node in snapshot.nodes.items()}
    assert states == {
        H1: NodeState.ONLINE,
        H2: NodeState.UNKNOWN,
        H3: NodeState.ONLINE,
    }
    on_h2 = [guest for guest in snapshot.guests.values() if guest.node == H2]
    assert {guest.state for guest in on_h2} == {GuestState.UNKNOWN}
    assert all(guest.usage.cpu is None for guest in on_h2)


@pytest.mark.parametrize("version", ["8.4.1", "9.2.11"])
def test_observe_node_that_falls_silent_is_unknown_until_it_answers(
    serve: Serve, version: str
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h2"), version=version))
    platform = platform_of(running)
    assert platform.observe().nodes[H2].online

    running.cluster.nodes["h2"].failure = 595

    assert platform.observe().nodes[H2].state is NodeState.UNKNOWN

    running.cluster.nodes["h2"].failure = 0

    assert platform.observe().nodes[H2].online


def observe_beside_slow_node(running: RunningDouble) -> Snapshot:
    """Observe while h2 does not answer; on a busy machine the others are late too."""
    for timeout in (0.3, 10.0, 60.0):
        snapshot = platform_of(running, node_timeout=timeout).observe()
        if snapshot.nodes[H1].online and snapshot.nodes[H3].online:
            break
    return snapshot


def test_observe_slow_node_is_abandoned_after_its_timeout(serve: Serve) -> None:
    running = serve(with_guests())
    node = running.cluster.nodes["h2"]
    node.failure, node.delay = 596, 1000.0
    begin = time.monotonic()

    snapshot = observe_beside_slow_node(running)

    assert time.monotonic() - begin < node.delay
    assert snapshot.nodes[H2].state is NodeState.UNKNOWN
    assert snapshot.nodes[H3].online


def test_observe_storage_that_hangs_one_call_concerns_its_node(serve: Serve) -> None:
    """The list of guests of a node with an unreachable storage does not answer."""
    running = serve(with_guests(PveGuest(100, "a", "h2"), PveGuest(101, "b", "h3")))
    running.double.fault = lambda request: (
        Answer(200, "OK", delay=1000) if request.path.endswith("/h2/qemu") else None
    )

    snapshot = observe_beside_slow_node(running)

    states = [snapshot.nodes[node].state for node in (H1, H2, H3)]
    assert states == [NodeState.ONLINE, NodeState.UNKNOWN, NodeState.ONLINE]
    assert snapshot.guests[GuestId("a")].state is GuestState.UNKNOWN
    assert snapshot.guests[GuestId("b")].state is GuestState.RUNNING


@pytest.mark.parametrize("reason", ["tls_process_server_certificate", "Broken pipe"])
@pytest.mark.parametrize("status", range(595, 600))
def test_observe_error_of_the_proxying_node_concerns_one_node(
    serve: Serve, status: int, reason: str
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h2")))
    running.double.fault = lambda request: (
        Answer(status, reason) if "/nodes/h2/" in request.path else None
    )

    nodes = platform_of(running).observe().nodes

    assert [node.id for node in nodes.values() if node.online] == [H1, H3]


def test_observe_guest_error_during_migration_concerns_the_guest(serve: Serve) -> None:
    running = serve(
        with_guests(PveGuest(100, "a", "h1"), PveGuest(101, "b", "h1", lock="backup"))
    )
    running.double.fault = lambda request: (
        Answer(500, "got no worker upid") if "/qemu/100/" in request.path else None
    )

    snapshot = platform_of(running).observe()

    assert snapshot.nodes[H1].online
    assert snapshot.guests[GuestId("a")].state is GuestState.RUNNING
    assert snapshot.guests[GuestId("b")].lock == "backup"


def test_observe_maintenance_and_offline_nodes(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", ha="started")))
    running.cluster.nodes["h2"].maintenance = True
    running.cluster.nodes["h3"].online = False

    snapshot = platform_of(running).observe()

    assert snapshot.nodes[H2].state is NodeState.MAINTENANCE
    assert snapshot.nodes[H3].state is NodeState.OFFLINE


def test_observe_without_quorum_all_nodes_are_unknown(serve: Serve) -> None:
    running = serve(with_guests(), hosts=2)
    running.cluster.quorate = False

    snapshot = platform_of(running).observe()

    assert {node.state for node in snapshot.nodes.values()} == {NodeState.UNKNOWN}


def test_observe_host_without_quorum_uses_one_that_has_it(serve: Serve) -> None:
    cut_off, other = serve(with_guests()), serve(with_guests())
    cut_off.cluster.quorate = False
    hosts = (cut_off.servers[0].host, other.servers[0].host)

    snapshot = platform_of(cut_off, hosts=hosts).observe()

    assert all(node.online for node in snapshot.nodes.values())


def test_observe_migration_of_another_login_has_its_target(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", duration=100)))
    values = {"node": "h1", "vmid": "100", "target": "h3", "online": "1"}
    running.cluster.migrate("qemu", values, "root@pam", None)

    guest = platform_of(running).observe().guests[GuestId("a")]

    assert (guest.migrating_to, guest.lock) == (H3, None)


def test_observe_running_backup_is_the_lock_of_the_guest(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    task = PveTask(
        "UPID:h1:1:1:1:vzdump:100:root@pam:", "h1", "vzdump", 100, "r", None, 0
    )
    running.cluster.tasks.append(task)

    snapshot = platform_of(running).observe()

    assert snapshot.guests[GuestId("a")].lock == "backup"
    assert snapshot.nodes[H1].jobs == ("vzdump",)


def test_observe_guests_of_automatic_rebalancing_are_managed(serve: Serve) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "plain", "h1"),
            PveGuest(101, "managed", "h1", ha="started"),
            PveGuest(102, "excluded", "h1", ha="started", auto_rebalance=0),
            PveGuest(103, "bound", "h1", ha="started"),
        )
    )
    running.cluster.crs = {"ha": "dynamic", "ha-auto-rebalance": 1}
    rule = {"rule": "r", "type": "resource-affinity", "affinity": "positive"}
    running.cluster.rules.append({**rule, "resources": "vm:102,vm:103"})

    snapshot = platform_of(running).observe()

    managed = {name for name, guest in snapshot.guests.items() if guest.managed_by}
    assert managed == {"managed"}
    assert [type(each) for each in snapshot.rules] == [Affinity]


@pytest.mark.parametrize(
    ("mode", "managed", "ha_managed"),
    [("freeze", True, True), ("ignore", False, False)],
)
def test_observe_disarmed_ha_guests_belong_to_freeze_only(
    serve: Serve, mode: str, *, managed: bool, ha_managed: bool
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1", ha="started")))
    running.cluster.disarm = mode
    if mode == "freeze":
        running.cluster.services["vm:100"]["state"] = "freeze"

    guest = platform_of(running).observe().guests[GuestId("a")]

    assert (guest.managed_by is not None) is managed
    assert guest.ha_managed is ha_managed


def test_observe_blockers_of_guests_are_their_mobility(serve: Serve) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "plain", "h1"),
            PveGuest(101, "gpu", "h1", devices=("hostpci0",)),
            PveGuest(102, "disk", "h1", disks=("local:102/vm-102-disk-0.raw",)),
            PveGuest(103, "container", "h1", kind="lxc"),
            PveGuest(104, "narrow", "h1", lacking={"h3": "fast"}),
            PveGuest(105, "template", "h1", template=True),
        )
    )
    running.cluster.storages["local"] = False

    strict = platform_of(running).observe()
    running.double.access.roles["Balancer"] |= {"Datastore.Audit"}
    lenient = platform_of(running, restart_containers=True).observe()

    assert {name: guest.mobility for name, guest in strict.guests.items()} == {
        "plain": Mobility.LIVE,
        "gpu": Mobility.NONE,
        "disk": Mobility.NONE,
        "container": Mobility.NONE,
        "narrow": Mobility.LIVE,
    }
    assert lenient.guests[GuestId("disk")].mobility is Mobility.LIVE
    assert lenient.guests[GuestId("container")].mobility is Mobility.COLD
    (rule,) = strict.rules
    assert isinstance(rule, NodeAffinity)
    assert set(rule.guests) == {"narrow"}
    assert set(rule.nodes) == {H1, H2}


def test_observe_disks_of_guests_have_storage_and_size(serve: Serve) -> None:
    volume = "local:100/vm-100-disk-0.raw"
    running = serve(
        with_guests(PveGuest(100, "a", "h1", disks=(volume,)), PveGuest(101, "b", "h2"))
    )
    running.cluster.nodes["h2"].failure = 595

    guests = platform_of(running).observe().guests

    assert guests[GuestId("a")].disks == (
        Disk(storage="local", size=1 << 30, name="scsi0"),
    )
    assert guests[GuestId("b")].disks is None  # its node does not answer


def test_observe_guests_with_equal_names_have_their_number(serve: Serve) -> None:
    running = serve(
        with_guests(
            PveGuest(100, "web", "h1"),
            PveGuest(101, "web", "h1"),
            PveGuest(102, "", "h1"),
        )
    )

    assert set(platform_of(running).observe().guests) == {"web/100", "web/101", "102"}


def test_observe_nodes_have_their_labels(serve: Serve) -> None:
    running = serve(with_guests())

    snapshot = platform_of(running, labels={"h1": ("ssd",)}).observe()

    assert snapshot.nodes[H1].labels == frozenset({"ssd"})
    assert snapshot.nodes[H2].labels == frozenset()


def test_observe_guests_by_id_have_the_id_of_the_ha_manager(serve: Serve) -> None:
    running = serve(
        with_guests(PveGuest(100, "a", "h1"), PveGuest(101, "b", "h1", kind="lxc"))
    )
    platform = platform_of(running, guest_ids=GuestNaming.ID)

    assert set(platform.observe().guests) == {"vm:100", "ct:101"}
    platform.start(LiveMigration(GuestId("vm:100"), H1, H2))
    assert running.cluster.migrations_started() == [(100, "qmigrate")]


@pytest.mark.parametrize("privilege", ["Sys.Audit", "VM.Audit"])
def test_observe_without_privilege_names_it(serve: Serve, privilege: str) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    running.double.access.roles["Balancer"].discard(privilege)

    with pytest.raises(MissingPrivilegeError) as caught:
        platform_of(running).observe()

    assert caught.value.privileges == privilege


def test_observe_login_for_one_guest_reads_that_guest(serve: Serve) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1"), PveGuest(101, "b", "h1")))
    access = running.double.access
    access.roles |= {"Auditor": {"Sys.Audit"}, "Both": {"Sys.Audit", "VM.Audit"}}
    access.acl = {("/", "drs@pve"): {"Auditor"}, ("/vms/100", "drs@pve"): {"Both"}}

    guests = platform_of(running).observe().guests

    assert set(guests) == {"a"}
    assert guests[GuestId("a")].mobility is Mobility.NONE  # VM.Migrate is missing


@pytest.mark.parametrize("status", [401, 403, 500, 501, 595, 596, 599, 502])
def test_observe_failing_request_is_an_error_not_an_empty_cluster(
    serve: Serve, status: int
) -> None:
    running = serve(with_guests(PveGuest(100, "a", "h1")))
    running.double.fault = lambda request: (
        Answer(status, "failed") if request.path.endswith("/resources") else None
    )
    expected = {401: LoginRejectedError, 403: PermissionDeniedError}

    with pytest.raises(expected.get(status, Exception)) as caught:
        platform_of(running).observe()

    assert str(status) in str(caught.value) or "failed" in str(caught.value)


def test_observe_expired_login_is_rejected(serve: Serve) -> None:
    running = serve(with_guests())
    running.double.access.enabled = False

    with pytest.raises(LoginRejectedError):
        platform_of(running).observe()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (Answer(200, "OK", b'{"data": [', content_length=90), PlatformUnavailableError),
        (Answer(200, "OK", b'{"data": ['), UnexpectedResponseError),
        (Answer(200, "OK", b"<html>"), UnexpectedResponseError),
        (Answer(200, "OK", b'{"data": {}}'), UnexpectedResponseError),
        (Answer(200, "OK", b'{"data": [{"id": 5}]}'), UnexpectedResponseError),
        (Answer(200, "OK", b"[" * 100_000), UnexpectedResponseError),
    ],
)
def test_observe_broken_answer_is_an_error(
    serve: Serve, answer: Answer, error: type[Exception]
) -> None:
    running = serve(with_guests())
    running.double.fault = lambda request: (
        answer if request.path.endswith("/cluster/resources") else None
    )

    with pytest.raises(error):
        platform_of(running).observe()


def test_observe_oversized_answer_is_an_error(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_ANSWER", 10_000)
    running = serve(imbalanced_cluster("9.2.11", nodes=3, guests=60))

    with pytest.raises(UnexpectedResponseError):
        platform_of(running).observe()


def test_observe_slow_answer_is_unavailable(serve: Serve) -> None:
    running = serve(with_guests())
    running.double.fault = lambda request: (
        Answer(200, "OK", delay=30) if request.path.endswith("/resources") else None
    )

    with pytest.raises(PlatformUnavailableError):
        platform_of(running, timeout=0.3).observe()


def test_observe_first_host_fails_second_is_used(serve: Serve) -> None:
    running = serve(with_guests(), hosts=2)
    ports = [server.port for server in running.servers]

    def fault(request: Request) -> Answer | None:
        failed = request.headers["host"].endswith(str(ports[0]))
        return Answer(595, "Connection refused") if failed else None

    running.double.fault = fault

    assert len(platform_of(running).observe().nodes) == 3
