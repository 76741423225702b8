"""Services that fail on purpose: as told, or as the digits of their names say."""

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
    """How a service fails.

    Attributes:
        starts: How many starts fail before one succeeds.
        moves: How many moves fail before one succeeds.
        never_stops: Whether it cannot be stopped.
        node: Where starts and moves fail; None for everywhere.
        only_on: The only node on which it can start; None for any.
    """

    starts: int = 0
    moves: int = 0
    never_stops: bool = False
    node: NodeId | None = None
    only_on: NodeId | None = None


FAILURES_BY_NAME: Mapping[ServiceId, InjectedFailures] = MappingProxyType({})
"""All fail as their names say."""


def failures_from_name(service: ServiceId) -> InjectedFailures:
    """Return how *service* fails: not at all unless it is of the failing kind."""
    match = DIGITS.match(service.partition(":")[2])
    if service_type(service) != FAILING_SERVICE or match is None:
        return InjectedFailures()
    starts, moves, stuck, _, where = (int(digit or 0) for digit in match.groups())
    node = NodeId(f"node{where}") if where else None
    return InjectedFailures(starts, moves, bool(stuck), node)


class FailureCounters:
    """Counts the attempts that failed, over all nodes and the whole drill.

    Args:
        failures: How services fail whose names do not say it.
    """

    def __init__(
        self, failures: Mapping[ServiceId, InjectedFailures] = FAILURES_BY_NAME
    ) -> None:
        self._failures = dict(failures)
        self._starts: dict[ServiceId, int] = {}
        self._moves: dict[ServiceId, int] = {}

    def copy(self) -> Self:
        """Return the same counts for another cluster."""
        copied = copy(self)
        vars(copied).update(
            _failures=dict(self._failures),
            _starts=dict(self._starts),
            _moves=dict(self._moves),
        )
        return copied

    def failures_of(self, service: ServiceId) -> InjectedFailures:
        """Return how *service* fails."""
        injected = self._failures.get(service)
        return failures_from_name(service) if injected is None else injected

    def inject(self, service: ServiceId, failures: InjectedFailures) -> None:
        """Let *service* fail so from now on."""
        self._failures[service] = failures

    def start_fails(self, service: ServiceId, node: NodeId) -> bool:
        """Return whether this attempt to start *service* on *node* fails."""
        failures = self.failures_of(service)
        if failures.only_on not in (None, node):
            return True
        return _attempt_fails(self._starts, service, failures.starts, failures, node)

    def move_fails(self, service: ServiceId, node: NodeId) -> bool:
        """Return whether this attempt to move *service* from *node* fails."""
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
