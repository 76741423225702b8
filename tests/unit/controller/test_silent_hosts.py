"""A host that stops answering does not stop its migrations: they go on to count."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from builders import cluster, guest_ids
from opendrs.controller.cycle import remembered
from opendrs.controller.deciding import PolicyAlone
from opendrs.controller.loop import Bell, Controller, Routine
from opendrs.controller.stores import SqliteStore
from opendrs.model import (
    AntiAffinity,
    GuestId,
    GuestState,
    Network,
    NodeId,
    PowerOff,
)
from opendrs.policies import (
    AutoRebalance,
    Balance,
    Consolidate,
    Optimize,
    Policy,
    PressureRelief,
    Reason,
    ThresholdRebalance,
)
from opendrs.ports import Outcome
from stage import HASTY, migration, outcomes, step
from unit.controller.silent_hosts import (
    FIRST,
    LOST,
    ONE,
    SOON,
    VM1,
    A,
    B,
    C,
    D,
    all_moves,
    committed_on,
    crowd,
    killed_while_running,
    lost,
    moves_of,
    silent,
    stage_of,
    watched,
)

DONE, REFUSED = Outcome.DONE, Outcome.REFUSED
POLICIES: list[Policy[Any]] = [
    AutoRebalance(hold=1, limits=HASTY),
    Balance(limits=HASTY),
    Consolidate(limits=HASTY),
    Optimize(limits=HASTY),
    PressureRelief(limits=HASTY),
    ThresholdRebalance(limits=HASTY),
]


@pytest.mark.parametrize("host", [A, B])
def test_an_end_that_is_silent_has_no_second_migration_meanwhile(host: NodeId) -> None:
    stage = stage_of(crowd(), moves_per_node=1)
    silent(stage, host, until=100)
    most = watched(stage, moves_of(B))
    two = step("2", migration("vm2", "c", "b"), "0")

    report = stage.play(ONE, FIRST, two)

    assert outcomes(report) == [DONE, DONE, DONE]
    assert max(most) == 1
    first, _, second = report.records
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at


@pytest.mark.parametrize("shown", [False, True])
def test_a_target_is_promised_no_memory_twice_while_the_source_is_silent(
    *, shown: bool
) -> None:
    stage = stage_of(crowd(on_b=0.0), memory_overbooking=0.64)
    stage.world.shows_arrivals = shown
    silent(stage, A, until=100)
    most = watched(stage, committed_on(B))

    report = stage.play(ONE, FIRST, step("2", migration("vm2", "c", "b"), "0"))

    assert outcomes(report) == [DONE, DONE, REFUSED]
    assert max(most) == pytest.approx(40)


@pytest.mark.parametrize("shown", [False, True])
def test_measured_memory_counts_while_the_source_is_silent(*, shown: bool) -> None:
    stage = stage_of(crowd(on_b=0.2), memory_overbooking=10)
    stage.world.shows_arrivals = shown
    silent(stage, A, until=100)

    report = stage.play(ONE, FIRST, step("2", migration("vm2", "c", "b"), "0"))

    assert outcomes(report) == [DONE, DONE, REFUSED]


@pytest.mark.parametrize("shown", [False, True])
def test_guests_are_kept_apart_while_the_source_of_one_is_silent(
    *, shown: bool
) -> None:
    apart = AntiAffinity(guests=guest_ids("vm1", "vm2"))
    stage = stage_of(crowd(apart))
    stage.world.shows_arrivals = shown
    silent(stage, A, until=100)

    report = stage.play(ONE, FIRST, step("2", migration("vm2", "c", "b"), "0"))

    assert outcomes(report) == [DONE, DONE, REFUSED]
    assert "broken by vm1, vm2 on b" in report.records[2].detail


def test_the_cluster_has_no_more_moves_than_allowed_while_one_is_not_seen() -> None:
    stage = stage_of(crowd(), moves_at_once=2)
    silent(stage, A, until=100)
    most = watched(stage, all_moves)
    others = [
        step("2", migration("vm2", "c", "d"), "0"),
        step("3", migration("small", "d", "c"), "0"),
    ]

    report = stage.play(ONE, FIRST, *others)

    assert report.complete
    assert max(most) == 2


def test_a_network_has_no_more_moves_than_allowed_while_one_is_not_seen() -> None:
    line = Network(name="line", nodes=(B,), moves=1)
    stage = stage_of(crowd(), networks=(line,))
    silent(stage, A, until=100)
    most = watched(stage, moves_of(B))

    report = stage.play(ONE, FIRST, step("2", migration("vm2", "c", "b"), "0"))

    assert report.complete
    assert max(most) == 1


@pytest.mark.parametrize("shown", [False, True])
def test_a_node_is_not_powered_off_while_a_guest_may_be_arriving(
    *, shown: bool
) -> None:
    stage = stage_of(crowd())
    stage.world.shows_arrivals = shown
    silent(stage, A, until=100)

    report = stage.play(ONE, FIRST, step("2", PowerOff(B), "0"))

    assert outcomes(report) == [DONE, DONE, REFUSED]
    assert report.records[2].detail == "b is not empty: vm1"


def test_a_node_that_is_being_powered_off_receives_no_guest() -> None:
    stage = stage_of(crowd())

    report = stage.play(
        step("1", PowerOff(B)), FIRST, step("2", migration("small", "d", "b"), "0")
    )

    assert outcomes(report) == [DONE, DONE, REFUSED]
    assert "b is not online" in report.records[2].detail
    assert stage.world.truth().guests[GuestId("small")].node == D


@pytest.mark.parametrize("host", [A, B])
def test_a_lost_migration_counts_in_later_executions(host: NodeId) -> None:
    stage = lost(host, moves_per_node=1, memory_overbooking=10)
    other = {A: B, B: A}[host]

    report = stage.play(step("2", migration("small", "c", other)), run="second")

    assert outcomes(report) == [REFUSED]
    assert report.records[0].detail == (
        f"1 moves from or to {other} under way, of at most 1"
    )


def test_a_step_does_not_wait_for_a_host_that_may_stay_away() -> None:
    stage = lost(A, moves_per_node=1, memory_overbooking=10)
    before = stage.elapsed

    report = stage.play(step("2", migration("small", "c", "b")), run="second")

    assert outcomes(report) == [REFUSED]
    assert stage.elapsed == before


def test_a_step_waits_for_a_migration_that_is_seen() -> None:
    stage = stage_of(crowd(), moves_per_node=1)
    stage.world.start(ONE.action)

    report = stage.play(step("2", migration("small", "c", "b")))

    assert outcomes(report) == [DONE]


@pytest.mark.parametrize("host", [A, B])
def test_a_lost_migration_counts_in_the_snapshot_that_policies_get(
    host: NodeId,
) -> None:
    stage = lost(host)

    seen = remembered(stage.world.observe(), Balance(limits=HASTY), stage.store)

    found = seen.guests[VM1]
    assert (found.node, found.migrating_to) == (A, B)
    assert found.state is GuestState.RUNNING
    assert found.limit == crowd().guests[VM1].limit
    assert found.usage == crowd().guests[VM1].usage


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_policy_does_not_wait_for_a_node_that_may_stay_away(
    policy: Policy[Any],
) -> None:
    stage = lost(A)

    seen = remembered(stage.world.observe(), policy, stage.store)
    decision = policy.decide(seen, policy.initial_memory())

    assert decision.reason is not Reason.MIGRATION_UNDER_WAY
    moved = {getattr(one.action, "guest", "") for one in decision.plan.steps}
    assert VM1 not in moved


def test_a_policy_fills_no_node_to_which_a_lost_migration_may_run() -> None:
    # Without vm1 on its way, b would be the emptiest node.
    stage = lost(A)
    policy = Balance(limits=replace(HASTY, memory_overbooking=0.64))

    seen = remembered(stage.world.observe(), policy, stage.store)
    decision = policy.decide(seen, None)

    targets = {getattr(one.action, "target", None) for one in decision.plan.steps}
    assert B not in targets


def test_the_load_of_a_lost_migration_counts_on_its_target() -> None:
    stage = lost(A)

    seen = remembered(stage.world.observe(), Balance(limits=HASTY), stage.store)

    assert seen.nodes[B].usage.cpu == pytest.approx(1 + 4)


def test_a_lost_migration_counts_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "record.sqlite"
    stage = stage_of(crowd(), patience=60, moves_per_node=1, memory_overbooking=10)
    stage.world.later(SOON, lambda: stage.world.isolate(A))
    with SqliteStore(path) as stage.store:
        assert outcomes(stage.play(ONE)) == [LOST]

    with SqliteStore(path) as stage.store:
        seen = remembered(stage.world.observe(), Balance(limits=HASTY), stage.store)
        two = step("2", migration("small", "c", "b"))
        report = stage.play(two, run="second")

    assert seen.guests[VM1].migrating_to == B
    assert outcomes(report) == [REFUSED]


def test_a_migration_that_an_earlier_process_left_is_lost_and_counts() -> None:
    stage = stage_of(crowd(), patience=60, moves_per_node=1, memory_overbooking=10)
    killed_while_running(stage)
    stage.world.isolate(A)

    (record,) = stage.pick_up()
    report = stage.play(step("2", migration("small", "c", "b")), run="second")

    assert record.outcome is LOST
    assert outcomes(report) == [REFUSED]


def test_a_migration_whose_guest_was_not_recorded_leaves_no_room_unknown() -> None:
    # As an earlier version of opendrs has left it.
    stage = stage_of(crowd(), patience=60)
    killed_while_running(stage)
    stage.store.save("in flight", {"migrations": []})
    stage.world.isolate(A)
    assert stage.pick_up()[0].outcome is LOST

    report = stage.play(step("2", migration("small", "c", "b")), run="second")

    assert outcomes(report) == [REFUSED]
    assert report.records[0].detail == "the memory vm1 uses was not measured"


@pytest.mark.parametrize("shown", [False, True])
def test_a_migration_that_others_have_started_counts_while_it_is_not_seen(
    *, shown: bool
) -> None:
    stage = stage_of(crowd(), moves_per_node=1, memory_overbooking=10, patience=60)
    stage.world.shows_arrivals = shown
    stage.world.start(ONE.action)  # by hand
    stage.world.later(SOON, lambda: stage.world.isolate(A))
    most = watched(stage, moves_of(B))

    report = stage.play(FIRST, step("2", migration("small", "d", "b"), "0"))

    assert outcomes(report) == [DONE, REFUSED]
    assert max(most) == 1


def test_a_migration_that_others_have_started_counts_in_later_cycles() -> None:
    stage = stage_of(crowd())
    policy = Balance(limits=HASTY)
    cycles = Controller(
        Routine(
            interval=300,
            gathering=10,
            observe=stage.world.observe,
            require_alive=lambda: None,
        ),
        stage.means(),
        PolicyAlone(policy, stage.store),
        Bell(),
    )
    stage.world.start(ONE.action)
    cycles.once()
    stage.world.isolate(A)

    seen = remembered(stage.world.observe(), policy, stage.store)

    assert seen.guests[VM1].locations == (A, B)


def test_a_guest_whose_node_is_silent_is_not_gone() -> None:
    stage = stage_of(crowd())
    stage.world.isolate(C)

    report = stage.play(step("1", migration("small", "c", "d")))

    assert outcomes(report) == [REFUSED]
    assert report.records[0].detail == (
        "c does not answer, so small on it cannot be seen"
    )


def test_a_node_that_is_silent_for_a_moment_is_waited_for_while_steps_run() -> None:
    stage = stage_of(crowd())
    stage.world.later(SOON, lambda: stage.world.isolate(C))
    stage.world.later(60, lambda: stage.world.rejoin(C))

    report = stage.play(ONE, FIRST, step("2", migration("vm2", "c", "d"), "0"))

    assert report.complete


def test_the_controller_goes_on_around_a_lost_migration() -> None:
    guests = {f"vm{number}": ("c", 0.1) for number in range(2, 7)}
    nodes = {"a": 0.4, "b": 0.1, "c": 0.5, "d": 0.0}
    origin = cluster(nodes, {"vm1": ("a", 0.4), **guests})
    stage = lost(A, origin, moves_per_node=1)
    most = watched(stage, moves_of(B))
    controller = Controller(
        Routine(
            interval=300,
            gathering=10,
            observe=stage.platform.observe,
            require_alive=lambda: None,
        ),
        stage.means(),
        PolicyAlone(Balance(limits=stage.limits), stage.store),
        Bell(),
    )

    report = controller.once()

    assert report.count(DONE) >= 1
    assert max(most) <= 1
