"""Weights of soft rules: where not all can be kept, the heavier ones count more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random

import pytest

from opendrs.errors import ModelError
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Limits,
    Migration,
    NodeAffinity,
    NodeId,
    Pin,
    Rule,
    Snapshot,
)
from opendrs.policies import Balance
from opendrs.policies.optimize import Optimize
from opendrs.rules import FeasibilityChecker, compile_rules
from support.builders import cluster, guest_ids

LIMITS = Limits(cooldown=0, memory_headroom=0.0)


def prefers(guest: str, node: str, weight: float) -> NodeAffinity:
    return NodeAffinity(
        guests=guest_ids(guest), nodes={NodeId(node): 0}, strict=False, weight=weight
    )


def moved(snapshot: Snapshot, policy: Optimize | Balance) -> dict[str, str]:
    """Return the target of each guest that migrates."""
    steps = policy.decide(snapshot, None).plan.steps
    actions = [each.action for each in steps]
    assert all(isinstance(each, Migration) for each in actions)
    return {each.guest: each.target for each in actions if isinstance(each, Migration)}


@pytest.mark.parametrize(("heavier", "other"), [("v", "w"), ("w", "v")])
def test_optimize_keeps_the_heavier_of_two_preferences(
    heavier: str, other: str
) -> None:
    """Two equal guests prefer a, where only one of them balances the load.

    Loads of a and b are 0.1 and 0.8. With one guest of 0.4 on a they are 0.5 and 0.4;
    with both 0.9 and 0, as uneven as 0.1 and 0.8. The relative deviations are 0.11 and
    1: both cost 2 x 2 x (1 - 0.01) more than one, above the penalty of 0.1 x 5.
    """
    rules: list[Rule] = [
        prefers(heavier, "a", 5),
        prefers(other, "a", 1),
        Pin(guests=guest_ids("x")),
    ]
    guests = {"x": ("a", 0.1), "v": ("b", 0.4), "w": ("b", 0.4)}
    snapshot = cluster({"a": 0.1, "b": 0.8}, guests, rules)

    found = moved(snapshot, Optimize(limits=LIMITS))

    assert found == {heavier: "a"}


@pytest.mark.parametrize(("to_a", "to_b"), [(3.0, 1.0), (1.0, 3.0)])
def test_node_preferred_by_the_heavier_rule_is_the_only_target(
    to_a: float, to_b: float
) -> None:
    """The priorities are -to_b on a and -to_a on b: a rule gives -1 elsewhere."""
    rules = [prefers("v", "a", to_a), prefers("v", "b", to_b)]
    snapshot = cluster({"a": 0.0, "b": 0.0, "c": 0.1}, {"v": ("c", 0.1)}, rules)
    checker = FeasibilityChecker(snapshot, compile_rules(snapshot), LIMITS)

    found = checker.preferred_nodes(GuestId("v"))

    assert found == {NodeId("a" if to_a > to_b else "b")}


def test_balance_moves_to_the_node_that_the_heavier_rule_prefers() -> None:
    weights = {"a": 1, "b": 3}
    rules = [prefers(name, node, weights[node]) for name in "vw" for node in weights]
    loads = {"a": 0.0, "b": 0.0, "c": 0.8}
    snapshot = cluster(loads, {"v": ("c", 0.4), "w": ("c", 0.4)}, rules)

    found = moved(snapshot, Balance(limits=LIMITS))

    assert set(found.values()) == {"b"}


def drawn(seed: int, scale: float) -> Snapshot:
    """Return a drawn cluster whose soft rules have weights times *scale*."""
    random = Random(seed)  # noqa: S311 - drawn, not a secret
    names = [f"g{number}" for number in range(5)]
    guests = {name: (random.choice("abc"), random.choice((0.1, 0.2))) for name in names}
    rules: list[Rule] = []
    for _ in range(random.randint(2, 4)):
        weight = random.choice((1, 2, 4)) * scale
        pair = guest_ids(*random.sample(names, 2))
        kind = random.choice("atn")
        if kind == "a":
            rules.append(AntiAffinity(guests=pair, strict=False, weight=weight))
        elif kind == "t":
            rules.append(Affinity(guests=pair, strict=False, weight=weight))
        else:
            rules.append(prefers(random.choice(names), random.choice("abc"), weight))
    used: Iterable[float] = (
        sum(load for where, load in guests.values() if where == node) for node in "abc"
    )
    return cluster(dict(zip("abc", used, strict=True)), guests, rules)


@pytest.mark.parametrize("seed", range(20))
def test_penalty_and_weights_are_factors_of_one_product(seed: int) -> None:
    """Weights four times as large with a fourth of the penalty give the same plan."""
    policy = Optimize(limits=LIMITS, threshold=0.0, soft_rule_penalty=0.4)
    divided = replace(policy, soft_rule_penalty=0.1)

    assert moved(drawn(seed, 1), policy) == moved(drawn(seed, 4), divided)


@pytest.mark.parametrize("kind", [Affinity, AntiAffinity])
def test_weight_of_a_strict_rule_is_rejected(
    kind: type[Affinity | AntiAffinity],
) -> None:
    with pytest.raises(ModelError, match="weight: expected strict = false"):
        kind(guests=guest_ids("v", "w"), weight=2.0)


@pytest.mark.parametrize("weight", [0.0, -1.0, 101.0, float("nan")])
def test_weight_out_of_range_is_rejected(weight: float) -> None:
    with pytest.raises(ModelError, match="weight: expected a number from"):
        prefers("v", "a", weight)
