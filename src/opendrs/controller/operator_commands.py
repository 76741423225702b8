"""Commands of operators: mode, pause, circuit breakers, drains, decisions about plans.

The command line and the HTTP API use the same functions, so that the same rules hold
and the audit has the same form. Each command is one transaction with its audit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from opendrs.config.controller_settings import Mode
from opendrs.controller.drained_nodes import RETURN_PREFIX, DrainedNode, GuestReturn
from opendrs.controller.modes import (
    API_BREAKER_KEY,
    BREAKER_KEY,
    MODE_KEY,
    PAUSE_KEY,
    RESET_KEY,
    ModeChange,
    Pause,
    with_prerequisites,
)
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import (
    NodeId,
    PowerOff,
    PowerOn,
    StepId,
    format_timestamp,
    time_as_text,
)
from opendrs.policies import DRAIN
from opendrs.ports import (
    ActionOrigin,
    Clock,
    OperatorAction,
    OperatorRecord,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
    PlanStore,
)

MAX_PAUSE = 366 * 86_400  # seconds


class UnknownPlanError(ConfigurationError):
    """Reference to a plan that does not exist."""

    code = DiagnosticCode.UNKNOWN_NAME


class PlanConflictError(ConfigurationError):
    """Command that the state of a plan does not allow."""

    code = DiagnosticCode.INCONSISTENT


class PlanChangedError(PlanConflictError):
    """Decision about a plan with other steps than those that were shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The user that runs a command, and the place that it comes from.

    Attributes:
        user: User of the machine, or name of the token.
        origin: Where the command comes from.
        address: Network address of the client of the API; None without one.
        token: Id of the token of the API; None without one.
    """

    user: str
    origin: ActionOrigin = ActionOrigin.CLI
    address: str | None = None
    token: str | None = None

    def action(
        self, clock: Clock, command: str, arguments: Mapping[str, object]
    ) -> OperatorAction:
        """Return the record of *command* at the present time."""
        return OperatorAction(
            at=clock.now(),
            user=self.user,
            command=command,
            arguments=arguments,
            origin=self.origin,
            address=self.address,
            token=self.token,
        )


def set_mode(record: OperatorRecord, clock: Clock, actor: Actor, mode: Mode) -> None:
    """Set the mode, which replaces the configured one.

    Raises:
        StoreError: The store cannot be written.
    """
    action = actor.action(clock, "mode", {"mode": mode.value})
    change = ModeChange(mode=mode, user=action.user, at=action.at)
    record.change(action, {MODE_KEY: change.entry()})


def pause(
    record: OperatorRecord, clock: Clock, actor: Actor, until: datetime, because: str
) -> None:
    """Pause the controller *until* a time.

    Raises:
        StoreError: The store cannot be written.
    """
    values = {"until": format_timestamp(until), "because": because}
    action = actor.action(clock, "pause", values)
    paused = Pause(until=until, because=because, user=action.user, at=action.at)
    record.change(action, {PAUSE_KEY: paused.entry()})


def pause_end(
    now: datetime, duration: float | None, until: datetime | None
) -> datetime | None:
    """Return the end of a pause; None if it is not in the next `MAX_PAUSE` seconds.

    Args:
        now: The time.
        duration: Seconds; None if *until* is given.
        until: The end; None if *duration* is given.
    """
    if duration is not None and duration > MAX_PAUSE:
        return None
    end = now + timedelta(seconds=duration or 0) if until is None else until
    return end if now < end <= now + timedelta(seconds=MAX_PAUSE) else None


def resume(record: OperatorRecord, clock: Clock, actor: Actor) -> None:
    """End the pause; without one, nothing changes.

    Raises:
        StoreError: The store cannot be written.
    """
    record.change(actor.action(clock, "resume", {}), {PAUSE_KEY: None})


def reset_breakers(
    record: OperatorRecord, clock: Clock, actor: Actor, because: str
) -> None:
    """Close both circuit breakers.

    Raises:
        StoreError: The store cannot be written.
    """
    action = actor.action(clock, "breaker --reset", {"because": because})
    entries: dict[str, Mapping[str, object] | None] = {
        BREAKER_KEY: None,
        API_BREAKER_KEY: None,
        RESET_KEY: {"at": time_as_text(action.at)},
    }
    record.change(action, entries)


def start_drain(  # noqa: PLR0913, PLR0917 - who drains what, and why
    record: OperatorRecord,
    clock: Clock,
    actor: Actor,
    node: NodeId,
    because: str,
    drained: Collection[DrainedNode],
) -> None:
    """Record that *node* is drained, from now or since an earlier command.

    Args:
        record: The state of operators.
        clock: The time.
        actor: Who drains.
        node: The node.
        because: The reason; empty to keep the one of an earlier command.
        drained: The nodes that are drained now.

    Raises:
        StoreError: The store cannot be written.
    """
    former = next((each for each in drained if each.node == node), None)
    action = actor.action(clock, "drain", {"node": node, "because": because})
    request = DrainedNode(
        node=node,
        since=action.at if former is None else former.since,
        user=action.user,
        because=because or ("" if former is None else former.because),
    )
    record.change(action, {request.key: request.entry, f"{RETURN_PREFIX}{node}": None})


def end_drain(
    record: OperatorRecord,
    clock: Clock,
    actor: Actor,
    drained: DrainedNode,
    *,
    bring_back: bool,
) -> None:
    """Record that *drained* may receive guests, and whether its guests return.

    Open plans that drain it end. A plan for several nodes is decided again for the
    others.

    Raises:
        StoreError: The store cannot be written.
    """
    arguments = {"node": drained.node, "bring_back": bring_back}
    action = actor.action(clock, "undrain", arguments)
    request = GuestReturn(
        node=drained.node, since=drained.since, requested_at=action.at
    )
    entries = {drained.key: None, request.key: request.entry if bring_back else None}
    record.change(action, entries, lambda plan: _drains(plan, drained.node))


def _drains(plan: PlanRecord, node: NodeId) -> bool:
    """Return True if *plan* is a drain that migrates guests from *node*."""
    return plan.policy == DRAIN and any(
        not isinstance(step.action, PowerOn | PowerOff) and step.action.source == node
        for step in plan.steps
    )


def find_plan(plans: PlanStore, platform: str, name: str) -> PlanRecord:
    """Return the plan with the id *name*.

    Raises:
        UnknownPlanError: There is none.
    """
    plan = plans.plan(name)
    if plan is None:
        raise UnknownPlanError(
            f"{platform}: no plan {repr_value(name)}; the command plans lists them"
        )
    return plan


def chosen_steps(plan: PlanRecord, chosen: Sequence[str]) -> tuple[StepId, ...]:
    """Return the *chosen* steps with their prerequisites; all steps without a choice.

    Raises:
        ConfigurationError: The plan has no such step.
    """
    known = [step.id for step in plan.steps]
    for step in chosen:
        if step not in known:
            raise ConfigurationError(
                f"--step {step}: plan {plan.id} has the steps {', '.join(known)}",
                code=DiagnosticCode.UNKNOWN_NAME,
            )
    return with_prerequisites(
        plan.steps, plan.groups, [StepId(step) for step in chosen] or known
    )


def approve(
    plans: PlanStore,
    clock: Clock,
    actor: Actor,
    plan: PlanRecord,
    *,
    chosen: Sequence[str] = (),
) -> PlanRecord:
    """Approve *plan*, or the *chosen* steps with their prerequisites.

    Args:
        plans: The plans.
        clock: The time.
        actor: Who approves.
        plan: The plan, as it was read.
        chosen: Ids of steps; empty for all.

    Returns:
        The plan after the approval.

    Raises:
        PlanConflictError: The state does not allow it, or the plan has expired.
        ConfigurationError: The plan has no such step.
        StoreError: The store cannot be written.
    """
    steps = chosen_steps(plan, chosen)
    arguments = {"plan": plan.id, "steps": list(steps), "digest": plan.digest}
    action = actor.action(clock, "approve", arguments)
    if plan.state is PlanState.PROPOSED and action.at >= plan.expires_at:
        raise _conflict(plan, "approve", "it has expired")
    change = PlanChange(
        state=PlanState.APPROVED,
        at=action.at,
        detail=f"approved by {action.user}",
        approval=PlanApproval(
            user=action.user, at=action.at, steps=steps, digest=plan.digest
        ),
        action=action,
    )
    return _change(plans, plan, change, "approve")


def reject(
    plans: PlanStore, clock: Clock, actor: Actor, plan: PlanRecord, because: str
) -> PlanRecord:
    """Reject the proposed *plan*, and return it after that.

    Raises:
        PlanConflictError: The state does not allow it.
        StoreError: The store cannot be written.
    """
    arguments = {"because": because}
    return _end(plans, clock, actor, plan, PlanState.REJECTED, arguments)


def cancel(
    plans: PlanStore, clock: Clock, actor: Actor, plan: PlanRecord, because: str = ""
) -> PlanRecord:
    """Cancel the approved or running *plan*, and return it after that.

    Raises:
        PlanConflictError: The state does not allow it.
        StoreError: The store cannot be written.
    """
    arguments = {"because": because} if because else {}
    return _end(plans, clock, actor, plan, PlanState.CANCELLED, arguments)


def _end(  # noqa: PLR0913, PLR0917 - what the two commands have in common
    plans: PlanStore,
    clock: Clock,
    actor: Actor,
    plan: PlanRecord,
    state: PlanState,
    arguments: Mapping[str, str],
) -> PlanRecord:
    command = "reject" if state is PlanState.REJECTED else "cancel"
    action = actor.action(clock, command, {"plan": plan.id, **arguments})
    reason = "".join(f": {each}" for each in arguments.values())
    detail = f"{state} by {action.user}{reason}"
    change = PlanChange(state=state, at=action.at, detail=detail, action=action)
    return _change(plans, plan, change, command)


def _change(
    plans: PlanStore, plan: PlanRecord, change: PlanChange, command: str
) -> PlanRecord:
    """Change the state of *plan*; return it after that.

    Raises:
        PlanConflictError: Its present state does not allow it.
    """
    is_changed = plans.change(plan.id, change)
    now = plans.plan(plan.id) or plan
    if not is_changed:
        raise _conflict(now, command)
    return now


def _conflict(plan: PlanRecord, command: str, because: str = "") -> PlanConflictError:
    """Return the error that the state of *plan* does not allow *command*."""
    detail = f" ({plan.detail})" if plan.detail else ""
    other = {
        ("cancel", PlanState.PROPOSED): "; reject it instead",
        ("reject", PlanState.APPROVED): "; cancel it instead",
        ("reject", PlanState.RUNNING): "; cancel it instead",
    }.get((command, plan.state), "")
    return PlanConflictError(
        f"plan {plan.id}: cannot {command} it: "
        f"{because or f'it is {plan.state}{detail}{other}'}"
    )
