"""Reasons why guests stay that a policy has considered: one source for all pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property

from opendrs.arrays import SkipReason
from opendrs.model import Guest, GuestId, GuestState, Limits, NodeId, Pin, Snapshot
from opendrs.rules import HOLD_ORIGIN, FeasibilityChecker, compile_rules
from opendrs.rules.memory import required_memory


class StayReason(StrEnum):
    """Reason why a guest stays that a policy has not skipped. The values are stable."""

    IMMOVABLE = "immovable"
    """A rule excludes the guest from migration."""
    MIGRATION_FAILED = SkipReason.MIGRATION_FAILED.value
    """A migration of the guest, or a move of its disk, failed: it is held back."""
    NOT_RUNNING = SkipReason.NOT_RUNNING.value
    """The guest is not running."""
    NO_FEASIBLE_NODE = SkipReason.NO_FEASIBLE_NODE.value
    """Strict rules, hardware or memory allow no other node for the guest."""
    SOFT_RULE = "soft-rule"
    """Every other node that could run the guest violates a soft rule more than now."""
    NOT_CHOSEN = "not-chosen"
    """The guest could move, but other moves were better, or none was needed."""


class StayReasons:
    """Reasons why the guests of one snapshot stay.

    Args:
        snapshot: The cluster.
        limits: Limits of the operator.
    """

    def __init__(self, snapshot: Snapshot, limits: Limits) -> None:
        self._snapshot = snapshot
        self._limits = limits
        self._rules = compile_rules(snapshot)
        self._checker = FeasibilityChecker(snapshot, self._rules, limits)

    def reason(self, guest: GuestId) -> StayReason:
        """Return why *guest* stays."""
        if self._snapshot.guests[guest].state is not GuestState.RUNNING:
            return StayReason.NOT_RUNNING
        if guest in self._rules.immovable:
            is_held = guest in self._held
            return StayReason.MIGRATION_FAILED if is_held else StayReason.IMMOVABLE
        group = self._group(guest)
        home = self._snapshot.guests[guest].node
        if self._has_feasible_node(self._checker, group, home):
            return StayReason.NOT_CHOSEN
        if self._has_feasible_node(self._strict_checker, group, home):
            return StayReason.SOFT_RULE
        return StayReason.NO_FEASIBLE_NODE

    def detail(self, guest: GuestId) -> str:
        """Return the rule that makes *guest* immovable; empty without one."""
        return self._rules.immovable.get(guest, "")

    def infeasible_nodes(self, guest: GuestId) -> Mapping[NodeId, str]:
        """Return why each other infeasible node is so, soft rules aside."""
        return self._infeasible(self._strict_checker, guest)

    def avoided_nodes(self, guest: GuestId) -> Mapping[NodeId, str]:
        """Return the soft rule of each node that only a soft rule excludes."""
        if self._strict_checker is self._checker:
            return {}
        infeasible = self.infeasible_nodes(guest)
        excluded = self._infeasible(self._checker, guest)
        return {
            name: detail for name, detail in excluded.items() if name not in infeasible
        }

    def _infeasible(
        self, checker: FeasibilityChecker, guest: GuestId
    ) -> Mapping[NodeId, str]:
        nodes = checker.infeasible_nodes(self._group(guest))
        nodes.pop(self._snapshot.guests[guest].node, None)
        return nodes

    def _group(self, guest: GuestId) -> Sequence[Guest]:
        names = sorted(self._rules.together.get(guest, frozenset((guest,))))
        return [self._snapshot.guests[name] for name in names]

    @cached_property
    def _strict_checker(self) -> FeasibilityChecker:
        """Checker that ignores soft rules."""
        stated = self._snapshot.rules
        rules = tuple(each for each in stated if getattr(each, "strict", True))
        if len(rules) == len(stated):
            return self._checker
        strict = replace(self._snapshot, rules=rules)
        return FeasibilityChecker(strict, compile_rules(strict), self._limits)

    @cached_property
    def _held(self) -> Collection[GuestId]:
        """Guests whose last pin holds them back after a failed migration."""
        pins = (each for each in self._snapshot.rules if isinstance(each, Pin))
        last = {guest: pin.origin for pin in pins for guest in pin.guests}
        return {guest for guest, origin in last.items() if origin == HOLD_ORIGIN}

    @cached_property
    def _by_memory(self) -> list[tuple[float, NodeId]]:
        """Available memory of the nodes, the largest first."""
        available = self._checker.available_memory
        known = [(each.measured or 0.0, name) for name, each in available.items()]
        return sorted(known, reverse=True)

    @cached_property
    def _most_memory(self) -> float:
        return max((available for available, _ in self._by_memory), default=0.0)

    def _has_feasible_node(
        self, checker: FeasibilityChecker, group: Sequence[Guest], home: NodeId
    ) -> bool:
        """Return True at the first feasible node but *home*: most guests have many."""
        needed = [guest for guest in group if guest.node == home]
        if (required_memory(needed).measured or 0) > self._most_memory:
            return False
        preferred = checker.preferred_nodes(group[0].id)
        return any(
            checker.rejection(group, name) is None
            for _, name in self._by_memory
            if name in preferred and name != home
        )
