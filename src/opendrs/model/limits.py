"""Limits of the operator for all policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from opendrs.errors import ModelError
from opendrs.model.further_loads import FurtherLoad
from opendrs.model.identifiers import NodeId
from opendrs.model.node import Node
from opendrs.model.node_limits import (
    NODE_LIMITS,
    EffectiveLimits,
    NodeLimits,
    UsableResources,
    require_node_limits,
)
from opendrs.model.quantities import BytesPerSecond, Seconds
from opendrs.model.resources import require_amount
from opendrs.model.storage_groups import StorageGroup, require_storage_groups

MAX_BANDWIDTH = 1e15  # bytes per second; a thousand times the fastest networks
MAX_TOLERATED = 3  # nodes that fail at the same time; the sets of more are too many
MAX_DURATION = 1e8  # seconds, about three years; keeps dates from overflowing


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Link between some nodes and all others, such as the uplink of a rack or a site.

    Migrations between one of its nodes and any other node use it.

    Attributes:
        name: Name in messages.
        nodes: Nodes on one side of the link.
        max_parallel_migrations: Migrations that may use it at the same time; None for
            no limit.
        bandwidth: Bytes per second, shared by its migrations; None if unknown or never
            the bottleneck. Not enforced; used only to estimate migration times, as in
            `Limits`.

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
            raise ModelError(f"{self.name}: nodes: expected at least 1, got 0")
        if self.max_parallel_migrations is None and self.bandwidth is None:
            raise ModelError(
                f"{self.name}: nothing is limited; set max_parallel_migrations, "
                "bandwidth, or both"
            )
        if (
            self.max_parallel_migrations is not None
            and self.max_parallel_migrations < 1
        ):
            raise ModelError(
                f"{self.name}: max_parallel_migrations: expected at least 1, got "
                f"{self.max_parallel_migrations}"
            )
        _require_bandwidth(self.bandwidth)

    def carries(self, source: NodeId, target: NodeId) -> bool:
        """Return whether a migration from *source* to *target* uses the link."""
        return (source in self.nodes) != (target in self.nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that apply to every policy and that the guard checks again.

    Attributes:
        memory_headroom: Fraction of the memory of each node, in [0, 1), that stays free
            of measured use when guests arrive.
        memory_overcommit: Most that the memory limits of the guests on a node may add
            up to, as a multiple of its memory.
        cpu_overcommit: Most that the CPU limits of the guests on a node may add up to,
            as a multiple of its cores less `reserved_cpu`; None if they are not
            limited.
        reserved_cpu: Cores of each node that guests are not allocated, or a percentage
            such as "10 %". It counts with `cpu_overcommit`.
        reserved_memory: Memory of each node that neither is in use nor allocated after
            guests have arrived: bytes, a text such as "8 GiB", or a percentage. The
            larger of it and the headroom stays free of measured use, and the memory
            without it is what `memory_overcommit` multiplies.
        overrides: Limits of some nodes that differ. Of several for one node, the last
            one that sets a limit counts.
        max_migrations_per_node: Parallel migrations from or to one node.
        max_parallel_migrations: Parallel migrations in the cluster.
        cooldown: Seconds in which a migrated guest is not migrated again, and a
            powered-on node is not powered off.
        min_uptime: Seconds after its start in which a guest is not migrated. A guest of
            unknown uptime may migrate.
        migration_timeout: Seconds after which a migration is aborted.
        migrate_local_disks: Whether guests may migrate with copies of their disks on
            storages of their node alone. They then migrate to nodes with enough free
            space for the copies.
        storage_groups: Storages among which disks of guests are moved away from full
            ones; no disk is moved without a group.
        bandwidth: Bytes per second over the link of one node, shared by its migrations;
            None if unknown. Not enforced; used only to estimate migration times.
        networks: Links between parts of the cluster with limits of their own.
        balance_above_cpu_load: Load of CPU, in [0, 1], that some node must exceed for
            a migration for balance; None for no such gate. With both gates, one node
            above either of them suffices.
        balance_above_memory_load: The same for memory.
        loads: Further loads that are balanced or limited, such as network.
        tolerated_failures: Number of nodes, any, that may fail at the same time: the
            guests of each such set restart on the other nodes. No plan makes the
            cluster tolerate less.
        tolerated_domain: Key of the domains of which any one may fail, with all of its
            nodes: that of the node labels `KEY=VALUE`, such as rack, or failure_domain.
            A node without such a label is a domain of its own. None for no domain.

    Raises:
        ModelError: A limit is out of range, two networks, loads or groups have the same
            name, or a storage is in two groups.
    """

    memory_headroom: float = 0.05
    memory_overcommit: float = 1.0
    cpu_overcommit: float | None = None
    reserved_cpu: float | str = 0.0
    reserved_memory: float | str = 0
    overrides: tuple[NodeLimits, ...] = ()
    max_migrations_per_node: int = 2
    max_parallel_migrations: int = 4
    cooldown: Seconds = 600.0
    min_uptime: Seconds = 60.0
    migration_timeout: Seconds = 1800.0
    migrate_local_disks: bool = False
    storage_groups: tuple[StorageGroup, ...] = ()
    bandwidth: BytesPerSecond | None = None
    networks: tuple[Network, ...] = ()
    balance_above_cpu_load: float | None = None
    balance_above_memory_load: float | None = None
    loads: tuple[FurtherLoad, ...] = ()
    tolerated_failures: int = 0
    tolerated_domain: str | None = None

    def __post_init__(self) -> None:
        for name in (
            "cooldown",
            "min_uptime",
            "migration_timeout",
        ):
            require_amount(name, getattr(self, name))
        for name in ("cooldown", "min_uptime", "migration_timeout"):
            if getattr(self, name) > MAX_DURATION:
                raise ModelError(
                    f"{name}: expected at most {MAX_DURATION:.0e} s, got "
                    f"{getattr(self, name):g}"
                )
        _require_bandwidth(self.bandwidth)
        require_node_limits(self)
        self._require_cpu_overcommit()
        for name in ("balance_above_cpu_load", "balance_above_memory_load"):
            _require_load(name, getattr(self, name))
        for name in ("max_migrations_per_node", "max_parallel_migrations"):
            if getattr(self, name) < 1:
                raise ModelError(
                    f"{name}: expected at least 1, got {getattr(self, name)}"
                )
        self._require_tolerated()
        require_storage_groups(self.storage_groups)
        for field in ("networks", "loads", "storage_groups"):
            names = [each.name for each in getattr(self, field)]
            if duplicates := [name for name in names if names.count(name) > 1]:
                raise ModelError(f"{field}: duplicate name: {duplicates[0]}")

    def _require_tolerated(self) -> None:
        """Check which failures are tolerated."""
        if not 0 <= self.tolerated_failures <= MAX_TOLERATED:
            raise ModelError(
                f"tolerated_failures: expected 0 to {MAX_TOLERATED}, got "
                f"{self.tolerated_failures}"
            )
        if self.tolerated_domain is not None and not self.tolerated_domain.strip():
            raise ModelError(
                "tolerated_domain: expected the key of node labels, such as rack, got "
                f"{self.tolerated_domain!r}"
            )

    def _require_cpu_overcommit(self) -> None:
        """Check that no reserve of CPU is without effect."""
        ratios = [each.cpu_overcommit for each in self.overrides]
        reserves = [each.reserved_cpu for each in self.overrides]
        if self.cpu_overcommit is not None:
            return
        if self.reserved_cpu not in (0, 0.0) and not any(ratios):
            raise ModelError("reserved_cpu: expected cpu_overcommit as well, got none")
        for index, reserve in enumerate(reserves):
            if reserve is not None and not any(ratios):
                raise ModelError(
                    f"overrides: reserved_cpu of entry {index + 1}: expected "
                    "cpu_overcommit as well, got none"
                )

    @property
    def tolerates_failures(self) -> bool:
        """Return whether some failures are to be tolerated."""
        return self.tolerated_failures > 0 or self.tolerated_domain is not None

    def usable_resources(self, node: Node) -> UsableResources | None:
        """Return what *node* may give to guests; None if its capacity is unknown."""
        values = EffectiveLimits(*(getattr(self, name) for name in NODE_LIMITS))
        for each in self.overrides:
            if each.applies_to(node):
                values = values.with_override(each)
        return values.usable_resources(node)

    def networks_between(self, source: NodeId, target: NodeId) -> tuple[Network, ...]:
        """Return the networks that a migration from *source* to *target* uses."""
        return tuple(each for each in self.networks if each.carries(source, target))


def _require_load(name: str, value: float | None) -> None:
    if value is not None and not 0 <= value <= 1:
        hint = f"; {value:g} % is {value / 100:g}" if 1 < value <= 100 else ""
        raise ModelError(f"{name}: expected a fraction in [0, 1], got {value:g}{hint}")


def _require_bandwidth(bandwidth: float | None) -> None:
    if bandwidth is not None and not bandwidth >= 1:
        raise ModelError(
            f"bandwidth: expected at least 1 byte per second, got {bandwidth}"
        )
    if bandwidth is not None and bandwidth > MAX_BANDWIDTH:
        raise ModelError(
            f"bandwidth: expected at most {MAX_BANDWIDTH:.0e} bytes per second, got "
            f"{bandwidth}"
        )


DEFAULT_LIMITS = Limits()
