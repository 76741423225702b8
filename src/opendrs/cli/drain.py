"""The command `opendrs drain`: empty a node, and keep it empty."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from opendrs.cli.apply_cycle import FAILURE, INCOMPLETE
from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json, printable, warn
from opendrs.cli.controller_policies import configured_policy
from opendrs.cli.drain_requests import (
    drain_blocker,
    preview_drain,
    read_drained_nodes,
    start_drain,
    wait_until_drained,
)
from opendrs.cli.drain_tables import (
    DrainPreview,
    drained_documents,
    preview_document,
    print_drained,
    print_preview,
    print_remaining,
    remaining_documents,
)
from opendrs.cli.maintenance_cycles import (
    MaintenanceResult,
    MaintenanceTask,
    run_maintenance,
)
from opendrs.cli.options import (
    JSON,
    QuantityRange,
    config_option,
    format_option,
)
from opendrs.cli.output import record_document
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.rolling import RollingTask, read_rolling
from opendrs.cli.rolling_command import (
    RollingRequest,
    roll,
    rolling_document,
    rolling_text,
)
from opendrs.cli.sources import observe, open_source, require_writable
from opendrs.config.settings import Settings
from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.model import TIME, NodeId
from opendrs.policies import guests_on
from opendrs.ports import Outcome

_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


@click.command(name="drain")
@click.argument("platform", metavar="PLATFORM")
@click.argument("node", metavar="[NODE]", required=False)
@click.option("--because", default="", metavar="TEXT", help="Reason, for the record.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--wait",
    is_flag=True,
    help="If a controller runs for the platform: wait until it has emptied the node.",
)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(["updates"]),
    help="Rolling maintenance, one node after the other: drain it, run the hook, "
    "undrain it.",
)
@click.option(
    "--nodes", metavar="A,B", help="With --for: only these nodes, in this order."
)
@click.option(
    "--hook",
    metavar="COMMAND",
    help="With --for: command that updates an empty node, such as a script that "
    "installs packages and reboots it. It runs without a shell, on the machine on "
    "which opendrs drain runs, not on the node. The name of the node is added as the "
    "last argument.",
)
@click.option(
    "--hook-timeout",
    type=QuantityRange(TIME, 1, 86400),
    default=3600.0,
    metavar="SECONDS",
    help="With --for: duration after which the hook is killed (default 1 h).",
)
@click.option(
    "--online-timeout",
    type=QuantityRange(TIME, 1, 86400),
    default=1800.0,
    metavar="SECONDS",
    help="With --for: how long to wait after the hook until the node is online "
    "(default 30 min).",
)
@click.option(
    "--discard",
    is_flag=True,
    help="With --for: end a rolling maintenance that has stopped, instead of "
    "continuing it. Its current node stays drained until undrain.",
)
@config_option
@format_option
def command(  # noqa: PLR0913 - one for each option
    *,
    platform: str,
    node: str | None,
    because: str,
    yes: bool,
    wait: bool,
    purpose: str | None,
    nodes: str | None,
    hook: str | None,
    hook_timeout: float,
    online_timeout: float,
    discard: bool,
    config: Path | None,
    output_format: str,
) -> int:
    """Move all guests off a node, and keep it empty until undrain.

    Shows the plan first: the guests and their targets, the load of the targets
    afterwards, and the guests that cannot leave, each with the reason and what would
    make it possible. Then it asks for confirmation.

    Running virtual machines migrate live. Containers restart on their target where the
    platform allows it. Stopped guests are moved without being started. All strict
    rules and all limits hold, but guests that were migrated or started a short time
    ago leave the node as well. The node stays drained until undrain, also after a
    restart of the node or of the controller.

    If no controller runs for the platform, this command migrates the guests. Otherwise
    the controller does: at once in mode automatic, after opendrs approve in mode
    advise, and not at all in mode observe.

    Without NODE, lists the nodes that are drained or in maintenance on the platform.

    With --for updates (rolling maintenance), the command handles one node after the
    other: it drains the node, runs the hook that updates it, waits until the node is
    online, undrains it, and brings its guests back. Before the first drain, it checks
    for each node that the others can take its guests. If something fails, it stops
    with the reason. Correct the cause and run the same command again to continue. If
    the hook had failed, or opendrs drain was killed while the hook ran, the hook runs
    again for that node. The database contains the first word of the hook (the name or
    path of its program) and a hash of the whole hook, but not its arguments.

    \b
      opendrs drain lab n1 --because 'new memory'
      opendrs drain lab n1 --yes --wait
      opendrs drain lab                     list the drained nodes
      opendrs drain lab --for updates --hook '/usr/local/sbin/update-node --reboot'

    Exit status: 0 = the node is empty, or a controller empties it; 1 = you declined,
    guests remain, or the controller has not started the drain (mode advise requires an
    approval, mode observe starts nothing); 3 = some steps failed.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    settings.connection(platform)
    source = open_source(platform, settings)
    require_writable(source.platform)
    policy = configured_policy(settings)
    is_table = output_format != JSON
    task = MaintenanceTask(
        command="drain",
        source=source,
        settings=settings,
        policy=policy,
        shows_progress=is_table,
    )
    if purpose is not None:
        if node is not None:
            raise click.UsageError("--for takes its nodes from --nodes")
        request = RollingRequest(nodes=nodes, hook=hook, discard=discard)
        return roll(
            RollingTask(
                maintenance=task,
                hook=request.words,
                hook_timeout=hook_timeout,
                online_timeout=online_timeout,
            ),
            request,
            lambda: yes or confirm("Start?", output_format),
        )
    if nodes or hook or discard:
        raise click.UsageError("--nodes, --hook and --discard need --for updates")
    if node is None:
        return _list_nodes(source, settings, output_format)
    preview = preview_drain(source, settings, policy, NodeId(node))
    if is_table:
        print_preview(console(), preview)
    if not yes and not confirm(f"Drain {node}?", output_format):
        return INCOMPLETE
    start_drain(source, settings, NodeId(node), because)
    result = run_maintenance(task)
    if result is None:
        return _follow_controller(task, preview, wait=wait)
    return _report(task, preview, result)


