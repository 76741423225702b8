"""Feasible nodes, and reasons of infeasible nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest
from hypothesis import event, given

from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Affinity,
    AntiAffinity,
    Guest,
    GuestId,
    GuestState,
    Limits,
    LiveMigration,
    NodeAffinity,
    NodeId,
    NodeState,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.rules import (
    FeasibilityChecker,
    Violation,
    compile_rules,
    new_violations,
    violations,
)
from support.builders import cluster, guest_ids
from support.strategies import snapshots

A, B, C = (NodeId(name) for name in "abc")
X, Y, Z = (GuestId(name) for name in "xyz")
EVEN: Mapping[str, float | None] = {"a": 0.2, "b": 0.2, "c": 0.2}
Places = Mapping[str, str]


def snapshot_of(
    *rules: Rule, places: Places | None = None, moving: Places | None = None
) -> Snapshot:
    where = places or {"x": "a"}
    guests = {name: (node, 0.1) for name, node in where.items()}
    return cluster(EVEN, {**guests}, rules, moving)


def checker_of(
    snapshot: Snapshot, limits: Limits = DEFAULT_LIMITS
) -> FeasibilityChecker:
    return FeasibilityChecker(snapshot, compile_rules(snapshot), limits)


def infeasible(
    snapshot: Snapshot, *names: GuestId, limits: Limits = DEFAULT_LIMITS
) -> dict[NodeId, str]:
    group = [snapshot.guests[name] for name in names or (X,)]
    return checker_of(snapshot, limits).infeasible_nodes(group)


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
    group = [snapshot_of().guests[X]]

    assert checker_of(snapshot_of()).feasible_nodes(group) == (B, C)
    assert checker_of(snapshot_of()).infeasible_nodes(group) == {}


@pytest.mark.parametrize(
    "state", [each for each in NodeState if each is not NodeState.ONLINE]
)
def test_node_not_online_is_infeasible(state: NodeState) -> None:
    assert infeasible(with_node(snapshot_of(), B, state=state)) == {
        B: f"node state {state}"
    }


def test_node_of_other_known_architecture_is_infeasible() -> None:
    arm = with_node(snapshot_of(), B, architecture="aarch64")

    assert infeasible(arm) == {}
    assert infeasible(with_node(arm, A, architecture="x86_64")) == {
        B: "node architecture aarch64"
    }


def test_node_without_required_cpu_model_is_infeasible() -> None:
    picky = with_guest(snapshot_of(), X, cpu_model="EPYC")

    there = with_node(picky, C, cpu_model="EPYC")

    assert infeasible(there) == {B: "node CPU model is not EPYC"}


def test_node_outside_strict_node_affinity_is_infeasible() -> None:
    rule = belong(a=0, b=0)

    assert infeasible(snapshot_of(rule)) == {C: f'forbidden by the rule "{rule}"'}


def test_node_below_highest_priority_is_infeasible() -> None:
    rule = belong(a=0, b=1, c=2)

    assert infeasible(snapshot_of(rule)) == {B: f"other nodes are preferred: {rule}"}


def test_node_outside_soft_node_affinity_is_infeasible() -> None:
    rule = belong(strict=False, b=0)

    assert infeasible(snapshot_of(rule)) == {C: f"other nodes are preferred: {rule}"}


def test_next_priority_is_feasible_if_preferred_node_is_not_online() -> None:
    down = with_node(snapshot_of(belong(a=1, b=3, c=2)), B, state=NodeState.MAINTENANCE)

    assert set(infeasible(down)) == {B}


def test_soft_node_affinity_without_online_nodes_prefers_nothing() -> None:
    down = with_node(snapshot_of(belong(strict=False, b=5)), B, state=NodeState.OFFLINE)

    assert set(infeasible(down)) == {B}


def test_priorities_of_several_rules_are_added() -> None:
    # b: 3 - 1 = 2, c: 2 + 1 = 3; a is in neither: -2.
    rules = belong(strict=False, b=3, c=2), belong(strict=False, c=1)

    assert set(infeasible(snapshot_of(*rules))) == {B}


def test_node_with_anti_affine_guest_is_infeasible() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y", "z"))
    snapshot = snapshot_of(spread, places={"x": "a", "y": "b", "z": "b"})

    assert infeasible(snapshot) == {B: "anti-affinity of x to y and z"}


def test_source_and_target_of_migrating_anti_affine_guest_are_infeasible() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = snapshot_of(spread, places={"x": "a", "y": "b"}, moving={"y": "c"})

    assert set(infeasible(snapshot)) == {B, C}


def test_stopped_anti_affine_guest_is_ignored() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y"))
    snapshot = snapshot_of(spread, places={"x": "a", "y": "b"})

    assert infeasible(with_guest(snapshot, Y, state=GuestState.STOPPED)) == {}


def test_anti_affinity_of_member_applies_to_whole_group() -> None:
    rules = (
        Affinity(guests=guest_ids("x", "y")),
        AntiAffinity(guests=guest_ids("y", "z")),
    )
    snapshot = snapshot_of(*rules, places={"x": "a", "y": "a", "z": "c"})

    assert infeasible(snapshot, X, Y) == {C: "anti-affinity of x to z"}


def test_soft_anti_affinity_may_not_get_more_violations() -> None:
    spread = AntiAffinity(guests=guest_ids("x", "y", "z"), strict=False)
    kept = snapshot_of(spread, places={"x": "a", "y": "b", "z": "c"})
    broken = snapshot_of(spread, places={"x": "a", "y": "a", "z": "c"})

    assert infeasible(kept) == {
        B: "soft anti-affinity of x to y",
        C: "soft anti-affinity of x to z",
    }
    assert infeasible(broken) == {}


def test_soft_affinity_together_is_not_separated() -> None:
    pair = Affinity(guests=guest_ids("x", "y"), strict=False)

    assert infeasible(snapshot_of(pair, places={"x": "a", "y": "a"})) == {
        B: "soft affinity of x to y",
        C: "soft affinity of x to y",
    }
    assert infeasible(snapshot_of(pair, places={"x": "a", "y": "b"})) == {}


def test_soft_affinity_within_group_is_ignored() -> None:
    rules = (
        Affinity(guests=guest_ids("x", "y")),
        Affinity(guests=guest_ids("x", "y"), strict=False),
    )

    snapshot = snapshot_of(*rules, places={"x": "a", "y": "a"})

    assert infeasible(snapshot, X, Y) == {}


def test_node_over_memory_headroom_is_infeasible() -> None:
    # By hand: of 100 GiB 95 may be used; x uses 10.
    tight = with_node(snapshot_of(), B, usage=Usage(1.0, 85 * GIB))
    full = with_node(snapshot_of(), B, usage=Usage(1.0, 86 * GIB))

    assert infeasible(tight) == {}
    assert infeasible(full) == {B: "insufficient memory: 1.0 GiB short"}


def test_members_that_are_on_a_node_need_no_memory_there() -> None:
    # By hand: of 100 GiB 95 may be used. y adds 10 to the 80 of a, x adds 40 to b.
    nodes: Mapping[str, float | None] = {"a": 0.8, "b": 0.9}
    pair = Affinity(guests=guest_ids("x", "y"))
    snapshot = cluster(nodes, {"x": ("a", 0.4), "y": ("b", 0.1)}, [pair])
    only_b = {B: "insufficient memory: 35.0 GiB short"}

    assert infeasible(snapshot, X, Y) == infeasible(snapshot, Y, X) == only_b


def test_node_over_memory_overcommit_is_infeasible() -> None:
    snapshot = snapshot_of(places={"x": "a", "y": "b"})
    tight = with_guest(snapshot, Y, limit=Resources(1, 90 * GIB))
    full = with_guest(snapshot, Y, limit=Resources(1, 92 * GIB))

    assert infeasible(tight) == {}
    assert infeasible(full) == {B: "memory overcommitted by 2.0 GiB"}
    assert infeasible(full, limits=Limits(memory_overcommit=1.1)) == {}


@pytest.mark.parametrize("usage", [Usage(), Usage(1.0, None)])
def test_memory_that_is_not_known_closes_a_node(usage: Usage) -> None:
    detail = "memory of the node or the guest is unknown"

    assert infeasible(with_node(snapshot_of(), B, usage=usage)) == {B: detail}
    assert infeasible(with_guest(snapshot_of(), X, usage=usage)) == {
        B: detail,
        C: detail,
    }


def move_groups(snapshot: Snapshot) -> Iterable[list[Guest]]:
    """Return what moves as one: guests that run, or whole groups on one node."""
    rules = compile_rules(snapshot)
    for name, guest in snapshot.guests.items():
        member_ids = sorted(rules.together.get(name, {name}))
        members = [snapshot.guests[each] for each in member_ids]
        present = [each for each in members if each.is_active]
        settled = all(
            each.state is GuestState.RUNNING and each.migrating_to is None
            for each in present
        )
        one_node = len({each.node for each in present}) == 1
        if settled and one_node and guest is present[0]:
            yield present


def after_move(snapshot: Snapshot, group: Iterable[Guest], target: NodeId) -> Snapshot:
    for guest in group:
        snapshot = snapshot.apply(LiveMigration(guest.id, guest.node, target))
    return snapshot


def during_move(snapshot: Snapshot, group: Iterable[Guest], target: NodeId) -> Snapshot:
    for guest in group:
        snapshot = snapshot.with_in_flight(LiveMigration(guest.id, guest.node, target))
    return snapshot


def memory_fits(snapshot: Snapshot, name: NodeId, limits: Limits) -> bool:
    """Return whether what is known to be used and promised on a node fits."""
    node = snapshot.nodes[name]
    assert node.capacity is not None
    assert node.usage.memory is not None
    committed = 0
    for guest in snapshot.guests.values():
        if name in guest.occupied_nodes:
            memory = guest.usage.memory if guest.limit is None else guest.limit.memory
            assert memory is not None
            committed += memory
    return (
        node.usage.memory <= node.capacity.memory * (1 - limits.memory_headroom)
        and committed <= node.capacity.memory * limits.memory_overcommit
    )


@given(snapshots())
def test_an_open_node_breaks_no_rule_and_is_not_overfilled(snapshot: Snapshot) -> None:
    still = {
        name: replace(guest, migrating_to=None)
        for name, guest in snapshot.guests.items()
    }
    snapshot = replace(snapshot, guests=still)
    checker = checker_of(snapshot)

    for group in move_groups(snapshot):
        for name in checker.feasible_nodes(group):
            event("an open node")
            after = after_move(snapshot, group, name)
            assert not breaks_more_soft_rules(
                snapshot, after, [guest.id for guest in group]
            )
            assert new_violations(snapshot, during_move(snapshot, group, name)) == ()
            assert new_violations(snapshot, after) == ()
            assert memory_fits(after, name, DEFAULT_LIMITS)
            assert after.nodes[name].online


@given(snapshots())
def test_is_compatible_agrees_with_incompatibility(snapshot: Snapshot) -> None:
    checker = checker_of(snapshot)

    for group in move_groups(snapshot):
        for node in snapshot.nodes.values():
            detail = checker.incompatibility(group, node)
            event("unsuitable" if detail else "suitable")
            assert checker.is_compatible(group, node) is (detail is None)


@given(snapshots(measured=True, settled=True))
def test_a_closed_node_would_really_break_or_overfill_something(
    snapshot: Snapshot,
) -> None:
    checker = checker_of(snapshot)
    # A group that is split already, or that is infeasible, restricts its members
    # more than the rules restrict each.
    torn = any(isinstance(each.rule, Affinity) for each in strict(snapshot))
    plain = not torn and not compile_rules(snapshot).contradictions

    for group in move_groups(snapshot):
        moving = {guest.id for guest in group}
        for name, detail in checker.infeasible_nodes(group).items():
            after = after_move(snapshot, group, name)
            if "must be apart" in detail or "forbids" in detail:
                event("a strict rule")
                assert not plain or any(each.guests & moving for each in strict(after))
            elif "better" in detail:
                event("a soft rule")
                assert breaks_more_soft_rules(snapshot, after, moving)
            elif "memory" in detail:
                event("memory")
                assert not memory_fits(after, name, DEFAULT_LIMITS)


def strict(snapshot: Snapshot) -> list[Violation]:
    return [each for each in violations(snapshot) if each.strict]


def breaks_more_soft_rules(
    before: Snapshot, after: Snapshot, guests: Iterable[GuestId]
) -> bool:
    """Return whether soft rules are kept worse for one of *guests*."""
    return any(
        unmet_soft_rules(after, guest, kind) > unmet_soft_rules(before, guest, kind)
        for guest in guests
        for kind in (Affinity, AntiAffinity)
    ) or any(
        guests_above_limit(after, rule) > guests_above_limit(before, rule)
        for rule in before.rules
        if isinstance(rule, AntiAffinity) and not rule.strict and not rule.is_pairwise
    )


def guests_above_limit(snapshot: Snapshot, rule: AntiAffinity) -> int:
    """Return how many guests are above the limit of *rule*, in all domains."""
    domains = [
        snapshot.nodes[guest.node].domain(rule.domain) if rule.domain else guest.node
        for guest in (snapshot.guests[name] for name in rule.guests)
        if guest.is_active
    ]
    return sum(max(0, domains.count(each) - rule.max_guests) for each in {*domains})


def unmet_soft_rules(
    snapshot: Snapshot, guest: GuestId, kind: type[Affinity | AntiAffinity]
) -> int:
    """Return with how many others soft rules of *kind* are not kept."""
    others = {
        other
        for rule in snapshot.rules
        if isinstance(rule, kind) and not rule.strict and guest in rule.guests
        if isinstance(rule, Affinity) or rule.is_pairwise
        for other in rule.guests - {guest}
    }
    here = snapshot.guests[guest].node
    present = [g for g in (snapshot.guests[name] for name in others) if g.is_active]
    return sum((g.node == here) is (kind is AntiAffinity) for g in present)
