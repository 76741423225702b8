"""A virtual machine or a system container."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opendrs.errors import ModelError
from opendrs.model.identifiers import GuestId, NodeId
from opendrs.model.resources import (
    UNKNOWN_PRESSURE,
    UNKNOWN_USAGE,
    Pressure,
    Resources,
    Usage,
    require_amount,
)


class GuestKind(StrEnum):
    """What kind of guest it is."""

    VM = "vm"
    CONTAINER = "container"


class GuestState(StrEnum):
    """Whether a guest runs."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


class Mobility(StrEnum):
    """How a guest can get to another node."""

    LIVE = "live"
    COLD = "cold"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A virtual machine or a system container.

    Attributes:
        id: Its name, unique in the cluster.
        node: The node it is on.
        kind: Virtual machine or container.
        state: Only a running guest is moved; a stopped one takes no room.
        limit: What it may use at most; None when unknown, cpu 0 without limit.
        usage: What it uses now, as far as it was measured.
        pressure: Pressure stall information of the guest.
        uptime: Seconds since it started; None when unknown.
        mobility: How it can move; None when the platform did not say.
        mobility_detail: Why it cannot move live, in words for the operator.
        ha_managed: Whether an HA manager restarts it; None when unknown.
        tags: What the operator says about the guest.
        cpu_model: The node's processor model it depends on; None for any.
        migrating_to: The target while a migration is under way.
        migrated_at: When it was last moved, always aware; None when not known.
        dirty_rate: Bytes of memory it writes anew in a second; None when not measured.

    Raises:
        ModelError: The uptime or dirty rate is negative or not finite, the guest
            migrates to the node it is on, or the time it was moved has no time zone.
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

    def __post_init__(self) -> None:
        for name in ("uptime", "dirty_rate"):
            value = getattr(self, name)
            if value is not None:
                require_amount(f"{self.id}: {name}", value)
        if self.migrating_to == self.node:
            raise ModelError(f"{self.id} cannot migrate to {self.node}, where it is")
        if self.migrated_at is not None and self.migrated_at.tzinfo is None:
            raise ModelError(
                f"{self.id}: migrated_at has no time zone: {self.migrated_at}"
            )

    @property
    def effective_mobility(self) -> Mobility:
        """Return how to move it when the platform did not say otherwise.

        A virtual machine is then taken to move live and a container only
        stopped; the platform has the last word when the step starts.
        """
        if self.mobility is not None:
            return self.mobility
        return Mobility.LIVE if self.kind is GuestKind.VM else Mobility.COLD

    @property
    def is_active(self) -> bool:
        """Return whether it takes room on its node: all but stopped guests do."""
        return self.state is not GuestState.STOPPED

    @property
    def occupied_nodes(self) -> tuple[NodeId, ...]:
        """Return the nodes it counts on: two while it moves, none when stopped."""
        if not self.is_active:
            return ()
        if self.migrating_to is None:
            return (self.node,)
        return (self.node, self.migrating_to)
