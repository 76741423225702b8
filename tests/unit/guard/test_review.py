"""The guard judges on a fresh snapshot, from a closed list of refusals."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from builders import CAPACITY, NOON, cluster, guest, guest_ids, node
from opendrs.guard import Refusal, objection
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Action,
    Affinity,
    AntiAffinity,
    Exclusion,
    Guest,
    GuestId,
    GuestState,
    Limits,
    Migration,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Relocation,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.rules import newly_broken
from strategies import snapshots

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
VM, PEER = GuestId("vm"), GuestId("peer")
MOVE = Migration(VM, A, B)
PEER_MOVE = Migration(PEER, A, B)
TOGETHER = Affinity(guests=guest_ids("vm", "peer"))
APART = AntiAffinity(guests=guest_ids("vm", "peer"))


def plain(*rules: Rule) -> Snapshot:
    return cluster({"a": 0.6, "b": 0.1, "c": 0.1}, {"vm": ("a", 0.3)}, rules)


def pair(*rules: Rule, peer: str = "a") -> Snapshot:
    places = {"vm": ("a", 0.2), "peer": (peer, 0.2)}
    return cluster({"a": 0.6, "b": 0.2, "c": 0.2}, places, rules)


def with_guest(snapshot: Snapshot, changed: Guest) -> Snapshot:
    return replace(snapshot, guests={**snapshot.guests, changed.id: changed})


def with_node(snapshot: Snapshot, changed: Node) -> Snapshot:
    return replace(snapshot, nodes={**snapshot.nodes, changed.id: changed})


def judged(
    fresh: Snapshot, *moves: Action, limits: Limits = DEFAULT_LIMITS
) -> Refusal | None:
    found = objection(moves or (MOVE,), fresh, limits)
    return found.refusal if found else None


def test_has_nothing_against_a_move_that_finds_room() -> None:
    assert judged(plain()) is None


@pytest.mark.parametrize(
    ("fresh", "move"),
    [
        pytest.param(cluster({"a": 0.1, "b": 0.1}, {}), MOVE, id="guest gone"),
        pytest.param(
            cluster({"a": 0.1, "b": 0.4}, {"vm": ("b", 0.3)}), MOVE, id="guest left"
        ),
        pytest.param(plain(), Migration(VM, A, A), id="on the target already"),
        pytest.param(plain(), Migration(VM, A, NodeId("z")), id="target gone"),
        pytest.param(
            cluster({"a": 0.6, "b": 0.1}, {"vm": ("a", 0.3)}, moving={"vm": "b"}),
            MOVE,
            id="under way",
        ),
        pytest.param(
            with_guest(plain(), guest("vm", "a", 0.3, state=GuestState.PAUSED)),
            MOVE,
            id="not running",
        ),
    ],
)
def test_refuses_a_move_whose_reason_has_gone(fresh: Snapshot, move: Action) -> None:
    assert judged(fresh, move) is Refusal.OUT_OF_DATE


def test_refuses_to_move_a_guest_twice_at_once() -> None:
    assert judged(plain(), MOVE, Migration(VM, A, C)) is Refusal.OUT_OF_DATE


@pytest.mark.parametrize(
    "fresh",
    [
        pytest.param(
            with_guest(plain(), guest("vm", "a", 0.3, moves=Mobility.NEVER)), id="never"
        ),
        pytest.param(
            with_guest(plain(), guest("vm", "a", 0.3, moves=Mobility.STOPPED)),
            id="not live",
        ),
        pytest.param(plain(Pin(guests=guest_ids("vm"))), id="pinned"),
        pytest.param(
            with_guest(
                plain(Exclusion(tags=frozenset({"fixed"}))),
                guest("vm", "a", 0.3, tags=frozenset({"fixed"})),
            ),
            id="excluded",
        ),
    ],
)
def test_refuses_to_move_who_may_not_move(fresh: Snapshot) -> None:
    assert judged(fresh) is Refusal.MAY_NOT_MOVE


def test_says_why_a_guest_cannot_move() -> None:
    tied = guest("vm", "a", 0.3, moves=Mobility.STOPPED, obstacle="a local disk")

    found = objection((MOVE,), with_guest(plain(), tied), DEFAULT_LIMITS)

    assert found is not None
    assert found.detail == "vm cannot be moved while it runs: a local disk"


def test_lets_a_guest_that_cannot_move_live_be_relocated() -> None:
    fresh = with_guest(plain(), guest("vm", "a", 0.3, moves=Mobility.STOPPED))

    assert judged(fresh, Relocation(VM, A, B)) is None


@pytest.mark.parametrize("state", [s for s in NodeState if s is not NodeState.ONLINE])
def test_refuses_a_target_that_is_not_online(state: NodeState) -> None:
    assert (
        judged(with_node(plain(), node("b", 0.1, state=state)))
        is Refusal.TARGET_OFFLINE
    )


def test_refuses_another_architecture() -> None:
    mixed = with_node(plain(), node("a", 0.6, architecture="x86_64"))
    mixed = with_node(mixed, node("b", 0.1, architecture="aarch64"))

    assert judged(mixed) is Refusal.OTHER_PROCESSOR


def test_does_not_take_an_unknown_architecture_for_another() -> None:
    assert judged(with_node(plain(), node("b", 0.1, architecture="x86_64"))) is None


@pytest.mark.parametrize(
    ("found", "refusal"),
    [("EPYC", None), ("Skylake", Refusal.OTHER_PROCESSOR), (None, "other-processor")],
)
def test_a_guest_gets_the_processor_model_it_needs(
    found: str | None, refusal: Refusal | None
) -> None:
    fresh = with_guest(plain(), guest("vm", "a", 0.3, cpu_model="EPYC"))

    assert judged(with_node(fresh, node("b", 0.1, cpu_model=found))) == refusal


@pytest.mark.parametrize(
    "fresh",
    [
        pytest.param(with_node(plain(), node("b", None)), id="use of the target"),
        pytest.param(
            with_node(plain(), node("b", 0.1, capacity=None)), id="its capacity"
        ),
        pytest.param(with_guest(plain(), guest("vm", "a", None)), id="use of a guest"),
        pytest.param(
            with_guest(plain(), guest("other", "b", None)), id="a guest on the target"
        ),
        pytest.param(
            with_guest(plain(), guest("other", "a", None, migrating_to=B)),
            id="a guest on its way",
        ),
    ],
)
def test_refuses_when_a_figure_it_needs_is_missing(fresh: Snapshot) -> None:
    assert judged(fresh) is Refusal.NOT_MEASURED


def test_a_guest_without_limit_counts_with_what_it_uses() -> None:
    unlimited = guest("other", "b", 0.1, limit=None)

    assert judged(with_guest(plain(), unlimited)) is None


def test_a_memory_limit_of_0_is_no_limit() -> None:
    # 0.3 + 0.8 is more than the node has.
    unlimited = guest("other", "b", 0.8, limit=Resources(1, 0))

    assert judged(with_guest(plain(), unlimited)) is Refusal.OVERBOOKED


def test_keeps_the_headroom_to_the_byte() -> None:
    # 95 of 100 GiB may be used: 65 are, and 30 arrive.
    brim = replace(node("b", 0.1), usage=Usage(1.0, 65 * GIB))
    over = replace(node("b", 0.1), usage=Usage(1.0, 65 * GIB + 1))

    assert judged(with_node(plain(), brim)) is None
    assert judged(with_node(plain(), over)) is Refusal.TARGET_FULL


def test_guests_on_their_way_take_room_already() -> None:
    arriving = guest("other", "c", 0.4, migrating_to=B)
    fresh = with_node(with_guest(plain(), arriving), node("b", 0.3))

    assert judged(fresh) is Refusal.TARGET_FULL


def test_names_what_is_there_and_what_would_come() -> None:
    found = objection((MOVE,), with_node(plain(), node("b", 0.7)), DEFAULT_LIMITS)

    assert found is not None
    assert found.detail == (
        "b uses 70.0 GiB, and 30.0 GiB would arrive: more than 95.0 GiB of its "
        "100.0 GiB"
    )


def test_promises_no_more_memory_than_the_operator_allows() -> None:
    # 0.3 of the node is promised to vm, 0.8 to the other one.
    greedy = guest("other", "b", 0.1, limit=Resources(1, 80 * GIB))
    fresh = with_guest(plain(), greedy)

    assert judged(fresh) is Refusal.OVERBOOKED
    assert judged(fresh, limits=Limits(memory_overbooking=1.1)) is None


def test_stopped_guests_were_promised_nothing() -> None:
    stopped = guest("other", "b", 0.9, state=GuestState.STOPPED)

    assert judged(with_guest(plain(), stopped)) is None


def test_keeps_apart_what_a_rule_keeps_apart() -> None:
    assert judged(pair(APART, peer="b")) is Refusal.BREAKS_RULE


def test_does_not_insist_on_soft_rules() -> None:
    assert judged(pair(replace(APART, strict=False), peer="b")) is None


def test_keeps_guests_on_the_nodes_of_their_rule() -> None:
    assert (
        judged(plain(NodeAffinity(guests=guest_ids("vm"), nodes={A: 1, C: 1})))
        is Refusal.BREAKS_RULE
    )


def test_does_not_tear_apart_what_belongs_together() -> None:
    assert judged(pair(TOGETHER)) is Refusal.BREAKS_RULE


def test_guests_that_belong_together_may_go_together() -> None:
    assert judged(pair(TOGETHER), MOVE, PEER_MOVE) is None


def test_a_rule_that_is_broken_may_stay_broken() -> None:
    assert judged(pair(APART), MOVE, PEER_MOVE) is None


def test_a_broken_rule_may_be_mended() -> None:
    assert judged(pair(TOGETHER, peer="b")) is None


def test_a_guest_on_its_way_is_met_on_both_nodes() -> None:
    passing = cluster(
        {"a": 0.3, "b": 0.1, "c": 0.3},
        {"vm": ("a", 0.2), "peer": ("b", 0.1)},
        [APART],
        moving={"peer": "c"},
    )

    assert judged(passing) is Refusal.BREAKS_RULE
    assert judged(passing, Migration(VM, A, C)) is Refusal.BREAKS_RULE


def test_does_not_pass_a_companion_that_is_coming() -> None:
    # Both are on b while peer is under way, and never again.
    crossing = cluster(
        {"a": 0.3, "b": 0.1},
        {"vm": ("b", 0.2), "peer": ("a", 0.1)},
        [TOGETHER],
        moving={"peer": "b"},
    )

    assert judged(crossing, Migration(VM, B, A)) is Refusal.BREAKS_RULE


@pytest.mark.parametrize(
    ("ago", "refusal"),
    [
        (599, Refusal.COOLING_DOWN),
        (600, None),
        (-599, Refusal.COOLING_DOWN),  # another clock is a little ahead
        (-3600, Refusal.COOLING_DOWN),  # a time in the future is treated as now
    ],
)
def test_leaves_alone_who_was_just_moved(ago: int, refusal: Refusal | None) -> None:
    moved = replace(plain().guests[VM], moved_at=NOON - timedelta(seconds=ago))

    found = objection((MOVE,), with_guest(plain(), moved), DEFAULT_LIMITS)

    assert (found.refusal if found else None) == refusal


@pytest.mark.parametrize(
    ("uptime", "refusal"), [(59.0, Refusal.JUST_STARTED), (60.0, None), (None, None)]
)
def test_leaves_alone_who_has_just_started(
    uptime: float | None, refusal: Refusal | None
) -> None:
    fresh = with_guest(plain(), guest("vm", "a", 0.3, uptime=uptime))

    assert judged(fresh) == refusal


@pytest.mark.parametrize(("ago", "refusal"), [(599, Refusal.COOLING_DOWN), (600, None)])
def test_leaves_on_what_was_just_woken(ago: int, refusal: Refusal | None) -> None:
    nodes = plain().nodes
    woken = replace(nodes[B], woken_at=NOON - timedelta(seconds=ago))

    fresh = replace(plain(), nodes={**nodes, B: woken})

    assert judged(fresh, PowerOff(B)) == refusal


def test_only_an_empty_node_goes_to_sleep() -> None:
    assert judged(plain(), PowerOff(A)) is Refusal.NODE_NOT_EMPTY
    assert judged(plain(), PowerOff(B)) is None


def test_a_node_that_awaits_a_guest_is_not_empty() -> None:
    awaiting = cluster({"a": 0.5, "b": 0.1}, {"vm": ("a", 0.3)}, moving={"vm": "b"})

    assert judged(awaiting, PowerOff(B)) is Refusal.NODE_NOT_EMPTY


def test_a_node_with_a_stopped_guest_is_not_empty() -> None:
    stopped = guest("vm2", "b", 0.0, state=GuestState.STOPPED)

    assert judged(with_guest(plain(), stopped), PowerOff(B)) is Refusal.NODE_NOT_EMPTY


def test_a_node_that_does_not_answer_is_not_switched_off() -> None:
    silent = with_node(plain(), node("b", None, state=NodeState.UNKNOWN))

    assert judged(silent, PowerOff(B)) is Refusal.NODE_NOT_SEEN
    assert judged(silent, PowerOn(B)) is None


def test_does_not_switch_a_node_that_is_as_wanted() -> None:
    asleep = with_node(plain(), node("b", 0.0, state=NodeState.OFFLINE))

    assert judged(plain(), PowerOn(B)) is Refusal.OUT_OF_DATE
    assert judged(asleep, PowerOff(B)) is Refusal.OUT_OF_DATE
    assert judged(asleep, PowerOn(B)) is None
    assert judged(asleep, PowerOn(NodeId("z"))) is Refusal.OUT_OF_DATE


@st.composite
def units(draw: st.DrawFn) -> tuple[Snapshot, tuple[Migration, ...]]:
    """Draw a cluster, and one to three of its guests that are to go somewhere."""
    fresh = draw(snapshots().filter(lambda drawn: bool(drawn.guests)))
    names = draw(
        st.lists(
            st.sampled_from(sorted(fresh.guests)), min_size=1, max_size=3, unique=True
        )
    )
    target = draw(st.sampled_from(sorted(fresh.nodes)))
    moves = (Migration(name, fresh.guests[name].node, target) for name in names)
    return fresh, tuple(moves)


@given(units())
def test_what_it_lets_start_breaks_no_strict_rule_and_fills_no_node(
    drawn: tuple[Snapshot, tuple[Migration, ...]],
) -> None:
    fresh, moves = drawn
    found = objection(moves, fresh, DEFAULT_LIMITS)
    event("refused" if found else "accepted")
    if found:
        return
    during = done = fresh
    for move in moves:
        during, done = during.during(move), done.after(move)

    assert not newly_broken(fresh, during)
    assert not newly_broken(fresh, done)
    for target in {done.nodes[move.target] for move in moves}:
        assert target.online
        assert target.capacity is not None
        assert target.usage.memory is not None
        assert target.usage.memory <= target.capacity.memory * 0.95


@given(units())
def test_more_freedom_never_makes_an_objection(
    drawn: tuple[Snapshot, tuple[Migration, ...]],
) -> None:
    fresh, moves = drawn
    free = Limits(memory_headroom=0, memory_overbooking=100, cooldown=0, quiet_time=0)
    if objection(moves, fresh, DEFAULT_LIMITS) is None:
        assert objection(moves, fresh, free) is None


@given(units())
def test_every_objection_says_why(
    drawn: tuple[Snapshot, tuple[Migration, ...]],
) -> None:
    fresh, moves = drawn
    found = objection(moves, fresh, DEFAULT_LIMITS)
    if found is not None:
        assert len(found.detail) > 10
        assert str(found).startswith(found.refusal)


def test_the_capacity_the_examples_count_on() -> None:
    assert CAPACITY.memory == 100 * GIB
