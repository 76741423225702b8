"""Approvals of the plans for which a rolling maintenance waits."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.cli.console import warn
from opendrs.cli.drain_requests import controller_mode, describe_blocker
from opendrs.cli.formatting import format_duration
from opendrs.cli.platform_store import open_to_read
from opendrs.cli.platforms import ClusterSource
from opendrs.config.controller_settings import Mode
from opendrs.config.settings import Settings
from opendrs.controller.clock import POLL_INTERVAL
from opendrs.controller.modes import ModeSource
from opendrs.model import NodeId, PowerOff, PowerOn
from opendrs.policies import DecisionReason, Drain, Return
from opendrs.ports import PlanRecord, PlanState
from opendrs.store import DatabasePlanStore

SETTLE_TIME = 30.0  # seconds to wait for the records of a controller
_DECLINED = (PlanState.REJECTED, PlanState.EXPIRED, PlanState.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerWork:
    """Work of a controller on a node.

    Attributes:
        policy: Name of the policy of its plans.
        reason: Reason of its plans.
        action: The work as a phrase, such as `drain`.
    """

    policy: str
    reason: DecisionReason
    action: str


DRAIN = ControllerWork(
    policy=Drain.name, reason=DecisionReason.DRAINS_NODES, action="drain"
)
RETURN = ControllerWork(
    policy=Return.name, reason=DecisionReason.RETURNS_GUESTS, action="return guests"
)


class ApprovalWait:
    """Wait for a controller that works on a node, and for the approvals it needs.

    Args:
        source: The platform.
        settings: The configuration.
        node: The node.
        work: The work.

    Raises:
        StoreError: The store cannot be read.
    """

    def __init__(
        self,
        source: ClusterSource,
        settings: Settings,
        node: NodeId,
        work: ControllerWork,
    ) -> None:
        self._source = source
        self._settings = settings
        self._node = node
        self._work = work
        self._announced: set[str] = set()
        now = source.clock.now()
        self._former = {
            plan.id
            for plan in self._plans()
            if plan.state.is_final
            and not (plan.state is PlanState.REJECTED and now < plan.expires_at)
        }
        self._active_at = source.clock.monotonic()

    def problem(self) -> str:
        """Return why the work does not continue, or an empty text.

        A command that approves a plan is printed when the plan is proposed.

        Raises:
            StoreError: The store cannot be read.
        """
        work, name, clock = self._work, self._source.platform.name, self._source.clock
        mode = controller_mode(self._source, self._settings, work.policy, work.reason)
        if mode.mode is not Mode.ADVISE or mode.source is ModeSource.BREAKER:
            self._active_at = clock.monotonic()
            return describe_blocker(mode, name, work.action)
        plans = [plan for plan in self._plans() if plan.id not in self._former]
        latest = [plan for plan in plans if plan.created_at == plans[-1].created_at]
        now, lifetime = clock.now(), self._settings.controller.approval_time
        for plan in latest:
            if plan.state in _DECLINED:
                return f"plan {plan.id}: {plan.state}: {plan.detail}"
            if plan.state is PlanState.PROPOSED and now >= plan.expires_at:
                return f"plan {plan.id}: not approved in time"
            if plan.state is PlanState.PROPOSED and plan.id not in self._announced:
                self._announced.add(plan.id)
                warn(
                    f"{self._node}: waits for an approval: opendrs approve {name} "
                    f"{plan.id}"
                )
        if any(not plan.state.is_final for plan in latest):
            self._active_at = clock.monotonic()
        elif clock.monotonic() - self._active_at > lifetime:
            return f"no plan was proposed in {format_duration(lifetime)}"
        return ""

    def until_settled(self) -> None:
        """Wait until the controller has recorded the end of its plans.

        It waits at most `SETTLE_TIME` seconds, since the controller may have ended.

        Raises:
            StoreError: The store cannot be read.
        """
        clock = self._source.clock
        deadline = clock.monotonic() + SETTLE_TIME
        while clock.monotonic() < deadline:
            if all(plan.state is not PlanState.RUNNING for plan in self._plans()):
                return
            clock.sleep(POLL_INTERVAL)

    def _plans(self) -> list[PlanRecord]:
        """Return the plans for the work on the node, the oldest first."""
        with open_to_read(self._source.platform.name, self._settings) as store:
            plans = DatabasePlanStore(store).plans()
        return [
            plan
            for plan in plans
            if plan.policy == self._work.policy and self._concerns_node(plan)
        ]

    def _concerns_node(self, plan: PlanRecord) -> bool:
        actions = [step.action for step in plan.steps]
        return any(
            self._node == (each.source if self._work is DRAIN else each.target)
            for each in actions
            if not isinstance(each, PowerOn | PowerOff)
        )
