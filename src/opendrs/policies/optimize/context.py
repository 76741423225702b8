"""Decision context: the cluster and the settings of one decision."""

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
    """Cluster and settings of one decision.

    Attributes:
        snapshot: Cluster, with demanded cores.
        rules: Compiled rules.
        groups: Move groups that may migrate.
        cluster: The same as arrays.
        before: Metrics of the cluster.
        priorities: Goals, the most important first.
        weights: Weights of the objective.
        budget: Budget of the plan.
        min_improvement: Least relative improvement of balance and contention.
        limits: Limits of the operator.
        load_model: Load that counts.
        seed: Seed of the random numbers.
        search: Search for large clusters.
        notes: Notes for the operator.
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
        """Explanations of what prevents the repair of rules."""
        return RepairBlockers(
            self.snapshot, self.rules, self.cluster.feasibility, self.groups.skipped
        )

    def within(self, gib: float) -> OptimizeContext:
        """Return the context with a budget of at most *gib* GiB.

        Groups that cannot be gathered within it stay.
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
        """Return the metrics of *snapshot*."""
        return measure_cluster(
            snapshot, self.load_model, self.limits, self.before.thresholds
        )
