"""Cost of migrating a guest, beside a calculation in plain loops."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from opendrs.arrays import ClusterArrays
from opendrs.model import Guest, GuestPriority, Limits, Mobility, Rule, Usage
from opendrs.planning import group_migration_costs, migration_costs
from opendrs.rules import compile_rules
from support.builders import cluster, guest, guest_ids
from support.oracles.migration_cost import in_gib, moving_cost

OVERHEAD = 0.25  # GiB


def cost_of(moved: Guest) -> list[float]:
    costs: list[float] = migration_costs((moved,), arrays((moved,))).tolist()
    return costs


def arrays(guests: Iterable[Guest], rules: Iterable[Rule] = ()) -> ClusterArrays:
    """Return a node with *guests*, which are one group."""
    group = tuple(guests)
    empty = cluster({"n": 0.9}, {}, rules)
    snapshot = replace(empty, guests={each.id: each for each in group})
    return ClusterArrays(snapshot, compile_rules(snapshot), Limits(), (group,))


@pytest.mark.parametrize("mobility", [Mobility.LIVE, Mobility.COLD])
@pytest.mark.parametrize("dirty_rate", [None, 0.0, 1e5, 6e7, 1.1e8, 1e9])
@pytest.mark.parametrize("load", [0.0, 0.0001, 0.1, 0.9])
def test_migration_cost_equals_that_of_plain_loops(
    load: float, dirty_rate: float | None, mobility: Mobility
) -> None:
    moved = guest("x", "n", load, dirty_rate=dirty_rate, mobility=mobility)

    expected = in_gib(moving_cost(moved, cluster({"n": 0.9}, {}))) + OVERHEAD
    assert cost_of(moved) == pytest.approx([expected], rel=1e-6)


def test_migration_cost_of_unknown_memory_is_the_overhead() -> None:
    assert cost_of(guest("x", "n", None, usage=Usage(cpu=1.0))) == [OVERHEAD]


def test_migration_cost_of_a_group_sums_those_of_its_guests() -> None:
    # By hand: guests of 10 and 20 GiB with 0.25 GiB each; the second one counts twice.
    rule = GuestPriority(value=2.0, guests=guest_ids("y"))
    pair = guest("x", "n", 0.1), guest("y", "n", 0.2)

    found = group_migration_costs(arrays(pair, [rule]))

    assert found.tolist() == [10.25 + 2 * 20.25]
