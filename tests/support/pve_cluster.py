"""State of a cluster in the double of Proxmox VE: guests, tasks and the HA manager.

Time passes only by `advance`. As in the recordings, the HA manager takes up a request
in its next round of ten seconds, and sees the end of a migration in a later one.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from threading import RLock
from typing import Any

GIB = 1 << 30
USED, CAPACITY = 10 * GIB, 100 * GIB  # of a storage
START = 1_795_330_000
ROUND = 10.0  # seconds between two rounds of the HA manager
REQUEST_TIME = 1.5  # seconds of a task hamigrate
_NOISE = "Built-in function 'builtin::blessed' is experimental"


class ApiFailure(Exception):  # noqa: N818 - an answer
    """An answer that is no success."""

    def __init__(self, status: int, message: str, **errors: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.errors = errors


@dataclass
class PveNode:
    """A node."""

    name: str
    cpu: float = 0.2
    maxcpu: int = 16
    mem: int = 20 * GIB
    maxmem: int = 64 * GIB
    online: bool = True
    failure: int = 0
    delay: float = 0.0
    maintenance: bool = False


@dataclass
class PveGuest:
    """A guest; `ha` is the state that is requested of the HA manager."""

    vmid: int
    name: str
    node: str
    kind: str = "qemu"
    status: str = "running"
    cpu: float = 0.25
    maxcpu: int = 2
    mem: int = 1 * GIB
    maxmem: int = 2 * GIB
    lock: str | None = None
    tags: str = ""
    ha: str | None = None
    auto_rebalance: int | None = None
    group: str | None = None
    duration: float = 5.0
    failure: str | None = None
    disks: tuple[str, ...] = ()
    disk_size: int = 1 * GIB
    unused: tuple[str, ...] = ()
    snapshot: str | None = None  # the last one
    protected: bool = False
    replicated: bool = False
    keeps_original: bool = False  # when a disk moves: its storage cannot delete it
    devices: tuple[str, ...] = ()
    lacking: Mapping[str, str] = field(default_factory=dict)
    template: bool = False

    @property
    def sid(self) -> str:
        return f"{'ct' if self.kind == 'lxc' else 'vm'}:{self.vmid}"

    @property
    def volumes(self) -> dict[str, str]:
        """The volume of each disk by its key in the configuration."""
        numbers = range(len(self.disks))
        keys = [f"scsi{number}" for number in numbers]
        if self.kind == "lxc":
            keys = ["rootfs", *(f"mp{number}" for number in numbers)]
        return dict(zip(keys, self.disks, strict=False))

    @property
    def digest(self) -> str:
        """The digest of its configuration."""
        state = (self.disks, self.unused, self.lock, self.snapshot, self.tags)
        return hashlib.sha1(repr(state).encode()).hexdigest()  # noqa: S324 - as the API

    @property
    def config(self) -> str:
        folder = "lxc" if self.kind == "lxc" else "qemu-server"
        return f"{folder}/{self.vmid}.conf"


@dataclass
class PveTask:
    """A task; `end` is None while it runs."""

    upid: str
    node: str
    type: str
    vmid: int
    user: str
    tokenid: str | None
    start: float
    end: float | None = None
    status: str = ""
    log: list[str] = field(default_factory=list)
    on_end: Callable[[str], None] = lambda _: None


@dataclass
class PveCluster:
    """A cluster; a test changes it directly."""

    version: str = "9.2.11"
    nodes: dict[str, PveNode] = field(default_factory=dict)
    guests: dict[int, PveGuest] = field(default_factory=dict)
    rules: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    storages: dict[str, bool] = field(default_factory=dict)  # True if shared
    used: dict[str, int] = field(default_factory=dict)  # bytes of each storage
    absent: set[tuple[str, str]] = field(default_factory=set)  # node and storage
    crs: dict[str, Any] = field(default_factory=dict)
    tasks: list[PveTask] = field(default_factory=list)
    services: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)
    disarm: str | None = None
    quorate: bool = True
    now: float = START
    lock: RLock = field(default_factory=RLock)
    _events: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self._later(ROUND, self._round)

    @property
    def major(self) -> int:
        return int(self.version.partition(".")[0])

    def add(self, *items: PveNode | PveGuest) -> None:
        for item in items:
            if isinstance(item, PveNode):
                self.nodes[item.name] = item
            else:
                self.guests[item.vmid] = item
                if item.ha is not None:
                    state = {"state": item.ha, "node": item.node}
                    self.services[item.sid] = state

    def guest(self, name: str) -> PveGuest:
        return next(each for each in self.guests.values() if each.name == name)

    def advance(self, seconds: float) -> None:
        """Let *seconds* pass."""
        with self.lock:
            end = self.now + seconds
            while self._events and self._events[0][0] <= end:
                self.now, _, event = heapq.heappop(self._events)
                event()
            self.now = end

    def at(self, seconds: float, event: Callable[[], None]) -> None:
        """Call *event* when *seconds* have passed."""
        self._later(seconds, event)

    def finish(self, vmid: int) -> None:
        """End the running migration of a guest successfully."""
        with self.lock:
            for task in self.running(vmid):
                if task.type != "hamigrate":
                    self._end(task, "OK")

    def running(self, vmid: int) -> list[PveTask]:
        return [t for t in self.tasks if t.vmid == vmid and t.end is None]

    def migrations_started(self) -> list[tuple[int, str]]:
        """Return guest and type of each task of a migration, in order."""
        return [(task.vmid, task.type) for task in self.tasks]

    def migrate(
        self, kind: str, values: Mapping[str, str], user: str, tokenid: str | None
    ) -> str:
        """Start a migration as the API does; return the UPID."""
        guest = self.require(kind, values["node"], int(values["vmid"]))
        target = values["target"]
        self._check_migration(guest, target, values)
        if guest.ha is not None and guest.ha != "ignored" and self.disarm != "ignore":
            return self._request_ha(guest, target, user, tokenid).upid
        return self._move(guest, target, user, tokenid).upid

    def local_disks(self, guest: PveGuest) -> list[str]:
        """Return the volumes of a guest that are not on shared storages."""
        return [v for v in guest.disks if not self.storages.get(storage_of(v), False)]

    def move_disk(
        self, kind: str, values: Mapping[str, str], user: str, tokenid: str | None
    ) -> str:
        """Start the move of a disk as the API does; return the UPID."""
        guest = self.require(kind, values["node"], int(values["vmid"]))
        key = values["volume" if kind == "lxc" else "disk"]
        self._check_disk_move(guest, key, values)
        volume, target = guest.volumes[key], values["storage"]
        is_container = guest.kind == "lxc"
        before, guest.lock = guest.lock, "disk" if is_container else guest.lock
        self._use(target, guest.disk_size)

        def ended(status: str) -> None:
            guest.lock = before
            if status != "OK":
                self._use(target, -guest.disk_size)
                return
            moved = f"{target}:{volume.partition(':')[2]}"
            guest.disks = tuple(moved if v == volume else v for v in guest.disks)
            if values.get("delete") == "1" and not guest.keeps_original:
                self._use(storage_of(volume), -guest.disk_size)
            else:
                guest.unused += (volume,)

        type_ = "move_volume" if is_container else "qmmove"
        task = self._start(guest.node, type_, guest.vmid, user, tokenid, ended)
        task.log.append(f"create full clone of drive {key} ({volume})")
        failure = guest.failure and f"storage migration failed: {guest.failure}"
        self._later(guest.duration, lambda: self._end(task, failure or "OK"))
        return task.upid

    def _check_disk_move(
        self, guest: PveGuest, key: str, values: Mapping[str, str]
    ) -> None:
        target, node = values["storage"], values["node"]
        changed = values.get("digest", guest.digest) != guest.digest
        running = {task.type for task in self.running(guest.vmid)}
        problems = {
            "cluster not ready - no quorum?": not self.quorate,
            "detected modified configuration - file changed by other user?": changed,
            f"can't lock file 'lock-{guest.vmid}.conf' - got timeout": (
                not running.isdisjoint({"qmmove", "qmigrate"})
            ),
            "cannot move volumes of a running container": (
                guest.kind == "lxc" and guest.status == "running"
            ),
            f"disk '{key}' does not exist": key not in guest.volumes,
            "you can't move to the same storage with same format": (
                storage_of(guest.volumes.get(key, "")) == target
            ),
            "you can't move a disk with snapshots and delete the source": (
                guest.snapshot is not None and values.get("delete") == "1"
            ),
            f"storage '{target}' is not available on node '{node}'": (
                target not in self.storages or (node, target) in self.absent
            ),
        }
        self.require_unlocked(guest)
        for message, applies in problems.items():
            if applies:
                raise ApiFailure(500, message)

    def _use(self, storage: str, size: int) -> None:
        self.used[storage] = self.used.get(storage, USED) + size

    def require(self, kind: str, node: str, vmid: int) -> PveGuest:
        guest = self.guests.get(vmid)
        if guest is None or guest.node != node or guest.kind != kind:
            folder = "lxc" if kind == "lxc" else "qemu-server"
            path = f"nodes/{node}/{folder}/{vmid}.conf"
            raise ApiFailure(500, f"Configuration file '{path}' does not exist")
        return guest

    def require_unlocked(self, guest: PveGuest) -> None:
        if guest.lock:
            kind = "CT" if guest.kind == "lxc" else "VM"
            raise ApiFailure(500, f"{kind} is locked ({guest.lock})")

    def _check_migration(
        self, guest: PveGuest, target: str, values: Mapping[str, str]
    ) -> None:
        if not self.quorate:
            raise ApiFailure(500, "cluster not ready - no quorum?")
        if target == guest.node:
            raise ApiFailure(
                400, "Parameter verification failed.", target="target is local node."
            )
        if target not in self.nodes:
            raise ApiFailure(500, f"no such cluster node '{target}'")
        if guest.kind == "lxc":
            if guest.status == "running" and values.get("restart") != "1":
                raise ApiFailure(500, "lxc live migration is not implemented")
            return  # all else fails in the task
        self.require_unlocked(guest)
        if guest.status == "running" and values.get("online") != "1":
            raise ApiFailure(500, "can't migrate running VM without --online")
        if storage := guest.lacking.get(target):
            message = f"storage '{storage}' is not available on node '{target}'"
            raise ApiFailure(500, message)
        if self.local_disks(guest) and values.get("with-local-disks") != "1":
            raise ApiFailure(500, "can't migrate local disk without --with-local-disks")

    def _move(
        self, guest: PveGuest, target: str, user: str, tokenid: str | None
    ) -> PveTask:
        kind, word = ("vzmigrate", "CT") if guest.kind == "lxc" else ("qmigrate", "VM")
        source = guest.node
        failure = self._failure(guest, target)
        before, guest.lock = guest.lock, guest.lock or "migrate"

        def ended(status: str) -> None:
            guest.lock = before
            if status == "OK":
                guest.node = target

        task = self._start(source, kind, guest.vmid, user, tokenid, ended)
        if user == "root@pam":
            task.log.append("task started by HA resource agent")
        task.log.append(
            f"2026-11-22 08:00:00 starting migration of {word} {guest.vmid} to node "
            f"'{target}' (10.0.0.1)"
        )

        def finish() -> None:
            cause = failure
            if not self.nodes[target].online:
                cause = cause or "connection to the target was lost"
            if cause is not None:
                task.log.append(
                    "2026-11-22 08:00:01 ERROR: migration aborted (duration "
                    f"00:00:01): {cause}"
                )
            self._end(task, "OK" if cause is None else "migration aborted")

        self._later(guest.duration if failure is None else 1.0, finish)
        return task

    def _failure(self, guest: PveGuest, target: str) -> str | None:
        """Return why a migration fails in its task; None if it succeeds."""
        if not self.nodes[target].online:
            return "Can't connect to destination address using public key"
        if guest.kind == "lxc" and guest.lock:
            return f"CT is locked ({guest.lock})"
        if guest.kind == "lxc" and target in guest.lacking:
            return f"storage '{guest.lacking[target]}' is not available"
        if guest.devices:
            return f"can't migrate VM which uses local devices: {guest.devices[0]}"
        return guest.failure

    def _request_ha(
        self, guest: PveGuest, target: str, user: str, tokenid: str | None
    ) -> PveTask:
        def ended(status: str) -> None:
            if status == "OK":
                self.requests.append((guest.sid, target))

        task = self._start(guest.node, "hamigrate", guest.vmid, user, tokenid, ended)
        kind = "CT" if guest.kind == "lxc" else "VM"
        task.log += [
            f"Requesting HA migration for {kind} {guest.vmid} to node {target}",
            _NOISE,
        ]
        blocking = self._apart(guest.sid, target)

        def finish() -> None:
            if blocking:
                task.log.append(f"cannot migrate: {blocking} is on the target")
            self._end(
                task,
                f"command 'ha-manager migrate {guest.sid} {target}' failed"
                if blocking
                else "OK",
            )

        self._later(REQUEST_TIME, finish)
        return task

    def _apart(self, sid: str, target: str) -> str | None:
        for rule in self.rules:
            members: list[str] = rule.get("resources", "").split(",")
            if rule.get("affinity") == "negative" and sid in members:
                for other in members:
                    service = self.services.get(other, {})
                    if other != sid and service.get("node") == target:
                        return other
        return None

    def _round(self) -> None:
        """Carry out a round of the HA manager."""
        self._later(ROUND, self._round)
        for sid, service in self.services.items():
            guest = self._of_service(sid)
            moving = [t for t in self.running(guest.vmid) if t.type != "hamigrate"]
            if service["state"] == "migrate" and not moving:
                service.update(state=guest.ha or "started", node=guest.node)
                service.pop("target", None)
        requests, self.requests = self.requests, []
        for sid, target in requests:
            for each in (sid, *self._together(sid)):
                self._begin(each, target)

    def _begin(self, sid: str, target: str) -> None:
        service, node = self.services[sid], self.nodes[target]
        guest = self._of_service(sid)
        if (
            service["state"] != "started"
            or not node.online
            or node.maintenance
            or guest.node == target
        ):
            return  # dropped silently
        service.update(state="migrate", target=target)

        def move() -> None:
            self._move(guest, target, "root@pam", None)

        self._later(2.0, move)

    def _together(self, sid: str) -> list[str]:
        return [
            other
            for rule in self.rules
            if rule.get("affinity") == "positive"
            and sid in (members := rule["resources"].split(","))
            for other in members
            if other != sid
        ]

    def _of_service(self, sid: str) -> PveGuest:
        return self.guests[int(sid.partition(":")[2])]

    def stop(self, task: PveTask) -> None:
        """Stop a task as `DELETE` does."""
        if task.end is None:
            is_disk = task.type in ("qmmove", "move_volume")
            what = "storage migration failed" if is_disk else "migration aborted"
            self._end(task, f"{what} - received interrupt")

    def _start(  # noqa: PLR0913, PLR0917 - what a task has
        self,
        node: str,
        kind: str,
        vmid: int,
        user: str,
        tokenid: str | None,
        on_end: Callable[[str], None],
    ) -> PveTask:
        number = next(self._numbers)
        login = user if tokenid is None else f"{user}!{tokenid}"
        upid = f"UPID:{node}:{number:08X}:{number:08X}:{int(self.now):08X}"
        task = PveTask(
            f"{upid}:{kind}:{vmid}:{login}:",
            node,
            kind,
            vmid,
            user,
            tokenid,
            self.now,
            on_end=on_end,
        )
        self.tasks.append(task)
        return task

    def _end(self, task: PveTask, status: str) -> None:
        if task.end is not None:
            return
        task.end, task.status = self.now, status
        task.log.append("TASK OK" if status == "OK" else f"TASK ERROR: {status}")
        task.on_end(status)

    def _later(self, seconds: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), event))


def storage_of(volume: str) -> str:
    """Return the storage of a volume."""
    return volume.partition(":")[0]


def as_json(data: object) -> bytes:
    """Return the body of a successful answer."""
    return json.dumps({"data": data}).encode()
