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
from opendrs.platforms.power.waiting import LATE, Wait
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
        self._now = now
        self._silence = Silence(now)
        self._lock = Lock()
        self._waits: dict[TaskId, Wait] = {}
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
        for name in asleep:
            self._has_left(name)
        return replace(seen, nodes={**seen.nodes, **asleep})

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
            self._require_staying(action.target)
            return self._platform.start(action)
        driver, task = self._driver(action.node), task_of(action)
        with self._lock:
            if self._busy_with(opposite(action)):
                raise PlatformError(f"{action.node} is being switched the other way")
            if self._busy_with(action):
                self._require_wanted(action)
            else:
                self._waits.pop(task_of(opposite(action)), None)
                self._waits[task] = self._asking(action, driver)
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

        A switch that is not confirmed runs until it is given up, or its driver's
        patience ends: also one of another process, of which nobody knows whether
        it was asked for. To wake a node is then asked for once more, which does no
        harm; to put it to sleep is not, because it may be in use by now.

        Raises:
            PlatformError: Who must confirm it cannot be asked.
        """
        switch = switch_of(task)
        if switch is None:
            return self._platform.status(task)
        wait = self._waits.setdefault(task, Wait(self._now()))
        if wait.busy:
            return TaskStatus(TaskState.RUNNING, f"{switch.node} is being asked")
        driver = self._driver(switch.node)
        failure = wait.failure(switch.node, driver.patience, self._now())
        try:
            confirmed, seen = self._confirmed(switch, driver)
        except PlatformError as error:
            if failure is None:
                self._ask_again(switch, driver)
                raise
            confirmed, seen = False, f"how it is now cannot be told: {error}"
        if confirmed:
            if isinstance(switch, PowerOff):
                self._has_left(switch.node)
            return TaskStatus(TaskState.DONE, seen)
        if failure is not None:
            return TaskStatus(TaskState.FAILED, f"{failure}; {seen}")
        self._ask_again(switch, driver)
        return TaskStatus(TaskState.RUNNING, seen)

    def abort(self, task: TaskId) -> None:
        """No longer wait for *task*.

        A driver that was not asked yet is not asked any more. What one was asked
        for cannot be taken back: a node may follow later, and then shows as what
        it is.
        """
        if switch_of(task) is None:
            self._platform.abort(task)
        else:
            self._waits.setdefault(task, Wait(self._now())).give_up()

    def _look(self) -> Snapshot:
        return self._silence.note(self._platform.observe())

    def _driver(self, node: NodeId) -> Driver:
        driver = self._drivers(node)
        if driver is None:
            raise UnsupportedError(
                f"{node} cannot be switched on or off: it has no power driver"
            )
        return driver

    def _asking(self, switch: Switch, driver: Driver) -> Wait:
        return Wait(self._now(), Effort(switch, driver, self._look))

    def _ask_again(self, switch: Switch, driver: Driver) -> None:
        """Ask for a node to be woken that another process wanted awake."""
        wait = self._waits[task_of(switch)]
        if isinstance(switch, PowerOn) and wait.effort is None:
            wait.effort = Effort(switch, driver, self._look)

    def _busy_with(self, switch: Switch) -> bool:
        wait = self._waits.get(task_of(switch))
        return wait is not None and wait.busy

    def _require_wanted(self, switch: Switch) -> None:
        """Check that what is under way was not given up meanwhile."""
        if self._waits[task_of(switch)].given_up:
            raise PlatformError(f"{switch.node} is still being asked what was given up")

    def _require_staying(self, node: NodeId) -> None:
        """Check that *node* was not asked to switch itself off."""
        wait = self._waits.get(task_of(PowerOff(node)))
        if wait is None or wait.effort is None or not wait.effort.may_follow:
            return
        if self._now() - wait.since < LATE:
            raise PlatformError(f"{node} was asked to go to sleep, and may still do so")

    def _has_left(self, node: NodeId) -> None:
        """Forget that *node* was asked to switch itself off: it is off."""
        if not self._busy_with(PowerOff(node)):
            self._waits.pop(task_of(PowerOff(node)), None)

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
