"""What an optimal plan is made for, and what each thing is worth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from opendrs.policies.optimising.calm import Calm

APART = 100.0  # how much more the goal before counts than the goal after it


class Goal(StrEnum):
    """What a plan is made for; named by operators, so never renamed.

    REPAIR: strict rules that are broken are kept again, and nodes hold no more
    memory than they may. CONTENTION: nobody waits for processors
    or memory. EVENNESS: all
    nodes are loaded alike. PACKING: guests need few nodes.
    """

    REPAIR = "repair"
    CONTENTION = "contention"
    EVENNESS = "evenness"
    PACKING = "packing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What each thing costs. 1 is a node with twice the even load, or with none.

    Attributes:
        broken: A guest that breaks a strict rule, and as much memory over the
            limit as a node has evenly.
        contention: As much processor time, or memory, over what is calm as a node has
            evenly.
        cpu: The square of a node's distance from the even processor load, as a
            part of that.
        memory: The same of memory.
        used: A node with guests on it.
        soft: A guest that breaks a soft rule.
        calm: Up to which loads nobody is taken to wait.
        gib: Each GiB moved, and what is counted as such.
    """

    broken: float
    contention: float
    cpu: float
    memory: float
    used: float
    soft: float
    calm: Calm
    gib: float


def weight_of(goal: Goal, priorities: Sequence[Goal]) -> float:
    """Return what *goal* counts: the last 1, each before it `APART` times as much.

    A goal that is not among the priorities counts nothing.
    """
    if goal not in priorities:
        return 0.0
    return float(APART ** (len(priorities) - 1 - priorities.index(goal)))
