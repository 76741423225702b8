"""opendrs agent: look after one host, and ask the controller for relief."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from opendrs.agent import (
    Agent,
    Courier,
    Notebook,
    StoppedError,
    interruptible,
    keep_on,
)
from opendrs.cli.logs import level_option, logged
from opendrs.cli.options import format_option
from opendrs.cli.signals import pulled_by_signals
from opendrs.controller import Brake
from opendrs.controller.clock import SystemClock
from opendrs.controller.exposure import log_exposures
from opendrs.controller.settings import AgentSettings, Settings, read_settings
from opendrs.controller.stores import SqliteStore
from opendrs.errors import ConfigurationError
from opendrs.platforms.connect import connect
from opendrs.platforms.file import shown_path
from opendrs.policies import Consolidate
from opendrs.ports import Platform

NOT_TAKEN = 3


@click.command(name="agent")
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option("--once", is_flag=True, help="One round, and an end.")
@level_option
@format_option
def command(*, config: Path, once: bool, level: str, form: str) -> int:
    """Look after one host, and ask the controller for relief.

    CONFIG says in its table [agent] which node this is and where the controller
    takes requests, and has one platform: this host. Each interval a sample is
    taken, the host is judged by the settings of [policy.consolidate], and the
    controller is told: that all is calm, that the host could be emptied, or who
    should leave it. Samples outlast a restart. Ctrl-C ends it.

    \b
      opendrs agent /etc/opendrs/agent.toml
      opendrs agent agent.toml --once

    Exit status: 0 stopped by the operator, 2 a mistake in CONFIG, 3 the record
    could not be kept or, with --once, the controller did not take the request.
    """  # noqa: D301 - click takes \b as: do not wrap what follows
    settings = read_settings(config)
    about = _required(settings.agent, config)
    clock, brake = SystemClock(), Brake()
    sleep = interruptible(clock, lambda: brake.stopping)
    with (
        logged(form, level),
        Courier(about, sleep) as controller,
        SqliteStore(settings.store_path(f"agent-{about.node}")) as store,
        pulled_by_signals(brake),
        suppress(StoppedError),
    ):
        log_exposures(config, settings)
        agent = Agent(
            settings=about,
            policy=_policy(settings, about),
            platform=_platform(settings, config),
            notebook=Notebook(store, about.node),
            controller=controller,
            clock=clock,
        )
        if once:
            return 0 if agent.round(about.timeout) else NOT_TAKEN
        keep_on(agent, sleep)
    return 0


def _required(agent: AgentSettings | None, config: Path) -> AgentSettings:
    if agent is None:
        raise ConfigurationError(
            f"{shown_path(config)}: agent: is missing; it says which node this is, "
            "where the controller is, and where the token"
        )
    return agent


def _platform(settings: Settings, config: Path) -> Platform:
    if len(settings.platforms) != 1:
        names = ", ".join(sorted(settings.platforms)) or "none"
        raise ConfigurationError(
            f"{shown_path(config)}: platform: expected one, this host; "
            f"there is: {names}"
        )
    (only,) = settings.platforms.values()
    return connect(only)


def _policy(settings: Settings, agent: AgentSettings) -> Consolidate:
    """Return the policy by which hosts are judged, with the agent's interval."""
    interval = {"interval": agent.interval}
    policy = settings.chosen_policy(Consolidate.name, interval)
    assert isinstance(policy, Consolidate)  # noqa: S101 - that is its name
    return policy
