"""What follows from the loss of nodes, simulated from a common beginning."""

from __future__ import annotations

from dataclasses import replace
from multiprocessing import active_children

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cluster, guest_ids
from opendrs.errors import OpenDRSError
from opendrs.ha.documents import Datacenter, Scheduling
from opendrs.model import (
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestKind,
    Limits,
    Mobility,
    NodeAffinity,
    NodeId,
    NodeState,
    Rule,
    Snapshot,
)
from opendrs.sim.drill.actions import SetPower
from opendrs.sim.drill.losing import AFTERWARDS, BLOW, STAY, LossSimulation, loss_of
from opendrs.sim.drill.parsing import Step
from opendrs.sim.drill.processes import simulated_losses
from opendrs.sim.drill.stage import staged
from opendrs.sim.drill.timetable import Appointment, keep_timetable
from opendrs.sim.drill.wishes import Wishes

A, B, C, D = (NodeId(name) for name in "abcd")
NODES = (A, B, C, D)
LIMITS = Limits()
NAMES = tuple(f"vm:{number}" for number in range(1, 9))


def altered(snapshot: Snapshot, name: str, **changes: object) -> Snapshot:
    """Return *snapshot* with one guest changed."""
    guest: Guest = replace(snapshot.guests[GuestId(name)], **changes)  # type: ignore[arg-type]
    return replace(snapshot, guests={**snapshot.guests, guest.id: guest})


SMALL = cluster(
    nodes={"a": 0.3, "b": 0.2, "c": 0.2, "d": 0.0},
    guests={"vm:1": ("a", 0.1), "vm:2": ("a", 0.1), "vm:3": ("b", 0.1)},
)


@st.composite
def clusters(draw: st.DrawFn) -> Snapshot:
    """Draw clusters with rules, some of them broken, and guests that stay."""
    guests = {name: (draw(st.sampled_from(NODES)), 0.05) for name in NAMES}
    some = st.lists(st.sampled_from(NAMES), min_size=2, max_size=3, unique=True)
    rules: list[Rule] = []
    for kind in draw(
        st.lists(st.sampled_from(["apart", "together", "nodes"]), max_size=3)
    ):
        members = guest_ids(*draw(some))
        if kind == "apart":
            rules.append(AntiAffinity(guests=members, name=f"apart {len(rules)}"))
        elif kind == "together":
            rules.append(Affinity(guests=members, name=f"together {len(rules)}"))
        else:
            nodes = dict.fromkeys(draw(st.sets(st.sampled_from(NODES), min_size=1)), 1)
            rules.append(
                NodeAffinity(guests=members, nodes=nodes, strict=draw(st.booleans()))
            )
    drawn = cluster(nodes=dict.fromkeys("abcd", 0.2), guests=guests, rules=rules)
    resting = draw(st.sampled_from([None, *NODES]))
    if resting is not None:
        node = replace(drawn.nodes[resting], state=NodeState.MAINTENANCE)
        drawn = replace(drawn, nodes={**drawn.nodes, resting: node})
    for name in draw(st.sets(st.sampled_from(NAMES), max_size=2)):
        drawn = altered(
            drawn, name, moves=Mobility.NEVER, obstacle="a passed-through device"
        )
    return drawn


modes = st.sampled_from(["basic", "static"])


@settings(max_examples=25, deadline=None)
@given(clusters(), modes)
def test_each_loss_from_a_common_beginning_is_that_of_a_drill_of_its_own(
    drawn: Snapshot, mode: str
) -> None:
    datacenter = Datacenter(Scheduling(mode=mode))
    common = LossSimulation(drawn, limits=LIMITS, datacenter=datacenter)

    for nodes in ([A], [B], [C], [D], [A, C]):
        alone = loss_of(drawn, nodes, limits=LIMITS, datacenter=datacenter)
        assert common.loss_of(nodes).drill.log() == alone.drill.log()


