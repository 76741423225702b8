"""Plan store in a database."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Row, delete, func, insert, select, update

from opendrs.model import (
    Plan,
    StepId,
    decoding,
    plan_as_text,
    plan_from_text,
    require_type,
    time_as_text,
    time_from_text,
    value_as_text,
    value_from_text,
)
from opendrs.ports import (
    INITIAL_STATES,
    PLAN_TRANSITIONS,
    ActionOrigin,
    OperatorAction,
    PlanApproval,
    PlanChange,
    PlanRecord,
    PlanState,
)
from opendrs.store.database import DatabaseStore, add_new
from opendrs.store.tables import OPERATOR_ACTIONS, PLANS, time_from_column

MAX_ENDED_PLANS = 1000  # plans in a final state that are kept
_DECLINING = ("reject", "cancel")
_FINAL_STATES = tuple(state for state in PlanState if state.is_final)


class DatabasePlanStore:
    """Implementation of `opendrs.ports.PlanStore` in the database of a store.

    Args:
        store: The open store.
        reader: The same store, to read with another connection; None for *store*.
    """

    def __init__(
        self, store: DatabaseStore, *, reader: DatabaseStore | None = None
    ) -> None:
        self._store = store
        self._reader = reader or store

    def add(self, plan: PlanRecord) -> bool:
        """Add *plan*; return False if its id is in use.

        Raises:
            ValueError: Its state is not initial.
        """
        if plan.state not in INITIAL_STATES:
            raise ValueError("expected a plan in an initial state")
        ended = PLANS.c.state.in_(_FINAL_STATES)
        newest = (
            select(PLANS.c.id)
            .where(ended)
            .order_by(PLANS.c.created_at.desc())
            .limit(MAX_ENDED_PLANS)
        )
        with self._store.transaction() as connection:
            connection.execute(delete(PLANS).where(ended, PLANS.c.id.not_in(newest)))
            return add_new(connection, PLANS, PLANS.c.id, _to_row(plan))

    def plan(self, name: str) -> PlanRecord | None:
        """Return the plan with the id *name*, or None."""
        found = self._reader.read(select(PLANS).where(PLANS.c.id == name), _from_row)
        return found[0] if found else None

    def plans(
        self, states: Collection[PlanState] = tuple(PlanState)
    ) -> tuple[PlanRecord, ...]:
        """Return the plans in one of *states*, the oldest first."""
        query = (
            select(PLANS)
            .where(PLANS.c.state.in_([state.value for state in states]))
            .order_by(PLANS.c.created_at, PLANS.c.id)
        )
        return self._reader.read(query, _from_row)

    def plans_of(self, runs: Collection[str]) -> tuple[PlanRecord, ...]:
        """Return the plans that the cycles *runs* decided, the oldest first."""
        query = (
            select(PLANS)
            .where(PLANS.c.run.in_(runs))
            .order_by(PLANS.c.created_at, PLANS.c.id)
        )
        return self._reader.read(query, _from_row)

    def counts(self) -> dict[PlanState, int]:
        """Return the number of plans by state, if there are any."""
        number = func.count().label("number")
        query = select(PLANS.c.state, number).group_by(PLANS.c.state)
        return dict(self._reader.read(query, _state_count))

    def declining_commands(self, after: int) -> Mapping[int, OperatorAction]:
        """Return the commands that rejected or cancelled plans, the oldest first."""
        query = (
            select(OPERATOR_ACTIONS)
            .where(
                OPERATOR_ACTIONS.c.id > after,
                OPERATOR_ACTIONS.c.command.in_(_DECLINING),
            )
            .order_by(OPERATOR_ACTIONS.c.id)
        )
        return dict(self._store.read(query, lambda row: (row.id, action_from_row(row))))

    def change(self, name: str, change: PlanChange) -> bool:
        """Change the state of the plan *name*; return False if that is not allowed."""
        with self._store.transaction() as connection:
            is_changed = _change_plan(connection, name, change)
            if is_changed and change.action is not None:
                record_action(connection, change.action)
            return is_changed

    def renew(self, name: str, lifetime: float) -> bool:
        """Set the lifetime of the plan *name*; return False if it is not proposed."""
        is_proposed = PLANS.c.state == PlanState.PROPOSED.value
        statement = update(PLANS).where(PLANS.c.id == name, is_proposed)
        with self._store.transaction() as connection:
            return connection.execute(statement.values(lifetime=lifetime)).rowcount == 1


def end_plans(
    connection: Connection,
    action: OperatorAction,
    is_ended: Callable[[PlanRecord], bool],
) -> None:
    """End the open plans that *is_ended* selects, in the transaction of *connection*.

    A running plan is cancelled: no further step starts. Others are superseded.
    """
    is_open = PLANS.c.state.not_in([state.value for state in _FINAL_STATES])
    plans = map(_from_row, connection.execute(select(PLANS).where(is_open)).all())
    for plan in filter(is_ended, plans):
        is_running = plan.state is PlanState.RUNNING
        change = PlanChange(
            state=PlanState.CANCELLED if is_running else PlanState.SUPERSEDED,
            at=action.at,
            detail=f"{action.command} by {action.user}",
        )
        _change_plan(connection, plan.id, change)


def _change_plan(connection: Connection, name: str, change: PlanChange) -> bool:
    """Change the state of a plan; return False if its present state forbids that."""
    before = [
        state.value
        for state, following in PLAN_TRANSITIONS.items()
        if change.state in following and change.only_from in {None, state}
    ]
    values: dict[str, object] = {
        "state": change.state.value,
        "changed_at": change.at,
        "detail": change.detail,
    }
    if change.approval is not None:
        values["approval"] = _approval_text(change.approval)
    statement = (
        update(PLANS)
        .where(PLANS.c.id == name, PLANS.c.state.in_(before))
        .values(values)
    )
    return connection.execute(statement).rowcount == 1


def record_action(connection: Connection, action: OperatorAction) -> None:
    """Record *action* in the transaction of *connection*."""
    row = {
        "at": action.at,
        "user": action.user,
        "command": action.command,
        "arguments": value_as_text(action.arguments),
        "origin": action.origin.value,
        "address": action.address,
        "token": action.token,
        "result": action.result,
    }
    connection.execute(insert(OPERATOR_ACTIONS).values(row))


def action_from_row(row: Row[Any]) -> OperatorAction:
    """Return the action that *row* contains.

    Raises:
        StoreError: The row is damaged.
    """
    with decoding("an action of an operator", row.id):
        optional = [row.address or "", row.token or ""]
        require_type(str, [row.user, row.command, row.result, *optional])
        return OperatorAction(
            at=time_from_column(row.at),
            user=row.user,
            command=row.command,
            arguments=value_from_text(row.arguments),
            origin=ActionOrigin(row.origin),
            address=row.address,
            token=row.token,
            result=row.result,
        )


def _state_count(row: Row[Any]) -> tuple[PlanState, int]:
    with decoding("a plan", row):
        return PlanState(row.state), row.number


def _to_row(plan: PlanRecord) -> dict[str, object]:
    return {
        "id": plan.id,
        "run": plan.run,
        "created_at": plan.created_at,
        "lifetime": plan.lifetime,
        "policy": plan.policy,
        "reason": plan.reason,
        "reason_detail": plan.reason_detail,
        "steps": plan_as_text(Plan(plan.steps)),
        "groups": value_as_text({"groups": [list(group) for group in plan.groups]}),
        "digest": plan.digest,
        "snapshot": plan.snapshot,
        "state": plan.state.value,
        "changed_at": plan.changed_at,
        "detail": plan.detail,
        "approval": None if plan.approval is None else _approval_text(plan.approval),
    }


def _from_row(row: Row[Any]) -> PlanRecord:
    with decoding("a plan", row.id):
        texts = [row.id, row.run, row.policy, row.reason, row.reason_detail]
        require_type(str, [*texts, row.digest, row.snapshot, row.detail])
        require_type(float, [row.lifetime])
        groups: Any = value_from_text(row.groups)["groups"]
        approval = None if row.approval is None else value_from_text(row.approval)
        return PlanRecord(
            id=row.id,
            run=row.run,
            created_at=time_from_column(row.created_at),
            lifetime=row.lifetime,
            policy=row.policy,
            reason=row.reason,
            reason_detail=row.reason_detail,
            steps=plan_from_text(row.steps).steps,
            groups=tuple(_step_ids(group) for group in groups),
            digest=row.digest,
            snapshot=row.snapshot,
            state=PlanState(row.state),
            changed_at=time_from_column(row.changed_at),
            detail=row.detail,
            approval=None if approval is None else _approval(approval),
        )


def _approval_text(approval: PlanApproval) -> str:
    return value_as_text(
        {
            "user": approval.user,
            "at": time_as_text(approval.at),
            "steps": list(approval.steps),
            "digest": approval.digest,
        }
    )


def _approval(value: Mapping[str, Any]) -> PlanApproval:
    require_type(str, [value["digest"], value["user"] or ""])
    return PlanApproval(
        user=value["user"],
        at=time_from_text(value["at"]),
        steps=_step_ids(value["steps"]),
        digest=value["digest"],
    )


def _step_ids(values: list[Any]) -> tuple[StepId, ...]:
    require_type(str, values)
    return tuple(StepId(value) for value in values)
