"""Cost of moving a guest, in plain loops over the rounds of copying.

A judge of plans: it imports no code that decides.
"""

from __future__ import annotations

from opendrs.model import GIB, Guest, GuestId, GuestPriority, Mobility, Plan, Snapshot

BANDWIDTH = 125e6  # bytes per second, 1 Gbit/s
DOWNTIME = 0.3  # seconds; default downtime-limit of QEMU
ROUNDS = 1000


def moving_cost(guest: Guest, snapshot: Snapshot) -> float:
    """Return the seconds of copying that migrating *guest* is worth.

    A second in which the guest is stopped counts as ten in which its memory is copied.
    """
    memory = float(guest.usage.memory or 0)
    if guest.effective_mobility is not Mobility.LIVE:
        return 10 * memory / BANDWIDTH * priority(guest, snapshot)
    written = min((guest.dirty_rate or 0.0) / BANDWIDTH, 0.9)
    seconds, round_ = 0.0, memory / BANDWIDTH
    first_rewritten = round_ * written
    for _ in range(ROUNDS):
        seconds += round_
        round_ *= written
    stopped = min(first_rewritten, DOWNTIME)
    return (seconds - stopped + 10 * stopped) * priority(guest, snapshot)


def priority(guest: Guest, snapshot: Snapshot) -> float:
    """Return the priority of *guest* by the last rule about it."""
    found = 1.0
    for rule in snapshot.rules:
        if isinstance(rule, GuestPriority) and (
            guest.id in rule.guests or rule.tags & guest.tags
        ):
            found = rule.value
    return found


def cheaper_images(snapshot: Snapshot, plan: Plan) -> list[tuple[GuestId, GuestId]]:
    """Return the moved guests with a cheaper mirror image that stays.

    Mirror images are guests on one node with the same usage and limit. No rule except
    priorities may name a guest. A cost that differs by less than 0.1 % is equal.
    """
    moved = {
        action.guest
        for step in plan.steps
        if (action := step.action) and hasattr(action, "guest")
    }
    guests = snapshot.guests
    return [
        (name, other)
        for name in sorted(moved)
        for other in sorted(guests.keys() - moved)
        if guests[name].node == guests[other].node
        and guests[name].usage == guests[other].usage
        and guests[name].limit == guests[other].limit
        and moving_cost(guests[other], snapshot)
        < 0.999 * moving_cost(guests[name], snapshot)
    ]


def in_gib(seconds: float) -> float:
    """Return what the link carries in *seconds*, in GiB."""
    return seconds * BANDWIDTH / GIB
