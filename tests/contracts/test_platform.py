"""Contract of all platforms, simulated and real.

Each platform provides the same setup: a guest on a source, a target, and a guest
whose migration takes a chosen time.
"""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

import pytest

from integration.incus_lab import LARGE_DISK, MEMBERS, IncusLab
from integration.libvirt_lab import MIB, LibvirtLab
from integration.nova_lab import HOSTS, NovaLab, RenamedPlatform
from opendrs.config.snapshot_writing import snapshot_document
from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import Guest, GuestId, GuestState, LiveMigration, NodeId, Pin
from opendrs.platforms.command import CommandPlatform, CommandPlatformSettings
from opendrs.platforms.incus import IncusPlatform
from opendrs.platforms.openstack import OpenStackPlatform
from opendrs.platforms.proxmox import ProxmoxPlatform
from opendrs.platforms.snapshot_file import SnapshotFilePlatform
from opendrs.ports import Platform, TaskId, TaskState
from opendrs.power import PoweredPlatform
from opendrs.simulation import SimulatedClock, SimulatedPlatform
from support import command_cluster, incus_documents
from support.builders import cluster, guest_ids
from support.https_server import Certificate
from support.incus_double import TlsFiles
from support.nova_double import CloudServer, NovaDouble, served
from support.pve_cluster import PveCluster, PveGuest
from support.pve_double import (
    LOGIN,
    TOKEN_VARIABLE,
    RunningDouble,
    run_double,
    small_cluster,
)
from support.pve_schema import SCHEMA

SOURCE, TARGET, THIRD = NodeId("h1"), NodeId("h2"), NodeId("h3")
QUICK, SLOW = GuestId("quick"), GuestId("slow")
RULES = (Pin(guests=guest_ids("quick"), name="for the test"),)


@dataclass(frozen=True, kw_only=True)
class PlatformSetup:
    """Nodes h1, h2 and h3, and on h1 two guests, one of them slow to move.

    Attributes:
        platform: The platform under test; it knows `RULES`.
        again: The same cluster, as another process gets to know it.
        wait: Lets so many seconds pass.
        prepare: Waits until the slow guest is slow.
        hurry: Lets the migration of the slow guest come to its end.
        can_abort: False if the platform cannot abort a migration in progress.
        can_act: False if the platform is only observed.
    """

    platform: Platform
    again: Callable[[], Platform]
    wait: Callable[[float], object]
    prepare: Callable[[], object]
    hurry: Callable[[], object]
    can_abort: bool = True
    can_act: bool = True

    def node_of_guest(self, guest: GuestId) -> Guest:
        return self.platform.observe().guests[guest]

    def wait_until_ended(self, task: TaskId) -> TaskState:
        for _ in range(400):
            state = self.platform.status(task).state
            if state is not TaskState.RUNNING:
                return state
            self.wait(0.1)
        pytest.fail(f"{task} does not end")

    def wait_until_running(self, move: LiveMigration) -> TaskId:
        """Start the *move* of the slow guest and return when it can be seen."""
        self.prepare()
        task = self.platform.start(move)
        for _ in range(100):
            if self.node_of_guest(move.guest).migrating_to is not None:
                return task
            self.wait(0.1)
        pytest.fail(f"{task} does not begin")


def simulated(_: pytest.FixtureRequest) -> PlatformSetup:
    return _simulated(lambda platform: platform)


def powered(_: pytest.FixtureRequest) -> PlatformSetup:
    return _simulated(lambda platform: PoweredPlatform(platform, lambda _: None))


def _simulated(around: Callable[[Platform], Platform]) -> PlatformSetup:
    clock = SimulatedClock()
    origin = cluster(
        nodes={"h1": 0.5, "h2": 0.1, "h3": 0.1},
        guests={"quick": ("h1", 0.01), "slow": ("h1", 0.4)},
        rules=RULES,
    )
    world = SimulatedPlatform(origin, clock)
    return PlatformSetup(
        platform=around(world),
        again=lambda: around(world),  # its world is in this process alone
        wait=clock.sleep,
        prepare=lambda: None,
        hurry=lambda: clock.sleep(600),
    )


def command(request: pytest.FixtureRequest) -> PlatformSetup:
    path: Path = request.getfixturevalue("tmp_path") / "state.json"
    origin = cluster(
        nodes={"h1": 0.5, "h2": 0.1, "h3": 0.1},
        guests={"quick": ("h1", 0.01), "slow": ("h1", 0.4)},
    )
    command_cluster.create(path, snapshot_document(origin), {"slow": 600.0})
    program = command_cluster.command(path)
    settings = CommandPlatformSettings(
        snapshot_command=(*program, "snapshot"), action_command=program
    )

    def platform() -> Platform:
        return CommandPlatform("pool", settings, RULES)

    def hurry() -> None:
        def end(state: command_cluster.State) -> None:
            for task in state["tasks"].values():
                task["ends_at"] = 0

        command_cluster.change(path, end)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=Event().wait,
        prepare=lambda: None,
        hurry=hurry,
    )


