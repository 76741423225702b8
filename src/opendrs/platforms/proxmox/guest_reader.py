"""Reading of single guests: migration preconditions and disks.

Both are kept for some time, and read with a limited number of requests: preconditions
of running guests first, then disks. The requests about the guests of one node are sent
one after the other and end with the first that it does not answer.

Source:
    `GET /nodes/{node}/qemu/{vmid}/config` and `lxc`, recorded from Proxmox VE 9.2: a
    disk is a property string such as `local:100/vm-100-disk-0.raw,size=32G`.
"""

from __future__ import annotations

import logging
import re
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from opendrs.errors import PlatformError, PlatformUnavailableError
from opendrs.model import MAX_AMOUNT, Disk, GuestKind
from opendrs.platforms.proxmox.cluster_view import GUEST_TYPES, instant_cpu
from opendrs.platforms.proxmox.errors import MissingPrivilegeError
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.queries import Queries
from opendrs.platforms.proxmox.responses import ResourceRow

logger = logging.getLogger(__name__)

_PRECONDITIONS_AGE = 900.0  # seconds for which preconditions of a guest are kept
_DISKS_AGE = 3600.0  # seconds for which the disks of a guest are kept
_NEVER = float("-inf")
_KEY = re.compile(r"(scsi|virtio|ide|sata|mp|unused)\d+|efidisk0|tpmstate0|rootfs")
_VOLUME = re.compile(r"(?:(?:file|volume)=)?(?P<storage>[A-Za-z][\w.\-]*):.+")
_SIZE = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[KMGT]?)")
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class PveGuestReader:
    """Preconditions and disks of the guests of one cluster.

    Args:
        queries: The requests.
    """

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._preconditions: dict[int, tuple[float, str, Preconditions]] = {}
        self._disks: dict[int, tuple[float, tuple[Disk, ...]]] = {}

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
        self._disks[vmid] = (time.monotonic(), disks)
        return known, disks

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
        unread = [row for row in rows if row.vmid not in self._disks]
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
                self._disks[vmid] = (time.monotonic(), parse_disks(found))


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


def parse_disks(configuration: Mapping[str, object]) -> tuple[Disk, ...]:
    """Return the disks of a guest on storages; without CD images and bind mounts."""
    return tuple(_disks_of(configuration))


def _disks_of(configuration: Mapping[str, object]) -> Iterator[Disk]:
    for key, value in sorted(configuration.items()):
        if not _KEY.fullmatch(key) or not isinstance(value, str):
            continue
        volume, *options = value.split(",")
        match = _VOLUME.fullmatch(volume)
        if match is not None and "media=cdrom" not in options:
            sizes = [each.removeprefix("size=") for each in options if "size=" in each]
            yield Disk(
                storage=match["storage"], size=_size(sizes[0]) if sizes else None
            )


def _size(text: str) -> int | None:
    match = _SIZE.fullmatch(text)
    if match is None:
        return None
    size = int(float(match["number"]) * _UNITS[match["unit"]])
    return size if size <= MAX_AMOUNT else None
