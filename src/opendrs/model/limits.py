"""What the operator allows, whatever a policy would like."""

from __future__ import annotations

import math
from dataclasses import dataclass

from opendrs.errors import ModelError
from opendrs.model.resources import require_amount

LONGEST_TIME = 1e8  # seconds, some three years; far more and dates overflow


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits that bind every policy and that the guard checks again.

    Attributes:
        memory_headroom: Part of each node's memory, in [0, 1), that stays free
            of measured use when guests arrive.
        memory_overbooking: How often the memory of a node may be promised: the
            memory limits of its guests may add up to this times its capacity.
        moves_per_node: Moves that may run at once from or to one node.
        moves_at_once: Moves that may run at once in the cluster.
        cooldown: Seconds for which a guest that was moved is left alone, and a node
            that was woken stays on.
        quiet_time: Seconds for which a guest that has just started is left
            alone. An uptime that is not known does not hold a guest back.
        patience: Seconds after which a move that has not ended is aborted.
        bandwidth: Bytes a second over the link of one node, shared by the moves
            from and to it; None when not known. It binds nobody: it is what
            estimates of how long a plan takes are made with.

    Raises:
        ModelError: A limit is out of range.
    """

    memory_headroom: float = 0.05
    memory_overbooking: float = 1.0
    moves_per_node: int = 2
    moves_at_once: int = 4
    cooldown: float = 600.0
    quiet_time: float = 60.0
    patience: float = 1800.0
    bandwidth: float | None = None

    def __post_init__(self) -> None:
        for name in ("memory_overbooking", "cooldown", "quiet_time", "patience"):
            require_amount(name, getattr(self, name))
        for name in ("cooldown", "quiet_time", "patience"):
            if getattr(self, name) > LONGEST_TIME:
                raise ModelError(f"{name} must be at most {LONGEST_TIME:.0e} seconds")
        if self.bandwidth is not None and not 1 <= self.bandwidth < math.inf:
            raise ModelError(f"bandwidth must be at least 1, not {self.bandwidth}")
        if not 0 <= self.memory_headroom < 1:
            raise ModelError(
                f"memory_headroom must be in [0, 1), not {self.memory_headroom}"
            )
        for name in ("moves_per_node", "moves_at_once"):
            if getattr(self, name) < 1:
                raise ModelError(
                    f"{name} must be at least 1, not {getattr(self, name)}"
                )


DEFAULT_LIMITS = Limits()
