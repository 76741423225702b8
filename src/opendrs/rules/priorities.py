"""Priorities of guests: from rules, and from tags or metadata that state them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opendrs.model import (
    MAX_PRIORITY,
    MIN_PRIORITY,
    NORMAL_PRIORITY,
    PRIORITIES,
    GuestId,
    GuestPriority,
    Rule,
    Snapshot,
)

EXPECTED_PRIORITY = (
    f"{', '.join(PRIORITIES)} or a number from {MIN_PRIORITY:g} to {MAX_PRIORITY:g}"
)


def guest_priorities(snapshot: Snapshot) -> dict[GuestId, float]:
    """Return the priority of each guest to which a rule gives one.

    Of several rules the last one counts, and one of the operator before those that
    have an origin, such as a tag. Other guests have `NORMAL_PRIORITY`.
    """
    found: dict[GuestId, float] = {}
    rules = [rule for rule in snapshot.rules if isinstance(rule, GuestPriority)]
    for rule in sorted(rules, key=lambda each: not each.origin):
        names = [name for name in rule.guests if name in snapshot.guests]
        found.update(dict.fromkeys(names, rule.value))
        if rule.tags:
            for name, guest in snapshot.guests.items():
                if not rule.tags.isdisjoint(guest.tags):
                    found[name] = rule.value
    return found


def mean_priority(
    amounts: Mapping[GuestId, float], priorities: Mapping[GuestId, float]
) -> float:
    """Return the mean priority of guests, weighted by their *amounts*.

    It is the normal priority if all amounts are 0.
    """
    total = sum(amounts.values())
    if total <= 0:
        return NORMAL_PRIORITY
    weighted = sum(
        amount * priorities.get(name, NORMAL_PRIORITY)
        for name, amount in amounts.items()
    )
    return weighted / total


def keyed_priorities(
    guests: Iterable[tuple[GuestId, str]], origin: str
) -> Iterator[Rule]:
    """Yield the priorities of guests, one rule for guests with equal texts.

    A text that is no priority gives the normal one; the name of the rule says so.

    Args:
        guests: Id of each guest, and the text of its priority: a name of `PRIORITIES`
            or a number. A guest with an empty text has no rule.
        origin: Where the texts are set.
    """
    members: dict[str, set[GuestId]] = {}
    for guest, text in guests:
        if text.strip():
            members.setdefault(text.strip(), set()).add(guest)
    for text, group in sorted(members.items()):
        value = parse_priority(text)
        name = f"priority {text}"
        if value is None:
            name = f"invalid {name}: expected {EXPECTED_PRIORITY}"
        yield GuestPriority(
            value=NORMAL_PRIORITY if value is None else value,
            guests=frozenset(group),
            name=name,
            origin=origin,
        )


def parse_priority(text: str) -> float | None:
    """Return the priority that *text* states; None if it states none."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    try:
        value = float(text)
    except ValueError:
        return None
    return value if MIN_PRIORITY <= value <= MAX_PRIORITY else None
