"""The command `opendrs plans`: the plans of the controller, and one in detail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click
from rich.text import Text

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import (
    TextCell,
    TextTable,
    add_row,
    console,
    create_table,
    print_json,
)
from opendrs.cli.formatting import UNKNOWN, format_duration
from opendrs.cli.mode import platform_argument
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.platform_store import open_to_read
from opendrs.controller.operator_commands import find_plan
from opendrs.controller.step_serialization import approval_document, step_document
from opendrs.controller.views.plan import PlanEstimates, plan_estimates
from opendrs.model import (
    PowerOff,
    PowerOn,
    StepId,
    format_count,
    format_timestamp,
    path_of,
)
from opendrs.policies import DecisionReason, reason_text
from opendrs.ports import PlanRecord, PlanState, StepRecord
from opendrs.store import DatabasePlanStore, History

_NO_ESTIMATES = PlanEstimates({}, {})


@click.command(name="plans")
@platform_argument
@click.argument("name", metavar="[ID]", required=False)
@click.option(
    "--state",
    "states",
    type=click.Choice([state.value for state in PlanState]),
    multiple=True,
    help="Only plans in this state; may be repeated (default: all).",
)
@config_option
@format_option
def command(
    *,
    platform: str,
    name: str | None,
    states: tuple[str, ...],
    config: Path | None,
    output_format: str,
) -> int:
    """Show the plans of the controller of PLATFORM; with ID, one plan with its steps.

    In mode advise, the controller proposes plans, and executes those that you approve
    with opendrs approve. In mode automatic it executes its plans without an approval;
    their first state is approved. In mode observe it executes none, and they are not
    listed here; opendrs history PLATFORM --plans shows them. (To plan now, without the
    controller: opendrs plan.)

    A plan expires if it is not approved and started in approval_time after the last
    decision with its steps. It is superseded if a newer decision has other steps and it
    is not valid any more: a step is not allowed any more, or it improves much less.
    Such a plan can no longer be approved.

    \b
      opendrs plans lab                       all recorded plans, the newest last
      opendrs plans lab --state proposed
      opendrs plans lab k7w2x                 its steps, with reasons and outcomes

    Exit status: 0 = done; 2 = invalid input; 3 = the database cannot be read.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    with open_to_read(platform, settings) as store:
        plans = DatabasePlanStore(store)
        if name is not None:
            plan = find_plan(plans, platform, name)
            records = store.records_of(plan.run)
            estimates = plan_estimates(plan, History(store), settings.limits)
            if output_format == JSON:
                print_json(plan_document(plan, records, estimates))
            else:
                _print_plan(platform, plan, records, estimates)
            return 0
        chosen = [PlanState(state) for state in states] or list(PlanState)
        found = plans.plans(chosen)
    if output_format == JSON:
        print_json([plan_document(plan) for plan in found])
    else:
        _print_list(platform, found)
    return 0


def plan_document(
    plan: PlanRecord,
    records: Sequence[StepRecord] = (),
    estimates: PlanEstimates = _NO_ESTIMATES,
) -> dict[str, object]:
    """Return *plan* as plain values, with the outcomes in *records*."""
    outcomes = {record.step: record for record in records}
    return {
        "id": plan.id,
        "state": plan.state,
        "detail": plan.detail,
        "run": plan.run,
        "created_at": format_timestamp(plan.created_at),
        "expires_at": format_timestamp(plan.expires_at),
        "changed_at": format_timestamp(plan.changed_at),
        "policy": plan.policy,
        "reason": plan.reason,
        "reason_detail": plan.reason_detail,
        "digest": plan.digest,
        "approval": approval_document(plan.approval),
        "estimated_seconds": estimates.total,
        "steps": [
            {
                **step_document(step),
                "outcome": None
                if step.id not in outcomes
                else outcomes[step.id].outcome,
                "estimated_start": estimates.starts.get(step.id),
                "estimated_seconds": estimates.seconds.get(step.id),
            }
            for step in plan.steps
        ],
    }


def _print_list(platform: str, plans: Sequence[PlanRecord]) -> None:
    screen = console()
    if not plans:
        screen.print(f"{platform}: no plans")
        return
    table = create_table(
        *("plan", "state", "steps", "created\n(UTC)", "policy", "detail"),
        right=["steps"],
        no_wrap=["plan", "state", "created\n(UTC)", "policy"],
    )
    for plan in plans:
        created = plan.created_at
        add_row(
            table,
            plan.id,
            plan.state,
            step_count(plan),
            TextCell(Text(f"{created:%m-%d %H:%M}"), _time_text(created)),
            plan.policy,
            "; ".join(filter(None, [plan.detail, expiry_text(plan)])),
        )
    screen.print(table)


