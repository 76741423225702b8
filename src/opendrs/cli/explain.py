"""The command `opendrs explain`: why this, why not that, why nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_indented, print_json
from opendrs.cli.options import (
    JSON,
    TimeParameter,
    config_option,
    format_option,
)
from opendrs.cli.platform_store import open_to_read
from opendrs.controller import Explanation, explain, explain_decision
from opendrs.controller.explanation import explained_in_plan
from opendrs.controller.planned_steps import planned_steps
from opendrs.controller.step_serialization import concerns
from opendrs.errors import ConfigurationError, DiagnosticCode, StoreError
from opendrs.escapes import repr_value
from opendrs.model import format_count, format_timestamp
from opendrs.ports import OPEN_PLAN_STATES, CycleSummary, PlanRecord
from opendrs.store import DatabasePlanStore, History


@click.command(name="explain")
@click.argument("platform", metavar="PLATFORM")
@click.argument("subject", metavar="[PLAN|STEP|GUEST|NODE]", required=False)
@click.option(
    "--at",
    type=TimeParameter(),
    metavar="TIME",
    help="The last cycle at or before TIME (default: the last cycle).",
)
@config_option
@format_option
def command(
    *,
    platform: str,
    subject: str | None,
    at: datetime | None,
    config: Path | None,
    output_format: str,
) -> None:
    """Explain a recorded decision of PLATFORM.

    Without a subject: why the last cycle planned something or nothing. A plan is named
    by its ID (opendrs plans) or its run (opendrs history). A step is one of the last
    cycle. For a guest: why it is moved or not, which rules bind it, and how many nodes
    are feasible. For a node: which guests leave and arrive.

    With [[schedule]], the last cycle may be that of another policy than the plan that
    you look for. Without --at, the answer is therefore followed by the plans that are
    proposed, approved or running, and their steps for the guest or node.

    \b
      opendrs explain lab
      opendrs explain lab vm7
      opendrs explain lab k7w2x
      opendrs explain lab pve2 --at 2026-11-22T09:30
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    with open_to_read(platform, load_settings(config)) as store:
        history = History(store)
        plans = DatabasePlanStore(store)
        plan = None if subject is None else plans.plan(subject)
        subject = subject if plan is None else plan.run
        cycle = _cycle(history, subject, at)
        if cycle is None:
            raise ConfigurationError(
                f"{platform}: expected a recorded cycle, got none",
                code=DiagnosticCode.UNKNOWN_NAME,
            )
        found = _explanation(history, cycle, subject)
        is_named = at is not None or subject == cycle.run
        waiting = () if is_named else plans.plans(OPEN_PLAN_STATES)
        records = [each for plan in waiting for each in history.records_of(plan.run)]
    found = explained_in_plan(found, list(planned_steps(waiting, records)))
    chosen = _steps_by_plan(waiting, subject)
    if output_format == JSON:
        head = {"run": cycle.run, "decided_at": format_timestamp(cycle.decided_at)}
        print_json({**head, **asdict(found), "open_plans": _plan_documents(chosen)})
        return
    screen = console()
    screen.print(found.answer, markup=False)
    for each, steps in chosen:
        screen.print(_plan_line(platform, each, steps), markup=False)
    screen.print(
        f"\ncycle of {cycle.decided_at:%Y-%m-%d %H:%M:%S} UTC ({cycle.run})",
        markup=False,
    )
    for line in found.details:
        print_indented(screen, line)


def _steps_by_plan(
    plans: Sequence[PlanRecord], subject: str | None
) -> list[tuple[PlanRecord, list[str]]]:
    """Return the plans with steps for the guest or node *subject*; all without one."""
    found = []
    for plan in plans:
        steps = [
            str(step.id)
            for step in plan.steps
            if subject is None or concerns(step.action, subject)
        ]
        if steps:
            found.append((plan, steps))
    return found


def _plan_documents(
    chosen: Sequence[tuple[PlanRecord, list[str]]],
) -> list[dict[str, object]]:
    return [
        {"id": plan.id, "state": plan.state, "policy": plan.policy, "steps": steps}
        for plan, steps in chosen
    ]


def _plan_line(platform: str, plan: PlanRecord, steps: Sequence[str]) -> str:
    chosen = format_count(len(plan.steps), "step")
    if len(steps) < len(plan.steps):
        chosen = f"{format_count(len(steps), 'step')} of {len(plan.steps)}: "
        chosen += ", ".join(steps)
    return (
        f"plan {plan.id} ({plan.state}, {plan.policy}): {chosen}; "
        f"see opendrs plans {platform} {plan.id}"
    )


def _cycle(
    history: History, subject: str | None, at: datetime | None
) -> CycleSummary | None:
    """Return the cycle that *subject* names, or else the last one."""
    named = None if subject is None else history.cycle_of(subject)
    return named or history.newest(at)


def _explanation(
    history: History, cycle: CycleSummary, subject: str | None
) -> Explanation:
    if subject in (None, cycle.run):
        decision = history.decision(cycle)
        if not decision:
            raise StoreError(f"store: cycle {cycle.run}: has no decision")
        return explain_decision(cycle.run, decision)
    record = history.record(cycle)
    if record is None:
        raise ConfigurationError(
            f"--at: expected a cycle that has kept its inputs, got {cycle.run}",
            code=DiagnosticCode.INCONSISTENT,
        )
    found = explain(record, subject)
    if found is None:
        raise ConfigurationError(
            f"expected a guest, a node, a step or a plan, got {repr_value(subject)}",
            code=DiagnosticCode.UNKNOWN_NAME,
        )
    return found