def libvirt(request: pytest.FixtureRequest) -> PlatformSetup:
    lab: LibvirtLab = request.getfixturevalue("lab")
    lab.vm(1, QUICK, duty=5)
    lab.vm(1, SLOW, dirty=4000, memory=32)

    def platform() -> Platform:
        return lab.platform(bandwidth=MIB, sample=0.1, rules=RULES)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=Event().wait,
        prepare=lambda: lab.fill(SLOW),
        hurry=lambda: lab.fill_memory_faster(1, SLOW),
    )


def proxmox(request: pytest.FixtureRequest) -> PlatformSetup:
    return _proxmox(request, ha=None)


def proxmox_ha(request: pytest.FixtureRequest) -> PlatformSetup:
    return _proxmox(request, ha="started")


def _proxmox(request: pytest.FixtureRequest, ha: str | None) -> PlatformSetup:
    if not SCHEMA.exists():
        pytest.skip(f"no {SCHEMA}; set OPENDRS_SHARED")
    cluster = small_cluster()
    cluster.add(
        PveGuest(100, QUICK, SOURCE, ha=ha, duration=1.0),
        PveGuest(101, SLOW, SOURCE, ha=ha, duration=10_000.0),
    )
    running = request.getfixturevalue("run_pve")(cluster)
    # Aborting a migration of the HA manager needs more than the role of the how-to.
    running.double.access.roles["Balancer"].add("Sys.Modify")

    def platform() -> Platform:
        return ProxmoxPlatform("double", running.settings(), RULES)

    def hurry() -> None:
        cluster.advance(60)
        cluster.finish(101)
        cluster.advance(60)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=lambda seconds: cluster.advance(10 * seconds),
        prepare=lambda: None,
        hurry=hurry,
    )


@pytest.fixture
def run_pve(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[PveCluster], RunningDouble]]:
    """Return a function that serves a cluster until the end of the test."""
    monkeypatch.setenv(TOKEN_VARIABLE, LOGIN)
    with ExitStack() as stack:
        yield lambda cluster: stack.enter_context(run_double(cluster, Certificate()))


def openstack(request: pytest.FixtureRequest) -> PlatformSetup:
    lab: NovaLab = request.getfixturevalue("slow_nova")
    guests = {lab.boot(name): name for name in (QUICK, SLOW)}
    names: dict[str, str] = dict(zip(HOSTS, (SOURCE, TARGET, THIRD), strict=True))
    names |= {str(guest): str(name) for guest, name in guests.items()}
    quick, slow = guests
    rules = [replace(rule, guests=frozenset({quick})) for rule in RULES]

    def platform() -> Platform:
        return RenamedPlatform(lab.platform(rules), names)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=Event().wait,
        prepare=lambda: None,
        hurry=lambda: lab.force_complete(slow),
    )


def openstack_double(request: pytest.FixtureRequest) -> PlatformSetup:
    if importlib.util.find_spec("openstack") is None:
        pytest.skip("openstacksdk is not installed")
    slow = CloudServer(SLOW, HOSTS[0], duration=math.inf)
    cloud = NovaDouble(HOSTS, CloudServer(QUICK, HOSTS[0]), slow)
    running = served(cloud, request.getfixturevalue("tmp_path"))
    settings = running.__enter__().settings
    request.addfinalizer(lambda: running.__exit__(None, None, None))
    ids = {str(each.guest): each.name for each in cloud.servers.values()}
    names = dict(zip(HOSTS, (SOURCE, TARGET, THIRD), strict=True)) | ids
    quick = GuestId(next(name for name, plain in ids.items() if plain == QUICK))
    rules = [replace(rule, guests=frozenset({quick})) for rule in RULES]

    def platform() -> Platform:
        return RenamedPlatform(OpenStackPlatform("nova", settings, rules), names)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=Event().wait,
        prepare=lambda: None,
        hurry=lambda: cloud.finish(SLOW),
    )


def incus(request: pytest.FixtureRequest) -> PlatformSetup:
    cluster = incus_documents.double(
        incus_documents.instance(QUICK), incus_documents.instance(SLOW)
    )
    tls = TlsFiles(request.getfixturevalue("tmp_path"))
    server = tls.serve(cluster)
    url = server.__enter__()
    request.addfinalizer(lambda: server.__exit__(None, None, None))

    def platform() -> Platform:
        return IncusPlatform("lab", tls.settings(url), RULES)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=Event().wait,
        prepare=lambda: cluster.slow.update({SLOW: 600}),
        hurry=cluster.slow.clear,
        can_abort=False,
    )


