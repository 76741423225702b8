"""A controller whose plans an operator approves and declines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendrs.config.controller_settings import ControllerSettings, Mode
from opendrs.controller.approvals import PlanApprovals
from opendrs.controller.cycle import DecisionSource, PolicyDecisionSource
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.controller.maintenance import MaintenanceDecisionSource
from opendrs.controller.modes import MODE_KEY, ModeChange
from opendrs.model import Snapshot, StepId
from opendrs.policies import Balance, Policy
from opendrs.ports import PlanApproval, PlanChange, PlanRecord, PlanState
from opendrs.store import DatabasePlanStore, PostgresqlStore, SqliteStore
from support.builders import NOON, cluster
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster

LOPSIDED = cluster(
    nodes={"a": 0.8, "b": 0.0},
    guests={"one": ("a", 0.2), "two": ("a", 0.2), "three": ("a", 0.2)},
)
BALANCE = Balance(limits=SHORT_LIMITS)


class AdvisedController:
    """A controller, and the decisions of an operator about its plans.

    Args:
        store: What is left when a process ends.
        origin: The cluster in the beginning.
        policy: The policy.
        drains: True to drain the nodes that operators drain.
        settings: Settings of the controller.
    """

    def __init__(
        self,
        store: SqliteStore | PostgresqlStore,
        origin: Snapshot = LOPSIDED,
        policy: Policy[Any] = BALANCE,
        *,
        drains: bool = False,
        **settings: Any,  # noqa: ANN401 - those of the controller
    ) -> None:
        self.simulation = SimulatedCluster(origin)
        self.simulation.store = self.store = store
        self.plans = DatabasePlanStore(store)
        self.settings = ControllerSettings(**settings)
        self.policy = policy
        self._drains = drains
        self.alive: Callable[[], None] = lambda: None
        self.restart()

    def restart(self, approvals: PlanApprovals | None = None) -> None:
        """Let a new process take over: all that is left is the store.

        Args:
            approvals: Approvals of a new configuration; None for the same one.
        """
        simulation = self.simulation
        self.approvals = approvals or PlanApprovals(
            self.plans,
            self.store,
            simulation.clock,
            self.settings,
            simulation.cancellation,
            target="lab",
        )
        self.controller = Controller(
            LoopSettings(
                interval=300,
                batch_window=10,
                observe=simulation.platform.observe,
                require_alive=self._require_alive,
            ),
            simulation.context(),
            self._decision_source(),
            WakeupEvent(),
            self.approvals,
        )

    def _decision_source(self) -> DecisionSource:
        source = PolicyDecisionSource(self.policy, self.store)
        if not self._drains:
            return source
        return MaintenanceDecisionSource(source, self.policy, self.store)

    def _require_alive(self) -> None:
        self.alive()

    def cycle(self) -> int:
        """Run a cycle; return the number of steps that it started."""
        before = sum(self.simulation.simulated_platform.starts.values())
        self.controller.run_once()
        return sum(self.simulation.simulated_platform.starts.values()) - before

    def states(self) -> list[str]:
        return [plan.state.value for plan in self.plans.plans()]

    def last(self) -> PlanRecord:
        return self.plans.plans()[-1]

    def approve(self, plan: PlanRecord, *steps: str, digest: str = "") -> None:
        now = self.simulation.clock.now()
        approval = PlanApproval(
            user="ada",
            at=now,
            steps=tuple(map(StepId, steps)) or tuple(each.id for each in plan.steps),
            digest=digest or plan.digest,
        )
        self.decide(plan, PlanState.APPROVED, approval)

    def decide(
        self, plan: PlanRecord, state: PlanState, approval: PlanApproval | None = None
    ) -> None:
        now = self.simulation.clock.now()
        assert self.plans.change(
            plan.id, PlanChange(state=state, at=now, approval=approval)
        )

    def set_mode(self, mode: Mode) -> None:
        entry = ModeChange(mode=mode, user="ada", at=NOON).entry()
        self.store.save(MODE_KEY, entry)
