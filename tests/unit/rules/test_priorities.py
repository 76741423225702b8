"""Priorities of guests, by rules and by keys of guests."""

from __future__ import annotations

import pytest

from opendrs.errors import ModelError
from opendrs.model import GuestId, GuestPriority, Rule, Snapshot
from opendrs.rules import guest_priorities, keyed_priorities, mean_priority
from support.builders import cluster, guest_ids

A, B, C = GuestId("a"), GuestId("b"), GuestId("c")


def ruled(*rules: Rule) -> Snapshot:
    return cluster({"n": 0.5}, {"a": ("n", 0.1), "b": ("n", 0.1)}, rules)


def test_priority_of_a_rule_applies_to_its_guests_of_the_cluster() -> None:
    snapshot = ruled(GuestPriority(value=2.0, guests=guest_ids("a", "gone")))

    assert guest_priorities(snapshot) == {"a": 2.0}


def test_priority_of_the_last_rule_counts() -> None:
    first = GuestPriority(value=2.0, guests=guest_ids("a", "b"))
    last = GuestPriority(value=0.5, guests=guest_ids("b"))

    assert guest_priorities(ruled(first, last)) == {"a": 2.0, "b": 0.5}


def test_priority_of_the_operator_counts_before_that_of_a_tag() -> None:
    own = GuestPriority(value=0.5, guests=guest_ids("a"))
    tag = GuestPriority(value=2.0, guests=guest_ids("a"), origin="tag")

    assert guest_priorities(ruled(own, tag)) == {"a": 0.5}


@pytest.mark.parametrize("value", [0.0, 0.001, 101.0, float("nan")])
def test_priority_out_of_range_is_rejected(value: float) -> None:
    with pytest.raises(ModelError, match="priority rule: value: expected"):
        GuestPriority(value=value, guests=guest_ids("a"))


def test_priority_without_guests_and_tags_is_rejected() -> None:
    with pytest.raises(ModelError, match="guests and tags together"):
        GuestPriority(value=2.0)


def test_keyed_priorities_are_names_and_numbers() -> None:
    rules = keyed_priorities(((A, "high"), (B, " 4 "), (C, "")), "tag")

    found = {
        next(iter(rule.guests)): rule.value
        for rule in rules
        if isinstance(rule, GuestPriority)
    }
    assert found == {"a": 2.0, "b": 4.0}


def test_keyed_priority_that_is_invalid_is_normal_and_named() -> None:
    (rule,) = keyed_priorities(((A, "hihg"),), "tag")

    assert isinstance(rule, GuestPriority)
    assert rule.value == 1.0
    assert "hihg" in rule.name


def test_mean_priority_is_weighted_by_amounts() -> None:
    # By hand: (3 x 2 + 1 x 1) / 4.
    assert mean_priority({A: 3.0, B: 1.0}, {A: 2.0}) == 1.75


def test_mean_priority_of_no_amount_is_normal() -> None:
    assert mean_priority({A: 0.0}, {A: 2.0}) == 1.0
