"""Power operations in progress: request to the driver, deadline, confirmation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import NodeId, NodeState, PowerOn, Snapshot
from opendrs.power.driver import PowerAction, PowerDriver, PowerState
from opendrs.transport.threads import error_text, start_thread


class PowerOperation:
    """One request to a driver, in a separate thread.

    Args:
        action: The action.
        driver: The driver of the node.
        observe: Returns a new snapshot of the cluster.
    """

    def __init__(
        self, action: PowerAction, driver: PowerDriver, observe: Callable[[], Snapshot]
    ) -> None:
        self._node, self._driver, self._observe = action.node, driver, observe
        self._lock = Lock()
        self._cancelled = self._sent = False
        request = self._power_on if isinstance(action, PowerOn) else self._power_off
        self._future = start_thread(lambda: error_text(request))

    @property
    def is_pending(self) -> bool:
        """Return True while the driver has not responded."""
        return not self._future.done()

    @property
    def error_text(self) -> str | None:
        """Return the error of the request; None without an error so far."""
        return self._future.result() if self._future.done() else None

    @property
    def may_take_effect(self) -> bool:
        """Return True if the request was sent, or may still be sent."""
        return self._sent or (self.is_pending and not self._cancelled)

    def cancel(self) -> None:
        """Cancel the request, unless it was already sent."""
        with self._lock:
            self._cancelled = True

    def _power_on(self) -> None:
        try:
            node = self._observe().nodes.get(self._node)
        except PlatformUnavailableError:
            pass  # all nodes may be powered off
        else:
            if node is None:
                raise PlatformError(f"{self._node}: not a node of the cluster")
            if node.online:
                return
        self._send(self._driver.on)

    def _power_off(self) -> None:
        if _power_state(self._driver) is PowerState.OFF:
            return
        require_empty(self._node, self._observe())
        try:
            self._send(self._driver.off)
        except PlatformError:
            if not (self._sent and self._driver.detached):
                raise

    def _send(self, request: Callable[[], None]) -> None:
        """Send *request*, unless the operation was cancelled before."""
        with self._lock:
            if self._cancelled:
                raise PlatformError(f"{self._node}: cancelled before the request")
            self._sent = True
        request()


def require_empty(name: NodeId, snapshot: Snapshot) -> None:
    """Check that the node is reachable, without stopped or arriving guests either.

    Raises:
        PlatformError: The node is unreachable, or has guests.
    """
    node = snapshot.nodes.get(name)
    if node is None or not node.reachable:
        raise PlatformError(
            f"{name}: not powered off: its state is "
            f"{node.state if node else 'unknown'}, so it may have guests"
        )
    guests = snapshot.guests.values()
    guest_ids = sorted(g.id for g in guests if name in (g.node, g.migrating_to))
    if guest_ids:
        raise PlatformError(
            f"{name}: not powered off: not empty: {', '.join(guest_ids)}"
        )


def _power_state(driver: PowerDriver) -> PowerState:
    """Return the power state; UNKNOWN if the driver fails."""
    try:
        return driver.state()
    except PlatformError:
        return PowerState.UNKNOWN


@dataclass(slots=True)
class PowerDeadline:
    """The wait for the effect of one power action.

    Attributes:
        started_at: Start of the wait, in seconds of a monotonic clock.
        operation: The request of this process; None if another process sent it, or
            none.
        cancelled: True if the wait was cancelled.
    """

    started_at: float
    operation: PowerOperation | None = None
    cancelled: bool = False

    @property
    def is_pending(self) -> bool:
        """Return True while the driver has not responded."""
        return self.operation is not None and self.operation.is_pending

    def cancel(self) -> None:
        """Cancel the wait, and the request if it was not yet sent."""
        self.cancelled = True
        if self.operation is not None:
            self.operation.cancel()

    def failure(self, node: NodeId, timeout: float, now: float) -> str | None:
        """Return why the wait ended without confirmation; None while it continues."""
        error_text = None if self.operation is None else self.operation.error_text
        if error_text is not None:
            return error_text
        if self.cancelled:
            return "wait cancelled"
        if now - self.started_at >= timeout:
            return f"{node}: timeout after {timeout:g} s"
        return None


_UNRESPONSIVE_STATES = frozenset({NodeState.UNKNOWN, NodeState.OFFLINE})


class UnresponsiveTimer:
    """Timer of unresponsive nodes over consecutive snapshots.

    Args:
        now: Monotonic clock; returns seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._since: dict[NodeId, float] = {}

    def update(self, snapshot: Snapshot) -> Snapshot:
        """Record the unresponsive nodes in *snapshot*, and return it."""
        for name, node in snapshot.nodes.items():
            if node.state in _UNRESPONSIVE_STATES:
                self._since.setdefault(name, self._now())
            else:
                self._since.pop(name, None)
        return snapshot

    def elapsed(self, node: NodeId) -> float | None:
        """Return the seconds that *node* has been unresponsive; None if it responds."""
        since = self._since.get(node)
        return None if since is None else self._now() - since
