"""Loads, start scores and single moves against reference values of Proxmox VE."""

from __future__ import annotations

import pytest

from opendrs.metrics import (
    ImbalanceMetric,
    NodeLoad,
    SingleMove,
    imbalance,
    imbalance_after,
    rank_by_imbalance,
    rank_by_topsis,
    rank_descending,
    start_scores,
)
from opendrs.metrics.load import criteria
from opendrs.metrics.single_moves import loads_after
from opendrs.model import GIB, Resources

MIB = 1 << 20
USED = {"node1": (1.7, 12334), "node2": (15.184, 529), "node3": (5.2, 9381)}


def reference(*capacities: tuple[int, int]) -> dict[str, NodeLoad]:
    """Return a cluster of the reference; capacities in cores and GiB."""
    return {
        name: NodeLoad(Resources(cores, gib * GIB), Resources(cpu, mib * MIB))
        for (name, (cpu, mib)), (cores, gib) in zip(
            USED.items(), capacities, strict=True
        )
    }


# proxmox-resource-scheduling 2.0.0 and 2.1.0, equal nodes and unequal ones.
EQUAL = reference((16, 64), (16, 64), (16, 64))
UNEQUAL = reference((16, 128), (32, 96), (24, 64))
MOVED = (Resources(0.7, 8 * GIB),)
MOVES = [SingleMove("vm", MOVED, "node1", target) for target in ("node2", "node3")]


def means(loads: dict[str, NodeLoad]) -> list[float]:
    return [load.mean for load in loads.values()]


@pytest.mark.parametrize(
    ("loads", "form", "expected"),
    [
        (EQUAL, ImbalanceMetric.CV, 0.4893954724628247),
        (UNEQUAL, ImbalanceMetric.CV, 0.33026013056867354),
        (EQUAL, ImbalanceMetric.NORMALIZED_CV, 0.3460548572604576),
        (UNEQUAL, ImbalanceMetric.NORMALIZED_CV, 0.23352917788066363),
    ],
)
def test_the_imbalance_is_that_of_proxmox(
    loads: dict[str, NodeLoad], form: ImbalanceMetric, expected: float
) -> None:
    assert imbalance(means(loads), form) == expected


@pytest.mark.parametrize(
    ("loads", "expected"),
    [
        (EQUAL, (0.723982869039761, 0.597287465866405)),
        (UNEQUAL, (0.579417704060553, 0.525031850557710)),
    ],
)
def test_the_imbalance_after_a_move_is_that_of_proxmox(
    loads: dict[str, NodeLoad], expected: tuple[float, float]
) -> None:
    futures = [imbalance_after(loads, move, ImbalanceMetric.CV) for move in MOVES]

    assert tuple(futures) == expected


@pytest.mark.parametrize("loads", [EQUAL, UNEQUAL])
def test_both_methods_rank_as_proxmox_does(loads: dict[str, NodeLoad]) -> None:
    by_imbalance = rank_by_imbalance(loads, MOVES, ImbalanceMetric.CV)
    by_topsis = rank_by_topsis(loads, MOVES)

    assert [move.target for move in by_imbalance] == ["node3", "node2"]
    assert [move.target for move in by_topsis] == ["node2", "node3"]


@pytest.mark.parametrize(
    ("limit", "equal", "unequal"),
    [
        (
            Resources(1, 12 * GIB),
            (0.044998691436486861, 0.95500130856351317, 0.25272581995741328),
            (0.76451152321978544, 0.9736305091297881, 0.026298526321040641),
        ),
        (
            Resources(12, 0),
            (1, 0, 0.82656421207258113),
            (0, 0.23717234443858584, 1),
        ),
        (
            Resources(0, 0),  # no cpu limit
            (1, 0, 0.73920147720089235),
            (1, 0, 0.69863393274510088),
        ),
        (
            Resources(12, 12 * GIB),
            (0.32498697941692206, 0.67501302058307788, 0.38378990286306663),
            (0.74804358237439894, 0.91421774182123994, 0.094116448742916928),
        ),
    ],
)
def test_start_scores_are_those_of_proxmox(
    limit: Resources, equal: tuple[float, ...], unequal: tuple[float, ...]
) -> None:
    assert start_scores(list(EQUAL.values()), limit) == pytest.approx(equal, rel=1e-13)
    assert start_scores(list(UNEQUAL.values()), limit) == pytest.approx(
        unequal, rel=1e-13
    )


