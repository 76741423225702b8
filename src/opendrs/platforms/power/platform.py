"""A platform whose nodes can be switched on and off."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from threading import Lock

from opendrs.errors import PlatformError, UnsupportedError
from opendrs.model import (
    Action,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Snapshot,
)
from opendrs.platforms.background import begun
from opendrs.platforms.power.driver import Driver, PowerState
from opendrs.platforms.power.effort import Effort
from opendrs.platforms.power.silence import Silence
from opendrs.platforms.power.task import Switch, opposite, switch_of, task_of
from opendrs.ports import Platform, TaskId, TaskState, TaskStatus

logger = logging.getLogger(__name__)


class Powered:
    """Another platform, and the power of its nodes.

    All but power is done by the other platform. A switch is done once it can be
    seen: a node is on when it takes part in the cluster, and off when its driver
    says so, or, where that cannot say, when it has been silent for long enough.
    """

    def __init__(
        self,
        platform: Platform,
        drivers: Callable[[NodeId], Driver | None],
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
        self._silence = Silence(now)
        self._lock = Lock()
        self._efforts: dict[TaskId, Effort] = {}
        self._given_up: set[TaskId] = set()
        self._mute: set[NodeId] = set()

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._platform.name

    def observe(self) -> Snapshot:
        """Return the cluster as it is now.

        A node that does not answer is offline when its driver says that it is
        off; else it stays unknown.
        """
        seen = self._look()
        unknown = [n.id for n in seen.nodes.values() if n.state is NodeState.UNKNOWN]
        asleep = {
            name: replace(seen.nodes[name], state=NodeState.OFFLINE)
            for name, state in self._states(unknown).items()
            if state is PowerState.OFF
        }
        return replace(seen, nodes={**seen.nodes, **asleep})

    def start(self, action: Action) -> TaskId:
        """Start *action* and return at once.

        A switch that this process has already under way is not asked for again.
        A node is put to sleep only if another look, right before, shows it empty.

        Raises:
            UnsupportedError: The node has no power driver.
            PlatformError: The opposite is under way.
        """
        if not isinstance(action, PowerOn | PowerOff):
            return self._platform.start(action)
        driver, task = self._driver(action.node), task_of(action)
        with self._lock:
            if self._busy_with(opposite(action)):
                raise PlatformError(f"{action.node} is being switched the other way")
            if not self._busy_with(action):
                self._given_up.discard(task)
                self._efforts[task] = Effort(action, driver, self._look)
        return task

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given.

        Raises:
            UnsupportedError: The node has no power driver.
        """
        if not isinstance(action, PowerOn | PowerOff):
            return self._platform.find(action)
        self._driver(action.node)
        return task_of(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands, as it can be seen.

        A switch that is not confirmed runs until it is given up: also one of
        another process, of which nobody knows whether it was asked for.

        Raises:
            PlatformError: Who must confirm it cannot be asked.
        """
        switch = switch_of(task)
        if switch is None:
            return self._platform.status(task)
        if self._busy_with(switch):
            return TaskStatus(TaskState.RUNNING, f"{switch.node} is being asked")
        effort = self._efforts.get(task)
        complaint = None if effort is None else effort.complaint
        try:
            confirmed, seen = self._confirmed(switch, self._driver(switch.node))
        except PlatformError as error:
            if complaint is None:
                raise
            confirmed, seen = False, f"how it is now cannot be told: {error}"
        if confirmed:
            return TaskStatus(TaskState.DONE, seen)
        if complaint is not None:
            return TaskStatus(TaskState.FAILED, f"{complaint}; {seen}")
        if task in self._given_up:
            return TaskStatus(TaskState.FAILED, f"no longer waited for; {seen}")
        return TaskStatus(TaskState.RUNNING, seen)

    def abort(self, task: TaskId) -> None:
        """No longer wait for *task*.

        What a driver was asked for cannot be taken back: a node may follow later,
        and then shows as what it is.
        """
        if switch_of(task) is None:
            self._platform.abort(task)
        else:
            self._given_up.add(task)

    def _look(self) -> Snapshot:
        return self._silence.note(self._platform.observe())

    def _driver(self, node: NodeId) -> Driver:
        driver = self._drivers(node)
        if driver is None:
            raise UnsupportedError(
                f"{node} cannot be switched on or off: it has no power driver"
            )
        return driver

    def _busy_with(self, switch: Switch) -> bool:
        effort = self._efforts.get(task_of(switch))
        return effort is not None and effort.under_way

    def _confirmed(self, switch: Switch, driver: Driver) -> tuple[bool, str]:
        """Return whether the node is as it should be, and what is seen of it."""
        if isinstance(switch, PowerOn):
            return self._takes_part(switch.node, driver)
        if driver.silence is None:
            state = driver.state()
            return state is PowerState.OFF, f"the power of {switch.node} is {state}"
        return self._is_silent(switch.node, driver.silence)

    def _takes_part(self, name: NodeId, driver: Driver) -> tuple[bool, str]:
        if driver.silence is None and driver.state() is PowerState.OFF:
            return False, f"the power of {name} is off"
        node = self._look().nodes.get(name)
        how = "not known" if node is None else node.state.value
        return node is not None and node.online, f"the state of {name} is {how}"

    def _is_silent(self, name: NodeId, enough: float) -> tuple[bool, str]:
        self._look()
        silent = self._silence.of(name)
        if silent is None:
            return False, f"{name} still answers"
        return silent >= enough, f"{name} has not answered for {silent:.0f} s"

    def _states(self, nodes: list[NodeId]) -> Mapping[NodeId, PowerState]:
        """Return what the drivers of *nodes*, asked at once, say."""
        asked = {
            name: begun(partial(self._state, name, driver))
            for name in nodes
            if (driver := self._drivers(name)) is not None and driver.silence is None
        }
        return {name: answer.result() for name, answer in asked.items()}

    def _state(self, name: NodeId, driver: Driver) -> PowerState:
        """Return the state of *name*; who cannot tell is reported once."""
        try:
            state = driver.state()
        except PlatformError as error:
            if name not in self._mute:
                logger.warning("%s; whether %s is off is not known", error, name)
            self._mute.add(name)
            return PowerState.UNKNOWN
        self._mute.discard(name)
        return state
