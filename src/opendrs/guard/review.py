"""Whether actions may start now.

Judges on a snapshot that is fresh, not on the one that was planned from, and
shares nothing with the code that chose the actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opendrs.guard import arrival, departure, memory, order
from opendrs.guard.case import Case
from opendrs.guard.power import power_objection
from opendrs.guard.refusal import Objection, Refusal
from opendrs.model import (
    Action,
    Limits,
    PowerOff,
    PowerOn,
    Snapshot,
)

# In order: the first that speaks is the one heard, and each may rely on the
# silence of those before it. A check returns its complaint, or None.
_CHECKS: Sequence[tuple[Refusal, Callable[[Case], str | None]]] = (
    (Refusal.NODE_NOT_SEEN, departure.source_not_seen),
    (Refusal.OUT_OF_DATE, departure.out_of_date),
    (Refusal.MAY_NOT_MOVE, departure.may_not_move),
    (Refusal.TARGET_OFFLINE, arrival.target_offline),
    (Refusal.OTHER_PROCESSOR, arrival.other_processor),
    (Refusal.NOT_MEASURED, memory.not_measured),
    (Refusal.TARGET_FULL, memory.target_full),
    (Refusal.OVERBOOKED, memory.overbooked),
    (Refusal.BREAKS_RULE, order.breaks_rule),
    (Refusal.COOLING_DOWN, departure.cooling_down),
    (Refusal.JUST_STARTED, departure.just_started),
)


def objection(
    moves: Sequence[Action],
    fresh: Snapshot,
    limits: Limits,
) -> Objection | None:
    """Return what speaks against starting *moves* together, or None.

    Args:
        moves: What is to start: one action, or the moves of guests that a
            strict rule keeps together.
        fresh: The cluster as it is now.
        limits: What the operator allows.
    """
    switches = [action for action in moves if isinstance(action, PowerOn | PowerOff)]
    for switch in switches:
        if found := power_objection(switch, fresh, limits):
            return found
    travels = tuple(a for a in moves if not isinstance(a, PowerOn | PowerOff))
    return _against(Case(travels, fresh, limits)) if travels else None


def _against(case: Case) -> Objection | None:
    for refusal, check in _CHECKS:
        if complaint := check(case):
            return Objection(refusal, complaint)
    return None
