"""Single moves that repair rules in clusters that are searched as large ones.

The oracle tries the move of each guest alone on the cluster after the plan.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from unittest.mock import Mock

import pytest

from opendrs.model import (
    GIB,
    Affinity,
    AntiAffinity,
    GuestId,
    LiveMigration,
    Migration,
    Mobility,
    NodeAffinity,
    NodeId,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.optimizer import solve
from opendrs.policies import Decision, DecisionReason
from opendrs.policies.optimize import Optimize, Repair, safe_plan, small_cluster
from opendrs.policies.optimize.objective import Goal
from opendrs.rules import ViolationCount, count_strict, usable_memory, violations
from properties.test_small_clusters import (
    LIMITS,
    applied,
    deviation,
    optimize,
    tiny_cluster,
)
from support.builders import cluster, guest, guest_ids, node
from support.drawn_cases import seeds
from support.oracles.interleavings import migration_of, unsafe_states
from support.oracles.reachable_placements import reached_placements

SEEDS = seeds(12, 25)
PRIORITIES = Goal.REPAIR, Goal.BALANCE


@pytest.fixture(autouse=True)
def without_exhaustive_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in small clusters as in large ones."""
    monkeypatch.setattr(small_cluster, "MAX_PLACEMENTS", 0)


def drawn_cluster(seed: int) -> Snapshot:
    """Return six nodes, 40 guests and 30 rules, many of which are violated.

    Rules that overlap often contradict each other.
    """
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = "abcdef"
    guests = []
    for number in range(40):
        memory = random.randint(1, 8) * GIB
        guests.append(
            guest(
                f"g{number:02}",
                random.choice(names),
                0,
                usage=Usage(random.randint(1, 30) / 10, memory),
                limit=Resources(4, memory),
                mobility=Mobility.NONE if random.random() < 0.1 else Mobility.LIVE,
            )
        )
    nodes = {}
    for name in names:
        there = [each for each in guests if each.node == name]
        used = Usage(
            sum(each.usage.cpu or 0.0 for each in there),
            sum(each.usage.memory or 0 for each in there),
        )
        nodes[NodeId(name)] = node(
            name, 0, capacity=Resources(64, 64 * GIB), usage=used
        )
    rules = [_rule(random, names) for _ in range(30)]
    return replace(
        cluster({}, {}, rules), nodes=nodes, guests={each.id: each for each in guests}
    )


def _rule(random: Random, names: str) -> Rule:
    ids = [GuestId(f"g{number:02}") for number in range(40)]
    chosen = frozenset(random.sample(ids, random.choice((2, 2, 3))))
    kind = random.choice(("affinity", "anti-affinity", "node"))
    if kind == "affinity":
        return Affinity(guests=chosen)
    if kind == "anti-affinity":
        return AntiAffinity(guests=chosen)
    allowed = sorted(NodeId(each) for each in random.sample(names, 3))
    return NodeAffinity(guests=chosen, nodes=dict.fromkeys(allowed, 0))


def violated_by(snapshot: Snapshot) -> set[tuple[int, GuestId]]:
    """Return each violated strict rule, as its place, with its violating guests."""
    place = {id(rule): number for number, rule in enumerate(snapshot.rules)}
    return {
        (place[id(each.rule)], guest)
        for each in violations(snapshot)
        if each.strict
        for guest in each.guests
    }


def repairing_moves(
    before_plan: Snapshot, decision: Decision[None]
) -> list[LiveMigration]:
    """Return the safe moves of one unmoved guest that repair something after the plan.

    Guests with an affinity start together if they have the same source and target.
    Moves that would have to start with a step of the plan are not listed.
    """
    snapshot = applied(before_plan, decision)
    moves = [migration_of(step) for step in decision.plan.steps]
    moved = {move.guest for move in moves}
    before = violated_by(snapshot)
    count = count_strict(violations(snapshot)).violations
    found = []
    for name in sorted(set(snapshot.guests) - moved):
        mover = snapshot.guests[name]
        if mover.effective_mobility is not Mobility.LIVE:
            continue
        for target in snapshot.nodes:
            if target == mover.node:
                continue
            move = LiveMigration(name, mover.node, target)
            if any(_start_together(snapshot, move, each) for each in moves):
                continue
            after = snapshot.apply(move)
            then = violations(after)
            if count_strict(then).violations >= count or _is_full(after, target):
                continue
            if {rule for rule, guest in violated_by(after) if guest == name} - {
                rule for rule, guest in before if guest == name
            }:
                continue
            found.append(move)
    return found


def _is_full(snapshot: Snapshot, name: NodeId) -> bool:
    used = snapshot.nodes[name].usage.memory
    most = usable_memory(snapshot.nodes[name], LIMITS).measured
    assert used is not None
    assert most is not None
    return used > most


