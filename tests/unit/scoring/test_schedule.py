"""When the steps of a plan begin and end."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from builders import cluster
from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    GuestId,
    Limits,
    Migration,
    Network,
    NodeId,
    Plan,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.scoring import ASSUMED_BANDWIDTH, Schedule, schedule

FAST = Limits(bandwidth=GIB, moves_per_node=9, moves_at_once=9)


def guests(*sizes: int, dirty_rate: float | None = 0.0) -> Snapshot:
    """Return guests of so many GiB each, all on node a."""
    parts = {f"g{i}": ("a", size / 100) for i, size in enumerate(sizes)}
    snapshot = cluster(dict.fromkeys("abcdefgh", 0.0), {**parts})
    measured = {
        name: replace(each, dirty_rate=dirty_rate)
        for name, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=measured)


def plan(*ways: str) -> Plan:
    """Return steps like "g0 a b", or "g0 a b after 1 2"."""
    return Plan(tuple(step(str(i + 1), way) for i, way in enumerate(ways)))


def step(name: str, way: str) -> Step:
    what, _, waits = way.partition(" after ")
    guest, source, target = what.split()
    move = Migration(GuestId(guest), NodeId(source), NodeId(target))
    return Step(StepId(name), move, tuple(map(StepId, waits.split())))


def times(found: Schedule) -> list[tuple[float, float]]:
    return [(round(each.begin, 6), round(each.end, 6)) for each in found.spans]


def test_no_plan_takes_no_time() -> None:
    found = schedule(EMPTY_PLAN, guests(), FAST)

    assert (found.seconds, found.chain, found.at_least) == (0.0, (), False)


def test_moves_between_different_nodes_run_at_full_speed_together() -> None:
    found = schedule(plan("g0 a b", "g1 c d"), guests(8, 4), FAST)

    assert times(found) == [(0, 8), (0, 4)]
    assert found.most_at_once == 2
    assert found.seconds == 8


def test_moves_from_one_node_share_its_link() -> None:
    found = schedule(plan("g0 a b", "g1 a c"), guests(8, 4), FAST)

    # Worked by hand: half speed until g1 has arrived, and then 4 GiB are left of g0.
    assert times(found) == [(0, 12), (0, 8)]


def test_a_move_is_as_fast_as_the_fuller_of_its_links() -> None:
    found = schedule(plan("g0 a b", "g1 c b", "g2 c d"), guests(8, 8, 8), FAST)

    # Each of the three has a link that two share, all the time.
    assert times(found) == [(0, 16), (0, 16), (0, 16)]


def test_a_step_begins_when_all_it_waits_for_has_ended() -> None:
    ways = ["g0 a b", "g1 c d", "g2 e f after 1 2"]

    found = schedule(plan(*ways), guests(8, 4, 1), FAST)

    assert times(found)[2] == (8, 9)


def test_no_more_moves_run_on_a_node_than_may() -> None:
    one = replace(FAST, moves_per_node=1)

    found = schedule(plan("g0 a b", "g1 a c", "g2 d e"), guests(8, 4, 1), one)

    assert times(found) == [(0, 8), (8, 12), (0, 1)]


def test_no_more_moves_run_in_the_cluster_than_may() -> None:
    two = replace(FAST, moves_at_once=2)

    found = schedule(plan("g0 a b", "g1 c d", "g2 e f"), guests(8, 4, 1), two)

    assert times(found) == [(0, 8), (0, 4), (4, 5)]
    assert found.most_at_once == 2


def over(bandwidth: float | None = None, moves: int | None = None) -> Limits:
    """Return limits with a network between nodes a and b and all others."""
    nodes = (NodeId("a"), NodeId("b"))
    network = Network(name="uplink", nodes=nodes, bandwidth=bandwidth, moves=moves)
    return replace(FAST, networks=(network,))


def test_moves_over_one_network_share_it() -> None:
    found = schedule(
        plan("g0 a c", "g1 b d", "g2 a b"), guests(8, 8, 8), over(bandwidth=GIB / 2)
    )

    # The first two have 0.25 GiB/s each; the third half the link of a, then more.
    assert times(found)[:2] == [(0.0, 32.0), (0.0, 32.0)]
    assert times(found)[2] == (0.0, 16.0)


def test_a_network_makes_a_move_slow_even_when_it_goes_alone() -> None:
    found = schedule(plan("g0 c a"), guests(8), over(bandwidth=GIB / 4))

    assert times(found) == [(0.0, 32.0)]
    assert found.chain_seconds == pytest.approx(32.0)


def test_no_more_moves_run_over_a_network_than_may() -> None:
    found = schedule(plan("g0 a c", "g1 b d", "g2 e f"), guests(8, 8, 8), over(moves=1))

    assert times(found) == [(0.0, 8.0), (8.0, 16.0), (0.0, 8.0)]


def test_a_node_wakes_in_no_time_because_nobody_knows_how_long_it_takes() -> None:
    first = Step(StepId("1"), PowerOn(NodeId("b")))
    second = step("2", "g0 a b after 1")

    found = schedule(Plan((first, second)), guests(8), FAST)

    assert times(found) == [(0, 0), (0, 8)]
    assert found.at_least


def test_what_is_not_known_makes_it_take_at_least_so_long() -> None:
    dark = guests(8, dirty_rate=None)

    assert not schedule(plan("g0 a b"), guests(8), FAST).at_least
    assert schedule(plan("g0 a b"), dark, FAST).at_least


def test_a_guest_that_was_not_measured_counts_for_nothing() -> None:
    snapshot = guests(8)
    dark = replace(snapshot.guests[GuestId("g0")], usage=Usage())

    found = schedule(plan("g0 a b"), replace(snapshot, guests={dark.id: dark}), FAST)

    assert (found.seconds, found.at_least) == (0.0, True)


def test_a_move_that_never_ends_is_aborted_when_patience_does() -> None:
    busy = guests(8, 8, dirty_rate=2.0 * GIB)
    limits = replace(FAST, patience=60)

    found = schedule(plan("g0 a b", "g1 c d after 1"), busy, limits)

    assert times(found) == [(0, 60), (60, 120)]
    assert found.at_least


def test_a_move_may_end_only_once_it_has_the_link_for_itself() -> None:
    busy = guests(8, 2, dirty_rate=0.6 * GIB)
    still = replace(busy.guests[GuestId("g1")], dirty_rate=0.0)
    busy = replace(busy, guests={**busy.guests, still.id: still})

    found = schedule(plan("g0 a b", "g1 a c"), busy, FAST)

    # g1 takes 4 s at half speed, at which g0 does not get on.
    alone = found.spans[0].alone.seconds
    assert alone is not None
    assert times(found) == [(0, round(4 + alone, 6)), (0, 4)]
    assert [each.stalls for each in found.spans] == [True, False]


def test_a_guest_that_is_sent_faster_than_it_writes_does_not_stall() -> None:
    calm = guests(8, 2, dirty_rate=0.4 * GIB)

    found = schedule(plan("g0 a b", "g1 a c"), calm, FAST)

    assert [each.stalls for each in found.spans] == [False, False]


def test_the_longest_chain_tells_what_no_haste_can_shorten() -> None:
    ways = ["g0 a b", "g1 c d", "g2 e f after 1 2", "g3 g h"]

    found = schedule(plan(*ways), guests(2, 8, 1, 4), replace(FAST, moves_at_once=1))

    assert found.chain == ("2", "3")
    assert (found.chain_seconds, found.seconds) == (9, 15)


def test_a_bandwidth_that_nobody_named_is_said_to_be_assumed() -> None:
    found = schedule(plan("g0 a b"), guests(8), Limits())

    assert (found.bandwidth, found.assumed) == (ASSUMED_BANDWIDTH, True)
    assert found.seconds == pytest.approx(8 * GIB / 125e6)
    assert not schedule(plan("g0 a b"), guests(8), FAST).assumed


@st.composite
def plans(draw: st.DrawFn) -> tuple[Snapshot, Plan]:
    sizes = draw(st.lists(st.integers(0, 9), min_size=1, max_size=9))
    steps: list[Step] = []
    for i in range(len(sizes)):
        source, target = draw(st.permutations("abcd"))[:2]
        earlier = [each.id for each in steps]
        waits = draw(st.sets(st.sampled_from(earlier), max_size=2)) if earlier else ()
        steps.append(
            step(str(i + 1), f"g{i} {source} {target} after {' '.join(waits)}")
        )
    rate = draw(st.sampled_from([0.0, 0.3 * GIB, 2.0 * GIB, None]))
    return guests(*sizes, dirty_rate=rate), Plan(tuple(steps))


NETWORKS = st.builds(
    Network,
    name=st.sampled_from(["one", "other"]),
    nodes=st.permutations([NodeId(name) for name in "abcd"]).map(
        lambda all_: (*all_[:2],)
    ),
    moves=st.integers(1, 2),
    bandwidth=st.sampled_from([None, GIB / 2, 2.0 * GIB]),
)
LIMITS = st.builds(
    Limits,
    networks=st.lists(NETWORKS, max_size=2, unique_by=lambda each: each.name).map(
        tuple
    ),
    bandwidth=st.just(float(GIB)),
    moves_per_node=st.integers(1, 3),
    moves_at_once=st.integers(1, 4),
    patience=st.just(100.0),
)


@given(plans(), LIMITS)
def test_waits_and_limits_are_kept_at_any_time(
    drawn: tuple[Snapshot, Plan], limits: Limits
) -> None:
    snapshot, some = drawn

    found = schedule(some, snapshot, limits)

    event(f"{found.most_at_once} at once")
    span = {each.step: each for each in found.spans}
    for each in some.steps:
        assert all(span[e].end <= span[each.id].begin for e in each.after)
    for begun in found.spans:
        under_way = [
            one.action
            for one in some.steps
            if span[one.id].begin <= begun.begin < span[one.id].end
        ]
        ends = [n for move in under_way for n in (move.source, move.target)]  # type: ignore[union-attr]
        assert len(under_way) <= limits.moves_at_once
        assert max(map(ends.count, ends), default=0) <= limits.moves_per_node
        for network in limits.networks:
            across = [m for m in under_way if network.joins(m.source, m.target)]  # type: ignore[union-attr]
            assert len(across) <= (network.moves or 9)


@given(plans(), LIMITS)
def test_no_link_and_no_network_carries_more_than_it_can(
    drawn: tuple[Snapshot, Plan], limits: Limits
) -> None:
    snapshot, some = drawn
    patient = replace(limits, patience=1e6)

    found = schedule(some, snapshot, patient)

    sent = {
        step.action: float(snapshot.guests[step.action.guest].usage.memory or 0)  # type: ignore[union-attr]
        for step in some.steps
    }
    for end in "abcd":
        through = [n for m, n in sent.items() if end in (m.source, m.target)]  # type: ignore[union-attr]
        assert sum(through) <= found.seconds * GIB * (1 + 1e-9)
    for network in limits.networks:
        across = [n for m, n in sent.items() if network.joins(m.source, m.target)]  # type: ignore[union-attr]
        speed = network.bandwidth or math.inf
        assert sum(across) / speed <= found.seconds * (1 + 1e-9)


@given(plans(), LIMITS)
def test_the_plan_takes_longer_than_its_chain_and_no_longer_than_all_in_turn(
    drawn: tuple[Snapshot, Plan], limits: Limits
) -> None:
    snapshot, some = drawn

    found = schedule(some, snapshot, limits)

    in_turn = sum(each.end - each.begin for each in found.spans)
    assert found.chain_seconds <= found.seconds * (1 + 1e-9) + 1e-9
    assert found.seconds <= in_turn * (1 + 1e-9) + 1e-9
    assert found.seconds == max(each.end for each in found.spans)
