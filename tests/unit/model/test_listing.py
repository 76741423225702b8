"""A few names, and how many more there are."""

import pytest

from builders import guest_ids
from opendrs.model import AntiAffinity, first_few
from opendrs.rules import Violation


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, "a"),
        (3, "a, b, c"),
        (4, "a, b, c and 1 more"),
        (26, "a, b, c and 23 more"),
    ],
)
def test_three_names_are_told_and_the_rest_is_counted(count: int, text: str) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"[:count]

    assert first_few(names) == text


def test_names_that_are_all_told_may_be_joined_otherwise() -> None:
    assert first_few("ab", joint=" and ") == "a and b"
    assert first_few("abcde", joint=" and ") == "a, b, c and 2 more"


def test_a_rule_names_three_guests_and_all_when_it_is_described() -> None:
    rule = AntiAffinity(guests=guest_ids(*"abcde"))
    broken = Violation(rule, rule.guests, frozenset())

    assert str(rule) == "keep a, b, c and 2 more apart"
    assert rule.described() == "keep a, b, c, d, e apart"
    assert str(broken).startswith(f"{rule}: broken by a, b, c and 2 more on ")
