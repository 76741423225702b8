"""The steps of a plan that matter most."""

from __future__ import annotations

from opendrs.cli.plan_tables import most_valuable
from opendrs.model import (
    AntiAffinity,
    GuestId,
    LiveMigration,
    NodeId,
    Plan,
    PowerOff,
    Step,
    StepId,
)
from support.builders import cluster, guest_ids

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")


def step(number: int, guest: str, source: NodeId, target: NodeId) -> Step:
    return Step(StepId(str(number)), LiveMigration(GuestId(guest), source, target))


def most_valuable_steps(plan: Plan, most: int) -> list[str]:
    """Return the steps in a cluster in which x and y break a rule."""
    snapshot = cluster(
        {"a": 0.6, "b": 0.3, "c": 0.0},
        {
            "x": ("a", 0.05),
            "y": ("a", 0.1),
            "small": ("a", 0.1),
            "large": ("a", 0.3),
            "unknown": ("b", None),
        },
        [AntiAffinity(guests=guest_ids("x", "y"))],
    )
    return [each.id for each in most_valuable(plan, snapshot, most)]


def test_steps_that_repair_rules_come_before_those_that_free_more() -> None:
    plan = Plan((step(1, "large", A, B), step(2, "small", A, B), step(3, "x", A, B)))

    assert most_valuable_steps(plan, 1) == ["3"]
    assert most_valuable_steps(plan, 2) == ["1", "3"]


def test_a_detour_repairs_nothing_but_the_step_that_ends_it_does() -> None:
    plan = Plan((step(1, "x", A, C), step(2, "x", C, B), step(3, "small", A, B)))

    assert most_valuable_steps(plan, 1) == ["2"]
    assert most_valuable_steps(plan, 2) == ["2", "3"]


def test_a_power_action_counts_as_a_whole_node() -> None:
    plan = Plan((step(1, "large", A, B), Step(StepId("2"), PowerOff(C))))

    assert most_valuable_steps(plan, 1) == ["2"]


def test_ties_are_ordered_and_unknown_values_are_last() -> None:
    plan = Plan(
        (step(1, "unknown", B, C), step(2, "small", A, B), step(3, "small", B, C))
    )

    assert most_valuable_steps(plan, 1) == ["2"]
    assert most_valuable_steps(plan, 2) == ["2", "3"]