def _start_together(snapshot: Snapshot, move: LiveMigration, other: Migration) -> bool:
    same = (move.source, move.target) == (other.source, other.target)
    return same and any(
        isinstance(rule, Affinity) and {move.guest, other.guest} <= rule.guests
        for rule in snapshot.rules
    )


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "policy", [Repair(limits=LIMITS), Optimize(limits=LIMITS, budget="unlimited")]
)
def test_no_single_move_repairs_a_rule_after_the_plan(
    seed: int, policy: Repair | Optimize
) -> None:
    snapshot = drawn_cluster(seed)

    decision = policy.decide(snapshot, None)

    assert not unsafe_states(snapshot, decision.plan, LIMITS)
    assert not repairing_moves(snapshot, decision)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [1, 2, 5])
def test_each_of_few_allowed_moves_repairs_something(seed: int, most: int) -> None:
    snapshot = drawn_cluster(seed)
    before = count_strict(violations(snapshot)).violations

    decision = Optimize(limits=LIMITS, budget=f"{most} migrations").decide(
        snapshot, None
    )

    after = count_strict(violations(applied(snapshot, decision))).violations
    assert len(decision.plan.steps) <= most
    assert not unsafe_states(snapshot, decision.plan, LIMITS)
    if len(decision.plan.steps) < most:
        assert not repairing_moves(snapshot, decision)
    else:
        assert after <= before - most


def test_single_migration_repairs_two_violations_rather_than_one_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(safe_plan, "MAX_REPLANNED_GROUPS", 0)
    rules: list[Rule] = [
        AntiAffinity(guests=guest_ids("x1", "x2", "x3")),
        Affinity(guests=guest_ids("y1", "y2")),
    ]
    guests = dict.fromkeys(("x1", "x2", "x3", "y1"), ("a", 0.1))
    snapshot = cluster(
        {"a": 0.4, "b": 0.1, "c": 0.0}, {**guests, "y2": ("b", 0.1)}, rules
    )

    decision = Repair(budget="1 migrations").decide(snapshot, None)

    (step,) = decision.plan.steps
    assert migration_of(step).guest in guest_ids("x1", "x2", "x3")
    left = count_strict(violations(applied(snapshot, decision)))
    assert left == ViolationCount(rules=2, violations=2)


def test_group_that_cannot_be_gathered_at_home_causes_no_further_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searches = Mock(wraps=solve)
    monkeypatch.setattr(safe_plan, "solve", searches)
    rules: list[Rule] = [Affinity(guests=guest_ids("y1", "y2"))]
    guests = {"y1": ("a", 0.3), "y2": ("b", 0.3), "x": ("c", 0.7)}
    snapshot = cluster({"a": 0.9, "b": 0.9, "c": 0.9}, guests, rules)

    decision = Repair().decide(snapshot, None)

    assert not decision.plan.steps
    assert searches.call_count == 1


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most_groups", [0, 5000])
def test_single_migration_repairs_as_much_as_any_other(
    seed: int, most_groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A cluster with more groups is not searched again without those on several nodes.
    monkeypatch.setattr(safe_plan, "MAX_REPLANNED_GROUPS", most_groups)
    snapshot = drawn_cluster(seed)
    nothing: Decision[None] = Decision(DecisionReason.NO_CANDIDATE, None)

    decision = Repair(limits=LIMITS, budget="1 migrations").decide(snapshot, None)

    fewest = min(
        count_strict(violations(snapshot.apply(move))).violations
        for move in repairing_moves(snapshot, nothing)
    )
    after = applied(snapshot, decision)
    assert count_strict(violations(after)).violations == fewest


@pytest.mark.parametrize("seed", seeds(40, 60))
def test_plan_of_a_tiny_cluster_leaves_no_single_repair(seed: int) -> None:
    snapshot = tiny_cluster(seed)

    decision = Repair(limits=LIMITS).decide(snapshot, None)

    assert not unsafe_states(snapshot, decision.plan, LIMITS)
    assert not repairing_moves(snapshot, decision)


@pytest.mark.parametrize("seed", seeds(40, 80))
@pytest.mark.parametrize("budget", ["unlimited", "60 GiB", "2 migrations"])
def test_lower_bound_is_below_every_plan_that_transfers_at_most_as_much(
    seed: int, budget: str
) -> None:
    snapshot = tiny_cluster(seed)

    decision = replace(optimize(budget), priorities=PRIORITIES).decide(snapshot, None)

    moved = (snapshot.guests[migration_of(each).guest] for each in decision.plan.steps)
    gib = sum(guest.usage.memory or 0 for guest in moved) / GIB
    reached = reached_placements(snapshot, LIMITS, gib).values()
    assert not [note for note in decision.notes if "defect" in note]
    for note in decision.notes:
        if note.startswith("distance from the optimum:") and "at least " in note:
            bound = float(note.partition("at least ")[2].split()[0])
            assert bound <= min(deviation(each.snapshot) for each in reached) + 1e-4
