"""The commands `opendrs approve`, `reject` and `cancel`: decide about a plan."""

from __future__ import annotations

from pathlib import Path

import click

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json
from opendrs.cli.mode import platform_argument
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.plans import chosen_steps_text, expiry_text, plan_document
from opendrs.cli.platform_store import cli_actor, open_plan_store, open_to_read
from opendrs.config.controller_settings import Mode
from opendrs.config.settings import Settings
from opendrs.controller import SystemClock, operator_commands
from opendrs.controller.modes import OPERATOR_ENTRIES, overall_mode
from opendrs.controller.operator_commands import find_plan
from opendrs.controller.status import is_running, recorded_process
from opendrs.ports import PlanRecord, PlanState

plan_argument = click.argument("name", metavar="ID")


@click.command(name="approve")
@platform_argument
@plan_argument
@click.option(
    "--step",
    "chosen",
    multiple=True,
    metavar="STEP",
    help="Only this step, with all that it depends on; may be repeated.",
)
@config_option
@format_option
def command(
    *,
    platform: str,
    name: str,
    chosen: tuple[str, ...],
    config: Path | None,
    output_format: str,
) -> int:
    """Approve the proposed plan ID of PLATFORM, or some of its steps.

    A running controller starts it within a second. The guard checks each step again
    before it starts, on the present state of the cluster. It rejects a step that is no
    longer possible. The steps that depend on that step are skipped, the others are
    executed, and the plan ends in the state failed. No step is added to replace the
    rejected one. An approved plan that is not started before it expires is not
    executed.

    \b
      opendrs approve lab k7w2x
      opendrs approve lab k7w2x --step 3 --step 4

    Exit status: 0 = approved; 2 = invalid input, or the plan cannot be approved any
    more; 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings, clock = load_settings(config), SystemClock()
    with open_plan_store(platform, settings) as plans:
        plan = find_plan(plans, platform, name)
        steps = operator_commands.chosen_steps(plan, chosen)
        changed = operator_commands.approve(
            plans, clock, cli_actor(), plan, chosen=chosen
        )
    text = f"plan {plan.id}: approved: {chosen_steps_text(plan, steps)}"
    if output_format != JSON:
        text += f"\n{_following_text(platform, settings, changed)}"
    _report(changed, text, output_format)
    return 0


def _following_text(platform: str, settings: Settings, plan: PlanRecord) -> str:
    """Return when the approved *plan* starts, or why it waits."""
    with open_to_read(platform, settings) as store:
        entries = store.load_all(OPERATOR_ENTRIES)
        mode = overall_mode(settings, entries, SystemClock().now())
        works = is_running(store.lease_holder(), recorded_process(store))
    if not works:
        return f"it waits, because no controller is running; {expiry_text(plan)}"
    if mode.mode is Mode.OBSERVE:
        return f"it waits: mode observe ({mode.detail}); {expiry_text(plan)}"
    return f"its progress: opendrs plans {platform} {plan.id}"


@click.command(name="reject")
@platform_argument
@plan_argument
@click.option(
    "--because", required=True, metavar="TEXT", help="Why, for the record of the plan."
)
@config_option
@format_option
def reject(
    *,
    platform: str,
    name: str,
    because: str,
    config: Path | None,
    output_format: str,
) -> int:
    """Reject the proposed plan ID of PLATFORM.

    The same steps are not proposed again before the plan would have expired. A plan
    with other steps is, even if some of them are in this plan, too: the text of
    --because is only recorded. To keep a guest where it is, add a rule (pin).

    \b
      opendrs reject lab k7w2x --because "db1 is being tested"

    Exit status: 0 = rejected; 2 = invalid input, or the plan cannot be rejected any
    more; 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    with open_plan_store(platform, load_settings(config)) as plans:
        plan = find_plan(plans, platform, name)
        changed = operator_commands.reject(
            plans, SystemClock(), cli_actor(), plan, because
        )
    _report(changed, f"plan {plan.id}: {changed.state}", output_format)
    return 0


@click.command(name="cancel")
@platform_argument
@plan_argument
@config_option
@format_option
def cancel(*, platform: str, name: str, config: Path | None, output_format: str) -> int:
    """Cancel the approved or running plan ID of PLATFORM.

    Steps that run finish; no further step starts. In mode automatic, the next cycle
    may decide on a similar plan: opendrs pause prevents that. A proposed plan is
    rejected by opendrs reject.

    \b
      opendrs cancel lab k7w2x

    Exit status: 0 = cancelled; 2 = invalid input, or the plan cannot be cancelled any
    more; 3 = the database cannot be used.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    with open_plan_store(platform, load_settings(config)) as plans:
        plan = find_plan(plans, platform, name)
        changed = operator_commands.cancel(plans, SystemClock(), cli_actor(), plan)
    text = f"plan {plan.id}: {changed.state}"
    if plan.state is PlanState.RUNNING:
        text += "; running steps finish, no further step starts"
    _report(changed, text, output_format)
    return 0


def _report(plan: PlanRecord, text: str, output_format: str) -> None:
    if output_format == JSON:
        print_json(plan_document(plan))
    else:
        console().print(text)
