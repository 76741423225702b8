"""Reading of single guests: migration preconditions and disks.

Both are kept for some time, and read with a limited number of requests: preconditions
of running guests first, then disks. The requests about the guests of one node are sent
one after the other and end with the first that it does not answer.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import Disk, GuestKind
from opendrs.platforms.proxmox.cluster_view import GUEST_TYPES, instant_cpu
from opendrs.platforms.proxmox.configured_disks import parse_disks
from opendrs.platforms.proxmox.errors import MissingPrivilegeError
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import ResourceRow, TaskRow
from opendrs.platforms.proxmox.tasks import DISK_CHANGES, is_running

logger = logging.getLogger(__name__)

_PRECONDITIONS_AGE = 900.0  # seconds for which preconditions of a guest are kept
_DISKS_AGE = 3600.0  # seconds for which the disks of a guest are kept
_NEVER = float("-inf")


class PveGuestReader:
    """Preconditions and disks of the guests of one cluster.

    Args:
        queries: The requests.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._preconditions: dict[int, tuple[float, str, Preconditions]] = {}
        self._disks: dict[int, tuple[float, tuple[Disk, ...]]] = {}
        self._changed: set[int] = set()  # whose disks are read again
        self._ended: frozenset[str] = frozenset()  # tasks that have changed disks

    @property
    def preconditions(self) -> Mapping[int, Preconditions]:
        """Return the preconditions that are known, by number of the guest."""
        return {vmid: known for vmid, (_, _, known) in self._preconditions.items()}

    @property
    def disks(self) -> Mapping[int, tuple[Disk, ...]]:
        """Return the disks that are known, by number of the guest."""
        return {vmid: disks for vmid, (_, disks) in self._disks.items()}

    def read_guest(
        self, node: str, kind: str, vmid: int, target: str
    ) -> tuple[Preconditions, tuple[Disk, ...] | None]:
        """Read a guest that is about to migrate to *target*, and keep the answers.

        Returns:
            The preconditions, and the disks of a container. Those of a virtual machine
            are None: the preconditions name the local ones.

        Raises:
            PlatformError: The guest cannot be read.
        """
        known = self._queries.preconditions(node, kind, vmid, target)
        self._preconditions[vmid] = (time.monotonic(), node, known)
        if GUEST_TYPES[kind] is GuestKind.VM:
            return known, None
        disks = parse_disks(self._queries.configuration(node, kind, vmid))
        self._keep_disks(vmid, disks)
        return known, disks

    def read_disk_move(self, node: str, kind: str, vmid: int) -> Mapping[str, object]:
        """Return the present configuration of a guest before or after a disk moves.

        Its disks are kept, and its preconditions forgotten: they name local disks.

        Raises:
            PlatformError: The guest cannot be read.
        """
        found = self._queries.current_configuration(node, kind, vmid)
        self._keep_disks(vmid, parse_disks(found))
        self._preconditions.pop(vmid, None)
        return found

    def expire_changed(self, tasks: Iterable[TaskRow]) -> None:
        """Read guests again whose disks have been changed by one of the *tasks*."""
        ended = {
            row.upid: row
            for row in tasks
            if row.type in DISK_CHANGES and not is_running(row)
        }
        for upid in ended.keys() - self._ended:
            number = ended[upid].id or ""
            vmid = int(number) if number.isdigit() else 0
            if vmid in self._disks:
                self._changed.add(vmid)
                self._preconditions.pop(vmid, None)
        self._ended = frozenset(ended)

    def read(
        self,
        pool: ThreadPoolExecutor,
        guests: Sequence[ResourceRow],
        nodes: Collection[str],
        limit: int,
    ) -> None:
        """Read guests with at most *limit* requests.

        Args:
            pool: Threads for the requests.
            guests: All guests of the cluster.
            nodes: Nodes that answer; guests on others are not read.
            limit: Most requests.
        """
        self._forget(guests)
        rows = [row for row in guests if row.node in nodes]
        now = time.monotonic()
        candidates = [
            row
            for row in rows
            if row.status == "running"
            and not row.lock
            and now - self._read_at(row) > _PRECONDITIONS_AGE
        ]
        candidates.sort(key=lambda row: (self._read_at(row), -(instant_cpu(row) or 0)))
        unread = [
            row
            for row in rows
            if row.vmid not in self._disks or row.vmid in self._changed
        ]
        left = max(0, limit - len(candidates))
        _read_each(pool, candidates[:limit], self._read_preconditions)
        _read_each(pool, unread[:left], self._read_disks)

    def _forget(self, rows: Iterable[ResourceRow]) -> None:
        """Forget guests that are gone or elsewhere, and disks that are too old."""
        nodes = {row.vmid: row.node for row in rows}
        oldest = time.monotonic() - _DISKS_AGE
        self._preconditions = {
            vmid: known
            for vmid, known in self._preconditions.items()
            if nodes.get(vmid) == known[1]
        }
        self._disks = {
            vmid: known
            for vmid, known in self._disks.items()
            if vmid in nodes and known[0] > oldest
        }
        self._changed &= self._disks.keys()

    def _keep_disks(self, vmid: int, disks: tuple[Disk, ...]) -> None:
        self._disks[vmid] = (time.monotonic(), disks)
        self._changed.discard(vmid)

    def _read_at(self, row: ResourceRow) -> float:
        known = self._preconditions.get(row.vmid or 0)
        return _NEVER if known is None else known[0]

    def _read_preconditions(self, rows: Iterable[ResourceRow]) -> None:
        """Read the preconditions of guests of one node; an error concerns one guest."""
        for row in rows:
            read_at = time.monotonic()
            try:
                known = self._queries.preconditions(
                    row.node or "", row.type, row.vmid or 0, None
                )
            except PlatformUnavailableError:
                return
            except MissingPrivilegeError as error:
                known = Preconditions(error=str(error))
            except PlatformError as error:
                # Read again in the next observation: it may be temporary.
                known, read_at = Preconditions(error=str(error)), _NEVER
            self._preconditions[row.vmid or 0] = (read_at, row.node or "", known)

    def _read_disks(self, rows: Iterable[ResourceRow]) -> None:
        """Read the disks of guests of one node; after an error they are unknown."""
        for row in rows:
            vmid = row.vmid or 0
            try:
                found = self._queries.configuration(row.node or "", row.type, vmid)
            except PlatformUnavailableError:
                return
            except PlatformError as error:
                logger.debug("%s: %s", row.id, error)
            else:
                self._keep_disks(vmid, parse_disks(found))


def _read_each(
    pool: ThreadPoolExecutor,
    rows: Iterable[ResourceRow],
    read: Callable[[list[ResourceRow]], None],
) -> None:
    by_node: defaultdict[str, list[ResourceRow]] = defaultdict(list)
    for row in rows:
        by_node[row.node or ""].append(row)
    for _ in pool.map(read, by_node.values()):
        pass
