"""One cluster at one instant, and what it would be after a step."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given

from builders import NOON, cluster, guest, node
from opendrs.errors import ModelError, UnknownGuestError, UnknownNodeError
from opendrs.model import (
    GIB,
    Action,
    GuestId,
    GuestState,
    Migration,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Pressure,
    Relocation,
    Snapshot,
    Stall,
    Usage,
)
from strategies import snapshots

A, B = NodeId("a"), NodeId("b")
VM = GuestId("vm")
PLAIN = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.2)})
MOVE = Migration(VM, A, B)


def used(snapshot: Snapshot, name: NodeId) -> float | None:
    return snapshot.nodes[name].usage.cpu


@pytest.mark.parametrize("move", [MOVE, Relocation(VM, A, B)])
def test_after_a_move_the_guest_and_its_usage_are_on_the_target(move: Action) -> None:
    after = PLAIN.after(move)

    assert after.guests[VM].node == B
    assert after.nodes[A].usage.cpu == pytest.approx(3.0)
    assert after.nodes[A].usage.memory == 30 * GIB
    assert after.nodes[B].usage.cpu == pytest.approx(3.0)
    assert after.nodes[B].usage.memory == 30 * GIB


def test_after_several_steps_is_after_one_and_then_the_next() -> None:
    sleep, back = PowerOff(A), Relocation(VM, B, A)

    assert PLAIN.after() == PLAIN
    assert PLAIN.after(MOVE, sleep, back) == PLAIN.after(MOVE).after(sleep).after(back)


def test_the_snapshot_itself_does_not_change() -> None:
    PLAIN.after(MOVE)

    assert cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.2)}) == PLAIN


def test_while_it_moves_a_guest_is_on_both_nodes() -> None:
    during = PLAIN.during(MOVE)

    assert during.guests[VM].locations == (A, B)
    assert during.nodes == PLAIN.nodes


def test_a_guest_that_has_arrived_is_no_longer_on_the_move() -> None:
    assert PLAIN.during(MOVE).after(MOVE).guests[VM].migrating_to is None


def test_a_stopped_guest_is_nowhere_even_while_it_moves() -> None:
    stopped = guest("vm", "a", 0.2, state=GuestState.STOPPED, migrating_to=B)

    assert stopped.locations == ()
    assert not stopped.present


@pytest.mark.parametrize("blind", [A, B, VM])
def test_what_is_not_known_stays_so(blind: str) -> None:
    unknown = {
        A: {"nodes": {**PLAIN.nodes, A: node("a", None)}},
        B: {"nodes": {**PLAIN.nodes, B: node("b", None)}},
        VM: {"guests": {VM: guest("vm", "a", None)}},
    }
    after = replace(PLAIN, **unknown[blind]).after(MOVE)  # type: ignore[arg-type]

    for name in (A, B):
        assert (after.nodes[name].usage == Usage()) is (blind in (name, VM))


def test_a_guest_takes_its_busy_cores_along_as_runnable_tasks() -> None:
    # The guest uses 2 of 10 cores.
    nodes = {A: node("a", 0.5, load_average=7.5), B: node("b", 0.1)}
    after = replace(PLAIN, nodes=nodes).after(MOVE)
    back = after.after(Migration(VM, B, A))

    assert after.nodes[A].load_average == pytest.approx(5.5)
    assert after.nodes[B].load_average is None
    assert back.nodes[A].load_average == pytest.approx(7.5)


def test_a_runnable_task_more_or_less_is_not_known_of_a_guest_not_measured() -> None:
    blind = replace(
        PLAIN,
        nodes={A: node("a", 0.5, load_average=7.5), B: node("b", 0.1)},
        guests={VM: guest("vm", "a", None)},
    )

    assert blind.after(MOVE).nodes[A].load_average is None


def test_how_long_anybody_will_wait_is_not_known_before_it_is_measured() -> None:
    waits = Pressure(cpu=Stall(0.8, 0.1))
    idle = Pressure(cpu=Stall(0.0, 0.0))
    nodes = {A: node("a", 0.5, pressure=waits), B: node("b", 0.1, pressure=idle)}
    other = guest("other", "a", 0.1, pressure=waits)
    strained = guest("vm", "a", 0.2, pressure=waits)
    before = replace(PLAIN, nodes=nodes, guests={VM: strained, other.id: other})

    after = before.after(MOVE)

    assert after.guests[VM].pressure == Pressure()
    assert after.nodes[A].pressure == after.nodes[B].pressure == Pressure()
    assert after.guests[other.id] == other


def test_amounts_beyond_all_measure_can_be_moved() -> None:
    most = 10**18
    huge = Usage(float(most), most)
    nodes = {A: node("a", 0.5, usage=huge), B: node("b", 0.1, usage=huge)}
    vm = guest("vm", "a", 0.1, usage=huge)

    after = replace(PLAIN, nodes=nodes, guests={VM: vm}).after(MOVE)

    assert after.nodes[A].usage == Usage(0.0, 0)
    assert after.nodes[B].usage == huge


def test_a_node_never_uses_less_than_nothing() -> None:
    busy = cluster({"a": 0.1, "b": 0.1}, {"vm": ("a", 0.2)})

    assert busy.after(MOVE).nodes[A].usage == Usage(0.0, 0)


@pytest.mark.parametrize(
    ("move", "error"),
    [
        (Migration(GuestId("gone"), A, B), UnknownGuestError),
        (Migration(VM, A, NodeId("gone")), UnknownNodeError),
        (Migration(VM, NodeId("gone"), B), UnknownNodeError),
        (Migration(VM, B, A), ModelError),
        (PowerOn(NodeId("gone")), UnknownNodeError),
    ],
)
def test_a_step_that_does_not_fit_the_cluster_is_refused(
    move: Action, error: type[ModelError]
) -> None:
    with pytest.raises(error):
        PLAIN.after(move)


def test_a_move_to_where_the_guest_is_cannot_be_under_way() -> None:
    with pytest.raises(ModelError, match="cannot migrate to a, where it is"):
        PLAIN.during(Migration(VM, A, A))


def test_a_node_is_put_to_sleep_and_woken() -> None:
    asleep = PLAIN.after(PowerOff(B))

    assert asleep.nodes[B].state is NodeState.OFFLINE
    assert asleep.after(PowerOn(B)).nodes[B].state is NodeState.ONLINE


def test_a_node_that_is_woken_uses_nothing_by_itself() -> None:
    asleep = replace(PLAIN.nodes[B], state=NodeState.OFFLINE, usage=Usage())
    silent = replace(asleep, state=NodeState.UNKNOWN)

    woken = replace(PLAIN, nodes={**PLAIN.nodes, B: asleep}).after(PowerOn(B))
    found = replace(PLAIN, nodes={**PLAIN.nodes, B: silent}).after(PowerOn(B))

    assert woken.nodes[B].usage == Usage(0.0, 0)
    assert found.nodes[B].usage == Usage()


def test_a_guest_on_an_unknown_node_is_refused() -> None:
    lost = {VM: guest("vm", "gone", 0.1)}
    bound = {VM: guest("vm", "a", 0.1, migrating_to=NodeId("gone"))}

    for guests in (lost, bound):
        with pytest.raises(ModelError, match="gone, which is not a node"):
            replace(PLAIN, guests=guests)


def test_a_time_without_zone_is_refused() -> None:
    with pytest.raises(ModelError, match="time zone"):
        replace(PLAIN, taken_at=datetime(2026, 11, 21))  # noqa: DTZ001

    with pytest.raises(ModelError, match="a: woken_at has no time zone"):
        node("a", 0.1, woken_at=datetime(2026, 11, 21))  # noqa: DTZ001
    with pytest.raises(ModelError, match="vm: moved_at has no time zone"):
        guest("vm", "a", 0.1, moved_at=datetime(2026, 11, 21))  # noqa: DTZ001

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
        forth = snapshot.after(Migration(vm.id, vm.node, target))
        back = forth.after(Migration(vm.id, target, vm.node))
        assert back.guests == snapshot.guests
        for name in nodes:
            assert used(back, name) == pytest.approx(used(snapshot, name))
            assert back.nodes[name].usage.memory == snapshot.nodes[name].usage.memory