def snapshot_file(request: pytest.FixtureRequest) -> PlatformSetup:
    path: Path = request.getfixturevalue("tmp_path") / "lab.json"
    origin = cluster(
        nodes={"h1": 0.5, "h2": 0.1, "h3": 0.1},
        guests={"quick": ("h1", 0.01), "slow": ("h1", 0.4)},
    )
    path.write_text(json.dumps(snapshot_document(origin)))

    def platform() -> Platform:
        return SnapshotFilePlatform(path, rules=RULES)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=lambda _: None,
        prepare=lambda: None,
        hurry=lambda: None,
        can_abort=False,
        can_act=False,
    )


def incus_cluster(request: pytest.FixtureRequest) -> PlatformSetup:
    lab: IncusLab = request.getfixturevalue("incus_lab")
    names = dict(zip(MEMBERS, (SOURCE, TARGET, THIRD), strict=True))
    lab.vm(QUICK, MEMBERS[0])
    lab.vm(SLOW, MEMBERS[0], *LARGE_DISK)

    def platform() -> Platform:
        return RenamedPlatform(lab.platform(RULES), names)

    return PlatformSetup(
        platform=platform(),
        again=platform,
        wait=lambda seconds: Event().wait(5 * seconds),
        prepare=lambda: None,
        hurry=lambda: None,  # its disk has been copied some seconds later
        can_abort=False,
    )


@pytest.fixture(
    params=[
        snapshot_file,
        incus,
        pytest.param(incus_cluster, marks=[pytest.mark.lab, pytest.mark.shared]),
        pytest.param(proxmox, marks=pytest.mark.shared),
        pytest.param(proxmox_ha, marks=pytest.mark.shared),
        simulated,
        powered,
        command,
        openstack_double,
        pytest.param(libvirt, marks=[pytest.mark.lab, pytest.mark.shared]),
        pytest.param(openstack, marks=[pytest.mark.lab, pytest.mark.shared]),
    ]
)
def any_setup(request: pytest.FixtureRequest) -> PlatformSetup:
    setting: Callable[[pytest.FixtureRequest], PlatformSetup] = request.param
    return setting(request)


@pytest.fixture
def setup_under_test(any_setup: PlatformSetup) -> PlatformSetup:
    if not any_setup.can_act:
        pytest.skip("the platform is only observed: see test_platform_that_cannot_act")
    return any_setup


def move(
    guest: GuestId, source: NodeId = SOURCE, target: NodeId = TARGET
) -> LiveMigration:
    return LiveMigration(guest, source, target)


def test_observe_returns_nodes_guests_and_rules(any_setup: PlatformSetup) -> None:
    seen = any_setup.platform.observe()

    assert any_setup.platform.name
    assert seen.taken_at.utcoffset() is not None
    assert {SOURCE, TARGET, THIRD} == set(seen.nodes)
    assert all(node.online and node.capacity for node in seen.nodes.values())
    assert {QUICK, SLOW} == set(seen.guests)
    assert {guest.node for guest in seen.guests.values()} == {SOURCE}
    assert {guest.state for guest in seen.guests.values()} == {GuestState.RUNNING}
    assert seen.rules == RULES


def test_platform_that_cannot_act_rejects_actions(any_setup: PlatformSetup) -> None:
    if any_setup.can_act:
        pytest.skip("the platform executes actions")
    platform, before = any_setup.platform, any_setup.platform.observe()

    with pytest.raises(UnsupportedError):
        platform.start(move(QUICK))
    with pytest.raises(UnsupportedError):
        platform.find(move(QUICK))
    with pytest.raises(UnsupportedError):
        platform.abort(TaskId("any"))

    assert platform.status(TaskId("any")).state is TaskState.LOST
    assert any_setup.again().observe() == before


def test_migration_done_guest_is_on_target(setup_under_test: PlatformSetup) -> None:
    task = setup_under_test.platform.start(move(QUICK))

    assert setup_under_test.wait_until_ended(task) is TaskState.DONE
    assert setup_under_test.node_of_guest(QUICK).node == TARGET
    assert setup_under_test.node_of_guest(QUICK).migrating_to is None
    assert setup_under_test.node_of_guest(QUICK).state is GuestState.RUNNING


