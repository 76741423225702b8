"""Estimated schedules of plans."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from opendrs.model import (
    EMPTY_PLAN,
    GIB,
    GuestId,
    Limits,
    LiveMigration,
    Network,
    NodeId,
    Plan,
    PowerOn,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.planning import (
    ASSUMED_BANDWIDTH,
    Schedule,
    estimate_schedule,
    estimate_starts,
)
from support.builders import cluster

FAST = Limits(bandwidth=GIB, max_migrations_per_node=9, max_parallel_migrations=9)


def guests(*sizes: int, dirty_rate: float | None = 0.0) -> Snapshot:
    """Return guests of so many GiB each, all on node a."""
    parts = {f"g{i}": ("a", size / 100) for i, size in enumerate(sizes)}
    snapshot = cluster(dict.fromkeys("abcdefgh", 0.0), {**parts})
    measured = {
        name: replace(each, dirty_rate=dirty_rate)
        for name, each in snapshot.guests.items()
    }
    return replace(snapshot, guests=measured)


def plan(*moves: str) -> Plan:
    """Return steps like "g0 a b", or "g0 a b after 1 2"."""
    return Plan(tuple(step(str(i + 1), move) for i, move in enumerate(moves)))


def step(name: str, text: str) -> Step:
    move, _, waits = text.partition(" after ")
    guest, source, target = move.split()
    action = LiveMigration(GuestId(guest), NodeId(source), NodeId(target))
    return Step(StepId(name), action, tuple(map(StepId, waits.split())))


def times(found: Schedule) -> list[tuple[float, float]]:
    return [(round(each.start, 6), round(each.end, 6)) for each in found.steps]


def test_no_plan_takes_no_time() -> None:
    found = estimate_schedule(EMPTY_PLAN, guests(), FAST)

    assert (found.seconds, found.critical_path, found.at_least) == (0.0, (), False)


def test_moves_between_different_nodes_run_at_full_speed_together() -> None:
    found = estimate_schedule(plan("g0 a b", "g1 c d"), guests(8, 4), FAST)

    assert times(found) == [(0, 8), (0, 4)]
    assert found.max_parallel == 2
    assert found.seconds == 8


def test_moves_from_one_node_share_its_link() -> None:
    found = estimate_schedule(plan("g0 a b", "g1 a c"), guests(8, 4), FAST)

    # Worked by hand: half speed until g1 has arrived, and then 4 GiB are left of g0.
    assert times(found) == [(0, 12), (0, 8)]


def test_a_move_is_as_fast_as_the_fuller_of_its_links() -> None:
    found = estimate_schedule(plan("g0 a b", "g1 c b", "g2 c d"), guests(8, 8, 8), FAST)

    # Each of the three has a link that two share, all the time.
    assert times(found) == [(0, 16), (0, 16), (0, 16)]


def test_a_step_begins_when_all_it_waits_for_has_ended() -> None:
    moves = ["g0 a b", "g1 c d", "g2 e f after 1 2"]

    found = estimate_schedule(plan(*moves), guests(8, 4, 1), FAST)

    assert times(found)[2] == (8, 9)


def test_no_more_moves_run_on_a_node_than_may() -> None:
    one = replace(FAST, max_migrations_per_node=1)

    found = estimate_schedule(plan("g0 a b", "g1 a c", "g2 d e"), guests(8, 4, 1), one)

    assert times(found) == [(0, 8), (8, 12), (0, 1)]


def test_no_more_moves_run_in_the_cluster_than_may() -> None:
    two = replace(FAST, max_parallel_migrations=2)

    found = estimate_schedule(plan("g0 a b", "g1 c d", "g2 e f"), guests(8, 4, 1), two)

    assert times(found) == [(0, 8), (0, 4), (4, 5)]
    assert found.max_parallel == 2


def over(
    bandwidth: float | None = None, max_parallel_migrations: int | None = None
) -> Limits:
    """Return limits with a network between nodes a and b and all others."""
    nodes = (NodeId("a"), NodeId("b"))
    network = Network(
        name="uplink",
        nodes=nodes,
        bandwidth=bandwidth,
        max_parallel_migrations=max_parallel_migrations,
    )
    return replace(FAST, networks=(network,))


def test_moves_over_one_network_share_it() -> None:
    found = estimate_schedule(
        plan("g0 a c", "g1 b d", "g2 a b"), guests(8, 8, 8), over(bandwidth=GIB / 2)
    )

    # The first two have 0.25 GiB/s each; the third half the link of a, then more.
    assert times(found)[:2] == [(0.0, 32.0), (0.0, 32.0)]
    assert times(found)[2] == (0.0, 16.0)


def test_a_network_makes_a_move_slow_even_when_it_goes_alone() -> None:
    found = estimate_schedule(plan("g0 c a"), guests(8), over(bandwidth=GIB / 4))

    assert times(found) == [(0.0, 32.0)]
    assert found.critical_path_seconds == pytest.approx(32.0)


def test_no_more_moves_run_over_a_network_than_may() -> None:
    found = estimate_schedule(
        plan("g0 a c", "g1 b d", "g2 e f"),
        guests(8, 8, 8),
        over(max_parallel_migrations=1),
    )

    assert times(found) == [(0.0, 8.0), (8.0, 16.0), (0.0, 8.0)]


def test_power_on_takes_no_time_in_schedule() -> None:
    first = Step(StepId("1"), PowerOn(NodeId("b")))
    second = step("2", "g0 a b after 1")

    found = estimate_schedule(Plan((first, second)), guests(8), FAST)

    assert times(found) == [(0, 0), (0, 8)]
    assert found.at_least


def test_what_is_not_known_makes_it_take_at_least_so_long() -> None:
    dark = guests(8, dirty_rate=None)

    assert not estimate_schedule(plan("g0 a b"), guests(8), FAST).at_least
    assert estimate_schedule(plan("g0 a b"), dark, FAST).at_least


def test_a_guest_that_was_not_measured_counts_for_nothing() -> None:
    snapshot = guests(8)
    dark = replace(snapshot.guests[GuestId("g0")], usage=Usage())

    found = estimate_schedule(
        plan("g0 a b"), replace(snapshot, guests={dark.id: dark}), FAST
    )

    assert (found.seconds, found.at_least) == (0.0, True)


def test_non_converging_migration_ends_at_migration_timeout() -> None:
    busy = guests(8, 8, dirty_rate=2.0 * GIB)
    limits = replace(FAST, migration_timeout=60)

    found = estimate_schedule(plan("g0 a b", "g1 c d after 1"), busy, limits)

    assert times(found) == [(0, 60), (60, 120)]
    assert found.at_least


def test_a_move_may_end_only_once_it_has_the_link_for_itself() -> None:
    busy = guests(8, 2, dirty_rate=0.6 * GIB)
    still = replace(busy.guests[GuestId("g1")], dirty_rate=0.0)
    busy = replace(busy, guests={**busy.guests, still.id: still})

    found = estimate_schedule(plan("g0 a b", "g1 a c"), busy, FAST)

    # g1 takes 4 s at half speed, at which g0 does not get on.
    alone = found.steps[0].alone.seconds
    assert alone is not None
    assert times(found) == [(0, round(4 + alone, 6)), (0, 4)]
    assert [each.non_converging for each in found.steps] == [True, False]


def test_a_guest_that_is_sent_faster_than_it_writes_does_not_stall() -> None:
    slow_writer = guests(8, 2, dirty_rate=0.4 * GIB)

    found = estimate_schedule(plan("g0 a b", "g1 a c"), slow_writer, FAST)

    assert [each.non_converging for each in found.steps] == [False, False]


def test_critical_path_is_independent_of_parallelism() -> None:
    moves = ["g0 a b", "g1 c d", "g2 e f after 1 2", "g3 g h"]

    found = estimate_schedule(
        plan(*moves), guests(2, 8, 1, 4), replace(FAST, max_parallel_migrations=1)
    )

    assert found.critical_path == ("2", "3")
    assert (found.critical_path_seconds, found.seconds) == (9, 15)


def test_default_bandwidth_is_marked_as_assumed() -> None:
    found = estimate_schedule(plan("g0 a b"), guests(8), Limits())

    assert (found.bandwidth, found.bandwidth_source) == (ASSUMED_BANDWIDTH, "assumed")
    assert found.seconds == pytest.approx(8 * GIB / 125e6)
    configured = estimate_schedule(plan("g0 a b"), guests(8), FAST)
    assert configured.bandwidth_source == "configured"
    measured = replace(guests(8), bandwidth=2e9)
    found = estimate_schedule(plan("g0 a b"), measured, Limits())
    assert (found.bandwidth, found.bandwidth_source) == (2e9, "measured")


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
    max_parallel_migrations=st.integers(1, 2),
    bandwidth=st.sampled_from([None, GIB / 2, 2.0 * GIB]),
)
LIMITS = st.builds(
    Limits,
    networks=st.lists(NETWORKS, max_size=2, unique_by=lambda each: each.name).map(
        tuple
    ),
    bandwidth=st.just(float(GIB)),
    max_migrations_per_node=st.integers(1, 3),
    max_parallel_migrations=st.integers(1, 4),
    migration_timeout=st.just(100.0),
)


@given(plans(), LIMITS)
def test_waits_and_limits_are_kept_at_any_time(
    drawn: tuple[Snapshot, Plan], limits: Limits
) -> None:
    snapshot, some = drawn

    found = estimate_schedule(some, snapshot, limits)

    event(f"{found.max_parallel} at once")
    span = {each.step: each for each in found.steps}
    for each in some.steps:
        assert all(span[e].end <= span[each.id].start for e in each.depends_on)
    for begun in found.steps:
        running = [
            one.action
            for one in some.steps
            if span[one.id].start <= begun.start < span[one.id].end
        ]
        ends = [n for move in running for n in (move.source, move.target)]  # type: ignore[union-attr]
        assert len(running) <= limits.max_parallel_migrations
        assert max(map(ends.count, ends), default=0) <= limits.max_migrations_per_node
        for network in limits.networks:
            across = [m for m in running if network.carries(m.source, m.target)]  # type: ignore[union-attr]
            assert len(across) <= (network.max_parallel_migrations or 9)


@given(plans(), LIMITS)
def test_no_link_and_no_network_carries_more_than_it_can(
    drawn: tuple[Snapshot, Plan], limits: Limits
) -> None:
    snapshot, some = drawn
    patient = replace(limits, migration_timeout=1e6)

    found = estimate_schedule(some, snapshot, patient)

    sent = {
        step.action: float(snapshot.guests[step.action.guest].usage.memory or 0)  # type: ignore[union-attr]
        for step in some.steps
    }
    for end in "abcd":
        through = [n for m, n in sent.items() if end in (m.source, m.target)]  # type: ignore[union-attr]
        assert sum(through) <= found.seconds * GIB * (1 + 1e-9)
    for network in limits.networks:
        across = [n for m, n in sent.items() if network.carries(m.source, m.target)]  # type: ignore[union-attr]
        speed = network.bandwidth or math.inf
        assert sum(across) / speed <= found.seconds * (1 + 1e-9)


@given(plans(), LIMITS)
def test_plan_duration_lies_between_critical_path_and_serial_execution(
    drawn: tuple[Snapshot, Plan], limits: Limits
) -> None:
    snapshot, some = drawn

    found = estimate_schedule(some, snapshot, limits)

    serial = sum(each.end - each.start for each in found.steps)
    assert found.critical_path_seconds <= found.seconds * (1 + 1e-9) + 1e-9
    assert found.seconds <= serial * (1 + 1e-9) + 1e-9
    assert found.seconds == max(each.end for each in found.steps)


STEPS = (
    step("1", "g a b"),
    step("2", "h a c"),
    step("3", "i d e"),
    step("4", "j e f after 3"),
    step("5", "k g h after 6"),
    step("6", "l g h"),
)
SECONDS = {"1": 10.0, "2": 5.0, "3": 20.0, "4": 1.0, "5": 1.0}


@pytest.mark.parametrize(
    ("per_node", "parallel", "starts"),
    [
        (9, 9, {"1": 0.0, "2": 0.0, "3": 0.0, "4": 20.0}),
        (1, 9, {"1": 0.0, "2": 10.0, "3": 0.0, "4": 20.0}),
        (9, 2, {"1": 0.0, "2": 0.0, "3": 5.0, "4": 25.0}),
        (9, 1, {"1": 0.0, "2": 10.0, "3": 15.0, "4": 35.0}),
    ],
)
@pytest.mark.parametrize("unknown", [{}, {"6": None}], ids=["absent", "unknown"])
def test_starts_keep_dependencies_and_limits_of_parallel_migrations(
    unknown: dict[str, None], per_node: int, parallel: int, starts: dict[str, float]
) -> None:
    """Step 6 has no estimate, so that step 5 has no start."""
    limits = Limits(max_migrations_per_node=per_node, max_parallel_migrations=parallel)

    assert estimate_starts(STEPS, {**SECONDS, **unknown}, limits) == starts


def test_power_actions_wait_for_dependencies_only() -> None:
    steps = (
        Step(StepId("1"), PowerOn(NodeId("b"))),
        step("2", "g a b after 1"),
    )
    limits = Limits(max_migrations_per_node=1)

    assert estimate_starts(steps, {"1": 60.0, "2": 5.0}, limits) == {
        "1": 0.0,
        "2": 60.0,
    }
