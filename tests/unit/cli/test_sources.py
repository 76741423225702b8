"""From the word SOURCE to a platform, and the rules that must fit it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from opendrs.cli.platform_store import open_store
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.recorded_state import enrich_from_store, with_recorded_nodes
from opendrs.cli.sources import observe, open_source, simulated_source
from opendrs.config import write_snapshot
from opendrs.config.platform_kinds import PlatformConnection
from opendrs.config.settings import NO_SETTINGS, Settings, StoreSettings
from opendrs.controller import SystemClock
from opendrs.controller.node_inventory import record_nodes
from opendrs.errors import ConfigurationError, UnknownPlatformError
from opendrs.model import (
    GuestId,
    LiveMigration,
    Network,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Rule,
    Snapshot,
    StepId,
)
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.platforms.snapshot_file import SnapshotFilePlatform, SnapshotFileSettings
from opendrs.policies import Balance
from opendrs.ports import Outcome, StepRecord
from opendrs.store import SqliteStore
from support.builders import CAPACITY, NOON, cluster, guest_ids, node

PAIR = cluster(nodes={"a": 0.5, "b": 0.1}, guests={"vm": ("a", 0.4)})
UNKNOWN_GUEST_RULE = Pin(guests=guest_ids("vm", "nobody"))


def file_source_of(snapshot: Snapshot, path: Path, *rules: Rule) -> ClusterSource:
    write_snapshot(snapshot, path / "pair.json")
    platform = SnapshotFilePlatform(path / "pair.json", rules=rules)
    return ClusterSource(platform=platform, clock=SystemClock(), rules=rules)


def test_a_file_is_a_platform(tmp_path: Path) -> None:
    write_snapshot(PAIR, tmp_path / "pair.json")

    opened = open_source(str(tmp_path / "pair.json"), NO_SETTINGS)

    assert observe(opened) == PAIR


def test_a_configured_platform_has_the_rules_of_the_configuration(
    tmp_path: Path,
) -> None:
    write_snapshot(PAIR, tmp_path / "pair.json")
    saved = SnapshotFileSettings(path=tmp_path / "pair.json")
    connection = PlatformConnection(name="saved", kind="file", settings=saved)
    rule = Pin(guests=guest_ids("vm"))

    opened = open_source(
        "saved", Settings(platforms={"saved": connection}, rules=(rule,))
    )

    assert opened.platform.name == "saved"
    assert observe(opened).rules == (rule,)


def test_libvirt_platform_is_opened_lazily() -> None:
    settings = LibvirtSettings(nodes={"a": "qemu+tls://a/system"})
    connection = PlatformConnection(name="lab", kind="libvirt", settings=settings)

    opened = open_source("lab", Settings(platforms={"lab": connection}))

    assert isinstance(opened.platform, LibvirtPlatform)
    assert opened.platform.name == "lab"


def test_demo_is_a_simulated_cluster_the_same_for_the_same_seed() -> None:
    opened = open_source("demo", NO_SETTINGS)

    assert not opened.is_persistent
    assert len(observe(opened).guests) == 60
    assert observe(opened) == observe(simulated_source(seed=1))
    assert observe(opened) != observe(simulated_source(seed=2))


def test_unknown_source_is_rejected() -> None:
    with pytest.raises(UnknownPlatformError, match="neither a file nor"):
        open_source("nothing", NO_SETTINGS)


def test_rule_with_unknown_guest_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        observe(file_source_of(PAIR, tmp_path, UNKNOWN_GUEST_RULE))

    assert str(raised.value) == (
        'the configuration, on pair: rules[0].guests: unknown guest "nobody"'
    )


def test_guest_may_be_on_an_unreachable_node(tmp_path: Path) -> None:
    away = node("b", None, state=NodeState.UNKNOWN)
    partly = Snapshot(
        PAIR.taken_at, nodes={**PAIR.nodes, away.id: away}, guests=PAIR.guests
    )

    assert observe(file_source_of(partly, tmp_path, UNKNOWN_GUEST_RULE)).rules == (
        UNKNOWN_GUEST_RULE,
    )


def test_rule_with_unknown_node_is_rejected(tmp_path: Path) -> None:
    rule = NodeAffinity(guests=guest_ids("vm"), nodes={NodeId("c"): 1})

    with pytest.raises(ConfigurationError, match='unknown node "c"'):
        observe(file_source_of(PAIR, tmp_path, rule))


def test_network_with_unknown_node_is_rejected(tmp_path: Path) -> None:
    network = Network(
        name="uplink", nodes=(NodeId("a"), NodeId("c")), max_parallel_migrations=1
    )
    opened = replace(file_source_of(PAIR, tmp_path), networks=(network,))

    with pytest.raises(ConfigurationError, match='nodes: unknown node "c"'):
        observe(opened)


LAB = PlatformConnection(
    name="lab", kind="libvirt", settings=LibvirtSettings(nodes={"a": "qemu+tls://a/x"})
)


def test_store_belongs_to_one_platform(tmp_path: Path) -> None:
    other = PlatformConnection(name="other", kind="libvirt", settings=LAB.settings)
    settings = Settings(
        platforms={"lab": LAB, "other": other},
        store=StoreSettings(path=tmp_path / "record.sqlite"),
    )
    for _ in range(2):
        with open_store(open_source("lab", settings), settings) as store:
            assert store.unfinished() == ()

    other_platform = open_source("other", settings)
    with (
        pytest.raises(ConfigurationError, match='belongs to platform "lab"'),
        open_store(other_platform, settings),
    ):
        pytest.fail("it was opened")
    with pytest.raises(ConfigurationError, match='belongs to platform "lab"'):
        enrich_from_store(PAIR, Balance(), other_platform, settings)


def test_powered_off_node_is_read_from_its_store(tmp_path: Path) -> None:
    other = PlatformConnection(name="other", kind="libvirt", settings=LAB.settings)
    settings = Settings(
        platforms={"lab": LAB, "other": other},
        store=StoreSettings(path=tmp_path / "record.sqlite"),
    )
    live, other_platform = open_source("lab", settings), open_source("other", settings)
    away = node("b", None, state=NodeState.OFFLINE, capacity=None)
    powered_off = replace(PAIR, nodes={**PAIR.nodes, away.id: away})
    without = with_recorded_nodes(powered_off, live, settings)
    with open_store(live, settings) as store:
        record_nodes(PAIR, store)

    assert without == powered_off
    assert (
        with_recorded_nodes(powered_off, live, settings).nodes[away.id].capacity
        == CAPACITY
    )
    assert with_recorded_nodes(powered_off, other_platform, settings) == powered_off


def test_real_time_simulation_has_the_system_time() -> None:
    source = simulated_source(seed=1, pace=1)

    before = SystemClock().now()
    seen = observe(source).taken_at

    assert before <= seen <= SystemClock().now()


def test_a_snapshot_in_a_file_is_planned_for_as_it_was_taken(tmp_path: Path) -> None:
    settings = Settings(
        platforms={"lab": LAB}, store=StoreSettings(path=tmp_path / "record.sqlite")
    )
    moved = StepRecord(
        run="one",
        step=StepId("1"),
        action=LiveMigration(GuestId("vm"), NodeId("a"), NodeId("b")),
        intended_at=NOON,
        ended_at=NOON,
        outcome=Outcome.DONE,
    )
    live = open_source("lab", settings)
    with open_store(live, settings) as store:
        store.write(moved)
    write_snapshot(PAIR, tmp_path / "lab.json")
    saved = open_source(str(tmp_path / "lab.json"), settings)

    assert enrich_from_store(PAIR, Balance(), live, settings) != PAIR
    assert enrich_from_store(PAIR, Balance(), saved, settings) == PAIR


def test_a_snapshot_with_times_in_the_future_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = PAIR.taken_at + timedelta(days=30)
    guest = replace(PAIR.guests[GuestId("vm")], migrated_at=ahead)
    opened = file_source_of(replace(PAIR, guests={guest.id: guest}), tmp_path)

    observe(opened)

    (message,) = caplog.messages
    assert message.startswith("snapshot: times in the future are treated as now: 1;")


def test_future_times_of_a_read_only_store_are_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(
        NO_SETTINGS, store=StoreSettings(path=tmp_path / "record.sqlite")
    )
    opened = replace(file_source_of(PAIR, tmp_path), is_persistent=True)
    ahead = opened.clock.now() + timedelta(days=30)
    with SqliteStore(tmp_path / "record.sqlite") as store:
        store.save("platform", {"name": opened.platform.name})
        moved = StepRecord(
            run="run",
            step=StepId("1"),
            action=LiveMigration(GuestId("vm"), NodeId("b"), NodeId("a")),
            intended_at=ahead,
            ended_at=ahead,
            outcome=Outcome.DONE,
        )
        store.write(moved)

    seen = enrich_from_store(observe(opened), Balance(), opened, settings)

    assert seen.guests[GuestId("vm")].migrated_at == seen.taken_at
    assert len(caplog.messages) == 1
