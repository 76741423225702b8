"""What the operator allows, whatever a policy would like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from opendrs.errors import ModelError
from opendrs.model.identifiers import NodeId
from opendrs.model.quantities import BytesPerSecond, Seconds
from opendrs.model.resources import require_amount

MAX_BANDWIDTH = 1e15  # bytes a second, a thousand times any network
MAX_DURATION = 1e8  # seconds, some three years; far more and dates overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """What joins some nodes to all others: the uplink of a rack, a line between sites.

    Moves between one of its nodes and any other node go over it.

    Attributes:
        name: What it is called where it is named to people.
        nodes: The nodes on its one side.
        max_parallel_migrations: Moves that may run over it at once; None for as many as there are.
        bandwidth: Bytes a second over it, shared by the moves; None when it is not
            known, or never less than the links of the nodes. As that of `Limits`, it
            binds nobody.

    Raises:
        ModelError: A value is out of range, or nothing is limited.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    name: str
    nodes: tuple[NodeId, ...]
    max_parallel_migrations: int | None = None
    bandwidth: BytesPerSecond | None = None

    def __post_init__(self) -> None:
        if not self.nodes:
            raise ModelError(f"{self.name}: there must be at least 1 node")
        if self.max_parallel_migrations is None and self.bandwidth is None:
            raise ModelError(
                f"{self.name}: expected max_parallel_migrations, bandwidth, or both"
            )
        if (
            self.max_parallel_migrations is not None
            and self.max_parallel_migrations < 1
        ):
            raise ModelError(
                f"{self.name}: max_parallel_migrations must be at least 1, not {self.max_parallel_migrations}"
            )
        _require_bandwidth(self.bandwidth)

    def carries(self, source: NodeId, target: NodeId) -> bool:
        """Return whether a move from *source* to *target* goes over it."""
        return (source in self.nodes) != (target in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that bind every policy and that the guard checks again.

    Attributes:
        memory_headroom: Part of each node's memory, in [0, 1), that stays free
            of measured use when guests arrive.
        memory_overcommit: How often the memory of a node may be promised: the
            memory limits of its guests may add up to this times its capacity.
        max_migrations_per_node: Moves that may run at once from or to one node.
        max_parallel_migrations: Moves that may run at once in the cluster.
        cooldown: Seconds for which a guest that was moved is left alone, and a node
            that was woken stays on.
        min_uptime: Seconds for which a guest that has just started is left
            alone. An uptime that is not known does not hold a guest back.
        migration_timeout: Seconds after which a move that has not ended is aborted.
        bandwidth: Bytes a second over the link of one node, shared by the moves
            from and to it; None when not known. It binds nobody: it is what
            estimates of how long a plan takes are made with.
        networks: What joins parts of the cluster, where moves over it are limited.

    Raises:
        ModelError: A limit is out of range, or two networks have one name.
    """

    memory_headroom: float = 0.05
    memory_overcommit: float = 1.0
    max_migrations_per_node: int = 2
    max_parallel_migrations: int = 4
    cooldown: Seconds = 600.0
    min_uptime: Seconds = 60.0
    migration_timeout: Seconds = 1800.0
    bandwidth: BytesPerSecond | None = None
    networks: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        for name in (
            "memory_overcommit",
            "cooldown",
            "min_uptime",
            "migration_timeout",
        ):
            require_amount(name, getattr(self, name))
        for name in ("cooldown", "min_uptime", "migration_timeout"):
            if getattr(self, name) > MAX_DURATION:
                raise ModelError(f"{name} must be at most {MAX_DURATION:.0e} seconds")
        _require_bandwidth(self.bandwidth)
        if not 0 <= self.memory_headroom < 1:
            raise ModelError(
                f"memory_headroom must be in [0, 1), not {self.memory_headroom}"
            )
        for name in ("max_migrations_per_node", "max_parallel_migrations"):
            if getattr(self, name) < 1:
                raise ModelError(
                    f"{name} must be at least 1, not {getattr(self, name)}"
                )
        names = [each.name for each in self.networks]
        if duplicates := [name for name in names if names.count(name) > 1]:
            raise ModelError(f"there are two networks called {duplicates[0]}")

    def networks_between(self, source: NodeId, target: NodeId) -> tuple[Network, ...]:
        """Return the networks that a move from *source* to *target* goes over."""
        return tuple(each for each in self.networks if each.carries(source, target))


def _require_bandwidth(bandwidth: float | None) -> None:
    if bandwidth is not None and not bandwidth >= 1:
        raise ModelError(f"bandwidth must be at least 1, not {bandwidth}")
    if bandwidth is not None and bandwidth > MAX_BANDWIDTH:
        raise ModelError(
            f"bandwidth must be at most {MAX_BANDWIDTH:.0e}, not {bandwidth}"
        )


DEFAULT_LIMITS = Limits()
