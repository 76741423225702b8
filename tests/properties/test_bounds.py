"""Lower bounds of `optimize` on tiny clusters, beside all plans there are.

The search of all placements is off, so that the bounds of larger clusters are computed.
"""

from __future__ import annotations

import pytest

from opendrs.model import GIB, Migration, Snapshot
from opendrs.optimizer.bounds import whole_groups
from opendrs.policies import Decision
from opendrs.policies.optimize import small_cluster
from properties.test_small_clusters import LIMITS, deviation, optimize, tiny_cluster
from support.oracles.reachable_placements import reached_placements

PRECISION = 1e-4  # of the numbers in the notes


def bound_of(decision: Decision[None]) -> float:
    """Return the lower bound in the notes, 0 if it is 0."""
    (note,) = (x for x in decision.notes if x.startswith("distance from the optimum: "))
    if "; lower bound 0, because" in note:
        return 0.0
    return float(note.partition("at least ")[2].split()[0])


def transferred(snapshot: Snapshot, decision: Decision[None]) -> float:
    """Return the memory that the plan transfers, in GiB."""
    actions = [each.action for each in decision.plan.steps]
    moved = [each.guest for each in actions if isinstance(each, Migration)]
    return sum(snapshot.guests[each].usage.memory or 0 for each in moved) / GIB


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("budget", ["unlimited", "2 migrations"])
@pytest.mark.parametrize("seed", range(25))
def test_no_reachable_plan_is_below_the_bound(
    seed: int, budget: str, monkeypatch: pytest.MonkeyPatch, *, whole: bool
) -> None:
    monkeypatch.setattr(small_cluster, "MAX_PLACEMENTS", 0)
    if not whole:
        monkeypatch.setattr(whole_groups, "MAX_PLACEMENTS", 0)
    snapshot = tiny_cluster(seed)
    decision = optimize(budget).decide(snapshot, None)
    if not decision.plan.steps:
        pytest.skip("no plan")
    gib = transferred(snapshot, decision)
    most = 2 if budget == "2 migrations" else float("inf")
    reached = reached_placements(snapshot, LIMITS, gib + 1e-6).values()

    least = min(deviation(x.snapshot) for x in reached if x.migrations <= most)

    assert bound_of(decision) <= least + PRECISION
