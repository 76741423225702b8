"""A virtual machine or a system container."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from opendrs.errors import ModelError
from opendrs.model.identifiers import GuestId, NodeId
from opendrs.model.resources import (
    UNKNOWN_PRESSURE,
    UNKNOWN_USAGE,
    Forecast,
    LoadAmounts,
    Pressure,
    Resources,
    Usage,
    no_loads,
    require_amount,
    require_loads,
)
from opendrs.model.storage import Disk, require_unique_names


class GuestKind(StrEnum):
    """Kind of a guest: virtual machine or system container."""

    VM = "vm"
    CONTAINER = "container"


class GuestState(StrEnum):
    """Run state of a guest."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class Mobility(StrEnum):
    """Way in which a guest can migrate."""

    LIVE = "live"
    COLD = "cold"
    NONE = "none"

    @property
    def text(self) -> str:
        """Return the mobility in words; the codes are for programs."""
        return _MOBILITY_TEXTS[self]


_MOBILITY_TEXTS = {
    Mobility.LIVE: "live",
    Mobility.COLD: "migrated only while stopped",
    Mobility.NONE: "cannot be migrated",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """Virtual machine or system container.

    Attributes:
        id: Name, unique in the cluster.
        node: Node that the guest is on.
        kind: Virtual machine or container.
        state: Run state. Only running guests migrate; a stopped one occupies no memory.
        limit: Most that the guest may use; None if unknown, cpu 0 if unlimited.
        usage: Measured use; None for each resource that was not measured.
        pressure: Pressure stall information of the guest.
        uptime: Seconds since its start; None if unknown.
        mobility: Way in which it can migrate; None if the platform does not report it.
        mobility_detail: Reason why it cannot migrate live, for the operator.
        ha_managed: Whether an HA manager restarts it; None if unknown.
        tags: Tags that the operator has set.
        cpu_model: CPU model of the node that it requires; None for any.
        migrating_to: Target of the migration in progress; None if there is none.
        migrated_at: Time of its last migration, time zone aware; None if unknown.
        dirty_rate: Bytes of memory written per second; None if not measured.
        managed_by: Program that decides on its placement in place of OpenDRS, such as
            the rebalancer of the platform; None if there is none.
        lock: Operation of the platform that locks it, such as backup; None if none.
        disks: Its disks; None if unknown.
        forecast: Use in the next hours; None if it is not forecast.
        loads: Measured amounts of further loads; those that are absent are unknown.

    Raises:
        ModelError: The uptime, the dirty rate or a load is negative or not finite, the
            guest migrates to its own node, two disks have the same name, or
            `migrated_at` has no time zone.
    """

    id: GuestId
    node: NodeId
    kind: GuestKind
    state: GuestState = GuestState.UNKNOWN
    limit: Resources | None = None
    usage: Usage = UNKNOWN_USAGE
    pressure: Pressure = UNKNOWN_PRESSURE
    uptime: float | None = None
    mobility: Mobility | None = None
    mobility_detail: str | None = None
    ha_managed: bool | None = None
    tags: frozenset[str] = frozenset()
    cpu_model: str | None = None
    migrating_to: NodeId | None = None
    migrated_at: datetime | None = None
    dirty_rate: float | None = None
    managed_by: str | None = None
    lock: str | None = None
    disks: tuple[Disk, ...] | None = None
    forecast: Forecast | None = None
    loads: LoadAmounts = field(default_factory=no_loads, hash=False)

    def __post_init__(self) -> None:
        if self.uptime is not None:
            require_amount(f"{self.id}: uptime", self.uptime)
        if self.dirty_rate is not None:
            require_amount(f"{self.id}: dirty_rate", self.dirty_rate)
        if self.loads:
            require_loads(f"{self.id}: loads", self.loads)
        if self.disks:
            require_unique_names(self.id, self.disks)
        if self.migrating_to == self.node:
            raise ModelError(
                f"{self.id}: migrating_to must differ from its node, got {self.node}"
            )
        if self.migrated_at is not None and self.migrated_at.tzinfo is None:
            raise ModelError(
                f"{self.id}: migrated_at: expected a time zone, got {self.migrated_at}"
            )

    @property
    def effective_mobility(self) -> Mobility:
        """Return the mobility, with a default by kind if it is unknown.

        The default is live for a virtual machine and cold for a container. The platform
        decides when the step starts.
        """
        if self.mobility is not None:
            return self.mobility
        return Mobility.LIVE if self.kind is GuestKind.VM else Mobility.COLD

    @property
    def is_active(self) -> bool:
        """Return whether the guest occupies memory of its node: it is not stopped."""
        return self.state is not GuestState.STOPPED

    @property
    def moving_disk(self) -> Disk | None:
        """Return the disk that is being moved to another storage; None if none is."""
        return next((each for each in self.disks or () if each.moving_to), None)

    @property
    def occupied_nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes that it counts on: two while migrating, none if stopped."""
        if self.state is GuestState.STOPPED:
            return ()
        if self.migrating_to is None:
            return (self.node,)
        return (self.node, self.migrating_to)
