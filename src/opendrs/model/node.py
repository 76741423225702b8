"""Hypervisor host."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from opendrs.errors import ModelError
from opendrs.model.identifiers import NodeId
from opendrs.model.resources import (
    UNKNOWN_ALLOCATION,
    UNKNOWN_PRESSURE,
    UNKNOWN_USAGE,
    Allocation,
    LoadAmounts,
    Pressure,
    Resources,
    Usage,
    no_loads,
    require_amount,
    require_loads,
)
from opendrs.model.storage import Storage

FAILURE_DOMAIN = "failure_domain"  # key of the domain that the platform reports
MIN_CPU = 0.001  # cores; smaller capacities give meaningless loads


class NodeState(StrEnum):
    """State of a node in the cluster."""

    ONLINE = "online"
    """The node runs guests and may receive others."""
    OFFLINE = "offline"
    """The node is off or fenced."""
    MAINTENANCE = "maintenance"
    """The node responds, is to be drained, and receives no guests."""
    EXCLUDED = "excluded"
    """The node responds; its guests stay, and it receives no others."""
    UNKNOWN = "unknown"
    """The node does not respond."""


class LoadState(StrEnum):
    """Load state of a node, as determined by its agent."""

    NORMAL = "normal"
    """No change is required."""
    UNDERLOADED = "underloaded"
    """The node could be drained."""
    OVERLOADED = "overloaded"
    """Guests should be evicted from the node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Hypervisor host.

    Attributes:
        id: Name, unique in the cluster.
        capacity: Total resources; None if unknown.
        usage: Measured use; None for each resource that was not measured.
        state: State in the cluster. Only online nodes receive guests.
        architecture: Instruction set such as x86_64; None if unknown.
        cpu_model: CPU model in the terms of the hypervisor; None if unknown.
        labels: Labels that the operator has set, such as ssd or rack=3.
        load_average: Runnable tasks, averaged over one minute; None if unknown.
        pressure: Pressure stall information of the whole host.
        ksm_shared: Bytes of memory saved by merging equal pages (KSM); None if unknown.
        powered_on_at: Time of its last power-on, time zone aware; None if unknown.
        allocation: Limits of the platform on allocated resources.
        groups: Groups of nodes that it belongs to, such as host aggregates.
        failure_domain: Domain that fails as a whole, such as a rack or a zone; None if
            unknown.
        storages: Storages that it can use; None if unknown.
        jobs: Jobs in progress on it, such as backup; None if unknown.
        loads: Measured amounts of further loads, those of its guests included; absent
            ones are unknown.
        load_capacities: Capacity of each further load that it has; above 0.

    Raises:
        ModelError: A capacity is below the minimum, an amount is negative or not
            finite, or `powered_on_at` has no time zone.
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
    allocation: Allocation = UNKNOWN_ALLOCATION
    groups: frozenset[str] = frozenset()
    failure_domain: str | None = None
    storages: tuple[Storage, ...] | None = None
    jobs: tuple[str, ...] | None = None
    loads: LoadAmounts = field(default_factory=no_loads, hash=False)
    load_capacities: LoadAmounts = field(default_factory=no_loads, hash=False)

    def __post_init__(self) -> None:
        capacity = self.capacity
        if capacity is not None and (capacity.cpu < MIN_CPU or capacity.memory < 1):
            raise ModelError(
                f"{self.id}: capacity: expected at least {MIN_CPU} cores and 1 byte, "
                f"got {capacity.cpu} and {capacity.memory}"
            )
        for name in ("load_average", "ksm_shared"):
            value = getattr(self, name)
            if value is not None:
                require_amount(f"{self.id}: {name}", value)
        if self.loads:
            require_loads(f"{self.id}: loads", self.loads)
        if self.load_capacities:
            self._require_load_capacities()
        if self.powered_on_at is not None and self.powered_on_at.tzinfo is None:
            raise ModelError(
                f"{self.id}: powered_on_at: expected a time zone, got "
                f"{self.powered_on_at}"
            )

    def _require_load_capacities(self) -> None:
        require_loads(f"{self.id}: load_capacities", self.load_capacities)
        for name, capacity in self.load_capacities.items():
            if capacity == 0:
                raise ModelError(
                    f"{self.id}: load_capacities: {name}: expected more than 0, got 0"
                )

    @property
    def online(self) -> bool:
        """Return whether the node may receive guests."""
        return self.state is NodeState.ONLINE

    def domain(self, key: str) -> str | None:
        """Return the failure domain of the node; None if it is unknown.

        Args:
            key: `failure_domain` for that of the platform; otherwise the key of a label
                `KEY=VALUE`, whose value is the domain. Of several, the first in order.
        """
        if key == FAILURE_DOMAIN:
            return self.failure_domain
        start = f"{key}="
        found = (each for each in self.labels if each.startswith(start))
        return min(found, default=start)[len(start) :] or None

    def storage(self, name: str) -> Storage | None:
        """Return the storage *name* of the node; None if there is none."""
        return next((each for each in self.storages or () if each.id == name), None)

    def shares(self, name: str) -> bool:
        """Return True if other nodes use the storage *name* of the node as well."""
        return any(each.shared and each.id == name for each in self.storages or ())

    @property
    def reachable(self) -> bool:
        """Return whether the node responds; it may receive no guests."""
        return self.state not in (NodeState.OFFLINE, NodeState.UNKNOWN)
