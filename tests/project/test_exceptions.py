"""The listed exceptions: each has a reason, and accepts something."""

from __future__ import annotations

from collections import Counter

from project.findings import findings
from project.sources import exceptions

SHORTEST_REASON = 3  # words


def test_exceptions_have_a_reason() -> None:
    without = [
        each for each in exceptions() if len(each.reason.split()) < SHORTEST_REASON
    ]

    assert without == []


def test_exceptions_accept_something() -> None:
    unused = [
        each for each in exceptions() if not any(each.covers(one) for one in findings())
    ]

    assert unused == []


def test_exceptions_are_listed_once() -> None:
    listed = Counter((each.check, each.path, each.name) for each in exceptions())

    assert [entry for entry, count in listed.items() if count > 1] == []
