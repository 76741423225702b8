"""From the word SOURCE to a platform, and the rules that must fit it."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from builders import CAPACITY, NOON, cluster, guest_ids, node
from opendrs.cli.sources import (
    Source,
    observe,
    open_source,
    record_of,
    simulation,
    with_record,
    with_sleepers,
)
from opendrs.controller import SystemClock
from opendrs.controller.nodes import keep_nodes
from opendrs.controller.settings import NO_SETTINGS, Settings
from opendrs.controller.stores import SqliteStore
from opendrs.errors import ConfigurationError, UnknownPlatformError
from opendrs.model import (
    GuestId,
    Migration,
    Network,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    Rule,
    Snapshot,
    StepId,
)
from opendrs.platforms.connect import Connection
from opendrs.platforms.file import FilePlatform, FileSettings, write_snapshot
from opendrs.platforms.libvirt import LibvirtPlatform, LibvirtSettings
from opendrs.policies import Balance
from opendrs.ports import Outcome, StepRecord

PAIR = cluster(nodes={"a": 0.5, "b": 0.1}, guests={"vm": ("a", 0.4)})
NOBODY = Pin(guests=guest_ids("vm", "nobody"))


def source(snapshot: Snapshot, path: Path, *rules: Rule) -> Source:
    write_snapshot(snapshot, path / "pair.json")
    platform = FilePlatform(path / "pair.json", rules=rules)
    return Source(platform=platform, clock=SystemClock(), rules=rules)


def test_a_file_is_a_platform(tmp_path: Path) -> None:
    write_snapshot(PAIR, tmp_path / "pair.json")

    opened = open_source(str(tmp_path / "pair.json"), NO_SETTINGS)

    assert observe(opened) == PAIR


def test_a_configured_platform_has_the_rules_of_the_configuration(
    tmp_path: Path,
) -> None:
    write_snapshot(PAIR, tmp_path / "pair.json")
    saved = FileSettings(path=tmp_path / "pair.json")
    connection = Connection(name="saved", kind="file", settings=saved)
    rule = Pin(guests=guest_ids("vm"))

    opened = open_source(
        "saved", Settings(platforms={"saved": connection}, rules=(rule,))
    )

    assert opened.platform.name == "saved"
    assert observe(opened).rules == (rule,)


def test_a_libvirt_platform_is_opened_without_being_asked() -> None:
    settings = LibvirtSettings(nodes={"a": "qemu+tls://a/system"})
    connection = Connection(name="lab", kind="libvirt", settings=settings)

    opened = open_source("lab", Settings(platforms={"lab": connection}))

    assert isinstance(opened.platform, LibvirtPlatform)
    assert opened.platform.name == "lab"


def test_demo_is_a_simulated_cluster_the_same_for_the_same_seed() -> None:
    opened = open_source("demo", NO_SETTINGS)

    assert not opened.lasting
    assert len(observe(opened).guests) == 60
    assert observe(opened) == observe(simulation(seed=1))
    assert observe(opened) != observe(simulation(seed=2))


def test_a_word_that_is_nothing_is_refused() -> None:
    with pytest.raises(UnknownPlatformError, match="neither a file nor"):
        open_source("nothing", NO_SETTINGS)


def test_a_rule_about_a_guest_that_is_nowhere_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as raised:
        observe(source(PAIR, tmp_path, NOBODY))

    assert str(raised.value) == (
        'the configuration, on pair: rules[0].guests: there is no guest "nobody"'
    )


def test_a_guest_may_be_on_a_node_that_does_not_answer(tmp_path: Path) -> None:
    away = node("b", None, state=NodeState.UNKNOWN)
    partly = Snapshot(
        PAIR.taken_at, nodes={**PAIR.nodes, away.id: away}, guests=PAIR.guests
    )

    assert observe(source(partly, tmp_path, NOBODY)).rules == (NOBODY,)


def test_a_rule_about_a_node_that_is_nowhere_is_a_mistake(tmp_path: Path) -> None:
    rule = NodeAffinity(guests=guest_ids("vm"), nodes={NodeId("c"): 1})

    with pytest.raises(ConfigurationError, match='there is no node "c"'):
        observe(source(PAIR, tmp_path, rule))


def test_a_network_with_a_node_that_is_nowhere_is_a_mistake(tmp_path: Path) -> None:
    network = Network(name="uplink", nodes=(NodeId("a"), NodeId("c")), moves=1)
    opened = replace(source(PAIR, tmp_path), networks=(network,))

    with pytest.raises(ConfigurationError, match='nodes: there is no node "c"'):
        observe(opened)


LAB = Connection(
    name="lab", kind="libvirt", settings=LibvirtSettings(nodes={"a": "qemu+tls://a/x"})
)


def test_a_record_belongs_to_one_platform(tmp_path: Path) -> None:
    other = Connection(name="other", kind="libvirt", settings=LAB.settings)
    settings = Settings(
        platforms={"lab": LAB, "other": other}, store=tmp_path / "record.sqlite"
    )
    for _ in range(2):
        with record_of(open_source("lab", settings), settings) as store:
            assert store.unfinished() == ()

    stranger = open_source("other", settings)
    with (
        pytest.raises(ConfigurationError, match='the record of "lab"; other needs'),
        record_of(stranger, settings),
    ):
        pytest.fail("it was opened")
    with pytest.raises(ConfigurationError, match='the record of "lab"'):
        with_record(PAIR, Balance(), stranger, settings)


def test_of_a_node_that_sleeps_its_own_record_tells_what_it_has(tmp_path: Path) -> None:
    other = Connection(name="other", kind="libvirt", settings=LAB.settings)
    settings = Settings(
        platforms={"lab": LAB, "other": other}, store=tmp_path / "record.sqlite"
    )
    live, stranger = open_source("lab", settings), open_source("other", settings)
    away = node("b", None, state=NodeState.OFFLINE, capacity=None)
    asleep = replace(PAIR, nodes={**PAIR.nodes, away.id: away})
    without = with_sleepers(asleep, live, settings)
    with record_of(live, settings) as store:
        keep_nodes(PAIR, store)

    assert without == asleep
    assert with_sleepers(asleep, live, settings).nodes[away.id].capacity == CAPACITY
    assert with_sleepers(asleep, stranger, settings) == asleep


def test_what_is_simulated_in_real_time_has_the_time_of_this_machine() -> None:
    source = simulation(seed=1, pace=1)

    before = SystemClock().now()
    seen = observe(source).taken_at

    assert before <= seen <= SystemClock().now()


def test_a_snapshot_in_a_file_is_planned_for_as_it_was_taken(tmp_path: Path) -> None:
    settings = Settings(platforms={"lab": LAB}, store=tmp_path / "record.sqlite")
    moved = StepRecord(
        run="one",
        step=StepId("1"),
        action=Migration(GuestId("vm"), NodeId("a"), NodeId("b")),
        intended_at=NOON,
        ended_at=NOON,
        outcome=Outcome.DONE,
    )
    live = open_source("lab", settings)
    with record_of(live, settings) as store:
        store.write(moved)
    write_snapshot(PAIR, tmp_path / "lab.json")
    saved = open_source(str(tmp_path / "lab.json"), settings)

    assert with_record(PAIR, Balance(), live, settings) != PAIR
    assert with_record(PAIR, Balance(), saved, settings) == PAIR


def test_a_snapshot_with_times_in_the_future_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ahead = PAIR.taken_at + timedelta(days=30)
    guest = replace(PAIR.guests[GuestId("vm")], moved_at=ahead)
    opened = source(replace(PAIR, guests={guest.id: guest}), tmp_path)

    observe(opened)

    (message,) = caplog.messages
    assert message.startswith("snapshot: times in the future are treated as now: 1;")


def test_a_record_with_times_in_the_future_that_is_only_read_is_reported(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(NO_SETTINGS, store=tmp_path / "record.sqlite")
    opened = replace(source(PAIR, tmp_path), lasting=True)
    ahead = opened.clock.now() + timedelta(days=30)
    with SqliteStore(tmp_path / "record.sqlite") as store:
        store.save("platform", {"name": opened.platform.name})
        moved = StepRecord(
            run="run",
            step=StepId("1"),
            action=Migration(GuestId("vm"), NodeId("b"), NodeId("a")),
            intended_at=ahead,
            ended_at=ahead,
            outcome=Outcome.DONE,
        )
        store.write(moved)

    seen = with_record(observe(opened), Balance(), opened, settings)

    assert seen.guests[GuestId("vm")].moved_at == seen.taken_at
    assert len(caplog.messages) == 1
