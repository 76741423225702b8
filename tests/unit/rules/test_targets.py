"""Where guests may go, and why not elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import event, given

from builders import cluster, guest_ids
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestState,
    Limits,
    Migration,
    NodeAffinity,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.rules import (
    Targets,
    Violation,
    compile_rules,
    newly_broken,
    violations,
)
from strategies import snapshots

A, B, C = (NodeId(name) for name in "abc")
X, Y, Z = (GuestId(name) for name in "xyz")
EVEN: Mapping[str, float | None] = {"a": 0.2, "b": 0.2, "c": 0.2}
Places = Mapping[str, str]


def scene(
    *rules: Rule, places: Places | None = None, moving: Places | None = None
) -> Snapshot:
    where = places or {"x": "a"}
    guests = {name: (node, 0.1) for name, node in where.items()}
    return cluster(EVEN, {**guests}, rules, moving)


def targets(snapshot: Snapshot, limits: Limits = DEFAULT_LIMITS) -> Targets:
    return Targets(snapshot, compile_rules(snapshot), limits)


def excluded(
    snapshot: Snapshot, *names: GuestId, limits: Limits = DEFAULT_LIMITS
) -> dict[NodeId, str]:
    unit = [snapshot.guests[name] for name in names or (X,)]
    return targets(snapshot, limits).excluded(unit)


def with_node(snapshot: Snapshot, name: NodeId, **changes: object) -> Snapshot:
    changed = replace(snapshot.nodes[name], **changes)  # type: ignore[arg-type]
    return replace(snapshot, nodes={**snapshot.nodes, name: changed})


def with_guest(snapshot: Snapshot, name: GuestId, **changes: object) -> Snapshot:
    changed = replace(snapshot.guests[name], **changes)  # type: ignore[arg-type]
    return replace(snapshot, guests={**snapshot.guests, name: changed})


def belong(*, strict: bool = True, **nodes: int) -> NodeAffinity:
    priorities = {NodeId(name): priority for name, priority in nodes.items()}
    return NodeAffinity(guests=guest_ids("x"), nodes=priorities, strict=strict)


def test_without_rules_every_other_node_is_open_in_order_of_name() -> None:
    unit = [scene().guests[X]]

    assert targets(scene()).open(unit) == (B, C)
    assert targets(scene()).excluded(unit) == {}


@pytest.mark.parametrize("state", set(NodeState) - {NodeState.ONLINE})
def test_a_node_that_is_not_online_is_closed(state: NodeState) -> None:
    assert excluded(with_node(scene(), B, state=state)) == {B: f"it is {state}"}


def test_another_architecture_is_closed_where_both_are_known() -> None:
    arm = with_node(scene(), B, architecture="aarch64")

    assert excluded(arm) == {}
    assert excluded(with_node(arm, A, architecture="x86_64")) == {
        B: "its architecture is aarch64"
    }


def test_a_guest_that_needs_a_processor_goes_only_where_it_is_known_to_be() -> None:
    picky = with_guest(scene(), X, cpu_model="EPYC")

    there = with_node(picky, C, cpu_model="EPYC")

    assert excluded(there) == {B: "its processor is not EPYC"}


def test_nodes_that_a_strict_rule_does_not_list_are_closed() -> None:
    rule = belong(a=0, b=0)

    assert excluded(scene(rule)) == {C: f"a rule forbids it: {rule}"}


def test_of_ranked_nodes_only_the_highest_are_open() -> None:
    rule = belong(a=0, b=1, c=2)

    assert excluded(scene(rule)) == {B: f"other nodes are preferred: {rule}"}


def test_a_soft_rule_prefers_its_nodes_to_all_others() -> None:
    rule = belong(strict=False, b=0)

    assert excluded(scene(rule)) == {C: f"other nodes are preferred: {rule}"}


def test_where_no_preferred_node_is_online_the_next_best_are_open() -> None:
    down = with_node(scene(belong(a=1, b=3, c=2)), B, state=NodeState.MAINTENANCE)

    assert set(excluded(down)) == {B}


def test_a_soft_rule_whose_nodes_are_all_gone_prefers_nothing() -> None:
    down = with_node(scene(belong(strict=False, b=5)), B, state=NodeState.OFFLINE)

    assert set(excluded(down)) == {B}


def test_what_several_rules_say_of_a_node_adds_up() -> None:
    # b: 3 - 1 = 2, c: 2 + 1 = 3; a is in neither: -2.
    rules = belong(strict=False, b=3, c=2), belong(strict=False, c=1)

    assert set(excluded(scene(*rules))) == {B}


def test_a_node_with_whom_it_must_be_apart_is_closed() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y", "z"))
    snapshot = scene(spread, places={"x": "a", "y": "b", "z": "b"})

    assert excluded(snapshot) == {B: "x must be apart from y and z"}


def test_the_source_and_the_target_of_a_moving_guest_are_closed() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene(spread, places={"x": "a", "y": "b"}, moving={"y": "c"})

    assert set(excluded(snapshot)) == {B, C}


def test_a_stopped_guest_keeps_nobody_away() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = scene(spread, places={"x": "a", "y": "b"})

    assert excluded(with_guest(snapshot, Y, state=GuestState.STOPPED)) == {}


def test_who_is_near_one_of_a_unit_closes_the_node_to_all_of_it() -> None:
    rules = (
        Affinity(guests=guest_ids("x", "y")),
        AntiAffinity(guests=guest_ids("y", "z")),
    )
    snapshot = scene(*rules, places={"x": "a", "y": "a", "z": "c"})

    assert excluded(snapshot, X, Y) == {C: "x must be apart from z"}


def test_a_soft_rule_is_not_kept_worse_than_it_is() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y", "z"), strict=False)
    kept = scene(spread, places={"x": "a", "y": "b", "z": "c"})
    broken = scene(spread, places={"x": "a", "y": "a", "z": "c"})

    assert excluded(kept) == {
        B: "x would better be apart from y",
        C: "x would better be apart from z",
    }
    assert excluded(broken) == {}


def test_guests_that_would_better_stay_together_are_not_parted() -> None:
    pair = Affinity(guests=guest_ids("x", "y"), strict=False)

    assert excluded(scene(pair, places={"x": "a", "y": "a"})) == {
        B: "x would better stay with y",
        C: "x would better stay with y",
    }
    assert excluded(scene(pair, places={"x": "a", "y": "b"})) == {}


def test_a_soft_bond_within_a_unit_holds_nobody_back() -> None:
    rules = (
        Affinity(guests=guest_ids("x", "y")),
        Affinity(guests=guest_ids("x", "y"), strict=False),
    )

    snapshot = scene(*rules, places={"x": "a", "y": "a"})

    assert excluded(snapshot, X, Y) == {}


def test_a_node_that_would_run_out_of_memory_is_closed() -> None:
    # By hand: of 100 GiB 95 may be used; x uses 10.
    tight = with_node(scene(), B, usage=Usage(1.0, 85 * GIB))
    full = with_node(scene(), B, usage=Usage(1.0, 86 * GIB))

    assert excluded(tight) == {}
    assert excluded(full) == {B: "it lacks 1.0 GiB of free memory"}


def test_a_node_whose_memory_would_be_promised_too_often_is_closed() -> None:
    snapshot = scene(places={"x": "a", "y": "b"})
    tight = with_guest(snapshot, Y, limit=Resources(1, 90 * GIB))
    full = with_guest(snapshot, Y, limit=Resources(1, 92 * GIB))

    assert excluded(tight) == {}
    assert excluded(full) == {B: "its memory would be overbooked by 2.0 GiB"}
    assert excluded(full, limits=Limits(memory_overbooking=1.1)) == {}


@pytest.mark.parametrize("usage", [Usage(), Usage(1.0, None)])
def test_memory_that_is_not_known_closes_a_node(usage: Usage) -> None:
    why = "its memory, or that of the guest, is not known"

    assert excluded(with_node(scene(), B, usage=usage)) == {B: why}
    assert excluded(with_guest(scene(), X, usage=usage)) == {B: why, C: why}


def units(snapshot: Snapshot) -> Iterable[list[Guest]]:
    """Return what moves as one: guests that run, or whole groups on one node."""
    rules = compile_rules(snapshot)
    for name, guest in snapshot.guests.items():
        group = sorted(rules.together.get(name, {name}))
        members = [snapshot.guests[each] for each in group]
        present = [each for each in members if each.present]
        settled = all(
            each.state is GuestState.RUNNING and each.migrating_to is None
            for each in present
        )
        one_node = len({each.node for each in present}) == 1
        if settled and one_node and guest is present[0]:
            yield present


def moved(snapshot: Snapshot, unit: Iterable[Guest], target: NodeId) -> Snapshot:
    for guest in unit:
        snapshot = snapshot.after(Migration(guest.id, guest.node, target))
    return snapshot


def under_way(snapshot: Snapshot, unit: Iterable[Guest], target: NodeId) -> Snapshot:
    for guest in unit:
        snapshot = snapshot.during(Migration(guest.id, guest.node, target))
    return snapshot


def memory_fits(snapshot: Snapshot, name: NodeId, limits: Limits) -> bool:
    """Return whether what is known to be used and promised on a node fits."""
    node = snapshot.nodes[name]
    assert node.capacity is not None
    assert node.usage.memory is not None
    promised = 0
    for guest in snapshot.guests.values():
        if name in guest.locations:
            memory = guest.usage.memory if guest.limit is None else guest.limit.memory
            assert memory is not None
            promised += memory
    return (
        node.usage.memory <= node.capacity.memory * (1 - limits.memory_headroom)
        and promised <= node.capacity.memory * limits.memory_overbooking
    )


@given(snapshots())
def test_an_open_node_breaks_no_rule_and_is_not_overfilled(snapshot: Snapshot) -> None:
    still = {
        name: replace(guest, migrating_to=None)
        for name, guest in snapshot.guests.items()
    }
    snapshot = replace(snapshot, guests=still)
    judge = targets(snapshot)

    for unit in units(snapshot):
        for name in judge.open(unit):
            event("an open node")
            after = moved(snapshot, unit, name)
            assert not softly_worse(snapshot, after, [guest.id for guest in unit])
            assert newly_broken(snapshot, under_way(snapshot, unit, name)) == ()
            assert newly_broken(snapshot, after) == ()
            assert memory_fits(after, name, DEFAULT_LIMITS)
            assert after.nodes[name].online


@given(snapshots())
def test_whether_a_node_suits_agrees_with_why_it_does_not(snapshot: Snapshot) -> None:
    judge = targets(snapshot)

    for unit in units(snapshot):
        for node in snapshot.nodes.values():
            why = judge.unsuitable(unit, node)
            event("unsuitable" if why else "suitable")
            assert judge.suits(unit, node) is (why is None)


@given(snapshots(measured=True, settled=True))
def test_a_closed_node_would_really_break_or_overfill_something(
    snapshot: Snapshot,
) -> None:
    judge = targets(snapshot)
    # A group that is torn apart already, or that cannot be kept, tells more of
    # its members than the rules do of each.
    torn = any(isinstance(each.rule, Affinity) for each in strict(snapshot))
    plain = not torn and not compile_rules(snapshot).contradictions

    for unit in units(snapshot):
        moving = {guest.id for guest in unit}
        for name, why in judge.excluded(unit).items():
            after = moved(snapshot, unit, name)
            if "must be apart" in why or "forbids" in why:
                event("a strict rule")
                assert not plain or any(each.guests & moving for each in strict(after))
            elif "better" in why:
                event("a soft rule")
                assert softly_worse(snapshot, after, moving)
            elif "memory" in why:
                event("memory")
                assert not memory_fits(after, name, DEFAULT_LIMITS)


def strict(snapshot: Snapshot) -> list[Violation]:
    return [each for each in violations(snapshot) if each.strict]


def softly_worse(before: Snapshot, after: Snapshot, guests: Iterable[GuestId]) -> bool:
    """Return whether soft rules are kept worse for one of *guests*."""
    return any(
        unmet(after, guest, kind) > unmet(before, guest, kind)
        for guest in guests
        for kind in (Affinity, AntiAffinity)
    )


def unmet(
    snapshot: Snapshot, guest: GuestId, kind: type[Affinity | AntiAffinity]
) -> int:
    """Return with how many others soft rules of *kind* are not kept."""
    others = {
        other
        for rule in snapshot.rules
        if isinstance(rule, kind) and not rule.strict and guest in rule.guests
        for other in rule.guests - {guest}
    }
    here = snapshot.guests[guest].node
    present = [g for g in (snapshot.guests[name] for name in others) if g.present]
    return sum((g.node == here) is (kind is AntiAffinity) for g in present)
