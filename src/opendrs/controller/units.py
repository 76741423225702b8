"""Which steps start together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from opendrs.model import (
    Affinity,
    GuestId,
    Migration,
    NodeId,
    PowerOff,
    PowerOn,
    Relocation,
    Rule,
    Step,
)

Unit = tuple[Step, ...]
_Key = tuple[GuestId, NodeId, NodeId, int]


def units(steps: Sequence[Step], rules: Iterable[Rule]) -> tuple[Unit, ...]:
    """Return *steps* in groups that start together, in the order of the first.

    Guests that strict rules keep together, also by way of other guests, start
    together when they have the same way to go; every other step is alone.
    """
    leaders = _leaders(rules)
    journeys: Counter[tuple[GuestId, NodeId, NodeId]] = Counter()
    found: dict[_Key | str, list[Step]] = {}
    for step in steps:
        key: _Key | str = step.id
        action = step.action
        if isinstance(action, Migration | Relocation) and action.guest in leaders:
            # A guest that goes the same way twice does not do so at once.
            journey = (action.guest, action.source, action.target)
            journeys[journey] += 1
            leader = leaders[action.guest]
            key = (leader, action.source, action.target, journeys[journey])
        found.setdefault(key, []).append(step)
    return tuple(map(tuple, found.values()))


def binding(unit: Sequence[Step], rules: Iterable[Rule]) -> tuple[Affinity, ...]:
    """Return the strict rules that keep the guests of *unit* together."""
    guests = {
        step.action.guest
        for step in unit
        if not isinstance(step.action, PowerOn | PowerOff)
    }
    return tuple(rule for rule in _strict(rules) if rule.guests & guests)


def _strict(rules: Iterable[Rule]) -> Iterable[Affinity]:
    return (rule for rule in rules if isinstance(rule, Affinity) and rule.strict)


def _leaders(rules: Iterable[Rule]) -> dict[GuestId, GuestId]:
    """Return, for each guest that is bound to others, one that stands for all."""
    groups: list[set[GuestId]] = []
    for rule in _strict(rules):
        joined = set(rule.guests)
        for group in [group for group in groups if group & joined]:
            joined |= group
            groups.remove(group)
        groups.append(joined)
    return {guest: min(group) for group in groups for guest in group}
