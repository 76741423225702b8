"""A cluster about which something is to be decided."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opendrs.metrics import LoadModel
from opendrs.model import Limits, Snapshot
from opendrs.optimizer import SearchKind
from opendrs.policies.optimize.budget import Budget
from opendrs.policies.optimize.encoding import EncodedCluster
from opendrs.policies.optimize.metrics import ClusterMetrics, measure_cluster
from opendrs.policies.optimize.movable_groups import MovableGroups
from opendrs.policies.optimize.objective import Goal, ObjectiveWeights
from opendrs.policies.optimize.repairs import RepairBlockers
from opendrs.rules import CompiledRules


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeContext:
    """A cluster about which something is to be decided.

    Attributes:
        snapshot: The cluster.
        rules: Its rules.
        groups: Who may be moved.
        cluster: The same as a search sees it.
        before: How it stands.
        priorities: What the plan is for, what matters most first.
        weights: What things are worth.
        budget: How much may be moved.
        min_improvement: The least part of what there is to gain.
        limits: What the operator allows.
        load_model: What counts as load.
        seed: Where the random numbers begin.
        search: Which search plans it, if it is large.
        notes: What the operator should know besides.
    """

    snapshot: Snapshot
    rules: CompiledRules
    groups: MovableGroups
    cluster: EncodedCluster
    before: ClusterMetrics
    priorities: tuple[Goal, ...]
    weights: ObjectiveWeights
    budget: Budget
    min_improvement: float
    limits: Limits
    load_model: LoadModel
    seed: int
    search: SearchKind
    notes: tuple[str, ...]

    @property
    def repairs(self) -> RepairBlockers:
        """Return what prevents the repair of rules."""
        return RepairBlockers(
            self.snapshot, self.rules, self.cluster.feasibility, self.groups.skipped
        )

    def within(self, gib: float) -> OptimizeContext:
        """Return the case with no more to transfer than *gib*.

        Who cannot be gathered for so much stays.
        """
        budget = replace(self.budget, gib=min(gib, self.budget.gib))
        groups = self.groups.within(budget.gib, budget.migrations)
        return replace(
            self,
            groups=groups,
            cluster=self.cluster.with_groups(groups.groups),
            budget=budget,
        )

    def measure(self, snapshot: Snapshot) -> ClusterMetrics:
        """Return how *snapshot* stands."""
        return measure_cluster(
            snapshot, self.load_model, self.limits, self.before.thresholds
        )
