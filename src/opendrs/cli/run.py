"""The command `opendrs run`: run the controller until stopped."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path

import click

from opendrs.cli.apply_cycle import exit_status
from opendrs.cli.configuration import load_settings, only_platform
from opendrs.cli.file_permissions import log_exposures
from opendrs.cli.logs import level_option, log_format_option, log_to_stderr
from opendrs.cli.monitors import monitor_controller
from opendrs.cli.reload import ConfigurationReloader
from opendrs.cli.sources import open_source, require_writable
from opendrs.cli.wiring import ControllerFactory, cancel_on_signals
from opendrs.controller import CancellationToken
from opendrs.controller.repair_advice import repair_command


@click.command(name="run")
@click.argument("config", type=click.Path(path_type=Path), metavar="CONFIG")
@click.option(
    "--platform",
    metavar="NAME",
    help="The platform, if CONFIG has several; demo for a simulated one.",
)
@click.option("--once", is_flag=True, help="Run one cycle and exit.")
@click.option(
    "--no-serve",
    is_flag=True,
    help="Do not start opendrs serve (the dashboard and the HTTP API).",
)
@level_option
@log_format_option
def command(  # noqa: PLR0913 - one parameter for each option
    *,
    config: Path,
    platform: str | None,
    once: bool,
    no_serve: bool,
    level: str,
    output_format: str,
) -> int:
    """Run the controller until stopped: plan and migrate in cycles.

    In each cycle ([controller] interval, default 300 seconds) the controller observes
    the cluster and decides with the policy. No cycle begins while steps are running.
    What it does with the plan depends on the
    mode: observe (the default) only records it, advise executes it after opendrs
    approve, automatic executes it at once. The command opendrs mode shows and changes
    the mode (not with --platform demo). The command opendrs pause cancels the running
    plan, whose migrations in progress finish; then no steps start until the given time,
    or until opendrs resume.

    With [[schedule]], several policies run, each in its time windows: for example
    balance by day and consolidate by night. One cycle runs at a time. Outside of all
    windows, no policy runs.

    With the section [api] it also accepts requests of host agents (opendrs agent) to
    relieve or drain their hosts. Requests that arrive together share one plan.

    It starts opendrs serve, which serves the dashboard and the HTTP API at the address
    [web] listen (default http://127.0.0.1:8470). It does not start it with --once, with
    --no-serve, for the simulated cluster demo, or if [web] start is false. Tokens for
    both are created by opendrs access.

    It logs to standard error, one line for each event. The line of a started step
    repeats the reason from the plan, so its values are expected, not measured. In "from
    node1 (mean load 64%) to node7 (11%): imbalance (CV) 0.95 → 0.85", the loads and the
    first imbalance are those expected before this step, after all steps with lower
    numbers. The second imbalance is the one expected after this step. Where the reason
    says "counting only this step", its values assume that no other step is executed.
    Decisions and violations of strict rules are logged only when they change. --level
    debug logs the decision of every cycle.

    At startup it warns about key, token, password and database files that other
    users can read or change.

    After Ctrl-C or SIGTERM no further step starts, and running migrations finish; a
    second signal aborts them. After a crash, the next run first determines the
    outcome of the steps that were in progress.

    On SIGHUP, the controller reads the configuration again between two cycles. If the
    file has an error, or changes the sections [store], [api], [metrics],
    [[notifications]], [web] or that of the platform, the controller logs the reason and
    keeps its former configuration. Changes of these sections require a restart. If the
    file has the section [api], changes of [controller] also require a restart. If
    standard input is a terminal, SIGHUP means that the terminal was closed, and stops
    the controller instead.

    Several controllers can use one PostgreSQL database ([store] url). One of them is
    active. If it ends or stops responding, another one takes over.

    \b
      opendrs run /etc/opendrs/opendrs.toml
      opendrs run opendrs.toml --platform lab --format json
      opendrs run opendrs.toml --platform demo   on the simulated cluster
      opendrs run opendrs.toml --once            one cycle, for cron
      opendrs mode lab automatic                 let the controller execute its plans

    Exit status: 0 = stopped; 2 = invalid input; 3 = the platform denied permission, or
    the database cannot be written. With --once: the exit status of apply (0 = done; 1 =
    steps rejected or skipped; 3 = steps failed).
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    name = platform or only_platform(settings, config)
    with log_to_stderr(output_format, level), ExitStack() as stack:
        log_exposures(config, settings)
        cancellation = CancellationToken()
        stack.enter_context(cancel_on_signals(cancellation))
        source = open_source(name, settings, pace=0.0 if once else 1.0)
        require_writable(source.platform)
        serves = settings.web.start and source.is_persistent and not (once or no_serve)
        observers = stack.enter_context(
            monitor_controller(
                settings,
                source,
                cancellation,
                serving=not once,
                serve_words=[
                    *("serve", str(config), "--platform", name),
                    *("--level", level, "--format", output_format),
                ]
                if serves
                else (),
            )
        )
        parts = ControllerFactory(settings, source, cancellation, stack, observers)
        reloader = ConfigurationReloader(config, settings, parts.reconfigure)
        if not sys.stdin.isatty():
            stack.enter_context(reloader.on_signal())
        if not parts.acquire_store():
            return 0
        stack.callback(observers.loop_polled)  # records the last events
        repair = repair_command(["apply", name], config, settings)
        controller = parts.create(
            serving=not once,
            repair_command=repair,
            config=config,
            reconfigure=reloader.reconfigure,
        )
        if once:
            return exit_status(controller.run_once(), cancellation)
        controller.run_forever()
    return 0
