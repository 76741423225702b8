"""Why something may not start: a closed list, and the words for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from opendrs.model import GIB


class Refusal(StrEnum):
    """Why something may not start; shown to operators, so never renamed.

    The last three come from the budget: they mean "wait", not "no".
    """

    OUT_OF_DATE = "out-of-date"
    MAY_NOT_MOVE = "may-not-move"
    TARGET_OFFLINE = "target-offline"
    OTHER_PROCESSOR = "other-processor"
    NOT_MEASURED = "not-measured"
    TARGET_FULL = "target-full"
    OVERBOOKED = "overbooked"
    BREAKS_RULE = "breaks-rule"
    COOLING_DOWN = "cooling-down"
    JUST_STARTED = "just-started"
    NODE_NOT_SEEN = "node-not-seen"
    NODE_NOT_EMPTY = "node-not-empty"
    NODE_BUSY = "node-busy"
    NETWORK_BUSY = "network-busy"
    CLUSTER_BUSY = "cluster-busy"


@dataclass(frozen=True, slots=True)
class Objection:
    """What speaks against starting something now.

    Attributes:
        refusal: Which of the reasons it is.
        detail: The reason in a sentence, with names and numbers.
    """

    refusal: Refusal
    detail: str

    def __str__(self) -> str:
        return f"{self.refusal}: {self.detail}"


def in_gib(amount: float) -> str:
    """Return an amount of memory, in bytes, as people read it."""
    return f"{amount / GIB:.1f} GiB"
