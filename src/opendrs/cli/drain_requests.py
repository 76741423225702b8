"""Requests of operators to drain nodes: preview, start, end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opendrs.cli.drain_tables import DrainPreview
from opendrs.cli.maintenance_cycles import (
    METRICS_TIMEOUT,
    POLL_INTERVAL,
    MaintenanceTask,
    wait_until,
)
from opendrs.cli.platform_store import (
    cli_actor,
    open_operator_store,
    open_to_read,
)
from opendrs.cli.platforms import ClusterSource
from opendrs.cli.recorded_state import enrich_from_store
from opendrs.cli.sources import observe
from opendrs.config.controller_settings import Mode
from opendrs.config.settings import Settings
from opendrs.controller import operator_commands
from opendrs.controller.drained_nodes import (
    DrainedNode,
    drained_nodes,
    in_maintenance,
    maintenance_limits,
)
from opendrs.controller.modes import EffectiveMode, effective_mode
from opendrs.errors import ConfigurationError, DiagnosticCode, UnknownNodeError
from opendrs.escapes import repr_value
from opendrs.model import Limits, NodeId, NodeState, Snapshot
from opendrs.policies import DecisionReason, Drain, Policy, Return, guests_on
from opendrs.store import OPERATOR_PREFIX

MAX_POLLS = int(METRICS_TIMEOUT / POLL_INTERVAL)


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
    return _preview_of(observe(source), source, settings, policy, node)


def _preview_of(
    observed: Snapshot,
    source: ClusterSource,
    settings: Settings,
    policy: Policy[Any],
    node: NodeId,
) -> DrainPreview:
    require_drainable(node, observed)
    # First, as in a cycle: nothing is reserved on a drained node.
    drained = in_maintenance(observed, node)
    drained = enrich_from_store(drained, policy, source, settings)
    return drain_preview(drained, node, policy.limits)


def drain_preview(drained: Snapshot, node: NodeId, limits: Limits) -> DrainPreview:
    """Return the plan that empties *node*.

    Args:
        drained: The cluster, with the node in maintenance.
        node: The node.
        limits: Limits of the operator.
    """
    decision = Drain(limits=maintenance_limits(limits)).decide(drained, None)
    return DrainPreview(node, drained, decision)


def wait_until_drained(
    task: MaintenanceTask,
    preview: DrainPreview,
    check: Callable[[], None] = lambda: None,
) -> DrainPreview:
    """Wait until a controller has moved all guests off a node that can leave it.

    While migrations are in progress or metrics are missing, it is unknown which guests
    can leave. Guests whose metrics are still missing after two minutes remain. A node
    that does not respond, and a platform that cannot be reached, may take two minutes
    as well.

    Args:
        task: The command.
        preview: Plan for the node at the start.
        check: Called before each pause; an error that it raises ends the wait.

    Returns:
        The last preview; it has no steps.

    Raises:
        ConfigurationError: The node no longer responds.
        PlatformError: The cluster cannot be observed.
        StoreError: The store cannot be read.
    """
    node = preview.node
    polls_left, silent_polls = MAX_POLLS, 0

    def is_drained(now: Snapshot) -> bool:
        nonlocal preview, polls_left, silent_polls
        silent_polls = 0 if _responds(node, now) else silent_polls + 1
        if 0 < silent_polls <= MAX_POLLS:
            check()
            return False
        undecided = preview.awaits_migrations or preview.awaits_metrics
        if undecided or guests_on(now, {node}) <= frozenset(preview.remaining):
            preview = _preview_of(now, task.source, task.settings, task.policy, node)
            polls_left -= preview.awaits_metrics
            undecided = preview.awaits_migrations or (
                preview.awaits_metrics and polls_left > 0
            )
            if not (undecided or preview.decision.plan.steps):
                return True
        check()
        return False

    wait_until(task, node, is_drained)
    return preview


def require_drainable(node: NodeId, snapshot: Snapshot) -> None:
    """Check that *node* exists, responds and is not excluded.

    Raises:
        UnknownNodeError: There is no such node.
        ConfigurationError: The node is excluded, or it does not respond.
    """
    if node not in snapshot.nodes:
        known = ", ".join(sorted(snapshot.nodes))
        raise UnknownNodeError(f"{repr_value(node)}: no such node (nodes: {known})")
    if not _responds(node, snapshot):
        state = snapshot.nodes[node].state
        raise ConfigurationError(
            f"{node}: expected an online node, got state {state}",
            code=DiagnosticCode.INCONSISTENT,
        )


def _responds(node: NodeId, snapshot: Snapshot) -> bool:
    state = snapshot.nodes[node].state if node in snapshot.nodes else None
    return state in (NodeState.ONLINE, NodeState.MAINTENANCE)


def drain_blocker(source: ClusterSource, settings: Settings) -> str:
    """Return why a running controller does not drain by itself, or an empty text.

    Raises:
        StoreError: The store cannot be read.
    """
    mode = controller_mode(source, settings, Drain.name, DecisionReason.DRAINS_NODES)
    return describe_blocker(mode, source.platform.name, "drain")


def return_blocker(source: ClusterSource, settings: Settings) -> str:
    """Return why a running controller returns no guests by itself, or an empty text.

    Raises:
        StoreError: The store cannot be read.
    """
    mode = controller_mode(source, settings, Return.name, DecisionReason.RETURNS_GUESTS)
    return describe_blocker(mode, source.platform.name, "return guests")


def controller_mode(
    source: ClusterSource, settings: Settings, policy: str, reason: DecisionReason
) -> EffectiveMode:
    """Return the mode that applies to a plan of the controller.

    Raises:
        StoreError: The store cannot be read.
    """
    with open_to_read(source.platform.name, settings) as store:
        entries = store.load_all(OPERATOR_PREFIX)
    now = source.clock.now()
    return effective_mode(
        settings.controller, entries, now, policy=policy, reason=reason
    )


def describe_blocker(mode: EffectiveMode, platform: str, action: str) -> str:
    """Return why *action* does not start by itself in *mode*; empty if it does."""
    if mode.mode is Mode.AUTOMATIC:
        return ""
    remedy = (
        f"approve its plan: opendrs plans {platform}"
        if mode.mode is Mode.ADVISE
        else f"let it {action}: opendrs mode {platform} automatic"
    )
    return (
        f"the controller is in mode {mode.mode} ({mode.detail}) and does not {action} "
        f"by itself; {remedy}"
    )


def start_drain(
    source: ClusterSource, settings: Settings, node: NodeId, because: str
) -> None:
    """Record that *node* is drained, from now or since an earlier command.

    Raises:
        StoreError: The store cannot be written.
    """
    name = source.platform.name
    known = read_drained_nodes(name, settings)
    with open_operator_store(name, settings) as store:
        operator_commands.start_drain(
            store, source.clock, cli_actor(), node, because, known
        )


def read_drained_nodes(platform: str, settings: Settings) -> tuple[DrainedNode, ...]:
    """Return the nodes of *platform* that operators drain.

    Raises:
        StoreError: The store cannot be read.
    """
    with open_to_read(platform, settings) as store:
        return drained_nodes(store)


def end_drain(
    source: ClusterSource, settings: Settings, drained: DrainedNode, *, bring_back: bool
) -> None:
    """Record that *drained* may receive guests, and whether its guests return.

    Open plans that drain it end. A plan for several nodes is decided again for the
    others.

    Raises:
        StoreError: The store cannot be written.
    """
    with open_operator_store(source.platform.name, settings) as store:
        operator_commands.end_drain(
            store, source.clock, cli_actor(), drained, bring_back=bring_back
        )
