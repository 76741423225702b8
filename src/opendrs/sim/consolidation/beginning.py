"""Where guests are when a simulation begins."""

from __future__ import annotations

import numpy as np

from opendrs.errors import ConfigurationError
from opendrs.policies.consolidation.fleet import Places
from opendrs.sim.consolidation.hardware import Integers
from opendrs.sim.consolidation.machines import Machines, Tenants


def first_placement(machines: Machines, tenants: Tenants, places: Places) -> Integers:
    """Return where each guest begins, when nothing is known of its load.

    The thriftiest host that has room for all it may ever use; where there is none
    any more, of those with the memory the one whose CPU is promised the least.

    Raises:
        ConfigurationError: A guest finds no memory.
    """
    order = np.argsort(machines.watts[machines.curve, -1] / machines.cpu, kind="stable")
    total, memory = machines.cpu[order], machines.memory[order].copy()
    cpu = total.copy()
    host = np.zeros(len(tenants.cpu), np.int64)
    sizes = zip(tenants.cpu.tolist(), tenants.memory.tolist(), strict=True)
    for guest, (mips, size) in enumerate(sizes):
        able = (memory >= size) & places.open_to(guest)[order]
        if not able.any():
            raise ConfigurationError(
                f"guest {guest + 1} of {len(host)} finds no room on {len(cpu)} hosts"
            )
        room = able & (cpu >= mips)
        left = np.where(able, cpu / total, -np.inf)
        place = int(np.argmax(room) if room.any() else np.argmax(left))
        cpu[place] -= mips
        memory[place] -= size
        host[guest] = order[place]
        places.moved(guest, int(order[place]))
    return host
