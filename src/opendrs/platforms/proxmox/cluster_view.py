"""Responses of one observation, and the rows of guests in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from opendrs.model import Disk, GuestId, GuestKind
from opendrs.platforms.proxmox.ha import HaView
from opendrs.platforms.proxmox.preconditions import Preconditions
from opendrs.platforms.proxmox.responses import (
    ClusterRow,
    GuestRow,
    NodeHistoryRow,
    ResourceRow,
    TaskRow,
)
from opendrs.platforms.proxmox.settings import GuestNaming
from opendrs.platforms.proxmox.tasks import DiskMoveTask, service_id

IO_PRESSURE = "io-pressure"  # name of a further load of nodes and guests
GUEST_TYPES = {"qemu": GuestKind.VM, "lxc": GuestKind.CONTAINER}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDetails:
    """Responses about one node; None or empty for those that are not available.

    Attributes:
        history: Averages of the last minutes, oldest first.
        guests: The pressure of its guests by number.
        cpu_model: Model of its CPUs.
        architecture: Instruction set.
        ksm_shared: Bytes saved by merging equal pages.
    """

    history: tuple[NodeHistoryRow, ...] = ()
    guests: Mapping[int, GuestRow] = field(default_factory=dict)
    cpu_model: str | None = None
    architecture: str | None = None
    ksm_shared: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """Responses that one observation has read.

    Attributes:
        resources: Rows of nodes, guests and storages.
        cluster: Rows of the status of the cluster.
        tasks: Running tasks.
        ha: The HA stack.
        details: Responses about single nodes.
        silent_nodes: Nodes that did not answer.
        preconditions: Migration preconditions by number of the guest.
        targets: Target nodes of running migrations by number of the guest.
        disks: Disks of guests by number; those that were not read are absent.
        disk_moves: Running moves of disks that this process started, by number of the
            guest.
        replicated: Numbers of the guests that are replicated to other nodes; None if
            unknown.
        average_cpu: CPU usage of guests in cores, averaged over a window.
        traffic: Network traffic of guests in bytes per second, in the same way.
    """

    resources: tuple[ResourceRow, ...]
    cluster: tuple[ClusterRow, ...]
    tasks: tuple[TaskRow, ...] = ()
    ha: HaView = field(default_factory=HaView)
    details: Mapping[str, NodeDetails] = field(default_factory=dict)
    silent_nodes: frozenset[str] = frozenset()
    preconditions: Mapping[int, Preconditions] = field(default_factory=dict)
    targets: Mapping[int, str] = field(default_factory=dict)
    disks: Mapping[int, tuple[Disk, ...]] = field(default_factory=dict)
    disk_moves: Mapping[int, DiskMoveTask] = field(default_factory=dict)
    replicated: frozenset[int] | None = frozenset()
    average_cpu: Mapping[int, float] = field(default_factory=dict)
    traffic: Mapping[int, float] = field(default_factory=dict)


def guest_rows(resources: Iterable[ResourceRow]) -> tuple[ResourceRow, ...]:
    """Return the rows of guests on a node, without templates."""
    return tuple(
        row
        for row in resources
        if row.type in GUEST_TYPES and row.vmid and row.node and not row.template
    )


def guest_ids(rows: Iterable[ResourceRow], naming: GuestNaming) -> dict[int, GuestId]:
    """Return the id of each guest by its number.

    A guest without a name is called by its number.
    """
    if naming is GuestNaming.ID:
        return {
            row.vmid: GuestId(service_id(row.type, row.vmid))
            for row in rows
            if row.vmid is not None
        }
    named = {row.vmid: row.name or "" for row in rows if row.vmid is not None}
    counts = Counter(named.values())
    return {
        vmid: GuestId(_guest_name(name, vmid, counts)) for vmid, name in named.items()
    }


def _guest_name(name: str, vmid: int, counts: Counter[str]) -> str:
    if not name:
        return str(vmid)
    return name if counts[name] == 1 else f"{name}/{vmid}"


def is_quorate(cluster: Iterable[ClusterRow]) -> bool:
    """Return False if the API host is in a part of the cluster without quorum."""
    return not any(row.type == "cluster" and row.quorate is False for row in cluster)


def recent_history(
    rows: Iterable[NodeHistoryRow], window: float
) -> tuple[NodeHistoryRow, ...]:
    """Return the rows with figures of the last *window* seconds of *rows*.

    The last row is the present; a node without recent figures has no history.
    """
    timed = [row for row in rows if row.time is not None]
    if not timed:
        return ()
    end = max(row.time or 0 for row in timed)
    return tuple(
        row
        for row in timed
        if row.cpu is not None and (row.time or 0) > end - max(window, 120)
    )


def instant_cpu(row: ResourceRow) -> float | None:
    """Return the cores that a guest uses now; None if not reported."""
    if row.cpu is None or row.maxcpu is None:
        return None
    return row.cpu * row.maxcpu