def confirm(question: str, output_format: str) -> bool:
    """Return the answer of the operator.

    Raises:
        ConfigurationError: No confirmation is possible.
    """
    if output_format == JSON or not sys.stdin.isatty():
        raise ConfigurationError(
            "drain: no confirmation is possible without a terminal, or with --format "
            "json; add --yes",
            code=DiagnosticCode.INCONSISTENT,
        )
    click.echo()
    if click.confirm(question, default=False):
        return True
    click.echo("Nothing was changed.")
    return False


def _list_nodes(source: ClusterSource, settings: Settings, output_format: str) -> int:
    snapshot = observe(source)
    drained = read_drained_nodes(source.platform.name, settings)
    rolling = read_rolling(source.platform.name, settings)
    if output_format == JSON:
        print_json(
            {
                "nodes": drained_documents(drained, snapshot),
                "rolling": None if rolling is None else rolling_document(rolling),
            }
        )
    else:
        print_drained(console(), drained, snapshot)
        if rolling is not None:
            console().print(printable(rolling_text(rolling)))
    return 0


def _follow_controller(
    task: MaintenanceTask, preview: DrainPreview, *, wait: bool
) -> int:
    """Return the status of a drain that the controller of the platform executes."""
    node = preview.node
    blocker = drain_blocker(task.source, task.settings)
    if blocker:
        warn(blocker)
    elif task.shows_progress:
        console().print(f"A controller is running: its next cycle drains {node}.")
    last = preview
    if wait and not blocker:
        last = wait_until_drained(task, preview)
        if task.shows_progress:
            print_remaining(console(), last)
    if not task.shows_progress:
        print_json(
            {
                "node": node,
                "executed_by": "controller",
                "blocked": blocker or None,
                "empty": not guests_on(last.snapshot, {node}),
                "plan": preview_document(preview),
                "records": [],
                "remaining": remaining_documents(last),
            }
        )
    return INCOMPLETE if last.remaining or blocker else 0


def _report(
    task: MaintenanceTask, preview: DrainPreview, result: MaintenanceResult
) -> int:
    """Show what remains, and return the exit status."""
    assert result.last is not None  # noqa: S101 - a stop raises an error
    last = DrainPreview(preview.node, result.last.snapshot, result.last.decision)
    if task.shows_progress:
        screen = console()
        print_remaining(screen, last)
        if not last.remaining:
            screen.print(f"{preview.node} is empty, and stays so until undrain.")
    else:
        print_json(
            {
                "node": preview.node,
                "executed_by": "drain",
                "empty": not last.remaining,
                "plan": preview_document(preview),
                "records": [record_document(each) for each in result.records],
                "remaining": remaining_documents(last),
            }
        )
    if not last.remaining:
        return 0
    failed = any(record.outcome in _FAILURES for record in result.records)
    return FAILURE if failed else INCOMPLETE
