"""Cost of migrating guests: what the link carries, and what the guests suffer.

While the memory of a guest is copied, it loses about a tenth of its work. While it is
stopped, it loses all of it: a second then counts as ten seconds of copying. The cost of
a guest is that time of copying, as the bytes that its link carries in it, multiplied by
its priority. A cost in bytes does not depend on the bandwidth unless memory is written
while it is copied, so that plans stay the same where the bandwidth is only assumed.

Source:
    Clark et al., Live migration of virtual machines (NSDI 2005): rounds of copying.
    Voorsluys et al., Cost of virtual machine live migration in clouds: a performance
    evaluation (CloudCom 2009), and Beloglazov and Buyya, Optimal online deterministic
    algorithms and adaptive heuristics (CCPE 2012): 10 % of the work is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from opendrs.arrays import ClusterArrays, Floats
from opendrs.model import GIB, NORMAL_PRIORITY, Guest, Mobility
from opendrs.planning.migration_duration import MAX_DOWNTIME
from opendrs.planning.schedule import link_bandwidth

TRANSFER_OVERHEAD = 0.25  # GiB; constant cost of a migration in addition to its memory
LOST_WORK = 0.1  # fraction of its work that a guest loses while its memory is copied
# fraction of the bandwidth up to which the dirty rate raises the cost
MAX_DIRTY_RATIO = 0.9


def migration_costs(guests: Sequence[Guest], cluster: ClusterArrays) -> Floats:
    """Return the cost of migrating each guest, in GiB; shape (H,).

    Memory V is copied as V / (1 - D/B) bytes at a dirty rate D and a bandwidth B. The
    last of these rounds stops the guest, for at most the downtime of QEMU. Local disks
    are copied once, before the memory. A guest that migrates cold is stopped all the
    time. Unknown memory, disks and dirty rates count 0: the cost is then a lower bound.

    Args:
        guests: The guests.
        cluster: Their cluster.
    """
    bandwidth, _ = link_bandwidth(cluster.snapshot, cluster.limits)
    memory = np.array([guest.usage.memory or 0 for guest in guests], np.float64)
    rates = np.array([guest.dirty_rate or 0.0 for guest in guests], np.float64)
    live = np.array(
        [guest.effective_mobility is Mobility.LIVE for guest in guests], np.bool_
    )
    dirty = np.minimum(rates / bandwidth, MAX_DIRTY_RATIO)
    disks = cluster.space.copied(guests)
    last_round = np.minimum(memory * dirty, MAX_DOWNTIME * bandwidth)
    stopped = np.where(live, last_round, memory + disks)
    copied = np.where(live, disks + memory / (1 - dirty) - stopped, 0.0)
    priorities = cluster.priorities
    weight = [priorities.get(guest.id, NORMAL_PRIORITY) for guest in guests]
    cost: Floats = (copied + stopped / LOST_WORK) / GIB + TRANSFER_OVERHEAD
    return cost * np.array(weight, np.float64)


def group_migration_costs(cluster: ClusterArrays) -> Floats:
    """Return the cost of migrating each group of *cluster*, in GiB; shape (G,)."""
    guests = [guest for group in cluster.groups for guest in group]
    costs = migration_costs(guests, cluster)
    sizes = [len(group) for group in cluster.groups]
    group_of = np.repeat(np.arange(len(sizes)), sizes)
    return np.bincount(group_of, costs, len(sizes)).astype(np.float64)
