"""Placements of guests that start, against a plain search on small clusters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations, pairwise

from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.model import (
    DOMAIN_ORIGIN,
    GIB,
    Affinity,
    AntiAffinity,
    DomainAffinity,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Limits,
    Mobility,
    NodeAffinity,
    NodeId,
    Resources,
    Rule,
    Snapshot,
    Usage,
)
from opendrs.placement import (
    GuestSize,
    NodeAddition,
    Scenario,
    StartRequest,
    additional_guests,
    apply_scenario,
    dispensable_nodes,
    failure_tolerance,
    start_placement,
)
from opendrs.rules import (
    MILLICORES,
    available_memory,
    compile_rules,
    violations,
    with_chosen,
)
from support.builders import NOON, guest, node
from support.oracles.restarts import can_restart, is_feasible
from support.oracles.tolerated_failures import intolerated_failures, possible_failures
from support.strategies import RACKS, snapshots

LIMITS = st.sampled_from(
    [
        Limits(),
        Limits(memory_overcommit=0.3),
        Limits(memory_headroom=0.7),
        Limits(memory_overcommit=4.0, cpu_overcommit=0.5, reserved_memory="20 %"),
    ]
)
CLUSTERS = snapshots()
SETTLED = snapshots(settled=True)


def without_violations(snapshot: Snapshot) -> Snapshot:
    """Return *snapshot* with guests that can start anywhere, without violated rules."""
    contradictory = {
        rule
        for contradiction in compile_rules(snapshot).contradictions
        for rule in map(id, contradiction.rules)
    }
    violated = {id(violation.rule) for violation in violations(snapshot)}
    separated = {
        id(rule)
        for rule, after in pairwise(snapshot.rules)
        if after.origin == DOMAIN_ORIGIN and id(after) in violated
    }
    left_out = violated | separated | contradictory
    return with_chosen(
        replace(
            snapshot,
            guests={
                name: replace(guest, mobility=Mobility.LIVE)
                for name, guest in snapshot.guests.items()
            },
            rules=tuple(each for each in snapshot.rules if id(each) not in left_out),
        )
    )


@st.composite
def tight_clusters(draw: st.DrawFn) -> Snapshot:
    """Draw a cluster with little spare memory, with rules that hold."""
    names = [NodeId(f"n{number}") for number in range(draw(st.integers(3, 4)))]
    guests: dict[NodeId, list[GuestId]] = {name: [] for name in names}
    built = []
    for number in range(draw(st.integers(3, 8))):
        where = draw(st.sampled_from(names))
        small = guest(f"vm{number}", where, None)
        size = Resources(draw(st.integers(1, 4)), draw(st.integers(1, 8)) * GIB)
        built.append(replace(small, limit=size, usage=Usage.of(size)))
        guests[where].append(built[-1].id)
    nodes = {}
    for name in names:
        used = sum(each.usage.memory or 0 for each in built if each.node == name)
        total = used + draw(st.integers(0, 12)) * GIB
        capacity = Resources(draw(st.sampled_from([2, 4, 8])), max(total, GIB))
        bare = node(name, None, capacity=capacity, usage=Usage(1.0, used))
        nodes[name] = replace(bare, labels=draw(st.sampled_from(RACKS)))
    rules: list[Rule] = []
    for members in filter(None, guests.values()):
        if len(members) > 1 and draw(st.booleans()):
            rules.append(Affinity(guests=frozenset(members[:2])))
        if draw(st.booleans()):
            others = [each[0] for each in guests.values() if each and each != members]
            chosen = draw(st.sets(st.sampled_from(others))) if others else set()
            if chosen:
                rules.append(AntiAffinity(guests=frozenset({members[-1], *chosen})))
        if draw(st.booleans()):
            allowed = {
                built_on(built, members[0]),
                *draw(st.sets(st.sampled_from(names))),
            }
            rules.append(
                NodeAffinity(
                    guests=frozenset(members[:1]), nodes=dict.fromkeys(allowed, 0)
                )
            )
    if draw(st.booleans()):
        ids = st.sampled_from([each.id for each in built])
        within = draw(st.frozensets(ids, min_size=2, max_size=3))
        rules.append(DomainAffinity(domain="rack", guests=within))
    drawn = Snapshot(
        taken_at=NOON,
        nodes=nodes,
        guests={each.id: each for each in built},
        rules=tuple(rules),
    )
    return without_violations(with_chosen(drawn))


def built_on(guests: Iterable[Guest], name: GuestId) -> NodeId:
    return next(each.node for each in guests if each.id == name)


def guests_on(snapshot: Snapshot, *nodes: NodeId) -> set[GuestId]:
    return {
        guest.id
        for guest in snapshot.guests.values()
        if guest.is_active and guest.node in nodes
    }


@settings(max_examples=150)
@given(snapshot=st.one_of(tight_clusters(), SETTLED), limits=LIMITS)
def test_tolerated_failures_are_those_of_an_exhaustive_search(
    snapshot: Snapshot, limits: Limits
) -> None:
    snapshot = without_violations(snapshot)
    limits = replace(limits, tolerated_domain="rack")

    tolerance = failure_tolerance(snapshot, limits)

    found = (*tolerance.single, *tolerance.pairs, *tolerance.domains)
    failures = {each.nodes: each for each in found}
    expected: list[tuple[NodeId, ...]] = [(name,) for name in sorted(snapshot.nodes)]
    if tolerance.evaluated_pairs is not None:
        expected += combinations(sorted(snapshot.nodes), 2)
    expected += [tuple(sorted(each)) for each in possible_failures(snapshot, limits)]
    survived = {
        nodes: can_restart(snapshot, guests_on(snapshot, *nodes), {*nodes}, limits)
        for nodes in expected
    }
    assert survived == {nodes: nodes not in failures for nodes in expected}
    assert all(each.is_proven for each in failures.values())
    event(f"tolerated: {tolerance.tolerated}")
    event(f"intolerated racks: {len(tolerance.domains)}")


@given(snapshot=st.one_of(tight_clusters(), CLUSTERS), limits=LIMITS, data=st.data())
def test_scenario_breaks_no_rule_and_overcommits_no_node(
    snapshot: Snapshot, limits: Limits, data: st.DataObject
) -> None:
    names = st.sampled_from(sorted(snapshot.nodes))
    fail = data.draw(st.sets(names, max_size=2))
    remove = data.draw(st.sets(names, max_size=2)) - fail
    add = data.draw(st.lists(st.builds(NodeAddition, st.integers(1, 2), names)))
    scenario = Scenario(add=tuple(add), fail=tuple(fail), remove=tuple(remove))

    result = apply_scenario(snapshot, scenario, limits)

    available = available_memory(result.after, limits)
    for target in {each.target for each in result.placed}:
        assert (available[target].measured or 0) >= -1  # bytes, rounding of floats
        assert (available[target].committed or 0) >= -1
        assert result.after.nodes[target].online
    moved = {each.guest for each in result.placed}
    stopped = {each.guest for each in result.unplaced}
    assert moved | stopped == guests_on(snapshot, *fail, *remove)
    assert not moved & stopped
    assert not guests_on(result.after, *fail, *remove)
    contradictory = {
        guest
        for contradiction in compile_rules(snapshot).contradictions
        for guest in contradiction.guests
    }
    for violation in result.new_violations:
        assert violation.guests & contradictory or not violation.guests & moved


@given(snapshot=st.one_of(tight_clusters(), SETTLED), limits=LIMITS)
def test_dispensable_nodes_can_be_removed_together(
    snapshot: Snapshot, limits: Limits
) -> None:
    found = dispensable_nodes(snapshot, limits)

    result = apply_scenario(snapshot, Scenario(remove=found.nodes), limits)

    assert not result.unplaced or not result.is_proven
    assert len(found.nodes) < max(1, len(snapshot.nodes))
    event(f"dispensable: {len(found.nodes)}")


@given(
    snapshot=CLUSTERS,
    limits=LIMITS,
    cores=st.integers(1, 40),
    memory=st.integers(1, 64),
)
def test_ranked_nodes_are_those_of_a_plain_check(
    snapshot: Snapshot, limits: Limits, cores: int, memory: int
) -> None:
    limit = Resources(cores, memory * GIB)

    found = start_placement(snapshot, StartRequest(limit=limit), limits)

    new = Guest(
        id=GuestId("new"),
        node=NodeId("none"),
        kind=GuestKind.VM,
        state=GuestState.RUNNING,
        limit=limit,
        usage=Usage.of(limit),
    )
    still = {
        name: replace(guest, migrating_to=None)
        for name, guest in snapshot.guests.items()
    }
    settled = replace(snapshot, guests=still)
    running = {name: g.node for name, g in still.items() if g.is_active}
    feasible = {
        node.id
        for node in settled.nodes.values()
        if is_feasible(settled, new, node, running, limits)
    }
    ranked = {each.node for each in found.ranked}
    targets = {
        guest.migrating_to
        for guest in snapshot.guests.values()
        if guest.migrating_to is not None
    }
    assert ranked - targets == feasible - targets
    assert ranked <= feasible
    assert {each.node for each in found.infeasible} == snapshot.nodes.keys() - ranked
    assert found.nodes == (found.ranked[0].node if found.ranked else None,)


@given(snapshot=tight_clusters(), limits=LIMITS, memory=st.integers(1, 6))
def test_after_a_start_no_rack_is_newly_not_tolerated(
    snapshot: Snapshot, limits: Limits, memory: int
) -> None:
    snapshot = without_violations(snapshot)
    limits = replace(limits, tolerated_domain="rack")
    limit = Resources(1, memory * GIB)

    found = start_placement(snapshot, StartRequest(limit=limit), limits)

    before = intolerated_failures(snapshot, limits)
    for each in found.ranked:
        after = with_started(snapshot, limit, each.node)
        assert intolerated_failures(after, limits) <= before
    event(f"prevented: {len(found.infeasible)}")


def with_started(snapshot: Snapshot, limit: Resources, target: NodeId) -> Snapshot:
    """Return *snapshot* with a guest of size *limit* on *target*."""
    new = replace(guest("new", target, 0.0), limit=limit, usage=Usage.of(limit))
    there = snapshot.nodes[target]
    assert there.usage.resources is not None
    grown = replace(there, usage=Usage.of(there.usage.resources.plus(limit)))
    return replace(
        snapshot,
        nodes={**snapshot.nodes, target: grown},
        guests={**snapshot.guests, new.id: new},
    )


@given(snapshot=SETTLED, limits=LIMITS, memory=st.integers(1, 32))
def test_additional_guests_are_counted_one_by_one(
    snapshot: Snapshot, limits: Limits, memory: int
) -> None:
    amount = Resources(1, memory * GIB)

    found = additional_guests(snapshot, GuestSize(amount, amount), limits)

    available = available_memory(snapshot, limits)
    for name, each in snapshot.nodes.items():
        count, usage = 0, each.usage.resources
        left = available[name]
        while (
            each.capacity is not None
            and usage is not None
            and left.measured is not None
            and left.committed is not None
            and left.millicores is not None
            and usage.cpu + count + 1 <= each.capacity.cpu
            and (count + 1) * amount.memory <= left.measured
            and (count + 1) * amount.memory <= left.committed
            and (count + 1) * amount.cpu * MILLICORES <= left.millicores
        ):
            count += 1
        assert dict(found.nodes).get(name, 0) == count
