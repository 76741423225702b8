"""Limits of single nodes, and the resources that nodes may give to guests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from opendrs.errors import ModelError
from opendrs.model.identifiers import NodeId
from opendrs.model.node import Node
from opendrs.model.quantities import BYTES, parse_amount
from opendrs.model.resources import require_amount

_PERCENTAGE = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*%")


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLimits:
    """Limits of some nodes that differ from those of the cluster.

    It applies to nodes that `nodes` names, and to those with one of the groups or
    labels. A limit that is None is that of the cluster.

    Attributes:
        nodes: Names of nodes.
        groups: Groups of nodes, such as host aggregates.
        labels: Labels of nodes.
        memory_headroom: As in `Limits`.
        memory_overcommit: As in `Limits`.
        cpu_overcommit: As in `Limits`.
        reserved_cpu: As in `Limits`.
        reserved_memory: As in `Limits`.

    Raises:
        ModelError: It names no node, group or label, sets no limit, or a limit is out
            of range.
    """

    __pydantic_config__: ClassVar[Mapping[str, str]] = {"extra": "forbid"}

    nodes: tuple[NodeId, ...] = ()
    groups: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    memory_headroom: float | None = None
    memory_overcommit: float | None = None
    cpu_overcommit: float | None = None
    reserved_cpu: float | str | None = None
    reserved_memory: float | str | None = None

    def __post_init__(self) -> None:
        if not (self.nodes or self.groups or self.labels):
            raise ModelError("nodes: expected nodes, groups or labels, got none")
        if all(getattr(self, name) is None for name in NODE_LIMITS):
            raise ModelError(f"nothing is limited; set one of {', '.join(NODE_LIMITS)}")
        require_node_limits(self)

    def applies_to(self, node: Node) -> bool:
        """Return whether these are limits of *node*."""
        return (
            node.id in self.nodes
            or not node.groups.isdisjoint(self.groups)
            or not node.labels.isdisjoint(self.labels)
        )


NODE_LIMITS = (
    "memory_headroom",
    "memory_overcommit",
    "cpu_overcommit",
    "reserved_cpu",
    "reserved_memory",
)
"""Limits that may differ between nodes."""


def require_node_limits(limits: object) -> None:
    """Check the `NODE_LIMITS` among the attributes of *limits*; None is not set.

    Raises:
        ModelError: A limit is out of range; the message begins with its name.
    """
    values = {name: getattr(limits, name) for name in NODE_LIMITS}
    headroom = values["memory_headroom"]
    if headroom is not None and not 0 <= headroom < 1:
        raise ModelError(
            f"memory_headroom: expected a fraction in [0, 1), got {headroom}"
        )
    for name in ("memory_overcommit", "cpu_overcommit"):
        if values[name] is not None:
            require_amount(name, values[name])
    for name in ("reserved_cpu", "reserved_memory"):
        if values[name] is not None:
            _reserve(name, values[name], 1.0)


def _reserve(name: str, value: float | str, total: float) -> float:
    """Return the amount that *value* reserves of *total*."""
    if not isinstance(value, str):
        require_amount(name, value)
        return value
    percentage = _PERCENTAGE.fullmatch(value.strip())
    if percentage is not None and float(percentage[1]) <= 100:
        return float(percentage[1]) / 100 * total
    is_memory = name == "reserved_memory"
    amount = parse_amount(value, BYTES) if is_memory else None
    if amount is None:
        expected = 'bytes, a text such as "8 GiB"' if is_memory else "cores"
        raise ModelError(
            f'{name}: expected {expected}, or a percentage such as "10 %", got '
            f"{value!r}"
        )
    require_amount(name, amount)
    return amount


@dataclass(frozen=True, slots=True)
class UsableResources:
    """Most that the guests of a node, and the node itself, may use or be allocated.

    Attributes:
        memory: Bytes in use.
        committed_memory: Sum of the memory limits of the guests, in bytes.
        committed_cpu: Sum of the CPU limits of the guests, in cores; None if they are
            not limited.
    """

    memory: float
    committed_memory: float
    committed_cpu: float | None


class EffectiveLimits(NamedTuple):
    """The `NODE_LIMITS` of one node, in their order."""

    memory_headroom: float
    memory_overcommit: float
    cpu_overcommit: float | None
    reserved_cpu: float | str
    reserved_memory: float | str

    def with_override(self, override: NodeLimits) -> EffectiveLimits:
        """Return the limits with those that *override* sets."""
        values = {name: getattr(override, name) for name in NODE_LIMITS}
        return self._replace(**{k: v for k, v in values.items() if v is not None})

    def usable_resources(self, node: Node) -> UsableResources | None:
        """Return what *node* may give to guests; None if its capacity is unknown.

        Limits of the platform hold as well: the lesser amount counts. The platform
        limits what it allocates, so its reserve does not concern measured use.

        Source:
            OpenStack Placement: capacity is (total - reserved) * allocation_ratio.
        """
        if node.capacity is None:
            return None
        cores, memory = node.capacity.cpu, node.capacity.memory
        platform, committed_cpu = node.allocation, []
        kept = min(memory, _reserve("reserved_memory", self.reserved_memory, memory))
        committed = (memory - kept) * self.memory_overcommit
        if platform.memory_ratio is not None or platform.reserved_memory is not None:
            ratio = platform.memory_ratio
            ratio = self.memory_overcommit if ratio is None else ratio
            left = max(0, memory - (platform.reserved_memory or 0))
            committed = min(committed, left * ratio)
        if self.cpu_overcommit is not None:
            kept_cpu = min(cores, _reserve("reserved_cpu", self.reserved_cpu, cores))
            committed_cpu.append((cores - kept_cpu) * self.cpu_overcommit)
        if platform.cpu_ratio is not None:
            left_cpu = max(0.0, cores - (platform.reserved_cpu or 0.0))
            committed_cpu.append(left_cpu * platform.cpu_ratio)
        return UsableResources(
            min(memory * (1 - self.memory_headroom), memory - kept),
            committed,
            min(committed_cpu, default=None),
        )
