"""Division of each host's CPU among its guests.

During a migration a guest gets nine tenths of its share on the source and one tenth on
the target. On a host with more demand than capacity, all shares are scaled and rounded
down to whole MIPS.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from opendrs.simulation.cloudsim.hardware import CloudSimHosts
from opendrs.simulation.workload import Floats, Integers, Mask

SOURCE_SHARE, TARGET_SHARE = 0.9, 0.1
MAX_ROUNDED_LOAD = 1.01  # loads between 1 and this are rounding errors


@dataclass(frozen=True, slots=True)
class HostedGuests:
    """Host of each guest, in order of arrival; each of shape (residents,)."""

    guest: Integers
    host: Integers


@dataclass(frozen=True, slots=True)
class HostMigrations:
    """Target of each migrating guest, in order of start; shape (migrations,)."""

    guest: Integers
    target: Integers

    @staticmethod
    def of(moves: list[tuple[int, int]]) -> HostMigrations:
        """Return *moves*, pairs of guest and target host, as arrays."""
        return HostMigrations(*np.array(moves, dtype=np.int64).reshape(-1, 2).T)

    def where(self, selected: Mask) -> HostMigrations:
        """Return the *selected* migrations."""
        return HostMigrations(self.guest[selected], self.target[selected])


NO_MIGRATIONS = HostMigrations(np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, slots=True)
class CpuShares:
    """Division of the CPU from one instant on.

    Attributes:
        guest: The residents.
        requested: MIPS requested by each resident.
        allocated: MIPS allocated to each resident.
        migrating: True for residents that are being migrated away.
        used: MIPS in use on each host; shape (hosts,).
        requested_on_host: MIPS requested on each host.
        free: MIPS free on each host.
        load: Used fraction of each host's MIPS.
    """

    guest: Integers
    requested: Floats
    allocated: Floats
    migrating: Mask
    used: Floats
    requested_on_host: Floats
    free: Floats
    load: Floats


def sum_by_host(host: Integers, amounts: Floats, hosts: int) -> Floats:
    """Return the sum of *amounts* on each host, added in their order."""
    return np.asarray(np.bincount(host, amounts, hosts), dtype=np.float64)


def share_cpu(
    hosts: CloudSimHosts,
    residents: HostedGuests,
    migrations: HostMigrations,
    request: Floats,
) -> CpuShares:
    """Return the division of the CPU.

    Args:
        hosts: The hosts.
        residents: Host of each guest.
        migrations: Running migrations; their guests are residents of the source.
        request: MIPS requested by each guest; shape (guests,).
    """
    # Sums are computed in order of arrival as in the original, because decisions depend
    # on rounding errors.
    count = len(hosts.mips)
    host = np.concatenate([residents.host, migrations.target])
    requested = request[np.concatenate([residents.guest, migrations.guest])]
    factor = np.ones(len(host))
    factor[len(residents.host) :] = TARGET_SHARE
    capped = np.minimum(requested, hosts.core_mips[host]) * factor
    demand = sum_by_host(host, capped, count)
    full = demand > hosts.mips
    is_migrating = np.zeros(len(request), np.bool_)
    is_migrating[migrations.guest] = True
    migrating = np.zeros(len(host), np.bool_)
    migrating[: len(residents.host)] = is_migrating[residents.guest]
    allocated = _allocated(hosts, host, capped, demand, migrating)
    used = sum_by_host(
        host, np.where(migrating, allocated / SOURCE_SHARE, allocated), count
    )
    hosted = slice(len(residents.host))
    return CpuShares(
        guest=residents.guest,
        requested=requested[hosted],
        allocated=allocated[hosted],
        migrating=migrating[hosted],
        used=used,
        requested_on_host=sum_by_host(host, requested, count),
        free=np.where(full, 0.0, hosts.mips - demand),
        load=_load(used, hosts.mips),
    )


def _allocated(
    hosts: CloudSimHosts,
    host: Integers,
    capped: Floats,
    demand: Floats,
    migrating: Mask,
) -> Floats:
    share = np.where(migrating, SOURCE_SHARE, 1.0)
    full = demand > hosts.mips
    if not full.any():
        return capped * share
    scale = np.ones(len(demand))
    scale[full] = hosts.mips[full] / demand[full]
    scaled = np.floor(capped * scale[host] * share)
    return np.where(full[host], scaled, capped * share)


def _load(used: Floats, total: Floats) -> Floats:
    load = used / total
    load[(load > 1) & (load < MAX_ROUNDED_LOAD)] = 1.0
    return load
