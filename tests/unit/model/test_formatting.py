"""Lists of names in messages."""

import pytest

from opendrs.model import AntiAffinity, format_list
from opendrs.rules import Violation
from support.builders import guest_ids


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
def test_format_list_names_three_and_counts_the_rest(count: int, text: str) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"[:count]

    assert format_list(names) == text


def test_format_list_uses_separator_when_all_are_named() -> None:
    assert format_list("ab", separator=" and ") == "a and b"
    assert format_list("abcde", separator=" and ") == "a, b, c and 2 more"


def test_a_rule_names_three_guests_and_all_when_it_is_described() -> None:
    rule = AntiAffinity(guests=guest_ids(*"abcde"))
    broken = Violation(rule, rule.guests, frozenset())

    assert str(rule) == "anti-affinity of a, b, c and 2 more"
    assert rule.describe() == "anti-affinity of a, b, c, d, e"
    assert str(broken).startswith(f"{rule}: a, b, c and 2 more on ")