@settings(max_examples=25, deadline=None)
@given(clusters(), modes, st.sampled_from(NODES))
def test_what_a_loss_leaves_out_changes_nothing(
    drawn: Snapshot, mode: str, lost: NodeId
) -> None:
    """Agents that check nothing again, and an end when all is settled."""
    datacenter = Datacenter(Scheduling(mode=mode))
    stage = staged(drawn, Wishes(otherwise=STAY), datacenter)
    power = SetPower(stage.names.nodes[lost], on=False)
    blow = Appointment(BLOW, Step(f"power {lost} off", "the loss", power))
    whole = keep_timetable(stage.scenario, [*stage.opening, blow], quiet=AFTERWARDS)

    short = loss_of(drawn, [lost], limits=LIMITS, datacenter=datacenter).drill

    assert short.log().splitlines()[:-1] == whole.log().splitlines()[:-1]


def test_losses_by_several_processes_are_those_by_one() -> None:
    simulation = LossSimulation(SMALL, limits=LIMITS)

    with simulated_losses(simulation, NODES, 1) as losses:
        one = [loss.drill.log() for loss in losses]
    with simulated_losses(simulation, NODES, 2) as losses:
        two = [loss.drill.log() for loss in losses]

    assert one == two
    assert len(set(one)) == len(NODES)


def lose_while_processes_are_killed(nodes: tuple[NodeId, ...]) -> None:
    simulation = LossSimulation(SMALL, limits=LIMITS)
    with simulated_losses(simulation, nodes, 2) as losses:
        next(losses)
        for process in active_children():
            process.kill()
        list(losses)


def test_a_process_that_is_killed_is_an_error_with_what_to_do() -> None:
    with pytest.raises(OpenDRSError, match="was killed"):
        lose_while_processes_are_killed(NODES * 50)

    assert active_children() == []


@pytest.mark.parametrize(
    ("moves", "obstacle", "blocker"),
    [
        (
            Mobility.NEVER,
            "a graphics card is passed through",
            "a graphics card is passed",
        ),
        (Mobility.NEVER, None, "the snapshot says that it never moves"),
        (Mobility.STOPPED, "its disk is local to the host", "its disk is local"),
        (Mobility.STOPPED, "disk /x is not on shared storage", "disk /x is not on"),
    ],
)
def test_a_guest_that_needs_its_node_is_not_restarted_elsewhere(
    moves: Mobility, obstacle: str | None, blocker: str
) -> None:
    snapshot = altered(SMALL, "vm:1", moves=moves, obstacle=obstacle)

    loss = loss_of(snapshot, [A], limits=LIMITS)

    assert [one.guest.id for one in loss.bound] == ["vm:1"]
    assert str(loss.bound[0].blocker).startswith(blocker)
    assert (loss.bound[0].target, loss.bound[0].down) == (None, None)
    assert [one.guest.id for one in loss.recovered] == ["vm:2"]
    assert (loss.stranded, loss.survived) == ((), True)


@pytest.mark.parametrize(
    ("kind", "moves", "obstacle"),
    [
        (GuestKind.CONTAINER, Mobility.STOPPED, "a container moves only stopped"),
        (GuestKind.VM, Mobility.STOPPED, None),
        (GuestKind.VM, None, None),
    ],
)
def test_a_guest_that_only_cannot_move_live_is_restarted_elsewhere(
    kind: GuestKind, moves: Mobility | None, obstacle: str | None
) -> None:
    snapshot = altered(SMALL, "vm:1", kind=kind, moves=moves, obstacle=obstacle)

    loss = loss_of(snapshot, [A], limits=LIMITS)

    assert loss.bound == ()
    assert [one.guest.id for one in loss.recovered] == ["vm:1", "vm:2"]


def test_a_guest_that_was_moved_before_the_loss_is_not_restarted() -> None:
    away = NodeAffinity(guests=guest_ids("vm:1"), nodes={B: 1})
    snapshot = replace(SMALL, rules=(away,))

    left = loss_of(snapshot, [A], limits=LIMITS)
    reached = loss_of(
        replace(snapshot, rules=(replace(away, nodes={B: 1}),)), [B], limits=LIMITS
    )

    assert left.moved_before == ("vm:1",)
    assert [(one.guest.id, one.down) for one in left.casualties] == [("vm:2", 180)]
    assert [one.guest.id for one in reached.casualties] == ["vm:1", "vm:3"]
    assert [one.guest.id for one in reached.stranded] == ["vm:1"]
