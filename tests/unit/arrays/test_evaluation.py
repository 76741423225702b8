"""Best single move against the plain form."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal, localcontext

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from opendrs.arrays import (
    BestMove,
    MoveArrays,
    best_by_imbalance,
    best_by_topsis,
    evaluation,
)
from opendrs.arrays.evaluation import exact_imbalances
from opendrs.arrays.move_scores import MoveScores
from opendrs.metrics import (
    WEIGHTS,
    ImbalanceMetric,
    NodeLoad,
    SingleMove,
    imbalance_after,
    rank_by_imbalance,
    rank_by_topsis,
)
from opendrs.metrics.single_moves import loads_after
from opendrs.model import GIB, Resources

Unit = tuple[Resources, int]
Move = SingleMove[int, int]

METRICS = st.sampled_from(ImbalanceMetric)


class EvaluationCase:
    """A cluster in both forms: columns, and loads with candidates."""

    def __init__(
        self,
        nodes: Sequence[NodeLoad],
        groups: Sequence[Unit],
        allowed: Sequence[Sequence[bool]] | None = None,
    ) -> None:
        self.loads = dict(enumerate(nodes))
        every = np.ones((len(groups), len(nodes)), bool)
        mask = every if allowed is None else np.array(allowed, bool)
        self.moves = [
            SingleMove(group, (usage,), source, target)
            for group, (usage, source) in enumerate(groups)
            for target in range(len(nodes))
            if target != source and mask[group, target]
        ]
        self.arrays = MoveArrays(
            capacity=pairs([load.capacity for load in nodes]),
            usage=pairs([load.usage for load in nodes]),
            demand=pairs([usage for usage, _ in groups]),
            node_of=np.array([source for _, source in groups], np.intp),
            class_of=np.arange(len(groups)),
            allowed=mask.reshape(len(groups), len(nodes)),
            available=np.full((len(nodes), 2), np.inf),
            required=np.zeros((len(groups), 2)),
        )


def pairs(amounts: Sequence[Resources]) -> npt.NDArray[np.float64]:
    return np.array([(each.cpu, each.memory) for each in amounts], float).reshape(-1, 2)


@st.composite
def evaluation_cases(draw: st.DrawFn) -> EvaluationCase:
    """Draw clusters in which many moves are equally good, and others.

    Nodes of up to 2**53 bytes, beyond which doubles cannot count bytes.
    """
    scale = draw(st.sampled_from([1e-3, 1.0, 1.0, 1.0, 1e3]))
    sizes = st.sampled_from([(16, 64), (16, 64), (32, 128), (24, 96)])
    if draw(st.booleans()):
        sizes = st.just((16, 64))
    if draw(st.booleans()):
        amounts = st.integers(0, 3).map(float)
    elif draw(st.booleans()):
        amounts = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.7])
    else:
        amounts = st.floats(0, 4)

    def resources(cpu: float, gib: float) -> Resources:
        return Resources(cpu * scale, round(gib * scale * GIB))

    n = draw(st.integers(1, 12))
    groups: list[Unit] = [
        (resources(draw(amounts), draw(amounts)), draw(st.integers(0, n - 1)))
        for _ in range(draw(st.integers(0, 10)))
    ]
    nodes = [
        NodeLoad(
            resources(*draw(sizes)), resources(draw(amounts) * 3, draw(amounts) * 3)
        )
        for _ in range(n)
    ]
    if draw(st.booleans()):
        return EvaluationCase(nodes, groups)
    row = st.lists(st.booleans(), min_size=n, max_size=n)
    return EvaluationCase(nodes, groups, [draw(row) for _ in groups])


@st.composite
def close_calls(draw: st.DrawFn) -> EvaluationCase:
    """Draw clusters that each of some guests would balance all but perfectly."""
    cores = draw(st.lists(st.sampled_from([16, 24, 32]), min_size=2, max_size=9))
    level, excess = draw(st.floats(0.2, 0.5)), draw(st.floats(0.01, 0.4))
    hot, cold = cores[0], cores[-1]
    cpu, memory = hot * excess, round(hot * 4 * GIB * excess)
    taken = [Resources(size * level, round(size * 4 * GIB * level)) for size in cores]
    taken[0] = taken[0].plus(Resources(cpu, memory))
    taken[-1] = taken[-1].minus(Resources(cpu, memory))
    nodes = [
        NodeLoad(Resources(size, size * 4 * GIB), used)
        for size, used in zip(cores, taken, strict=True)
    ]
    off = st.sampled_from([0.0, 0.0, 1e-9, 1e-8, -1e-9, 3e-10])
    tilt = st.sampled_from([0.0, 0.1, -0.1, 0.2])
    groups = [
        (
            Resources(
                cpu * (1 + more) + error * cold,
                round(memory * (1 - more) + error * cold * 4 * GIB),
            ),
            0,
        )
        for more, error in draw(st.lists(st.tuples(tilt, off), min_size=2, max_size=6))
    ]
    return EvaluationCase(nodes, groups)


@given(evaluation_cases(), METRICS)
def test_the_least_imbalance_is_found_as_by_the_plain_form(
    case: EvaluationCase, metric: ImbalanceMetric
) -> None:
    ranked = rank_by_imbalance(case.loads, case.moves, metric)

    best = best_by_imbalance(case.arrays, metric)

    event("no move" if best is None else "a move")
    assert best == (best_of(case, ranked[0], metric) if ranked else None)


@given(evaluation_cases() | close_calls(), METRICS)
def test_groups_scored_one_by_one_give_the_same_best_move(
    case: EvaluationCase, metric: ImbalanceMetric
) -> None:
    expected = best_by_imbalance(case.arrays, metric)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "CHUNK_CELLS", 1)
        best = best_by_imbalance(case.arrays, metric)

    assert best == expected


@given(evaluation_cases() | close_calls())
def test_bounds_of_groups_do_not_exceed_the_variation_after_any_move(
    case: EvaluationCase,
) -> None:
    bounds = MoveScores(case.arrays).least_variations()

    for move in case.moves:
        after = imbalance_after(case.loads, move, ImbalanceMetric.CV)
        assert bounds[move.group] <= after * after * (1 + 1e-9)


def test_only_groups_that_may_be_best_are_scored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scored = []
    score = MoveScores.lowest_variations

    def count(
        scores: MoveScores, groups: npt.NDArray[np.intp]
    ) -> npt.NDArray[np.float64]:
        scored.extend(groups.tolist())
        return score(scores, groups)

    monkeypatch.setattr(MoveScores, "lowest_variations", count)
    nodes = [*equal_nodes(1, 0.6), *equal_nodes(299, 0.1)]
    groups = [(Resources(1 + i / 1000, GIB), 0) for i in range(5_000)]

    best_by_imbalance(EvaluationCase(nodes, groups).arrays, ImbalanceMetric.CV)

    assert len(set(scored)) < 500


@given(evaluation_cases(), METRICS)
def test_imbalances_after_moves_are_those_of_the_plain_form(
    case: EvaluationCase, metric: ImbalanceMetric
) -> None:
    groups = np.array([move.group for move in case.moves], np.intp)
    targets = np.array([move.target for move in case.moves], np.intp)

    exact = exact_imbalances(case.arrays, groups, targets, metric)

    assert [math.trunc(1e15 * each) / 1e15 for each in exact] == [
        imbalance_after(case.loads, move, metric) for move in case.moves
    ]


@given(evaluation_cases(), METRICS)
def test_topsis_finds_what_the_plain_form_finds_but_for_rounding(
    case: EvaluationCase, metric: ImbalanceMetric
) -> None:
    ranked = rank_by_topsis(case.loads, case.moves)

    best = best_by_topsis(case.arrays, metric)

    if best is None:
        assert not ranked
        return
    plain = best_of(case, ranked[0], metric)
    event("the same" if best == plain else "another, by rounding")
    if best != plain:
        chosen = next(
            move
            for move in case.moves
            if (move.group, move.target) == (best.group, best.target)
        )
        assert best == best_of(case, chosen, metric)
        assert indistinguishable(case, chosen, ranked[0])


def best_of(case: EvaluationCase, move: Move, metric: ImbalanceMetric) -> BestMove:
    left = imbalance_after(case.loads, move, metric)
    return BestMove(move.group, move.target, left)


def indistinguishable(case: EvaluationCase, one: Move, other: Move) -> bool:
    """Return whether two moves are equal, or too near for doubles to distinguish.

    TOPSIS stretches the least difference between all candidates to the whole
    scale, so what rounding may do depends on how far they are apart.
    """
    with localcontext(prec=50):
        rows = weighted([precise_criteria(case, move) for move in case.moves])
        best = [min(column) for column in zip(*rows, strict=True)]
        worst = [max(column) for column in zip(*rows, strict=True)]
        scores = []
        for move in (one, other):
            row = rows[case.moves.index(move)]
            near, far = distance(row, best), distance(row, worst)
            scores.append(far / (near + far) if near + far else Decimal(0))
        span = max(b - a for a, b in zip(best, worst, strict=True))
        return bool(abs(scores[0] - scores[1]) * span <= Decimal("1e-13"))


def precise_criteria(case: EvaluationCase, move: Move) -> list[Decimal]:
    loads = list(loads_after(case.loads, move).values())
    cpu = [Decimal(v.usage.cpu) / Decimal(v.capacity.cpu) for v in loads]
    memory = [Decimal(v.usage.memory) / Decimal(v.capacity.memory) for v in loads]
    average = [length(parts) / Decimal(len(loads)).sqrt() for parts in (cpu, memory)]
    return [1 + average[0], 1 + max(cpu), 1 + average[1], 1 + max(memory)]


def weighted(rows: list[list[Decimal]]) -> list[list[Decimal]]:
    norms = [length(column) for column in zip(*rows, strict=True)]
    shares = [Decimal(abs(weight)) / 18 for weight in WEIGHTS]
    return [
        [v / norm * share for v, norm, share in zip(row, norms, shares, strict=True)]
        for row in rows
    ]


def distance(one: list[Decimal], other: list[Decimal]) -> Decimal:
    return length([a - b for a, b in zip(one, other, strict=True)])


def length(parts: Iterable[Decimal]) -> Decimal:
    return sum((part * part for part in parts), Decimal(0)).sqrt()


def equal_nodes(count: int, load: float = 0.0) -> list[NodeLoad]:
    size = Resources(10, 100 * GIB)
    return [
        NodeLoad(size, Resources(size.cpu * load, int(size.memory * load)))
        for _ in range(count)
    ]


Finder = Callable[[MoveArrays, ImbalanceMetric], BestMove | None]

BOTH = pytest.mark.parametrize("find", [best_by_imbalance, best_by_topsis])


@BOTH
@pytest.mark.parametrize(
    "case",
    [
        EvaluationCase([], []),
        EvaluationCase(equal_nodes(3), []),
        EvaluationCase(equal_nodes(1, 0.5), [(Resources(1, GIB), 0)]),
        EvaluationCase(equal_nodes(2, 0.5), [(Resources(1, GIB), 0)], [[True, False]]),
    ],
    ids=["no nodes", "no guests", "one node", "nowhere to go"],
)
def test_where_no_move_is_allowed_there_is_no_best(
    find: Finder, case: EvaluationCase
) -> None:
    assert find(case.arrays, ImbalanceMetric.CV) is None


@BOTH
def test_of_equal_moves_the_first_unit_and_target_is_taken(find: Finder) -> None:
    nodes = [*equal_nodes(1, 0.6), *equal_nodes(3)]
    case = EvaluationCase(nodes, [(Resources(1, 10 * GIB), 0)] * 3)

    found = find(case.arrays, ImbalanceMetric.CV)

    assert found is not None
    assert (found.group, found.target) == (0, 1)


@BOTH
def test_of_equal_moves_the_unit_counts_before_the_target(find: Finder) -> None:
    nodes = [*equal_nodes(1, 0.6), *equal_nodes(2)]
    groups = [(Resources(1, 10 * GIB), 0)] * 2
    case = EvaluationCase(nodes, groups, [[False, False, True], [False, True, False]])

    found = find(case.arrays, ImbalanceMetric.CV)

    assert found is not None
    assert (found.group, found.target) == (0, 2)


@BOTH
def test_a_cluster_without_any_load_has_a_best_move_that_changes_nothing(
    find: Finder,
) -> None:
    case = EvaluationCase(equal_nodes(3), [(Resources(0, 0), 1), (Resources(0, 0), 0)])

    assert find(case.arrays, ImbalanceMetric.CV) == BestMove(0, 0, 0.0)


@settings(max_examples=300)
@given(close_calls(), METRICS)
def test_what_is_left_of_an_imbalance_is_not_lost_in_rounding(
    case: EvaluationCase, metric: ImbalanceMetric
) -> None:
    ranked = rank_by_imbalance(case.loads, case.moves, metric)

    best = best_by_imbalance(case.arrays, metric)

    assert best == best_of(case, ranked[0], metric)


def test_perfect_balance_differs_from_nearly_perfect_balance() -> None:
    # Both guests leave hardly any imbalance; squares of what they leave are
    # far below the rounding of the loads they were computed from.
    nodes = [*equal_nodes(1, 0.8), *equal_nodes(1, 0.2)]
    near, exact = Resources(3 + 1e-9, 30 * GIB), Resources(3, 30 * GIB)

    found = best_by_imbalance(
        EvaluationCase(nodes, [(near, 0), (exact, 0)]).arrays, ImbalanceMetric.CV
    )

    assert found == BestMove(1, 1, 0.0)


@BOTH
@pytest.mark.parametrize(
    ("short", "expected"), [((5.0, 99.0), 1), ((99.0, 5.0), 1), ((10.0, 10.0), 2)]
)
def test_node_without_measured_or_committed_memory_is_no_target(
    find: Finder, short: tuple[float, float], expected: int
) -> None:
    nodes = [*equal_nodes(1, 0.6), *equal_nodes(1, 0.5), *equal_nodes(1)]
    case = EvaluationCase(nodes, [(Resources(1, 10 * GIB), 0)])
    case.arrays.available[2] = short
    case.arrays.required[0] = 10.0

    found = find(case.arrays, ImbalanceMetric.CV)

    assert found is not None
    assert found.target == expected


@BOTH
def test_units_of_one_class_share_the_nodes_they_may_go_to(find: Finder) -> None:
    case = EvaluationCase(
        [*equal_nodes(1, 0.6), *equal_nodes(2)], [(Resources(1, GIB), 0)] * 2
    )
    case.arrays.class_of[:] = 1
    case.arrays.allowed[1] = [False, False, True]

    found = find(case.arrays, ImbalanceMetric.CV)

    assert found is not None
    assert (found.group, found.target) == (0, 2)


@BOTH
@pytest.mark.parametrize("metric", ImbalanceMetric)
def test_imbalance_is_returned_in_requested_metric(
    find: Finder, metric: ImbalanceMetric
) -> None:
    case = EvaluationCase(
        [*equal_nodes(1, 0.6), *equal_nodes(9, 0.1)], [(Resources(2, 20 * GIB), 0)]
    )

    found = find(case.arrays, metric)

    assert found is not None
    assert found.imbalance == imbalance_after(case.loads, case.moves[0], metric)


def test_more_moves_than_are_scored_at_once_make_no_difference() -> None:
    nodes = [*equal_nodes(1, 0.6), *equal_nodes(299, 0.1)]
    groups = [(Resources(1 + i / 1000, GIB), 0) for i in range(500)]
    case = EvaluationCase(nodes, groups)

    found = best_by_imbalance(case.arrays, ImbalanceMetric.CV)

    # The largest guest evens most, and all targets are equal.
    assert found is not None
    assert (found.group, found.target) == (499, 1)
    by_topsis = best_by_topsis(case.arrays, ImbalanceMetric.CV)
    assert by_topsis is not None
    assert (by_topsis.group, by_topsis.target) == (499, 1)
