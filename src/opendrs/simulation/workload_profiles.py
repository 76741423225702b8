"""Workload profiles of the guests in the demo cluster."""

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
class WorkloadProfile:
    """Guests with the same workload.

    Attributes:
        name: Prefix of the name of each guest.
        share: Number of guests with this profile out of sixty.
        cores: Possible CPU limits, in cores.
        memory: Possible memory limits, in GiB.
        cpu_usage: Least and largest used fraction of the cores.
        kind: Virtual machine or container.
        mobility: Mobility of the guests.
        mobility_detail: Reason why they cannot migrate live.
        tags: Tags of the guests.
        ha_managed: True for guests managed by an HA manager.
    """

    name: str
    share: int
    cores: tuple[int, ...]
    memory: tuple[int, ...]
    cpu_usage: tuple[float, float]
    kind: GuestKind = GuestKind.VM
    mobility: Mobility = Mobility.LIVE
    mobility_detail: str | None = None
    tags: tuple[str, ...] = ()
    ha_managed: bool = False


PROFILES = (
    WorkloadProfile(
        name="db",
        share=6,
        cores=(4, 8),
        memory=(16, 24, 32),
        cpu_usage=(0.15, 0.45),
        tags=("database",),
        ha_managed=True,
    ),
    WorkloadProfile(
        name="web",
        share=14,
        cores=(2, 4),
        memory=(4, 8),
        cpu_usage=(0.2, 0.55),
        tags=("web",),
        ha_managed=True,
    ),
    WorkloadProfile(
        name="app", share=12, cores=(2, 4), memory=(8, 12, 16), cpu_usage=(0.15, 0.45)
    ),
    WorkloadProfile(
        name="cache", share=5, cores=(2,), memory=(12, 16), cpu_usage=(0.1, 0.4)
    ),
    WorkloadProfile(
        name="worker", share=8, cores=(4, 8), memory=(4, 8), cpu_usage=(0.2, 0.5)
    ),
    WorkloadProfile(
        name="mail", share=2, cores=(2,), memory=(4, 8), cpu_usage=(0.05, 0.2)
    ),
    WorkloadProfile(
        name="monitor", share=2, cores=(2, 4), memory=(8,), cpu_usage=(0.1, 0.3)
    ),
    WorkloadProfile(
        name="dns",
        share=3,
        cores=(1,),
        memory=(1,),
        cpu_usage=(0.02, 0.1),
        kind=GuestKind.CONTAINER,
        mobility=Mobility.COLD,
        mobility_detail="a container moves only stopped",
    ),
    WorkloadProfile(
        name="build",
        share=3,
        cores=(4,),
        memory=(4, 8),
        cpu_usage=(0.1, 0.6),
        kind=GuestKind.CONTAINER,
        mobility=Mobility.COLD,
        mobility_detail="a container moves only stopped",
    ),
    WorkloadProfile(
        name="render",
        share=2,
        cores=(4,),
        memory=(8, 16),
        cpu_usage=(0.2, 0.5),
        mobility=Mobility.NONE,
        mobility_detail="a graphics card of the host is passed through",
    ),
    WorkloadProfile(
        name="archive",
        share=2,
        cores=(2,),
        memory=(4,),
        cpu_usage=(0.02, 0.1),
        mobility=Mobility.COLD,
        mobility_detail="a disk is local to the host",
    ),
    WorkloadProfile(
        name="license",
        share=1,
        cores=(1,),
        memory=(2,),
        cpu_usage=(0.02, 0.05),
        tags=("fixed",),
    ),
)


def assign_profiles(count: int) -> list[tuple[GuestId, WorkloadProfile]]:
    """Return names and profiles of *count* guests, in proportion to the shares."""
    numbers = dict.fromkeys((profile.name for profile in PROFILES), 0)
    total = sum(profile.share for profile in PROFILES)
    assigned: list[tuple[GuestId, WorkloadProfile]] = []
    for position in range(1, count + 1):
        # The profile that is furthest below its share comes next.
        profile = max(
            PROFILES, key=lambda r: r.share * position / total - numbers[r.name]
        )
        numbers[profile.name] += 1
        assigned.append(
            (GuestId(f"{profile.name}-{numbers[profile.name]:02}"), profile)
        )
    return assigned


def draw_guest(
    rng: random.Random, name: GuestId, profile: WorkloadProfile, node: NodeId
) -> Guest:
    """Return a running guest of *profile* on *node*."""
    limit = Resources(rng.choice(profile.cores), rng.choice(profile.memory) * GIB)
    cpu_usage = rng.uniform(*profile.cpu_usage)
    usage = Usage(
        round(limit.cpu * cpu_usage, 2), round(limit.memory * rng.uniform(0.72, 0.96))
    )
    stall = round(max(0.0, cpu_usage - 0.3) * rng.uniform(0.05, 0.25), 4)
    guest = Guest(
        id=name,
        node=node,
        kind=profile.kind,
        state=GuestState.RUNNING,
        limit=limit,
        usage=usage,
        pressure=Pressure(cpu=Stall(stall, round(stall / 4, 4))),
        uptime=round(rng.uniform(2 * HOUR, 200 * DAY)),
        mobility=profile.mobility,
        mobility_detail=profile.mobility_detail,
        ha_managed=profile.ha_managed,
    )
    return replace(guest, tags=frozenset(profile.tags))
