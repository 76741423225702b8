"""Platform with nodes that can be powered on and off."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import Action, NodeId, NodeState, PowerOff, PowerOn, Snapshot
from opendrs.ports import MAX_POWER_OFF_DELAY, Platform, TaskId, TaskState, TaskStatus
from opendrs.power.command import CommandDriver
from opendrs.power.driver import (
    PowerAction,
    PowerDriver,
    PowerState,
    opposite_action,
    parse_power_task,
    power_task_id,
)
from opendrs.power.operation import PowerDeadline, PowerOperation, UnresponsiveTimer
from opendrs.power.settings import (
    PowerCommandSettings,
    PowerDriverSettings,
    PowerSettings,
    RedfishSettings,
)
from opendrs.transport.threads import start_thread

logger = logging.getLogger(__name__)


class PoweredPlatform:
    """A platform that adds power actions to another one.

    All other actions are delegated. A power action is done when its effect is
    observed. A node is on when it is online in the cluster. It is off when its driver
    reports it, or, if the driver cannot, after it was unresponsive for the setting
    `off_confirm_time`.
    """

    def __init__(
        self,
        platform: Platform,
        drivers: Callable[[NodeId], PowerDriver | None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the platform without contacting it.

        Args:
            platform: The other platform.
            drivers: Returns the driver of a node; None if it has none.
            now: Monotonic clock; returns seconds.
        """
        self._platform = platform
        self._drivers = drivers
        self._now = now
        self._unresponsive = UnresponsiveTimer(now)
        self._lock = Lock()
        self._deadlines: dict[TaskId, PowerDeadline] = {}
        self._unknown_state: set[NodeId] = set()

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._platform.name

    def observe(self) -> Snapshot:
        """Return a snapshot of the cluster.

        An unresponsive node is offline if its driver reports that it is off;
        otherwise its state remains unknown.
        """
        snapshot = self._observe()
        unknown = [
            n.id for n in snapshot.nodes.values() if n.state is NodeState.UNKNOWN
        ]
        powered_off = {
            name: replace(snapshot.nodes[name], state=NodeState.OFFLINE)
            for name, state in self._power_states(unknown).items()
            if state is PowerState.OFF
        }
        for name in powered_off:
            self._forget_power_off(name)
        return replace(snapshot, nodes={**snapshot.nodes, **powered_off})

    def start(self, action: Action) -> TaskId:
        """Start *action* and return immediately.

        A power action that this process already has in progress is not requested
        again. A node is powered off only if another snapshot, taken immediately
        before, shows it empty. No guest is migrated to a node that may be about to
        power off.

        Raises:
            UnsupportedError: The node has no power driver.
            PlatformError: The opposite action is in progress, or the target of a
                migration may still power off.
        """
        if not isinstance(action, PowerOn | PowerOff):
            self._require_not_powering_off(action.target)
            return self._platform.start(action)
        driver, task = self._require_driver(action.node), power_task_id(action)
        with self._lock:
            if self._is_pending(opposite_action(action)):
                raise PlatformError(
                    f"{action.node}: the opposite power action is in progress"
                )
            if self._is_pending(action):
                self._require_not_cancelled(action)
            else:
                self._deadlines.pop(power_task_id(opposite_action(action)), None)
                self._deadlines[task] = self._start_operation(action, driver)
        return task

    def find(self, action: Action) -> TaskId:
        """Return the id of the task that *action* would have.

        Raises:
            UnsupportedError: The node has no power driver.
        """
        if not isinstance(action, PowerOn | PowerOff):
            return self._platform.find(action)
        self._require_driver(action.node)
        return power_task_id(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task* according to the observed state.

        An unconfirmed power action runs until it is cancelled or its driver's
        `transition_timeout` ends. This includes actions of another process, which
        may not have sent its request. Power-on is then requested again, because that
        is idempotent. Power-off is not, because the node may be in use again.

        Raises:
            PlatformError: The state of the node cannot be observed.
        """
        action = parse_power_task(task)
        if action is None:
            return self._platform.status(task)
        deadline = self._deadlines.setdefault(task, PowerDeadline(self._now()))
        if deadline.is_pending:
            return TaskStatus(
                TaskState.RUNNING, f"{action.node}: power request in progress"
            )
        driver = self._require_driver(action.node)
        failure = deadline.failure(action.node, driver.transition_timeout, self._now())
        try:
            confirmed, detail = self._confirm(action, driver)
        except PlatformError as error:
            if failure is None:
                self._retry_power_on(action, driver)
                raise
            confirmed, detail = False, f"current state unknown: {error}"
        if confirmed:
            if isinstance(action, PowerOff):
                self._forget_power_off(action.node)
            return TaskStatus(TaskState.DONE, detail)
        if failure is not None:
            return TaskStatus(TaskState.FAILED, f"{failure}; {detail}")
        self._retry_power_on(action, driver)
        return TaskStatus(TaskState.RUNNING, detail)

    def abort(self, task: TaskId) -> None:
        """Stop waiting for *task*.

        A request that was not yet sent is cancelled. One that was sent cannot be
        revoked: the node may change its state later.
        """
        if parse_power_task(task) is None:
            self._platform.abort(task)
        else:
            self._deadlines.setdefault(task, PowerDeadline(self._now())).cancel()

    def _observe(self) -> Snapshot:
        return self._unresponsive.update(self._platform.observe())

    def _require_driver(self, node: NodeId) -> PowerDriver:
        driver = self._drivers(node)
        if driver is None:
            raise UnsupportedError(
                f"{node}: cannot be powered on or off: it has no power driver"
            )
        return driver

    def _start_operation(
        self, action: PowerAction, driver: PowerDriver
    ) -> PowerDeadline:
        return PowerDeadline(self._now(), PowerOperation(action, driver, self._observe))

    def _retry_power_on(self, action: PowerAction, driver: PowerDriver) -> None:
        """Request a power-on that another process had started, once."""
        deadline = self._deadlines[power_task_id(action)]
        if isinstance(action, PowerOn) and deadline.operation is None:
            deadline.operation = PowerOperation(action, driver, self._observe)

    def _is_pending(self, action: PowerAction) -> bool:
        deadline = self._deadlines.get(power_task_id(action))
        return deadline is not None and deadline.is_pending

    def _require_not_cancelled(self, action: PowerAction) -> None:
        """Check that the pending action was not cancelled."""
        if self._deadlines[power_task_id(action)].cancelled:
            raise PlatformError(
                f"{action.node}: a cancelled power request is still in progress"
            )

    def _require_not_powering_off(self, node: NodeId) -> None:
        """Check that *node* has no power-off request that may still take effect."""
        deadline = self._deadlines.get(power_task_id(PowerOff(node)))
        if (
            deadline is None
            or deadline.operation is None
            or not deadline.operation.may_take_effect
        ):
            return
        if self._now() - deadline.started_at < MAX_POWER_OFF_DELAY:
            raise PlatformError(
                f"{node}: a power-off was requested and may still take effect"
            )

    def _forget_power_off(self, node: NodeId) -> None:
        """Discard the power-off request of *node*, which is off."""
        if not self._is_pending(PowerOff(node)):
            self._deadlines.pop(power_task_id(PowerOff(node)), None)

    def _confirm(self, action: PowerAction, driver: PowerDriver) -> tuple[bool, str]:
        """Return whether *action* has taken effect, and the observed state."""
        if isinstance(action, PowerOn):
            return self._confirm_online(action.node, driver)
        if driver.off_confirm_time is None:
            state = driver.state()
            return state is PowerState.OFF, f"{action.node}: power is {state}"
        return self._confirm_unresponsive(action.node, driver.off_confirm_time)

    def _confirm_online(self, name: NodeId, driver: PowerDriver) -> tuple[bool, str]:
        if driver.off_confirm_time is None and driver.state() is PowerState.OFF:
            return False, f"{name}: power is off"
        node = self._observe().nodes.get(name)
        state = "unknown" if node is None else node.state.value
        return node is not None and node.online, f"{name}: state is {state}"

    def _confirm_unresponsive(
        self, name: NodeId, required_time: float
    ) -> tuple[bool, str]:
        self._observe()
        elapsed = self._unresponsive.elapsed(name)
        if elapsed is None:
            return False, f"{name}: still responds"
        return elapsed >= required_time, f"{name}: unresponsive for {elapsed:.0f} s"

    def _power_states(self, nodes: list[NodeId]) -> Mapping[NodeId, PowerState]:
        """Return the power states of *nodes*; their drivers are queried in parallel."""
        futures = {
            name: start_thread(partial(self._power_state, name, driver))
            for name in nodes
            if (driver := self._drivers(name)) is not None
            and driver.off_confirm_time is None
        }
        return {name: future.result() for name, future in futures.items()}

    def _power_state(self, name: NodeId, driver: PowerDriver) -> PowerState:
        """Return the power state of *name*; a driver failure is logged once."""
        try:
            state = driver.state()
        except PlatformError as error:
            if name not in self._unknown_state:
                logger.warning("%s; power state of %s unknown", error, name)
            self._unknown_state.add(name)
            return PowerState.UNKNOWN
        self._unknown_state.discard(name)
        return state


class PowerDrivers:
    """The power drivers of all nodes.

    Args:
        settings: The power settings of the platform.

    Raises:
        ConfigurationError: A file named in the settings cannot be read.
    """

    def __init__(self, settings: PowerSettings) -> None:
        self._default = settings.default
        self._drivers = {
            NodeId(node): create_driver(NodeId(node), own)
            for node, own in settings.nodes.items()
        }

    def __call__(self, node: NodeId) -> PowerDriver | None:
        """Return the driver of *node*; None if it has none."""
        if node not in self._drivers:
            self._drivers[node] = create_driver(node, self._default)
        return self._drivers[node]


def create_driver(
    node: NodeId, settings: PowerDriverSettings | None
) -> PowerDriver | None:
    """Return the driver of *node* for *settings*; None without power settings.

    Raises:
        ConfigurationError: A file named in the settings cannot be read.
    """
    if isinstance(settings, PowerCommandSettings):
        return CommandDriver(node, settings)
    if isinstance(settings, RedfishSettings):
        # Imported on demand: it is slow, and few clusters need it.
        from opendrs.power.redfish import RedfishDriver  # noqa: PLC0415

        return RedfishDriver(node, settings)
    return None
