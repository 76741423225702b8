"""The command `opendrs agent`: run the agent of one host."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import click

from opendrs.agent import (
    AgentStateFile,
    ControllerClient,
    HostAgent,
    StoppedError,
    interruptible_sleep,
    run_forever,
)
from opendrs.cli.configuration import load_settings
from opendrs.cli.file_permissions import log_exposures
from opendrs.cli.logs import level_option, log_format_option, log_to_stderr
from opendrs.cli.platforms import connect_platform
from opendrs.cli.wiring import cancel_on_signals
from opendrs.config import display_path
from opendrs.config.settings import AgentSettings, Settings
from opendrs.controller import CancellationToken, SystemClock
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.policies.consolidation import Consolidate
from opendrs.ports import Platform
from opendrs.store import SqliteStore

REQUEST_REJECTED = 3


@click.command(name="agent")
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option("--once", is_flag=True, help="Run one cycle and exit.")
@level_option
@log_format_option
def command(*, config: Path, once: bool, level: str, output_format: str) -> int:
    """Run the agent of one host.

    CONFIG names the node and the controller in its section [agent], and has exactly
    one platform: this host. In each interval the agent samples the load and judges it
    with the settings of [policy.consolidate]. It sends the controller a request with
    the load state of the host: normal, underloaded (the host can be drained), or
    overloaded, with the guests to evict. Samples survive a restart. Ctrl-C stops the
    agent.

    \b
      opendrs agent /etc/opendrs/agent.toml
      opendrs agent agent.toml --once

    Exit status: 0 = stopped by the operator; 2 = an error in CONFIG; 3 = the database
    cannot be written or, with --once, the controller did not accept the request.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    about = _require_agent_settings(settings.agent, config)
    clock, cancellation = SystemClock(), CancellationToken()
    sleep = interruptible_sleep(clock, lambda: cancellation.stop_requested)
    with (
        log_to_stderr(output_format, level),
        ControllerClient(about, sleep) as controller,
        SqliteStore(_store_path(settings, about.node)) as store,
        cancel_on_signals(cancellation),
        suppress(StoppedError),
    ):
        log_exposures(config, settings)
        agent = HostAgent(
            settings=about,
            policy=_agent_policy(settings, about),
            platform=_agent_platform(settings, config),
            state_file=AgentStateFile(store, about.node),
            controller=controller,
            clock=clock,
        )
        if once:
            return 0 if agent.run_cycle(about.timeout) else REQUEST_REJECTED
        run_forever(agent, sleep)
    return 0


def _require_agent_settings(agent: AgentSettings | None, config: Path) -> AgentSettings:
    if agent is None:
        raise ConfigurationError(
            f"{display_path(config)}: agent: section missing; set node, controller and "
            "token_file",
            code=DiagnosticCode.MISSING_KEY,
        )
    return agent


def _agent_platform(settings: Settings, config: Path) -> Platform:
    if len(settings.platforms) != 1:
        names = ", ".join(sorted(settings.platforms)) or "none"
        raise ConfigurationError(
            f"{display_path(config)}: platform: expected one (this host), got "
            f"{len(settings.platforms)}: {names}",
            code=DiagnosticCode.INCONSISTENT,
        )
    (only,) = settings.platforms.values()
    return connect_platform(only)


def _agent_policy(settings: Settings, agent: AgentSettings) -> Consolidate:
    """Return the policy that judges the load of the host, with the agent's interval."""
    interval = {"interval": agent.interval}
    policy = settings.load_policy(Consolidate.name, interval)
    assert isinstance(policy, Consolidate)  # noqa: S101 - for the type checker
    return policy


def _store_path(settings: Settings, node: str) -> Path:
    """Return the path of the state file of the agent on *node*.

    Raises:
        ConfigurationError: The store is a database.
    """
    path = settings.store_path(f"agent-{node}")
    if path is None:
        raise ConfigurationError(
            "[store] url: an agent keeps its state in a file; set path"
        )
    return path
