"""What the guests of a drawn cluster do for a living."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from opendrs.model import (
    GIB,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    NodeId,
    Pressure,
    Resources,
    Stall,
    Usage,
)

HOUR, DAY = 3600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """Guests that do the same.

    Attributes:
        name: Begins the name of each guest.
        share: How many of sixty guests have this role.
        cores: Limits of processor time that occur.
        memory: Limits of memory that occur, in GiB.
        busy: Least and most part of the cores in use.
        kind: Virtual machines or containers.
        moves: How the guests move.
        obstacle: Why they do not move live.
        tags: What the operator says about them.
        ha_managed: Whether an HA manager looks after them.
    """

    name: str
    share: int
    cores: tuple[int, ...]
    memory: tuple[int, ...]
    busy: tuple[float, float]
    kind: GuestKind = GuestKind.VM
    moves: Mobility = Mobility.LIVE
    obstacle: str | None = None
    tags: tuple[str, ...] = ()
    ha_managed: bool = False


ROLES = (
    Role(
        name="db",
        share=6,
        cores=(4, 8),
        memory=(16, 24, 32),
        busy=(0.15, 0.45),
        tags=("database",),
        ha_managed=True,
    ),
    Role(
        name="web",
        share=14,
        cores=(2, 4),
        memory=(4, 8),
        busy=(0.2, 0.55),
        tags=("web",),
        ha_managed=True,
    ),
    Role(name="app", share=12, cores=(2, 4), memory=(8, 12, 16), busy=(0.15, 0.45)),
    Role(name="cache", share=5, cores=(2,), memory=(12, 16), busy=(0.1, 0.4)),
    Role(name="worker", share=8, cores=(4, 8), memory=(4, 8), busy=(0.2, 0.5)),
    Role(name="mail", share=2, cores=(2,), memory=(4, 8), busy=(0.05, 0.2)),
    Role(name="monitor", share=2, cores=(2, 4), memory=(8,), busy=(0.1, 0.3)),
    Role(
        name="dns",
        share=3,
        cores=(1,),
        memory=(1,),
        busy=(0.02, 0.1),
        kind=GuestKind.CONTAINER,
        moves=Mobility.STOPPED,
        obstacle="a container moves only stopped",
    ),
    Role(
        name="build",
        share=3,
        cores=(4,),
        memory=(4, 8),
        busy=(0.1, 0.6),
        kind=GuestKind.CONTAINER,
        moves=Mobility.STOPPED,
        obstacle="a container moves only stopped",
    ),
    Role(
        name="render",
        share=2,
        cores=(4,),
        memory=(8, 16),
        busy=(0.2, 0.5),
        moves=Mobility.NEVER,
        obstacle="a graphics card of the host is passed through",
    ),
    Role(
        name="archive",
        share=2,
        cores=(2,),
        memory=(4,),
        busy=(0.02, 0.1),
        moves=Mobility.STOPPED,
        obstacle="its disk is local to the host",
    ),
    Role(
        name="licence",
        share=1,
        cores=(1,),
        memory=(2,),
        busy=(0.02, 0.05),
        tags=("fixed",),
    ),
)


def cast(count: int) -> list[tuple[GuestId, Role]]:
    """Return names and roles of *count* guests, in the usual proportions."""
    numbers = dict.fromkeys((role.name for role in ROLES), 0)
    whole = sum(role.share for role in ROLES)
    found: list[tuple[GuestId, Role]] = []
    for turn in range(1, count + 1):
        # Whoever is furthest behind its share comes next.
        role = max(ROLES, key=lambda r: r.share * turn / whole - numbers[r.name])
        numbers[role.name] += 1
        found.append((GuestId(f"{role.name}-{numbers[role.name]:02}"), role))
    return found


def draw_guest(draw: random.Random, name: GuestId, role: Role, node: NodeId) -> Guest:
    """Return a guest that runs in *role* on *node*."""
    limit = Resources(draw.choice(role.cores), draw.choice(role.memory) * GIB)
    busy = draw.uniform(*role.busy)
    usage = Usage(
        round(limit.cpu * busy, 2), round(limit.memory * draw.uniform(0.72, 0.96))
    )
    waiting = round(max(0.0, busy - 0.3) * draw.uniform(0.05, 0.25), 4)
    plain = Guest(
        id=name,
        node=node,
        kind=role.kind,
        state=GuestState.RUNNING,
        limit=limit,
        usage=usage,
        pressure=Pressure(cpu=Stall(waiting, round(waiting / 4, 4))),
        uptime=round(draw.uniform(2 * HOUR, 200 * DAY)),
        moves=role.moves,
        obstacle=role.obstacle,
        ha_managed=role.ha_managed,
    )
    return replace(plain, tags=frozenset(role.tags))
