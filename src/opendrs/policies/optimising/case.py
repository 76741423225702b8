"""A cluster about which something is to be decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opendrs.model import Limits, Snapshot
from opendrs.policies.optimising.budget import Budget
from opendrs.policies.optimising.parties import Parties
from opendrs.policies.optimising.repairs import Repairs
from opendrs.policies.optimising.scene import Scene
from opendrs.policies.optimising.searches import SearchKind
from opendrs.policies.optimising.standing import Standing, standing
from opendrs.policies.optimising.worth import Goal, Worth
from opendrs.rules import CompiledRules
from opendrs.scoring import UsageMode


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A cluster about which something is to be decided.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        parties: Who may be moved.
        scene: The same as a search sees it.
        before: How it stands.
        priorities: What the plan is for, what matters most first.
        worth: What things are worth.
        budget: How much may be moved.
        margin: The least part of what there is to gain.
        limits: What the operator allows.
        mode: What counts as load.
        seed: Where the random numbers begin.
        search: Which search plans it, if it is large.
        notes: What the operator should know besides.
    """

    snapshot: Snapshot
    rules: CompiledRules
    parties: Parties
    scene: Scene
    before: Standing
    priorities: tuple[Goal, ...]
    worth: Worth
    budget: Budget
    margin: float
    limits: Limits
    mode: UsageMode
    seed: int
    search: SearchKind
    notes: tuple[str, ...]

    @property
    def repairs(self) -> Repairs:
        """Return what prevents the repair of rules."""
        return Repairs(
            self.snapshot, self.rules, self.scene.targets, self.parties.left_alone
        )

    def within(self, gib: float) -> Case:
        """Return the case with no more to transfer than *gib*.

        Who cannot be gathered for so much stays.
        """
        budget = replace(self.budget, gib=min(gib, self.budget.gib))
        who = self.parties.within(budget.gib, budget.moves)
        return replace(
            self, parties=who, scene=self.scene.of_parties(who.all), budget=budget
        )

    def standing(self, snapshot: Snapshot) -> Standing:
        """Return how *snapshot* stands."""
        return standing(snapshot, self.mode, self.limits, self.before.calm)