def _print_plan(
    platform: str,
    plan: PlanRecord,
    records: Sequence[StepRecord],
    estimates: PlanEstimates,
) -> None:
    screen = console()
    detail = f": {plan.detail}" if plan.detail else ""
    screen.print(f"plan {plan.id}: {plan.state}{detail}")
    reason = reason_text(DecisionReason(plan.reason))
    screen.print(
        f"{plan.policy}: {': '.join(filter(None, [reason, plan.reason_detail]))}"
    )
    screen.print(f"created {_time_text(plan.created_at)} UTC")
    screen.print(f"estimated duration: {_duration_text(plan, estimates)}")
    if expiry := expiry_text(plan):
        screen.print(expiry)
    if plan.approval is not None:
        user = plan.approval.user or "the mode automatic"
        at = _time_text(plan.approval.at)
        chosen = chosen_steps_text(plan, plan.approval.steps)
        screen.print(f"approved by {user} at {at} UTC: {chosen}")
    if plan.state is PlanState.PROPOSED:
        screen.print(f"approve it with: opendrs approve {platform} {plan.id}")
        screen.print(
            f"reject it with: opendrs reject {platform} {plan.id} --because TEXT"
        )
    screen.print()
    screen.print(_step_table(plan, records, estimates))


def _step_table(
    plan: PlanRecord, records: Sequence[StepRecord], estimates: PlanEstimates
) -> TextTable:
    outcomes = {record.step: record for record in records}
    table = create_table(
        *("step", "action", "depends on", "estimated", "outcome", "detail"),
        no_wrap=["estimated"],
    )
    for step in plan.steps:
        add_row(
            table,
            step.id,
            _action_text(plan, step.id),
            ", ".join(step.depends_on),
            _estimate_text(step.id, estimates),
            _outcome_text(plan, step.id, outcomes.get(step.id)),
            step.detail,
        )
    return table


def _duration_text(plan: PlanRecord, estimates: PlanEstimates) -> str:
    if estimates.total is None:
        return "unknown"
    is_known = all(estimates.seconds.get(each.id) is not None for each in plan.steps)
    return f"{'' if is_known else 'at least '}{format_duration(estimates.total)}"


def _estimate_text(step: StepId, estimates: PlanEstimates) -> str:
    """Return the estimated start and end of *step*, counted from that of the plan."""
    start, seconds = estimates.starts.get(step), estimates.seconds.get(step)
    if start is None or seconds is None:
        return UNKNOWN
    begin = format_duration(start) if start else "0 s"
    return f"{begin} to {format_duration(start + seconds)}"


def step_count(plan: PlanRecord) -> str:
    """Return the number of steps of *plan*, such as `2 of 19` if 2 are approved."""
    total = len(plan.steps)
    approved = total if plan.approval is None else len(plan.approval.steps)
    return str(total) if approved == total else f"{approved} of {total}"


def chosen_steps_text(plan: PlanRecord, chosen: Sequence[StepId]) -> str:
    """Return how many steps of *plan* are *chosen*, and which if not all of them."""
    total = format_count(len(plan.steps), "step")
    names = f": {', '.join(chosen)}" if len(chosen) < len(plan.steps) else ""
    return f"{len(chosen)} of {total}{names}"


def expiry_text(plan: PlanRecord) -> str:
    """Return when *plan* expires; empty if it has ended or runs."""
    waits = plan.state in (PlanState.PROPOSED, PlanState.APPROVED)
    return f"expires {_time_text(plan.expires_at)} UTC" if waits else ""


def _outcome_text(plan: PlanRecord, step: StepId, record: StepRecord | None) -> str:
    if record is None:
        is_left_out = plan.approval is not None and step not in plan.approval.steps
        return "not approved" if is_left_out else ""
    if record.outcome is None:
        return "running"
    return ": ".join(filter(None, [record.outcome.value, record.detail]))


def _action_text(plan: PlanRecord, step: StepId) -> str:
    (action,) = (each.action for each in plan.steps if each.id == step)
    if isinstance(action, PowerOn | PowerOff):
        verb = "power on" if isinstance(action, PowerOn) else "power off"
        return f"{verb} {action.node}"
    guest, source, target = path_of(action)
    return f"{guest}: {source} → {target}"


def _time_text(time: datetime) -> str:
    return f"{time:%Y-%m-%d %H:%M:%S}"
