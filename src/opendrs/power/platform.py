"""A platform whose nodes can be switched on and off."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import Action, NodeId, NodeState, PowerOff, PowerOn, Snapshot
from opendrs.platforms.background import start_thread
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

logger = logging.getLogger(__name__)


class PoweredPlatform:
    """Another platform, and the power of its nodes.

    All but power is done by the other platform. A switch is done once it can be
    seen: a node is on when it takes part in the cluster, and off when its driver
    says so, or, where that cannot say, when it has been silent for long enough.
    """

    def __init__(
        self,
        platform: Platform,
        drivers: Callable[[NodeId], PowerDriver | None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask nobody yet.

        Args:
            platform: The other platform.
            drivers: Returns the driver of a node; None where it has no power.
            now: Returns seconds that only ever grow.
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
        """Return the cluster as it is now.

        A node that does not answer is offline when its driver says that it is
        off; else it stays unknown.
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
        """Start *action* and return at once.

        A switch that this process has already under way is not asked for again.
        A node is put to sleep only if another look, right before, shows it empty.
        Nobody is moved to a node that may be about to go to sleep.

        Raises:
            UnsupportedError: The node has no power driver.
            PlatformError: The opposite is under way, or the target of a move was
                asked to switch itself off and may still follow.
        """
        if not isinstance(action, PowerOn | PowerOff):
            self._require_not_powering_off(action.target)
            return self._platform.start(action)
        driver, task = self._require_driver(action.node), power_task_id(action)
        with self._lock:
            if self._is_pending(opposite_action(action)):
                raise PlatformError(f"{action.node} is being switched the other way")
            if self._is_pending(action):
                self._require_not_cancelled(action)
            else:
                self._deadlines.pop(power_task_id(opposite_action(action)), None)
                self._deadlines[task] = self._start_operation(action, driver)
        return task

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given.

        Raises:
            UnsupportedError: The node has no power driver.
        """
        if not isinstance(action, PowerOn | PowerOff):
            return self._platform.find(action)
        self._require_driver(action.node)
        return power_task_id(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands, as it can be seen.

        A switch that is not confirmed runs until it is given up, or its driver's
        patience ends: also one of another process, of which nobody knows whether
        it was asked for. To wake a node is then asked for once more, which does no
        harm; to put it to sleep is not, because it may be in use by now.

        Raises:
            PlatformError: Who must confirm it cannot be asked.
        """
        action = parse_power_task(task)
        if action is None:
            return self._platform.status(task)
        deadline = self._deadlines.setdefault(task, PowerDeadline(self._now()))
        if deadline.is_pending:
            return TaskStatus(TaskState.RUNNING, f"{action.node} is being asked")
        driver = self._require_driver(action.node)
        failure = deadline.failure(action.node, driver.transition_timeout, self._now())
        try:
            confirmed, detail = self._confirm(action, driver)
        except PlatformError as error:
            if failure is None:
                self._retry_power_on(action, driver)
                raise
            confirmed, detail = False, f"how it is now cannot be told: {error}"
        if confirmed:
            if isinstance(action, PowerOff):
                self._forget_power_off(action.node)
            return TaskStatus(TaskState.DONE, detail)
        if failure is not None:
            return TaskStatus(TaskState.FAILED, f"{failure}; {detail}")
        self._retry_power_on(action, driver)
        return TaskStatus(TaskState.RUNNING, detail)

    def abort(self, task: TaskId) -> None:
        """No longer wait for *task*.

        A driver that was not asked yet is not asked any more. What one was asked
        for cannot be taken back: a node may follow later, and then shows as what
        it is.
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
                f"{node} cannot be switched on or off: it has no power driver"
            )
        return driver

    def _start_operation(
        self, action: PowerAction, driver: PowerDriver
    ) -> PowerDeadline:
        return PowerDeadline(self._now(), PowerOperation(action, driver, self._observe))

    def _retry_power_on(self, action: PowerAction, driver: PowerDriver) -> None:
        """Ask for a node to be woken that another process wanted awake."""
        deadline = self._deadlines[power_task_id(action)]
        if isinstance(action, PowerOn) and deadline.operation is None:
            deadline.operation = PowerOperation(action, driver, self._observe)

    def _is_pending(self, action: PowerAction) -> bool:
        deadline = self._deadlines.get(power_task_id(action))
        return deadline is not None and deadline.is_pending

    def _require_not_cancelled(self, action: PowerAction) -> None:
        """Check that what is under way was not given up meanwhile."""
        if self._deadlines[power_task_id(action)].cancelled:
            raise PlatformError(f"{action.node} is still being asked what was given up")

    def _require_not_powering_off(self, node: NodeId) -> None:
        """Check that *node* was not asked to switch itself off."""
        deadline = self._deadlines.get(power_task_id(PowerOff(node)))
        if (
            deadline is None
            or deadline.operation is None
            or not deadline.operation.may_take_effect
        ):
            return
        if self._now() - deadline.started_at < MAX_POWER_OFF_DELAY:
            raise PlatformError(f"{node} was asked to go to sleep, and may still do so")

    def _forget_power_off(self, node: NodeId) -> None:
        """Forget that *node* was asked to switch itself off: it is off."""
        if not self._is_pending(PowerOff(node)):
            self._deadlines.pop(power_task_id(PowerOff(node)), None)

    def _confirm(self, action: PowerAction, driver: PowerDriver) -> tuple[bool, str]:
        """Return whether the node is as it should be, and what is seen of it."""
        if isinstance(action, PowerOn):
            return self._confirm_online(action.node, driver)
        if driver.off_confirm_time is None:
            state = driver.state()
            return state is PowerState.OFF, f"the power of {action.node} is {state}"
        return self._confirm_unresponsive(action.node, driver.off_confirm_time)

    def _confirm_online(self, name: NodeId, driver: PowerDriver) -> tuple[bool, str]:
        if driver.off_confirm_time is None and driver.state() is PowerState.OFF:
            return False, f"the power of {name} is off"
        node = self._observe().nodes.get(name)
        state = "not known" if node is None else node.state.value
        return node is not None and node.online, f"the state of {name} is {state}"

    def _confirm_unresponsive(
        self, name: NodeId, required_time: float
    ) -> tuple[bool, str]:
        self._observe()
        elapsed = self._unresponsive.elapsed(name)
        if elapsed is None:
            return False, f"{name} still answers"
        return elapsed >= required_time, f"{name} has not answered for {elapsed:.0f} s"

    def _power_states(self, nodes: list[NodeId]) -> Mapping[NodeId, PowerState]:
        """Return what the drivers of *nodes*, asked at once, say."""
        futures = {
            name: start_thread(partial(self._power_state, name, driver))
            for name in nodes
            if (driver := self._drivers(name)) is not None
            and driver.off_confirm_time is None
        }
        return {name: future.result() for name, future in futures.items()}

    def _power_state(self, name: NodeId, driver: PowerDriver) -> PowerState:
        """Return the state of *name*; who cannot tell is reported once."""
        try:
            state = driver.state()
        except PlatformError as error:
            if name not in self._unknown_state:
                logger.warning("%s; whether %s is off is not known", error, name)
            self._unknown_state.add(name)
            return PowerState.UNKNOWN
        self._unknown_state.discard(name)
        return state


class PowerDrivers:
    """The driver of each node; None for a node without power.

    Args:
        settings: What the operator said about the nodes.

    Raises:
        ConfigurationError: A file that they name cannot be read.
    """

    def __init__(self, settings: PowerSettings) -> None:
        self._default = settings.default
        self._drivers = {
            NodeId(node): create_driver(NodeId(node), own)
            for node, own in settings.nodes.items()
        }

    def __call__(self, node: NodeId) -> PowerDriver | None:
        """Return the driver of *node*, or None."""
        if node not in self._drivers:
            self._drivers[node] = create_driver(node, self._default)
        return self._drivers[node]


def create_driver(
    node: NodeId, settings: PowerDriverSettings | None
) -> PowerDriver | None:
    """Return the driver of *node* that *settings* describe, or None.

    Raises:
        ConfigurationError: A file that they name cannot be read.
    """
    if isinstance(settings, PowerCommandSettings):
        return CommandDriver(node, settings)
    if isinstance(settings, RedfishSettings):
        # Loaded when needed: few clusters have it, and it takes a moment.
        from opendrs.power.redfish import RedfishDriver  # noqa: PLC0415

        return RedfishDriver(node, settings)
    return None
