"""The command `opendrs drain`: empty a node, and keep it empty."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from opendrs.cli.apply_cycle import FAILURE, INCOMPLETE
from opendrs.cli.console import console, print_json
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
    wait_until,
)
from opendrs.cli.options import JSON, config_option, format_option
from opendrs.cli.output import record_document
from opendrs.cli.platform_store import (
    enrich_from_store,
    open_operator_store,
    open_recorded_store,
    operator_action,
)
from opendrs.cli.sources import (
    ClusterSource,
    load_settings,
    observe,
    open_source,
    require_writable,
)
from opendrs.cli.wiring import configured_policy
from opendrs.config.settings import Settings
from opendrs.controller.drained_nodes import (
    RETURN_PREFIX,
    DrainedNode,
    drained_nodes,
    in_maintenance,
)
from opendrs.controller.maintenance import maintenance_limits
from opendrs.errors import ConfigurationError, DiagnosticCode, UnknownNodeError
from opendrs.escapes import repr_value
from opendrs.model import NodeId, NodeState, Snapshot
from opendrs.policies import Drain, Policy, guests_on
from opendrs.ports import Outcome

_FAILURES = (Outcome.FAILED, Outcome.LOST, Outcome.ABORTED)


@click.command(name="drain")
@click.argument("platform", metavar="PLATFORM")
@click.argument("node", metavar="NODE", required=False)
@click.option("--because", default="", metavar="TEXT", help="Reason, for the record.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@click.option(
    "--wait",
    is_flag=True,
    help="If a controller runs on the platform: wait until it has emptied the node.",
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
    config: Path | None,
    output_format: str,
) -> int:
    """Move all guests off a node, and keep it empty until undrain.

    Shows the plan first: the guests and their targets, the load of the targets
    afterwards, and the guests that cannot leave, with what each of them needs. Then it
    asks for confirmation.

    Running guests migrate live, containers by a restart where the platform allows it,
    and stopped guests are relocated. All rules and limits hold, except the cooldown and
    the minimum uptime. The state lasts over restarts. If a controller runs, its next
    cycle empties the node; otherwise this command does.

    Without NODE, lists the nodes that are drained or in maintenance on the platform.

    \b
      opendrs drain lab n1 --because 'new memory'
      opendrs drain lab n1 --yes --wait
      opendrs drain lab                     which nodes are drained

    Exit status: 0 the node is empty, or a controller empties it; 1 you declined, or
    guests remain; 3 some steps failed.
    """  # noqa: D301 - for click, \b means: do not wrap the paragraph
    settings = load_settings(config)
    settings.connection(platform)
    source = open_source(platform, settings)
    require_writable(source.platform)
    if node is None:
        return _list_nodes(source, settings, output_format)
    policy = configured_policy(settings)
    preview = preview_drain(source, settings, policy, NodeId(node))
    is_table = output_format != JSON
    if is_table:
        print_preview(console(), preview)
    if not yes and not _confirm(f"Drain {node}?", output_format):
        return INCOMPLETE
    start_drain(source, settings, NodeId(node), because)
    task = MaintenanceTask(
        command="drain",
        source=source,
        settings=settings,
        policy=policy,
        shows_progress=is_table,
    )
    result = run_maintenance(task)
    if result is None:
        return _follow_controller(task, preview, wait=wait)
    return _report(task, preview, result)


def preview_drain(
    source: ClusterSource, settings: Settings, policy: Policy[Any], node: NodeId
) -> DrainPreview:
    """Return what a drain of *node* would do now.

    Raises:
        UnknownNodeError: There is no such node.
        ConfigurationError: The node is excluded, or it does not respond.
        PlatformError: The cluster cannot be observed.
        StoreError: The store cannot be read.
    """
    snapshot = enrich_from_store(observe(source), policy, source, settings)
    require_drainable(node, snapshot)
    drained = in_maintenance(snapshot, node)
    decision = Drain(limits=maintenance_limits(policy.limits)).decide(drained, None)
    return DrainPreview(node, drained, decision)


def require_drainable(node: NodeId, snapshot: Snapshot) -> None:
    """Check that *node* exists, responds and is not excluded.

    Raises:
        UnknownNodeError: There is no such node.
        ConfigurationError: The node is excluded, or it does not respond.
    """
    if node not in snapshot.nodes:
        known = ", ".join(sorted(snapshot.nodes))
        raise UnknownNodeError(f"{repr_value(node)}: no such node (nodes: {known})")
    state = snapshot.nodes[node].state
    if state not in (NodeState.ONLINE, NodeState.MAINTENANCE):
        raise ConfigurationError(
            f"{node}: expected an online node, got state {state}",
            code=DiagnosticCode.INCONSISTENT,
        )


def start_drain(
    source: ClusterSource, settings: Settings, node: NodeId, because: str
) -> None:
    """Record that *node* is drained, from now or since an earlier command.

    Raises:
        StoreError: The store cannot be written.
    """
    name = source.platform.name
    known = {each.node: each for each in read_drained_nodes(name, settings)}
    action = operator_action(source.clock, "drain", {"node": node, "because": because})
    former = known.get(node)
    drained = DrainedNode(
        node=node,
        since=action.at if former is None else former.since,
        user=action.user,
        because=because or ("" if former is None else former.because),
    )
    entries = {drained.key: drained.entry, f"{RETURN_PREFIX}{node}": None}
    with open_operator_store(name, settings) as store:
        store.change(action, entries)


def read_drained_nodes(platform: str, settings: Settings) -> tuple[DrainedNode, ...]:
    """Return the nodes of *platform* that operators drain.

    Raises:
        StoreError: The store cannot be read.
    """
    with open_recorded_store(platform, settings) as store:
        return () if store is None else drained_nodes(store)


def _confirm(question: str, output_format: str) -> bool:
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
    if output_format == JSON:
        print_json({"nodes": drained_documents(drained, snapshot)})
    else:
        print_drained(console(), drained, snapshot)
    return 0


def _follow_controller(
    task: MaintenanceTask, preview: DrainPreview, *, wait: bool
) -> int:
    """Return the status of a drain that the controller of the platform executes."""
    node, remaining = preview.node, preview.remaining
    left = guests_on(preview.snapshot, {node})
    if task.shows_progress:
        console().print(f"A controller is running: its next cycle drains {node}.")
    if wait:
        expected = frozenset(remaining)
        snapshot = wait_until(
            task, node, lambda now: guests_on(now, {node}) <= expected
        )
        left = guests_on(snapshot, {node})
    if not task.shows_progress:
        print_json(
            {
                "node": node,
                "executed_by": "controller",
                "empty": not left,
                "plan": preview_document(preview),
                "records": [],
                "remaining": remaining_documents(preview),
            }
        )
    return INCOMPLETE if remaining else 0


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
