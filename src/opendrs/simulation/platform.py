"""Simulated data center as a platform, with fault injection."""

from __future__ import annotations

from collections.abc import Callable

from opendrs.errors import PlatformUnavailableError
from opendrs.model import Action, DiskMove, GuestId, NodeId, PowerOff, PowerOn, Snapshot
from opendrs.ports import Clock, TaskId, TaskState, TaskStatus
from opendrs.simulation.datacenter import LINK_BANDWIDTH, Datacenter


class SimulatedPlatform:
    """Simulated cluster that implements `opendrs.ports.Platform`.

    Args:
        initial: Initial state of the cluster.
        clock: Clock that drives the simulation; may be shared.
        name: Name of the cluster.
        seed: Seed for the behavior of the guests.
        bandwidth: Bytes per second on the link of one node.
        load_variation: Amplitude of a guest's load variation, as a fraction of its CPU
            usage, in [0, 0.5].
    """

    def __init__(  # noqa: PLR0913 - each a property of the simulation
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
        # The snapshot may be old: simulated time starts now.
        self._started_at = clock.monotonic()
        self._datacenter = Datacenter(
            initial, seed=seed, bandwidth=bandwidth, load_variation=load_variation
        )

    @property
    def name(self) -> str:
        """Return the name of the cluster."""
        return self._name

    def observe(self) -> Snapshot:
        """Return the current snapshot of the cluster."""
        return self._reachable_datacenter().observe(self._clock.now())

    def start(self, action: Action) -> TaskId:
        """Start *action* and return its task."""
        self._reachable_datacenter().start(action)
        return self._task_id(action)

    def find(self, action: Action) -> TaskId:
        """Return the task that *action* would have."""
        self._reachable_datacenter()
        return self._task_id(action)

    def status(self, task: TaskId) -> TaskStatus:
        """Return the status of *task*."""
        datacenter = self._reachable_datacenter()
        action = self._tasks.get(task)
        running = datacenter.running_action(action) if action is not None else None
        if running is None:
            return TaskStatus(TaskState.LOST, f"{task} is unknown")
        if not running.is_running:
            return TaskStatus(running.state, running.detail)
        progress = running.operation.progress(datacenter.bandwidth_of(running))
        return TaskStatus(TaskState.RUNNING, progress=progress)

    def abort(self, task: TaskId) -> None:
        """Request the abort of *task*."""
        datacenter = self._reachable_datacenter()
        if task in self._tasks:
            datacenter.abort(self._tasks[task], "aborted on request")

    def fail_node(self, node: NodeId) -> None:
        """Fail *node* and the guests on it."""
        self._advanced_datacenter().fail_node(node)

    def cut_link(self, node: NodeId) -> None:
        """Cut the link of *node*: its guests keep running, but cannot migrate."""
        self._advanced_datacenter().cut_link(node)

    def restore_link(self, node: NodeId) -> None:
        """Restore the link of *node*."""
        self._advanced_datacenter().restore_link(node)

    def make_non_converging(self, guest: GuestId) -> None:
        """Let *guest* dirty memory faster than it can be sent."""
        self._advanced_datacenter().make_non_converging(guest)

    def forget_task(self, action: Action) -> None:
        """Forget *action*: its task is then lost."""
        self._advanced_datacenter().forget_task(action)

    def disconnect(self) -> None:
        """Make the platform unreachable; simulated time continues."""
        self._reachable = False

    def reconnect(self) -> None:
        """Make the platform reachable again."""
        self._reachable = True

    def schedule_fault(self, seconds: float, fault: Callable[[], None]) -> None:
        """Schedule *fault*, such as `fail_node`, in *seconds* from now."""
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
        elif isinstance(action, DiskMove):
            detail = f"{action.guest} {action.disk} {action.target_storage}"
            task = TaskId(f"{kind} {detail}")
        else:
            detail = f"{action.guest} {action.source} {action.target}"
            task = TaskId(f"{kind} {detail}")
        self._tasks[task] = action
        return task
