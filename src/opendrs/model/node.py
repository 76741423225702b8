"""A hypervisor host."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from opendrs.errors import ModelError
from opendrs.model.identifiers import NodeId
from opendrs.model.resources import (
    UNKNOWN_PRESSURE,
    UNKNOWN_USAGE,
    Pressure,
    Resources,
    Usage,
    require_amount,
)

MIN_CPU = 0.001  # cores; less would make any load look endless


class NodeState(StrEnum):
    """Whether a node takes part in the cluster."""

    ONLINE = "online"
    OFFLINE = "offline"
    MAINTENANCE = "maintenance"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A hypervisor host.

    Attributes:
        id: Its name, unique in the cluster.
        capacity: What the host has in all; None when it could not be asked.
        usage: What is in use now, as far as it was measured.
        state: Only an online node receives guests.
        architecture: Instruction set such as x86_64; None when unknown.
        cpu_model: Processor model as the hypervisor names it.
        labels: What the operator says about the host (ssd, rack-3).
        load_average: Runnable tasks, averaged over one minute.
        pressure: Pressure stall information of the whole host.
        ksm_shared: Bytes of memory saved by merging equal pages (KSM).
        powered_on_at: When it was last woken, always aware; None when not known.

    Raises:
        ModelError: A capacity is next to nothing, an amount negative or not finite,
            or the time it was woken has no time zone.
    """

    id: NodeId
    capacity: Resources | None = None
    usage: Usage = UNKNOWN_USAGE
    state: NodeState = NodeState.UNKNOWN
    architecture: str | None = None
    cpu_model: str | None = None
    labels: frozenset[str] = frozenset()
    load_average: float | None = None
    pressure: Pressure = UNKNOWN_PRESSURE
    ksm_shared: int | None = None
    powered_on_at: datetime | None = None

    def __post_init__(self) -> None:
        capacity = self.capacity
        if capacity is not None and (capacity.cpu < MIN_CPU or capacity.memory < 1):
            raise ModelError(
                f"{self.id}: capacity must be at least {MIN_CPU} cores and 1 byte, "
                f"not {capacity.cpu} and {capacity.memory}"
            )
        for name in ("load_average", "ksm_shared"):
            value = getattr(self, name)
            if value is not None:
                require_amount(f"{self.id}: {name}", value)
        if self.powered_on_at is not None and self.powered_on_at.tzinfo is None:
            raise ModelError(
                f"{self.id}: powered_on_at has no time zone: {self.powered_on_at}"
            )

    @property
    def online(self) -> bool:
        """Return whether the node takes part and may receive guests."""
        return self.state is NodeState.ONLINE

    @property
    def reachable(self) -> bool:
        """Return whether the node answers, whether or not it may receive guests."""
        return self.state in (NodeState.ONLINE, NodeState.MAINTENANCE)
