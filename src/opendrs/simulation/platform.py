"""The data centre as a platform, and its faults."""

from __future__ import annotations

from collections.abc import Callable

from opendrs.errors import PlatformUnavailableError
from opendrs.model import Action, GuestId, NodeId, PowerOff, PowerOn, Snapshot
from opendrs.ports import Clock, TaskId, TaskState, TaskStatus
from opendrs.simulation.datacenter import LINK_BANDWIDTH, Datacenter


class SimulatedPlatform:
    """A simulated cluster, as `opendrs.ports.Platform`.

    Args:
        initial: The cluster in the beginning.
        clock: Tells how far things have come; it may be read by others too.
        name: What the cluster is called.
        seed: Draws how guests behave.
        bandwidth: Bytes a second over the link of one node.
        load_variation: Part of its cpu use, in [0, 0.5], by which a guest's load varies.
    """

    def __init__(  # noqa: PLR0913 - each a property of the simulated world
        self,
        initial: Snapshot,
        clock: Clock,
        *,
        name: str = "simulation",
        seed: int = 0,
        bandwidth: float = LINK_BANDWIDTH,
        load_variation: float = 0.03,
    ) -> None:
        self._name = name
        self._clock = clock
        self._reachable = True
        self._tasks: dict[TaskId, Action] = {}
        # The snapshot may be old: the simulated world begins now.
        self._started_at = clock.monotonic()
        self._datacenter = Datacenter(
            initial, seed=seed, bandwidth=bandwidth, load_variation=load_variation
        )

    @property
    def name(self) -> str:
        """Return what the cluster is called."""
        return self._name

    def observe(self) -> Snapshot:
        """Return the cluster as it is now."""
        return self._reachable_datacenter().observe(self._clock.now())

    def start(self, action: Action) -> TaskId:
        """Start *action* and return at once."""
        self._reachable_datacenter().start(action)
        return self._task_id(action)

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have been given."""
        self._reachable_datacenter()
        return self._task_id(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands."""
        datacenter = self._reachable_datacenter()
        action = self._tasks.get(task)
        running = datacenter.running_action(action) if action is not None else None
        if running is None:
            return TaskStatus(TaskState.LOST, f"{task} is not known")
        if not running.is_running:
            return TaskStatus(running.state, running.detail)
        progress = running.operation.progress(datacenter.bandwidth_of(running))
        return TaskStatus(TaskState.RUNNING, progress=progress)

    def abort(self, task: TaskId) -> None:
        """Ask for *task* to be given up."""
        datacenter = self._reachable_datacenter()
        if task in self._tasks:
            datacenter.abort(self._tasks[task], "given up on request")

    def fail_node(self, node: NodeId) -> None:
        """Let *node* die, and the guests on it."""
        self._advanced_datacenter().fail_node(node)

    def cut_link(self, node: NodeId) -> None:
        """Cut the link of *node*: its guests run on, and none comes or goes."""
        self._advanced_datacenter().cut_link(node)

    def restore_link(self, node: NodeId) -> None:
        """Mend the link of *node*."""
        self._advanced_datacenter().restore_link(node)

    def make_non_converging(self, guest: GuestId) -> None:
        """Let *guest* write more than can be sent, from its next migration on."""
        self._advanced_datacenter().make_non_converging(guest)

    def forget_task(self, action: Action) -> None:
        """Lose the memory of *action*: its task is then lost."""
        self._advanced_datacenter().forget_task(action)

    def disconnect(self) -> None:
        """Answer nothing from now on, while the world goes its way."""
        self._reachable = False

    def reconnect(self) -> None:
        """Answer again."""
        self._reachable = True

    def schedule_fault(self, seconds: float, fault: Callable[[], None]) -> None:
        """Let *fault*, such as a `kill`, happen *seconds* from now."""
        self._advanced_datacenter().schedule_fault(seconds, fault)

    def _reachable_datacenter(self) -> Datacenter:
        datacenter = self._advanced_datacenter()
        if not self._reachable:
            raise PlatformUnavailableError(f"{self._name} does not answer")
        return datacenter

    def _advanced_datacenter(self) -> Datacenter:
        self._datacenter.advance(self._clock.monotonic() - self._started_at)
        return self._datacenter

    def _task_id(self, action: Action) -> TaskId:
        kind = "".join(
            f"-{letter.lower()}" if letter.isupper() else letter
            for letter in type(action).__name__
        ).lstrip("-")
        if isinstance(action, PowerOn | PowerOff):
            task = TaskId(f"{kind} {action.node}")
        else:
            detail = f"{action.guest} {action.source} {action.target}"
            task = TaskId(f"{kind} {detail}")
        self._tasks[task] = action
        return task
