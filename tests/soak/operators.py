"""Operators that decide about plans, modes and hosts at random times.

They write to the store beside the controllers, as the commands do.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from datetime import timedelta

from opendrs.config.controller_settings import Mode
from opendrs.controller.drained_nodes import (
    RETURN_PREFIX,
    DrainedNode,
    GuestReturn,
    drained_nodes,
)
from opendrs.controller.modes import (
    BREAKER_KEY,
    MODE_KEY,
    PAUSE_KEY,
    RESET_KEY,
    ModeChange,
    Pause,
    with_prerequisites,
)
from opendrs.model import NodeId, time_as_text
from opendrs.ports import (
    OperatorAction,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
)
from opendrs.store import DatabasePlanStore, OperatorStore
from opendrs.store.database import DatabaseStore
from soak.cluster import Cluster
from soak.platform import FaultyPlatform

MINUTE, HOUR = 60.0, 3600.0
USER = "ada"
MODES = (Mode.OBSERVE, Mode.ADVISE, Mode.AUTOMATIC, Mode.AUTOMATIC)


class Operator:
    """An operator who acts at random times until stopped.

    Args:
        cluster: The truth.
        platform: The clock that the operator shares with the controllers.
        open_store: Opens the store beside a controller.
        draw: Draws what is done when.
        pause: Mean seconds from one command to the next.
    """

    def __init__(
        self,
        cluster: Cluster,
        platform: FaultyPlatform,
        open_store: Callable[[], AbstractContextManager[DatabaseStore]],
        draw: random.Random,
        pause: float,
    ) -> None:
        self._cluster = cluster
        self._platform = platform
        self._open_store = open_store
        self._draw = draw
        self._pause = pause
        self._is_stopped = False

    def begin(self) -> None:
        """Begin."""
        after = self._draw.expovariate(1 / self._pause)
        self._cluster.schedule(self._cluster.now + after, self._act)

    def stop(self) -> None:
        """Do nothing more."""
        self._is_stopped = True

    def _act(self) -> None:
        if self._is_stopped:
            return
        commands: Mapping[Callable[[DatabaseStore], None], int] = {
            self._approve: 8,
            self._cancel: 2,
            self._reject: 1,
            self._set_mode: 2,
            self._pause_controller: 1,
            self._resume: 2,
            self._drain: 1,
            self._undrain: 2,
            self._reset_breaker: 2,
        }
        (command,) = self._draw.choices([*commands], [*commands.values()])
        with self._open_store() as store:
            command(store)
        self.begin()

    def _approve(self, store: DatabaseStore) -> None:
        """Approve a proposed plan, or some of its steps."""
        plans = DatabasePlanStore(store)
        plan = self._plan(plans, PlanState.PROPOSED)
        now = self._platform.now()
        if plan is None or now >= plan.expires_at:
            return
        known = [step.id for step in plan.steps]
        chosen = known if self._draw.random() < 0.7 else [self._draw.choice(known)]
        steps = with_prerequisites(plan.steps, plan.groups, chosen)
        approval = PlanApproval(user=USER, at=now, steps=steps, digest=plan.digest)
        change = PlanChange(
            state=PlanState.APPROVED,
            at=now,
            approval=approval,
            action=self._action("approve", plan=plan.id),
        )
        if plans.change(plan.id, change):
            self._report("approve", plan=plan.id, steps=steps)

    def _reject(self, store: DatabaseStore) -> None:
        self._decline(store, "reject", PlanState.PROPOSED, PlanState.REJECTED)

    def _cancel(self, store: DatabaseStore) -> None:
        before = self._draw.choice([PlanState.RUNNING, PlanState.APPROVED])
        self._decline(store, "cancel", before, PlanState.CANCELLED)

    def _decline(
        self, store: DatabaseStore, command: str, before: PlanState, after: PlanState
    ) -> None:
        plans = DatabasePlanStore(store)
        plan = self._plan(plans, before)
        if plan is None:
            return
        action = self._action(command, plan=plan.id)
        change = PlanChange(state=after, at=self._platform.now(), action=action)
        if plans.change(plan.id, change):
            self._report(command, plan=plan.id)

    def _plan(self, plans: DatabasePlanStore, state: PlanState) -> PlanRecord | None:
        found = plans.plans([state])
        return self._draw.choice(found) if found else None

    def _set_mode(self, store: DatabaseStore) -> None:
        mode = self._draw.choice(MODES)
        change = ModeChange(mode=mode, user=USER, at=self._platform.now())
        self._change(store, "mode", {MODE_KEY: change.entry()}, mode=mode.value)

    def _pause_controller(self, store: DatabaseStore) -> None:
        seconds = self._draw.choice([2 * MINUTE, 20 * MINUTE])
        now = self._platform.now()
        until = now + timedelta(seconds=seconds)
        pause = Pause(until=until, because="work", user=USER, at=now)
        self._change(store, "pause", {PAUSE_KEY: pause.entry()}, seconds=seconds)

    def _resume(self, store: DatabaseStore) -> None:
        self._change(store, "resume", {PAUSE_KEY: None})

    def _drain(self, store: DatabaseStore) -> None:
        if len(drained_nodes(store)) > len(self._cluster.hosts) // 2 - 1:
            return
        host = self._draw.choice(sorted(self._cluster.hosts))
        former = {each.node: each for each in drained_nodes(store)}.get(NodeId(host))
        since = self._platform.now() if former is None else former.since
        node = DrainedNode(node=NodeId(host), since=since, user=USER)
        entries = {node.key: node.entry, f"{RETURN_PREFIX}{host}": None}
        self._change(store, "drain", entries, host=host)

    def _undrain(self, store: DatabaseStore) -> None:
        found = drained_nodes(store)
        if not found:
            return
        node = self._draw.choice(found)
        request = GuestReturn(
            node=node.node, since=node.since, requested_at=self._platform.now()
        )
        returns = request.entry if self._draw.random() < 0.5 else None
        entries = {node.key: None, request.key: returns}
        self._change(store, "undrain", entries, host=str(node.node))

    def _reset_breaker(self, store: DatabaseStore) -> None:
        reset = {"at": time_as_text(self._platform.now())}
        self._change(store, "reset", {BREAKER_KEY: None, RESET_KEY: reset})

    def _change(
        self,
        store: DatabaseStore,
        command: str,
        entries: Mapping[str, Mapping[str, object] | None],
        **facts: object,
    ) -> None:
        OperatorStore(store).change(self._action(command), entries)
        self._report(command, **facts)

    def _action(self, command: str, **arguments: object) -> OperatorAction:
        return OperatorAction(
            at=self._platform.now(), user=USER, command=command, arguments=arguments
        )

    def _report(self, command: str, **facts: object) -> None:
        self._cluster.report_event("command", command=command, **facts)
