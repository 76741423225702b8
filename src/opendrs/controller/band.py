"""Steps that were started together because a strict rule binds their guests."""

from __future__ import annotations

from collections.abc import Sequence

from opendrs.controller.pursuit import Pursuit
from opendrs.model import Affinity
from opendrs.ports import Outcome


class Band:
    """Steps that were started together because a strict rule binds their guests.

    When one of them fails before any is done, the others are given up, so that
    the guests stay together where they are. When they were torn apart all the
    same, the last one to end says so.

    Args:
        pursuits: The steps, each followed to its end.
        rules: The rules that bind the guests.
    """

    def __init__(self, pursuits: Sequence[Pursuit], rules: Sequence[Affinity]) -> None:
        self._pursuits = tuple(pursuits)
        self._rules = tuple(rules)
        for pursuit in self._pursuits:
            pursuit.remark = self._remark

    def hold_together(self) -> None:
        """Give up who still runs, when another failed and none is done."""
        ended = [pursuit for pursuit in self._pursuits if not pursuit.running]
        if not ended or any(pursuit.done for pursuit in ended):
            return
        names = ", ".join(pursuit.step.id for pursuit in ended)
        for pursuit in self._pursuits:
            if pursuit.running:
                pursuit.give_up(f"given up because {names}, bound to it, did not go")

    def _remark(self, outcome: Outcome) -> str:
        """Return what to say about the rules when the last one ends in *outcome*."""
        outcomes = [p.record.outcome for p in self._pursuits if not p.running]
        everything = {*outcomes, outcome}
        if len(outcomes) < len(self._pursuits) - 1 or everything == {Outcome.DONE}:
            return ""
        if not everything & {Outcome.DONE, Outcome.LOST}:
            return ""
        verb = "may be" if Outcome.LOST in everything else "is"
        rules = ", ".join(str(rule) for rule in self._rules)
        return f"this rule {verb} broken now: {rules}"
