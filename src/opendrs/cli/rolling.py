"""Rolling maintenance: drain, hook, wait, undrain, one node after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from opendrs.cli.console import console, printable
from opendrs.cli.drain_requests import (
    end_drain,
    preview_drain,
    read_drained_nodes,
    require_drainable,
    start_drain,
    wait_until_drained,
)
from opendrs.cli.drain_tables import DrainPreview
from opendrs.cli.maintenance_cycles import (
    MAX_RETRIES,
    RETRY_INTERVAL,
    MaintenanceTask,
    run_maintenance,
)
from opendrs.cli.platform_store import (
    open_operator_store,
    open_to_read,
    operator_action,
)
from opendrs.cli.rolling_approvals import DRAIN, RETURN, ApprovalWait
from opendrs.cli.sources import observe
from opendrs.config.settings import Settings, default_store_path
from opendrs.controller.drained_nodes import guest_returns
from opendrs.controller.rolling import (
    ROLLING_KEY,
    RollingPhase,
    RollingUpdate,
    rolling_update,
)
from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import NodeId, Snapshot, format_list
from opendrs.policies import guests_on
from opendrs.ports import Outcome
from opendrs.store import Lease
from opendrs.transport.commands import run_command

COMMAND = "drain --for updates"
MAX_HOOK_OUTPUT = 16 << 20  # bytes
POLL_INTERVAL = 5.0


class RollingStoppedError(Exception):
    """Reason why the rolling maintenance stops, for the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingTask:
    """Inputs of the rolling maintenance.

    Attributes:
        maintenance: The platform and its configuration.
        hook: Program and arguments; the name of the node is added. Empty if not given.
        hook_timeout: Seconds after which the hook is killed.
        online_timeout: Seconds in which a node must be online after the hook.
    """

    maintenance: MaintenanceTask
    hook: tuple[str, ...]
    hook_timeout: float
    online_timeout: float
    hook_output: dict[str, list[str]] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Return the configuration."""
        return self.maintenance.settings

    @property
    def platform(self) -> str:
        """Return the name of the platform."""
        return self.maintenance.source.platform.name


def preview_nodes(
    task: MaintenanceTask, nodes: tuple[NodeId, ...] | None
) -> tuple[DrainPreview, ...]:
    """Return what the drain of each node alone would do; None for all nodes.

    Waits up to two minutes for missing metrics: some platforms need two samples.

    Raises:
        UnknownNodeError: There is no such node.
        ConfigurationError: A node does not respond.
        PlatformError: The cluster cannot be observed.
    """
    snapshot = observe(task.source)
    chosen = tuple(sorted(snapshot.nodes)) if nodes is None else nodes
    for node in chosen:
        require_drainable(node, snapshot)
    retries = 0
    while True:
        previews = tuple(
            preview_drain(task.source, task.settings, task.policy, node)
            for node in chosen
        )
        if retries == MAX_RETRIES or not any(each.awaits_metrics for each in previews):
            return previews
        retries += 1
        task.source.clock.sleep(RETRY_INTERVAL)


def read_rolling(platform: str, settings: Settings) -> RollingUpdate | None:
    """Return the rolling maintenance in progress; None if there is none.

    Raises:
        StoreError: The store cannot be read.
    """
    with open_to_read(platform, settings) as store:
        return None if store is None else rolling_update(store)


def save_rolling(task: MaintenanceTask, state: RollingUpdate | None) -> None:
    """Record *state*; None ends the rolling maintenance.

    Raises:
        StoreError: The store cannot be written.
    """
    entry = None if state is None else state.entry
    action = operator_action(task.source.clock, COMMAND, entry or {})
    with open_operator_store(task.source.platform.name, task.settings) as store:
        store.change(action, {ROLLING_KEY: entry})


@contextmanager
def only_process(platform: str, settings: Settings) -> Iterator[int]:
    """Yield a descriptor of a lock, which a hook inherits.

    The lock is held until this process and its hook have ended, also by a signal.

    Raises:
        LeaseLostError: Another process or a hook of it is running.
    """
    path = settings.store_path(platform) or default_store_path(platform)
    path.parent.mkdir(parents=True, exist_ok=True)
    lease = Lease(path.with_name(f"{path.name}.rolling"))
    lease.acquire()
    try:
        yield lease.handle
    finally:
        lease.release()


def run_rolling(task: RollingTask, state: RollingUpdate, lock: int) -> RollingUpdate:
    """Continue *state* until all nodes are complete, or until something fails.

    Returns:
        The last state; its `failure` is empty if all nodes are complete.

    Raises:
        StoreError: The store cannot be read or written.
    """
    while state.nodes:
        node = state.nodes[0]
        _print(task, f"{node}: {state.phase}")
        try:
            _PHASES[state.phase](task, state, lock)
        except (RollingStoppedError, PlatformError) as error:
            state = replace(state, failure=f"{node}: {state.phase}: {error}")
            save_rolling(task.maintenance, state)
            return state
        state = state.advanced()
        save_rolling(task.maintenance, state if state.nodes else None)
    return state


def _drain(task: RollingTask, state: RollingUpdate, lock: int) -> None:
    del lock
    node, maintenance = state.nodes[0], task.maintenance
    start_drain(maintenance.source, task.settings, node, COMMAND)
    preview = preview_drain(maintenance.source, task.settings, maintenance.policy, node)
    if run_maintenance(maintenance) is None:
        wait = ApprovalWait(maintenance.source, task.settings, node, DRAIN)
        wait_until_drained(maintenance, preview, lambda: _require_active(wait))
        wait.until_settled()
    left = guests_on(observe(maintenance.source), {node})
    if left:
        raise RollingStoppedError(f"not empty: {format_list(sorted(left))}")


def _require_active(wait: ApprovalWait) -> None:
    """Check that the controller works on the node, or may do so after an approval.

    Raises:
        RollingStoppedError: It does not, or its plan was not approved.
    """
    if problem := wait.problem():
        raise RollingStoppedError(problem)


def _run_hook(task: RollingTask, state: RollingUpdate, lock: int) -> None:
    node = state.nodes[0]
    result = run_command(
        "hook",
        (*task.hook, node),
        timeout=task.hook_timeout,
        max_output=MAX_HOOK_OUTPUT,
        inherited=(lock,),
    )
    lines = result.output.decode(errors="replace").splitlines()
    task.hook_output[node] = lines
    for line in lines:
        _print(task, f"{node}: hook: {line}")
    if result.status != 0:
        raise RollingStoppedError(result.problem)


def _wait_for_node(task: RollingTask, state: RollingUpdate, lock: int) -> None:
    del lock
    node, clock = state.nodes[0], task.maintenance.source.clock
    deadline = clock.monotonic() + task.online_timeout
    while True:
        try:
            problem = _unhealthy(node, task.maintenance.source.platform.observe())
        except PlatformUnavailableError as error:
            problem = str(error)
        if problem is None:
            return
        if clock.monotonic() > deadline:
            raise RollingStoppedError(problem)
        clock.sleep(POLL_INTERVAL)


def _unhealthy(node: NodeId, snapshot: Snapshot) -> str | None:
    """Return why *node* cannot receive guests; None if it can."""
    found = snapshot.nodes.get(node)
    if found is None:
        return "not in the cluster"
    if not found.online:
        return f"state {found.state}"
    if found.capacity is None or found.usage.resources is None:
        return "its capacity or usage is not reported"
    return None


def _return(task: RollingTask, state: RollingUpdate, lock: int) -> None:
    del lock
    node, maintenance = state.nodes[0], task.maintenance
    for drained in read_drained_nodes(task.platform, task.settings):
        if drained.node == node:
            end_drain(maintenance.source, task.settings, drained, bring_back=True)
    result = run_maintenance(maintenance)
    if result is None:
        wait = ApprovalWait(maintenance.source, task.settings, node, RETURN)
        while not _has_returned(task, node):
            _require_active(wait)
            maintenance.source.clock.sleep(POLL_INTERVAL)
        return
    failed = [
        record.detail for record in result.records if record.outcome is Outcome.FAILED
    ]
    if failed:
        raise RollingStoppedError("; ".join(failed))


def _has_returned(task: RollingTask, node: NodeId) -> bool:
    with open_to_read(task.platform, task.settings) as store:
        returns = guest_returns(store)
    return all(each.finished for each in returns if each.node == node)


_PHASES: dict[RollingPhase, Callable[[RollingTask, RollingUpdate, int], None]] = {
    RollingPhase.DRAIN: _drain,
    RollingPhase.HOOK: _run_hook,
    RollingPhase.ONLINE: _wait_for_node,
    RollingPhase.RETURN: _return,
}


def _print(task: RollingTask, line: str) -> None:
    if task.maintenance.shows_progress:
        console(min_width=1).print(printable(line))
