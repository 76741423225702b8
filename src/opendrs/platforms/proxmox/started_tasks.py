"""Tasks that one process started, and the rows of tasks on their nodes.

A process that started a task follows it by its identifier. Another one, such as a
controller after a crash, finds it among the tasks of the guest on the node.
"""

from __future__ import annotations

from opendrs.errors import PermissionDeniedError
from opendrs.platforms.proxmox.outcome import newest
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import TaskRow
from opendrs.platforms.proxmox.tasks import (
    HA_REQUEST,
    TransferTask,
    Upid,
    is_running,
)


class StartedTasks:
    """Tasks of one cluster.

    Args:
        queries: The requests.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._upids: dict[TransferTask, Upid] = {}

    def __contains__(self, task: TransferTask) -> bool:
        return task in self._upids

    def add(self, task: TransferTask, upid: Upid) -> None:
        """Remember that this process started *task*."""
        self._upids[task] = upid

    def discard(self, task: TransferTask) -> None:
        """Forget *task*, which has ended."""
        self._upids.pop(task, None)

    def upid_of(self, task: TransferTask) -> Upid | None:
        """Return the identifier of *task*; None if this process did not start it."""
        return self._upids.get(task)

    def rows(self, task: TransferTask) -> tuple[TaskRow, ...]:
        """Return the tasks on the source node that may be *task*.

        Under HA, the task of a migration is the request, and others follow it.

        Raises:
            PlatformUnavailableError: The node does not answer.
        """
        started = self._upids.get(task)
        row = None if started is None else self._queries.task(started)
        if row is not None and (is_running(row) or row.type != HA_REQUEST):
            return (row,)
        return self._queries.tasks_of(task.source, task.vmid, task.types)

    def stop(self, task: TransferTask) -> None:
        """Stop *task*; has no effect if it does not run.

        Raises:
            PermissionDeniedError: Another login runs the task, such as the HA manager,
                and the privilege Sys.Modify on the node is missing.
            PlatformError: The node cannot be queried.
        """
        running = newest(self.rows(task), task.types, predicate=is_running)
        if running is None:
            return
        try:
            self._queries.stop_task(task.source, running.upid)
        except PermissionDeniedError as error:
            raise PermissionDeniedError(
                f"{error}; only the owner of a task stops it without Sys.Modify on "
                f"/nodes/{task.source}"
            ) from None
