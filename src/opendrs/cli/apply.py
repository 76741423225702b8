"""opendrs apply: plan, ask, and do it step by step."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from opendrs.cli.anytime import chosen_policy
from opendrs.cli.audience import JsonAudience, ScreenAudience
from opendrs.cli.options import (
    JSON,
    all_option,
    budget_option,
    config_option,
    format_option,
    policy_option,
    set_option,
    source_argument,
    time_option,
)
from opendrs.cli.performance import Task, perform
from opendrs.cli.repair import repair_command
from opendrs.cli.sources import (
    load_settings,
    open_source,
    pace_for,
    record_of,
    require_changeable,
)
from opendrs.errors import ConfigurationError


@click.command(name="apply")
@source_argument
@click.option("--yes", is_flag=True, help="Do not ask before acting.")
@policy_option
@set_option
@budget_option
@time_option
@all_option
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    source: str,
    yes: bool,
    policy: str | None,
    assignments: tuple[str, ...],
    budget: str | None,
    seconds: float | None,
    everything: bool,
    config: Path | None,
    form: str,
) -> int:
    """Plan, ask, and do it step by step.

    Shows the plan as plan does, and its summary once more before the question. Each
    step is judged once more on a fresh look at the cluster before it starts. After
    Ctrl-C no step starts and running migrations finish; Ctrl-C again aborts them.
    When this process is killed, the next apply first follows what it had
    started.

    \b
      opendrs apply lab
      opendrs apply lab --yes --set moves=5
      opendrs apply lab --policy optimize --budget '500 GiB' --time 20
      opendrs apply lab --yes --format json      records of what was done

    Exit status: 0 all done or nothing to do, 1 some was refused, skipped or
    declined, 3 some failed.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = load_settings(config)
    chosen = chosen_policy(settings, policy, assignments, budget, seconds)
    opened = open_source(source, settings, pace=pace_for(form))
    require_changeable(opened.platform)
    _require_an_answer(yes=yes, form=form)
    with record_of(opened, settings) as store:
        task = Task(source=opened, policy=chosen, store=store, seconds=seconds)
        repair = repair_command(["plan", source], config, settings)
        screen = ScreenAudience(repair, everything=everything)

        def consent() -> bool:
            return yes or _ask(screen)

        return perform(task, JsonAudience(repair) if form == JSON else screen, consent)


def _require_an_answer(*, yes: bool, form: str) -> None:
    if not yes and form == JSON:
        raise ConfigurationError("apply --format json cannot ask; add --yes")
    if not yes and not sys.stdin.isatty():
        raise ConfigurationError(
            "apply asks before it acts, and there is no terminal to ask on; add --yes"
        )


def _ask(screen: ScreenAudience) -> bool:
    screen.repeat_summary()
    click.echo()
    if click.confirm("Do this?", default=False):
        return True
    click.echo("Nothing was started.")
    return False
