"""Snapshots and the effect of actions on them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from opendrs.errors import ModelError, UnknownGuestError, UnknownNodeError
from opendrs.model import (
    GIB,
    Action,
    ColdMigration,
    GuestId,
    GuestState,
    LiveMigration,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Snapshot,
    Stall,
    Usage,
)
from support.builders import NOON, cluster, guest, node
from support.strategies import snapshots

A, B = NodeId("a"), NodeId("b")
VM = GuestId("vm")
PLAIN = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.2)})
MOVE = LiveMigration(VM, A, B)


def cpu_usage(snapshot: Snapshot, name: NodeId) -> float | None:
    return snapshot.nodes[name].usage.cpu


@pytest.mark.parametrize("move", [MOVE, ColdMigration(VM, A, B)])
def test_after_a_move_the_guest_and_its_usage_are_on_the_target(move: Action) -> None:
    after = PLAIN.apply(move)

    assert after.guests[VM].node == B
    assert after.nodes[A].usage.cpu == pytest.approx(3.0)
    assert after.nodes[A].usage.memory == 30 * GIB
    assert after.nodes[B].usage.cpu == pytest.approx(3.0)
    assert after.nodes[B].usage.memory == 30 * GIB


def test_after_a_move_the_further_loads_of_the_guest_are_on_the_target() -> None:
    before = replace(
        PLAIN,
        nodes={
            A: node("a", 0.5, loads={"network": 50e6, "disk": 9.0}),
            B: node("b", 0.1, loads={"network": 10e6}),
        },
        guests={VM: guest("vm", "a", 0.2, loads={"network": 20e6})},
    )

    after = before.apply(MOVE)

    # 50 - 20 and 10 + 20 MB/s; the disk load of the guest is unknown.
    assert after.nodes[A].loads == {"network": 30e6}
    assert after.nodes[B].loads == {"network": 30e6}
    assert after.guests[VM].loads == {"network": 20e6}


@pytest.mark.parametrize(
    ("field", "amounts", "message"),
    [
        ("loads", {"network": -1.0}, "a: loads: network: expected a finite number"),
        ("loads", {"memory": 1.0}, "a: loads: expected a name other than cpu and"),
        ("load_capacities", {"disk": 0.0}, "a: load_capacities: disk: expected more"),
    ],
)
def test_node_with_an_invalid_further_load_is_rejected(
    field: str, amounts: dict[str, float], message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        node("a", 0.5, **{field: amounts})


def test_after_several_steps_is_after_one_and_then_the_next() -> None:
    sleep, back = PowerOff(A), ColdMigration(VM, B, A)

    assert PLAIN.apply() == PLAIN
    assert PLAIN.apply(MOVE, sleep, back) == PLAIN.apply(MOVE).apply(sleep).apply(back)


def test_the_snapshot_itself_does_not_change() -> None:
    PLAIN.apply(MOVE)

    assert cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.2)}) == PLAIN


def test_while_it_moves_a_guest_is_on_both_nodes() -> None:
    during = PLAIN.with_in_flight(MOVE)

    assert during.guests[VM].occupied_nodes == (A, B)
    assert during.nodes == PLAIN.nodes


def test_a_guest_that_has_arrived_is_no_longer_on_the_move() -> None:
    assert PLAIN.with_in_flight(MOVE).apply(MOVE).guests[VM].migrating_to is None


def test_a_stopped_guest_is_nowhere_even_while_it_moves() -> None:
    stopped = guest("vm", "a", 0.2, state=GuestState.STOPPED, migrating_to=B)

    assert stopped.occupied_nodes == ()
    assert not stopped.is_active


@pytest.mark.parametrize("blind", [A, B, VM])
def test_what_is_not_known_stays_so(blind: str) -> None:
    unknown = {
        A: {"nodes": {**PLAIN.nodes, A: node("a", None)}},
        B: {"nodes": {**PLAIN.nodes, B: node("b", None)}},
        VM: {"guests": {VM: guest("vm", "a", None)}},
    }
    after = replace(PLAIN, **unknown[blind]).apply(MOVE)  # type: ignore[arg-type]

    for name in (A, B):
        assert (after.nodes[name].usage == Usage()) is (blind in (name, VM))


def test_a_guest_takes_its_busy_cores_along_as_runnable_tasks() -> None:
    # The guest uses 2 of 10 cores.
    nodes = {A: node("a", 0.5, load_average=7.5), B: node("b", 0.1)}
    after = replace(PLAIN, nodes=nodes).apply(MOVE)
    back = after.apply(LiveMigration(VM, B, A))

    assert after.nodes[A].load_average == pytest.approx(5.5)
    assert after.nodes[B].load_average is None
    assert back.nodes[A].load_average == pytest.approx(7.5)


def test_a_runnable_task_more_or_less_is_not_known_of_a_guest_not_measured() -> None:
    blind = replace(
        PLAIN,
        nodes={A: node("a", 0.5, load_average=7.5), B: node("b", 0.1)},
        guests={VM: guest("vm", "a", None)},
    )

    assert blind.apply(MOVE).nodes[A].load_average is None


def test_how_long_anybody_will_wait_is_not_known_before_it_is_measured() -> None:
    waits = Pressure(cpu=Stall(0.8, 0.1))
    idle = Pressure(cpu=Stall(0.0, 0.0))
    nodes = {A: node("a", 0.5, pressure=waits), B: node("b", 0.1, pressure=idle)}
    other = guest("other", "a", 0.1, pressure=waits)
    strained = guest("vm", "a", 0.2, pressure=waits)
    before = replace(PLAIN, nodes=nodes, guests={VM: strained, other.id: other})

    after = before.apply(MOVE)

    assert after.guests[VM].pressure == Pressure()
    assert after.nodes[A].pressure == after.nodes[B].pressure == Pressure()
    assert after.guests[other.id] == other


def test_amounts_beyond_all_measure_can_be_moved() -> None:
    most = 10**18
    huge = Usage(float(most), most)
    nodes = {A: node("a", 0.5, usage=huge), B: node("b", 0.1, usage=huge)}
    vm = guest("vm", "a", 0.1, usage=huge)

    after = replace(PLAIN, nodes=nodes, guests={VM: vm}).apply(MOVE)

    assert after.nodes[A].usage == Usage(0.0, 0)
    assert after.nodes[B].usage == huge


def test_a_node_never_uses_less_than_nothing() -> None:
    busy = cluster({"a": 0.1, "b": 0.1}, {"vm": ("a", 0.2)})

    assert busy.apply(MOVE).nodes[A].usage == Usage(0.0, 0)


@pytest.mark.parametrize(
    ("move", "error"),
    [
        (LiveMigration(GuestId("gone"), A, B), UnknownGuestError),
        (LiveMigration(VM, A, NodeId("gone")), UnknownNodeError),
        (LiveMigration(VM, NodeId("gone"), B), UnknownNodeError),
        (LiveMigration(VM, B, A), ModelError),
        (PowerOn(NodeId("gone")), UnknownNodeError),
    ],
)
def test_apply_action_not_fitting_snapshot_raises_error(
    move: Action, error: type[ModelError]
) -> None:
    with pytest.raises(error):
        PLAIN.apply(move)


def test_migration_to_own_node_cannot_be_in_flight() -> None:
    with pytest.raises(
        ModelError, match="vm: migrating_to must differ from its node, got a"
    ):
        PLAIN.with_in_flight(LiveMigration(VM, A, A))


def test_apply_power_off_and_power_on_changes_state() -> None:
    powered_off = PLAIN.apply(PowerOff(B))

    assert powered_off.nodes[B].state is NodeState.OFFLINE
    assert powered_off.apply(PowerOn(B)).nodes[B].state is NodeState.ONLINE


def test_apply_power_on_sets_usage_to_zero() -> None:
    powered_off = replace(PLAIN.nodes[B], state=NodeState.OFFLINE, usage=Usage())
    silent = replace(powered_off, state=NodeState.UNKNOWN)

    powered_on = replace(PLAIN, nodes={**PLAIN.nodes, B: powered_off}).apply(PowerOn(B))
    found = replace(PLAIN, nodes={**PLAIN.nodes, B: silent}).apply(PowerOn(B))

    assert powered_on.nodes[B].usage == Usage(0.0, 0)
    assert found.nodes[B].usage == Usage()


def test_snapshot_with_guest_on_unknown_node_raises_error() -> None:
    lost = {VM: guest("vm", "gone", 0.1)}
    bound = {VM: guest("vm", "a", 0.1, migrating_to=NodeId("gone"))}

    for guests in (lost, bound):
        with pytest.raises(ModelError, match="gone is not in the cluster"):
            replace(PLAIN, guests=guests)


def test_time_without_time_zone_raises_error() -> None:
    with pytest.raises(ModelError, match="time zone"):
        replace(PLAIN, taken_at=datetime(2026, 11, 21))  # noqa: DTZ001

    with pytest.raises(ModelError, match="a: powered_on_at: expected a time zone"):
        node("a", 0.1, powered_on_at=datetime(2026, 11, 21))  # noqa: DTZ001
    with pytest.raises(ModelError, match="vm: migrated_at: expected a time zone"):
        guest("vm", "a", 0.1, migrated_at=datetime(2026, 11, 21))  # noqa: DTZ001

    assert replace(PLAIN, taken_at=NOON).taken_at.tzinfo is UTC


@given(snapshots(measured=True, settled=True, rules=False))
def test_moves_there_and_back_change_nothing_but_the_last_digit(
    snapshot: Snapshot,
) -> None:
    nodes = list(snapshot.nodes)
    for vm in snapshot.guests.values():
        source = snapshot.nodes[vm.node].usage
        assert source.cpu is not None
        assert source.memory is not None
        if source.cpu < (vm.usage.cpu or 0) or source.memory < (vm.usage.memory or 0):
            continue  # the node was measured at another instant
        target = nodes[(nodes.index(vm.node) + 1) % len(nodes)]
        forth = snapshot.apply(LiveMigration(vm.id, vm.node, target))
        back = forth.apply(LiveMigration(vm.id, target, vm.node))
        assert back.guests == snapshot.guests
        for name in nodes:
            assert cpu_usage(back, name) == pytest.approx(cpu_usage(snapshot, name))
            assert back.nodes[name].usage.memory == snapshot.nodes[name].usage.memory
