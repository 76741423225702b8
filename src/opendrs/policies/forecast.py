"""Expected load of a cluster over the horizon of a policy.

The forecasts of guests are in the snapshot. A policy that plans for them counts the
expected cores of a guest in place of the measured ones, so a short peak moves nothing,
and a rise at the same time of each day is met before it happens. Memory stays measured,
as the guard will judge it.

The errors of the forecasts of guests are assumed to be independent, so their squares
add up on a node. A node whose load may exceed its capacity within the horizon is
avoided as a target.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from opendrs.metrics import MAX_HOURS, LoadModel
from opendrs.model import (
    GIB,
    Guest,
    Node,
    NodeId,
    Resources,
    Snapshot,
    Usage,
    format_count,
)
from opendrs.policies.base import Decision, DecisionReason, MemoryT

HOUR = 3600.0
RESOURCES = ("cpu", "memory")
MARGIN_OF_FREE = 0.5  # most of the free cores that margins take


@runtime_checkable
class PlansForForecast(Protocol):
    """Policy with a setting for the horizon of a forecast."""

    @property
    def forecast_horizon(self) -> float:
        """Return the horizon in seconds; 0 for no forecast."""


def forecast_horizon_of(policy: object) -> float:
    """Return the horizon of the forecast that *policy* plans for; 0 for none."""
    if isinstance(policy, PlansForForecast):
        return policy.forecast_horizon
    return 0.0


def require_horizon(seconds: float, load_model: LoadModel) -> None:
    """Check the setting `forecast_horizon` of a policy.

    Raises:
        ValueError: It is out of range, or limits count as load, which do not change.
    """
    if not 0 <= seconds <= MAX_HOURS * HOUR:
        raise ValueError(
            f"forecast_horizon: expected 0 to {MAX_HOURS * HOUR:.0f} s "
            f"({MAX_HOURS} h), got {seconds:g}"
        )
    if seconds and load_model is not LoadModel.DYNAMIC:
        raise ValueError(
            "forecast_horizon: expected 0 with load_model static, got "
            f"{seconds:g}: limits are not forecast"
        )


@dataclass(frozen=True, slots=True)
class ExpectedLoad:
    """Cluster with the load that is expected over a horizon.

    Attributes:
        snapshot: The cluster, with expected cores of guests and nodes.
        horizon: Seconds of the horizon; 0 if measured load counts.
        guests: Number of active guests.
        forecast: Number of those with a forecast of their cores.
    """

    snapshot: Snapshot
    horizon: float
    guests: int
    forecast: int

    @classmethod
    def of(cls, snapshot: Snapshot, horizon: float) -> ExpectedLoad:
        """Return the load expected in *snapshot* over *horizon* seconds.

        A guest without a forecast counts with its measured use.
        """
        if not horizon:
            return cls(snapshot, 0.0, 0, 0)
        guests, change = dict(snapshot.guests), defaultdict[NodeId, float](float)
        active = [guest for guest in snapshot.guests.values() if guest.is_active]
        forecast = 0
        for guest in sorted(active, key=lambda each: each.id):
            cores = None if guest.forecast is None else guest.forecast.expected.cpu
            if cores is None or guest.usage.cpu is None:
                continue
            forecast += 1
            change[guest.node] += cores - guest.usage.cpu
            usage = Usage(cores, guest.usage.memory)
            guests[guest.id] = replace(guest, usage=usage)
        nodes = {
            name: _with_change(node, change[name]) if name in change else node
            for name, node in snapshot.nodes.items()
        }
        expected = replace(snapshot, nodes=nodes, guests=guests)
        return cls(expected, horizon, len(active), forecast)

    @property
    def period(self) -> str:
        """Return the horizon in words."""
        return f"the next {self.horizon / HOUR:g} h"

    def notes(self) -> tuple[str, ...]:
        """Return a note that the load is expected, and for how many guests."""
        if not self.horizon:
            return ()
        if not self.forecast:
            return ("forecast: history too short; the measured load counts",)
        known = f"{self.forecast} of {format_count(self.guests, 'guest')}"
        return (f"forecast: load expected over {self.period}, known of {known}",)

    def delayed(self, decision: Decision[MemoryT], present: str) -> Decision[MemoryT]:
        """Return *decision* with the reason that a forecast delays migrations.

        Args:
            decision: Decision without a plan on the expected load.
            present: Description of the measured load, which would require migrations.
        """
        detail = f"{present}; over {self.period}: {decision.detail}"
        return replace(decision, reason=DecisionReason.FORECAST_DELAYS, detail=detail)

    def cpu_margins(self) -> dict[NodeId, float]:
        """Return the cores that each node is to leave for load above what is expected.

        That is by how much its load may exceed it. If the margins of all nodes are more
        than half of the cores that are expected to be free, they are reduced to that:
        no migration provides more. Empty if measured load counts.
        """
        if not self.horizon:
            return {}
        bounds = HorizonBounds(self.snapshot)
        margins = {name: bounds.margin(name, "cpu") for name in self.snapshot.nodes}
        free = sum(
            max(0.0, node.capacity.cpu - node.usage.cpu)
            for node in self.snapshot.nodes.values()
            if node.capacity is not None and node.usage.cpu is not None
        )
        needed = sum(margins.values())
        part = min(1.0, MARGIN_OF_FREE * free / needed) if needed > 0 else 1.0
        return {name: part * margin for name, margin in margins.items()}


def _with_change(node: Node, cores: float) -> Node:
    if node.usage.cpu is None:
        return node
    usage = Usage(max(0.0, node.usage.cpu + cores), node.usage.memory)
    return replace(node, usage=usage)


class HorizonBounds:
    """Bounds of the loads of nodes within the horizon, while guests are moved.

    Args:
        snapshot: Cluster with expected cores.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self._capacity: dict[NodeId, Resources] = {
            name: node.capacity
            for name, node in snapshot.nodes.items()
            if node.capacity is not None
        }
        self._expected = {
            (name, resource): float(getattr(node.usage, resource) or 0.0)
            for name, node in snapshot.nodes.items()
            for resource in RESOURCES
        }
        self._squares: dict[tuple[NodeId, str], float] = defaultdict(float)
        for _, guest in sorted(snapshot.guests.items()):
            for node in guest.occupied_nodes:
                for resource in RESOURCES:
                    key = node, resource
                    growth = _expected(guest, resource) - _used(guest, resource)
                    self._expected[key] += growth
                    self._squares[key] += _margin(guest, resource) ** 2

    def margin(self, node: NodeId, resource: str) -> float:
        """Return by how much the load of *node* may exceed what is expected."""
        return math.sqrt(max(0.0, self._squares[node, resource]))

    def objection(
        self, guests: Iterable[Guest], source: NodeId, target: NodeId
    ) -> str | None:
        """Return why *guests* should not move to *target*, or None.

        The reason is that the target may then be overloaded within the horizon, by at
        least as much as the source may be without the move.
        """
        moving = tuple(guests)
        for resource in RESOURCES:
            added = sum(_expected(each, resource) for each in moving)
            squares = sum(_margin(each, resource) ** 2 for each in moving)
            expected = self._expected[target, resource] + added
            upper = expected + math.sqrt(self._squares[target, resource] + squares)
            if self._load(upper, target, resource) <= max(
                1.0, self._load(self._upper(source, resource), source, resource)
            ):
                continue
            capacity = getattr(self._capacity[target], resource)
            return (
                f"{target} may need {_text(upper, resource)} of "
                f"{_text(capacity, resource)} (expected {_text(expected, resource)})"
            )
        return None

    def move(self, guests: Iterable[Guest], source: NodeId, target: NodeId) -> None:
        """Count *guests* on *target* in place of *source*."""
        for guest in guests:
            for resource in RESOURCES:
                for node, sign in ((source, -1), (target, 1)):
                    self._expected[node, resource] += sign * _expected(guest, resource)
                    self._squares[node, resource] += (
                        sign * _margin(guest, resource) ** 2
                    )

    def _upper(self, node: NodeId, resource: str) -> float:
        return self._expected[node, resource] + self.margin(node, resource)

    def _load(self, amount: float, node: NodeId, resource: str) -> float:
        """Return *amount* as a fraction of the capacity of *node*; 0 if unknown."""
        capacity = self._capacity.get(node)
        return 0.0 if capacity is None else amount / float(getattr(capacity, resource))


def _used(guest: Guest, resource: str) -> float:
    return float(getattr(guest.usage, resource) or 0.0)


def _expected(guest: Guest, resource: str) -> float:
    """Return the expected use of *guest*; the measured one without a forecast."""
    forecast = guest.forecast
    value = None if forecast is None else getattr(forecast.expected, resource)
    return _used(guest, resource) if value is None else float(value)


def _margin(guest: Guest, resource: str) -> float:
    """Return by how much *guest* may exceed what is expected; 0 if unknown."""
    forecast = guest.forecast
    if forecast is None or getattr(forecast.upper, resource) is None:
        return 0.0
    return float(
        getattr(forecast.upper, resource) - getattr(forecast.expected, resource)
    )


def _text(amount: float, resource: str) -> str:
    if resource == "cpu":
        return f"{amount:.1f} cores"
    return f"{amount / GIB:.1f} GiB"