def test_starting_on_the_best_node_fills_the_larger_one_twice_as_fast() -> None:
    # proxmox-resource-scheduling, its own test.
    nodes = [empty(10, 100 * 10**9), empty(20, 200 * 10**9)]

    picks = [order[0] for order in started_on_the_best(nodes, 15, 4, 20 * 10**9)]

    assert "".join("AB"[pick] for pick in picks) == "BBA" * 5


def test_a_node_with_a_little_less_memory_comes_first_while_it_is_empty() -> None:
    # proxmox-resource-scheduling, its own test.
    guest = Resources(1, 536870912)
    nodes = [empty(4, 4102062080), empty(4, 4102062080)]
    nodes += [empty(4, 4102053888), empty(4, 4102053888)]
    for _ in range(4):
        nodes[0] = nodes[0].with_started_guest(guest)
    nodes[1] = nodes[1].with_started_guest(guest)

    order = rank_descending(start_scores(nodes, guest))

    assert "".join("ABCD"[index] for index in order) == "CDBA"


@pytest.mark.parametrize(
    "taken",
    [
        (Resources(0, 0), Resources(0, 0), Resources(0, 0)),
        (Resources(4, 10**9), Resources(2, 10**9), Resources(2, 10**9)),
    ],
)
def test_rankings_go_round_as_nodes_fill(taken: tuple[Resources, ...]) -> None:
    # proxmox-resource-scheduling, its own test.
    sizes = ((8, 10 * 10**9), (4, 9 * 10**9), (4, 8 * 10**9))
    nodes = [
        NodeLoad(Resources(*size), used)
        for size, used in zip(sizes, taken, strict=True)
    ]

    orders = started_on_the_best(nodes, 20, 3, 16 * 10**6)

    assert ["".join("ABC"[i] for i in order) for order in orders] == [
        *("ABC", "ABC", "BCA", "CAB")
    ] * 5


def test_a_guest_without_cpu_limit_takes_all_cores_where_it_starts() -> None:
    assert empty(8, GIB).with_started_guest(Resources(0, 1)).usage == Resources(8, 1)


def test_a_node_never_holds_less_than_nothing() -> None:
    node = NodeLoad(Resources(4, 4 * GIB), Resources(1, GIB))

    assert node.without_guest(Resources(2, 2 * GIB)).usage == Resources(0, 0)


def test_the_load_is_the_mean_of_both_fractions() -> None:
    node = NodeLoad(Resources(4, 8 * GIB), Resources(1, 4 * GIB))

    assert (node.cpu, node.memory, node.mean) == (0.25, 0.5, 0.375)


def test_the_criteria_are_shifted_root_mean_squares_and_maxima() -> None:
    # By hand: cpu loads 3/5 and 4/5, memory loads 0 and 0.
    nodes = [
        NodeLoad(Resources(5, GIB), Resources(3, 0)),
        NodeLoad(Resources(5, GIB), Resources(4, 0)),
    ]

    assert criteria(nodes) == pytest.approx((1 + 0.5**0.5, 1.8, 1.0, 1.0))


def test_all_members_of_a_unit_move() -> None:
    pair = SingleMove("vm", (Resources(1, GIB), Resources(2, GIB)), "a", "b")
    loads = {"a": empty(8, 8 * GIB), "b": empty(8, 8 * GIB)}
    loads["a"] = loads["a"].with_guest(Resources(4, 4 * GIB))

    future = loads_after(loads, pair)

    assert [future[name].usage for name in ("a", "b")] == [
        Resources(1, 2 * GIB),
        Resources(3, 2 * GIB),
    ]


def test_names_decide_between_equal_imbalances() -> None:
    used, free = Resources(4, 4 * GIB), Resources(0, 0)
    size = Resources(8, 8 * GIB)
    loads = {"a": NodeLoad(size, used), "b": NodeLoad(size, free)}
    loads["c"] = loads["b"]
    moves = [
        SingleMove(guest, (Resources(1, GIB),), "a", target)
        for guest in ("y", "x")
        for target in ("c", "b")
    ]

    best, *_ = rank_by_imbalance(loads, moves, ImbalanceMetric.CV)

    assert (best.group, best.target) == ("x", "b")


def empty(cores: float, memory: int) -> NodeLoad:
    return NodeLoad(Resources(cores, memory), Resources(0, 0))


def started_on_the_best(
    nodes: list[NodeLoad], rounds: int, cores: float, memory: int
) -> list[list[int]]:
    """Return the ranking of each round, in which the best node starts a guest."""
    orders = []
    for _ in range(rounds):
        order = rank_descending(start_scores(nodes, Resources(cores, memory)))
        nodes[order[0]] = nodes[order[0]].with_started_guest(Resources(cores, memory))
        orders.append(order)
    return orders
