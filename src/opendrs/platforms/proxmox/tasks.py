"""Tasks of Proxmox VE, and task ids that any process can query.

A task id contains what is moved: a guest to another node, or a disk to another storage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar

from opendrs.errors import PlatformError
from opendrs.model import DiskMove, GuestId, Migration, NodeId, Transfer
from opendrs.platforms.proxmox.responses import LogRow, ResourceRow, TaskRow
from opendrs.ports import TaskId

HA_REQUEST = "hamigrate"
MOVES = frozenset({"qmigrate", "vzmigrate"})
MIGRATIONS = MOVES | {HA_REQUEST}
DISK_MOVES = frozenset({"qmmove", "move_volume"})
# After these, the disks of a guest are other ones, or can be moved or not.
DISK_CHANGES = DISK_MOVES | {
    "qmsnapshot",
    "vzsnapshot",
    "qmdelsnapshot",
    "vzdelsnapshot",
    "qmrollback",
    "vzrollback",
    "qmrestore",
    "vzrestore",
    "qmconfig",
    "resize",
}
MAX_LOG_LINES = 5
_TASK_TYPES = {
    "vzdump": "backup",
    "qmsnapshot": "snapshot",
    "vzsnapshot": "snapshot",
    "qmdelsnapshot": "deletion of a snapshot",
    "vzdelsnapshot": "deletion of a snapshot",
    "qmrollback": "rollback",
    "vzrollback": "rollback",
    "qmclone": "clone",
    "vzclone": "clone",
    "qmrestore": "restore",
    "vzrestore": "restore",
    "qmmove": "move of disk",
    "move_volume": "move of volume",
}
_TARGET = re.compile(
    r"(?:starting migration of (?:VM|CT) \d+ to node '(?P<move>[^']+)'"
    r"|Requesting HA migration for (?:VM|CT) \d+ to node (?P<request>\S+))"
)
_CAUSE = re.compile(r"ERROR: migration aborted \(duration [^)]*\): (?P<cause>.*)")
_NOISE = re.compile(
    r"TASK |Built-in function |no content$|unable to open file - "  # of an absent log
)
_UPID = re.compile(
    r"UPID:(?P<node>[^:\s]+):(?P<pid>[0-9A-Fa-f]{8}):(?P<pstart>[0-9A-Fa-f]{8,9}):"
    r"(?P<start>[0-9A-Fa-f]{8}):(?P<type>[^:\s]+):(?P<id>[^:\s]*):(?P<user>[^:\s]+):"
)


@dataclass(frozen=True, slots=True)
class Upid:
    """Identifier of a task of Proxmox VE.

    Attributes:
        text: The identifier.
        node: The node that runs the task.
        started_at: Start in seconds since 1970, on the clock of that node.
        type: The type, such as qmigrate.
        id: The guest that the task is about.
    """

    text: str
    node: str
    started_at: int
    type: str
    id: str

    @classmethod
    def parse(cls, text: object) -> Upid:
        """Return the identifier *text*.

        Raises:
            PlatformError: *text* is no identifier of a task.
        """
        match = _UPID.fullmatch(text) if isinstance(text, str) else None
        if match is None or not isinstance(text, str):
            raise PlatformError(f"not a task of Proxmox VE: {text!r}")
        start = int(match["start"], 16)
        return cls(text, match["node"], start, match["type"], match["id"])


@dataclass(frozen=True, slots=True)
class ProxmoxTask:
    """The contents of a task id: a migration.

    Attributes:
        guest: The id of the guest.
        kind: `qemu` or `lxc`; empty if the guest did not exist.
        vmid: Its number; 0 if it did not exist.
        source: The source node.
        target: The target node.
    """

    types: ClassVar[frozenset[str]] = MIGRATIONS

    guest: GuestId
    kind: str
    vmid: int
    source: NodeId
    target: NodeId

    @classmethod
    def from_action(cls, action: Migration, kind: str, vmid: int) -> ProxmoxTask:
        """Return the task of *action* for the guest with the number *vmid*."""
        return cls(action.guest, kind, vmid, action.source, action.target)

    @property
    def id(self) -> TaskId:
        """Return the task id; equal migrations have equal ids."""
        return _task_id(asdict(self))

    @property
    def sid(self) -> str:
        """Return the id of the guest in the HA manager."""
        return service_id(self.kind, self.vmid)


@dataclass(frozen=True, slots=True)
class DiskMoveTask:
    """The contents of a task id: the move of a disk to another storage.

    Attributes:
        guest: The id of the guest.
        kind: `qemu` or `lxc`; empty if the guest did not exist.
        vmid: Its number; 0 if it did not exist.
        node: Its node.
        disk: The key of the disk in the configuration of the guest.
        source_storage: The storage that it is on.
        target_storage: The storage that it is moved to.
    """

    types: ClassVar[frozenset[str]] = DISK_MOVES

    guest: GuestId
    kind: str
    vmid: int
    node: NodeId
    disk: str
    source_storage: str
    target_storage: str

    @property
    def source(self) -> NodeId:
        """Return the node that runs the task."""
        return self.node

    @property
    def id(self) -> TaskId:
        """Return the task id; equal moves have equal ids."""
        return _task_id(asdict(self))


TransferTask = ProxmoxTask | DiskMoveTask


def task_of(action: Transfer, row: ResourceRow | None) -> TransferTask:
    """Return the task of *action* for a guest; None if the guest does not exist."""
    kind, vmid = ("", 0) if row is None else (row.type, row.vmid or 0)
    if not isinstance(action, DiskMove):
        return ProxmoxTask.from_action(action, kind, vmid)
    return DiskMoveTask(
        action.guest,
        kind,
        vmid,
        action.node,
        action.disk,
        action.source_storage,
        action.target_storage,
    )


def parse_task(text: TaskId) -> TransferTask:
    """Return the task with the id *text*.

    Raises:
        PlatformError: *text* is not the id of a task on Proxmox VE.
    """
    try:
        fields = json.loads(text)
        guest, kind = GuestId(str(fields["guest"])), str(fields["kind"])
        vmid = int(fields["vmid"])
        if "disk" not in fields:
            source, target = NodeId(str(fields["source"])), str(fields["target"])
            return ProxmoxTask(guest, kind, vmid, source, NodeId(target))
        return DiskMoveTask(
            guest,
            kind,
            vmid,
            NodeId(str(fields["node"])),
            str(fields["disk"]),
            str(fields["source_storage"]),
            str(fields["target_storage"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise PlatformError(f"not a Proxmox VE task id: {text!r}") from error


def _task_id(fields: Mapping[str, object]) -> TaskId:
    return TaskId(json.dumps(fields, sort_keys=True, ensure_ascii=False))


def service_id(kind: str, vmid: int) -> str:
    """Return the id in the HA manager of a guest of *kind* `qemu` or `lxc`."""
    return f"{'ct' if kind == 'lxc' else 'vm'}:{vmid}"


def is_running(task: TaskRow) -> bool:
    """Return True while *task* has not ended."""
    return task.endtime is None


def running_operation(tasks: Iterable[TaskRow], vmid: int) -> str | None:
    """Return the operation on the guest *vmid* of a running task, no migration."""
    for task in tasks:
        if is_running(task) and task.id == str(vmid) and task.type in _TASK_TYPES:
            return _TASK_TYPES[task.type]
    return None


def log_target(log: Iterable[LogRow]) -> str | None:
    """Return the target node in the log of a migration; None if it has none yet."""
    for line in log:
        if match := _TARGET.search(line.t or ""):
            return match["move"] or match["request"]
    return None


def log_detail(log: Iterable[LogRow]) -> str:
    """Return the cause in the log of a failed task, or its last lines."""
    lines = [line.t.strip() for line in log if line.t and not _NOISE.match(line.t)]
    causes = [match["cause"] for line in lines if (match := _CAUSE.search(line))]
    last = lines[-MAX_LOG_LINES:]
    return "; ".join(
        [*causes[-1:], *(line for line in last if not _CAUSE.search(line))]
    )


def require_startable(
    task: ProxmoxTask,
    row: ResourceRow,
    resources: Iterable[ResourceRow],
    expected_status: str,
) -> None:
    """Check what the API would accept and then not carry out.

    Raises:
        PlatformError: The guest is elsewhere, does not run or is locked, or the target
            cannot receive guests.
    """
    nodes = {each.node: each for each in resources if each.type == "node"}
    target = nodes.get(task.target)
    require_on_node(task, row)
    if task.source == task.target:
        raise PlatformError(f"{task.guest}: already on {task.target}")
    if row.status != expected_status:
        status = row.status or "unknown"
        raise PlatformError(f"{task.guest}: not {expected_status}: {status}")
    if row.lock:
        raise PlatformError(f"{task.guest}: locked: {row.lock}")
    if target is None:
        raise PlatformError(f"{task.target}: not in the cluster")
    if target.status != "online" or target.hastate not in (None, "online"):
        state = target.hastate or target.status
        raise PlatformError(f"{task.target}: not available: {state}")


def require_on_node(task: TransferTask, row: ResourceRow) -> None:
    """Check that the guest is on its node.

    Raises:
        PlatformError: It is on another one.
    """
    if row.node != task.source:
        raise PlatformError(f"{task.guest}: not on {task.source}, but on {row.node}")