def test_migrating_guest_is_on_both_nodes(setup_under_test: PlatformSetup) -> None:
    task = setup_under_test.wait_until_running(move(SLOW))
    seen, status = (
        setup_under_test.node_of_guest(SLOW),
        setup_under_test.platform.status(task),
    )
    setup_under_test.hurry()

    assert (seen.node, seen.migrating_to) == (SOURCE, TARGET)
    assert seen.state is GuestState.RUNNING
    assert status.state is TaskState.RUNNING
    assert setup_under_test.wait_until_ended(task) is TaskState.DONE


def test_a_task_is_found_again_by_its_action(setup_under_test: PlatformSetup) -> None:
    before = setup_under_test.platform.find(move(SLOW))
    unstarted = setup_under_test.platform.status(before).state
    task = setup_under_test.wait_until_running(move(SLOW))
    during = setup_under_test.again().find(move(SLOW))
    setup_under_test.hurry()
    setup_under_test.wait_until_ended(task)
    after = setup_under_test.again().find(move(SLOW))

    assert unstarted in (TaskState.LOST, TaskState.FAILED)
    assert task == during == after


def test_find_starts_nothing(setup_under_test: PlatformSetup) -> None:
    setup_under_test.platform.find(move(QUICK))
    setup_under_test.wait(1)

    assert setup_under_test.node_of_guest(QUICK).node == SOURCE
    assert setup_under_test.node_of_guest(QUICK).migrating_to is None


def test_another_process_can_follow_a_task_to_its_end(
    setup_under_test: PlatformSetup,
) -> None:
    task = setup_under_test.wait_until_running(move(SLOW))
    follower = setup_under_test.again()
    going = follower.status(task).state
    setup_under_test.hurry()
    setup_under_test.wait_until_ended(task)

    assert going is TaskState.RUNNING
    assert follower.status(task).state is TaskState.DONE


def test_migration_that_cannot_be_aborted_continues(
    setup_under_test: PlatformSetup,
) -> None:
    if setup_under_test.can_abort:
        pytest.skip("the platform can abort migrations")
    task = setup_under_test.wait_until_running(move(SLOW))

    with pytest.raises(UnsupportedError):
        setup_under_test.platform.abort(task)
    setup_under_test.hurry()

    assert setup_under_test.wait_until_ended(task) is TaskState.DONE


def test_an_aborted_migration_leaves_the_guest_where_it_was(
    setup_under_test: PlatformSetup,
) -> None:
    if not setup_under_test.can_abort:
        pytest.skip("the platform cannot abort migrations")
    task = setup_under_test.wait_until_running(move(SLOW))

    setup_under_test.platform.abort(task)

    assert setup_under_test.wait_until_ended(task) is TaskState.FAILED
    assert setup_under_test.platform.status(task).detail
    assert setup_under_test.node_of_guest(SLOW).node == SOURCE
    assert setup_under_test.node_of_guest(SLOW).state is GuestState.RUNNING


def test_abort_done_task_changes_nothing(setup_under_test: PlatformSetup) -> None:
    task = setup_under_test.platform.start(move(QUICK))
    setup_under_test.wait_until_ended(task)

    setup_under_test.platform.abort(task)

    assert setup_under_test.platform.status(task).state is TaskState.DONE
    assert setup_under_test.node_of_guest(QUICK).node == TARGET


def test_start_from_former_node_fails(setup_under_test: PlatformSetup) -> None:
    setup_under_test.wait_until_ended(setup_under_test.platform.start(move(QUICK)))

    with pytest.raises(PlatformError):
        setup_under_test.again().start(move(QUICK, SOURCE, THIRD))

    assert setup_under_test.node_of_guest(QUICK).node == TARGET


def test_start_migrating_guest_fails(setup_under_test: PlatformSetup) -> None:
    task = setup_under_test.wait_until_running(move(SLOW))

    with pytest.raises(PlatformError):
        setup_under_test.again().start(move(SLOW, SOURCE, THIRD))
    setup_under_test.hurry()

    assert setup_under_test.wait_until_ended(task) is TaskState.DONE
    assert setup_under_test.node_of_guest(SLOW).node == TARGET


def test_start_unknown_guest_fails(setup_under_test: PlatformSetup) -> None:
    with pytest.raises(PlatformError):
        setup_under_test.platform.start(move(GuestId("nobody")))


def test_start_unknown_target_fails(setup_under_test: PlatformSetup) -> None:
    with pytest.raises(PlatformError):
        setup_under_test.platform.start(move(QUICK, SOURCE, NodeId("nowhere")))

    assert setup_under_test.node_of_guest(QUICK).node == SOURCE


def test_start_to_current_node_fails(setup_under_test: PlatformSetup) -> None:
    with pytest.raises(PlatformError):
        setup_under_test.platform.start(move(QUICK, SOURCE, SOURCE))
