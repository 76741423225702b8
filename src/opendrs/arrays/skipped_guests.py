"""Guests that are not migrated, with the reason."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from opendrs.model import GuestId, Mobility, format_list, pluralize


class SkipReason(StrEnum):
    """Reason why a guest is skipped. The values are stable."""

    NOT_RUNNING = "not-running"
    """The guest is not running."""
    MIGRATION_IN_PROGRESS = "migration-in-progress"
    """The guest is migrating."""
    MANAGED_ELSEWHERE = "managed-elsewhere"
    """Another program decides on the placement of the guest."""
    GUEST_LOCKED = "guest-locked"
    """An operation of the platform locks the guest."""
    NODE_NOT_ONLINE = "node-not-online"
    """The node of the guest is not online."""
    NODE_NOT_MEASURED = "node-not-measured"
    """The node of the guest is online, but its capacity or usage is unknown."""
    PINNED = "pinned"
    """A rule pins the guest."""
    MIGRATION_FAILED = "migration-failed"
    """A migration of the guest, or a move of its disk, failed: it is held back."""
    TAG_EXCLUDED = "tag-excluded"
    """A rule excludes a tag of the guest."""
    CONTRADICTORY_RULES = "contradictory-rules"
    """The rules of the guest contradict each other."""
    RECENTLY_STARTED = "recently-started"
    """The guest was started within the minimum uptime."""
    COOLDOWN = "cooldown"
    """The guest was migrated within the cooldown."""
    NOT_HA_MANAGED = "not-ha-managed"
    """The guest is not managed by the HA manager, which the policy requires."""
    METRICS_MISSING = "metrics-missing"
    """A required metric of the guest is unknown."""
    NO_CPU_LIMIT = "no-cpu-limit"
    """The guest has no CPU limit, which the static load model requires."""
    MOBILITY_NONE = "mobility-none"
    """The guest cannot be migrated."""
    LOCAL_DISKS = "local-disks"
    """The guest has a disk on its node alone, and the limits do not allow its copy."""
    MOBILITY_COLD = "mobility-cold"
    """The guest can only be migrated cold, which the policy does not do."""
    GROUP_MEMBER_SKIPPED = "group-member-skipped"
    """Another guest of the move group is skipped."""
    GROUP_ON_SEVERAL_NODES = "group-on-several-nodes"
    """The guests of the move group are not all on one node."""
    NO_COMMON_NODE = "no-common-node"
    """The move group cannot be brought together on one node."""
    NO_FEASIBLE_NODE = "no-feasible-node"
    """Rules, hardware or memory allow no other node for the guest."""
    OVER_BUDGET = "over-budget"
    """Bringing the move group together exceeds the budget."""
    LAST_MIGRATED = "last-migrated"
    """The guest was the last one that the policy migrated."""
    FAILURE_NOT_TOLERATED = "failure-not-tolerated"
    """After the migration, a failure that the limits name would not be tolerated."""

    @property
    def text(self) -> str:
        """Return the reason in words; the codes are for programs."""
        mobility = _MOBILITIES.get(self)
        return self.value.replace("-", " ") if mobility is None else mobility.text


_MOBILITIES = {
    SkipReason.MOBILITY_NONE: Mobility.NONE,
    SkipReason.MOBILITY_COLD: Mobility.COLD,
}


@dataclass(frozen=True, slots=True)
class SkippedGuest:
    """Reason why a guest is not migrated.

    Attributes:
        reason: Code of the reason.
        detail: The reason as a sentence, for the operator.
    """

    reason: SkipReason
    detail: str

    def __str__(self) -> str:
        return self.detail


def describe_skipped(skipped: Mapping[GuestId, SkippedGuest]) -> tuple[str, ...]:
    """Return one line per reason, with the guests that are skipped for it."""
    return tuple(
        f"{pluralize(len(guests), 'guest')} skipped: {format_list(guests)}: "
        f"{reason.detail}"
        for reason, guests in skipped_by_reason(skipped).items()
    )


def skipped_by_reason(
    skipped: Mapping[GuestId, SkippedGuest],
) -> Mapping[SkippedGuest, list[GuestId]]:
    """Return the guests that are skipped for each reason, in order of name."""
    guests_by_reason: defaultdict[SkippedGuest, list[GuestId]] = defaultdict(list)
    for guest in sorted(skipped):
        guests_by_reason[skipped[guest]].append(guest)
    return guests_by_reason
