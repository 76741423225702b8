"""Injected failures of services, as configured or by the digits of their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from opendrs.model import NodeId
from opendrs.pve_ha.states import FAILING_SERVICE, ServiceId, service_type

DIGITS = re.compile(r"\d(\d)(\d)(\d)?(\d)?(\d)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class InjectedFailures:
    """Failures of the operations of a service.

    Attributes:
        starts: Starts that fail before one succeeds.
        moves: Moves that fail before one succeeds.
        never_stops: Stops never succeed.
        node: Node on which starts and moves fail; None for all nodes.
        only_on: Only node on which it can start; None for all nodes.
    """

    starts: int = 0
    moves: int = 0
    never_stops: bool = False
    node: NodeId | None = None
    only_on: NodeId | None = None


FAILURES_BY_NAME: Mapping[ServiceId, InjectedFailures] = MappingProxyType({})
"""No configured failures: the names of the services define them."""


def failures_from_name(service: ServiceId) -> InjectedFailures:
    """Return the failures defined by the name; none unless the type is *fa*."""
    match = DIGITS.match(service.partition(":")[2])
    if service_type(service) != FAILING_SERVICE or match is None:
        return InjectedFailures()
    starts, moves, stuck, _, where = (int(digit or 0) for digit in match.groups())
    node = NodeId(f"node{where}") if where else None
    return InjectedFailures(starts, moves, bool(stuck), node)


class FailureCounters:
    """Counters of failed attempts over all nodes and the whole drill.

    Args:
        failures: Failures of services whose names do not define them.
    """

    def __init__(
        self, failures: Mapping[ServiceId, InjectedFailures] = FAILURES_BY_NAME
    ) -> None:
        self._failures = dict(failures)
        self._starts: dict[ServiceId, int] = {}
        self._moves: dict[ServiceId, int] = {}

    def copy(self) -> Self:
        """Return an independent copy."""
        copied = copy(self)
        vars(copied).update(
            _failures=dict(self._failures),
            _starts=dict(self._starts),
            _moves=dict(self._moves),
        )
        return copied

    def failures_of(self, service: ServiceId) -> InjectedFailures:
        """Return the failures of *service*."""
        injected = self._failures.get(service)
        return failures_from_name(service) if injected is None else injected

    def inject(self, service: ServiceId, failures: InjectedFailures) -> None:
        """Set the failures of *service* from now on."""
        self._failures[service] = failures

    def start_fails(self, service: ServiceId, node: NodeId) -> bool:
        """Return True if this attempt to start *service* on *node* fails."""
        failures = self.failures_of(service)
        if failures.only_on not in (None, node):
            return True
        return _attempt_fails(self._starts, service, failures.starts, failures, node)

    def move_fails(self, service: ServiceId, node: NodeId) -> bool:
        """Return True if this attempt to move *service* from *node* fails."""
        failures = self.failures_of(service)
        if failures.only_on is not None:
            return True
        return _attempt_fails(self._moves, service, failures.moves, failures, node)


def _attempt_fails(
    counts: dict[ServiceId, int],
    service: ServiceId,
    limit: int,
    failures: InjectedFailures,
    node: NodeId,
) -> bool:
    count = counts.get(service, 0) + 1
    fails = failures.node in (None, node) and count <= limit
    counts[service] = count if fails else 0
    return fails
