"""Starved guests, ranked by TOPSIS with weights from AHP.

Source:
    A. Derumier, balancer for the HA manager of Proxmox VE (patches of April 2022).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from opendrs.metrics import (
    AhpMethod,
    ahp,
    judgment_matrix,
    rank_descending,
    topsis_array,
)
from opendrs.model import Guest, GuestKind, GuestState, Node, Snapshot

# Importance of a criterion relative to another. In the original, the last criterion
# has two names, total_cpu and totalcpu, so that it has no weight.
PREFERENCES: Mapping[str, Mapping[str, float]] = {
    "affinity": {
        "affinity": 1,
        "cpu_pressure": 9,
        "mem_pseudo_pressure": 9,
        "mem": 9,
        "totalcpu": 9,
    },
    "cpu_pressure": {
        "cpu_pressure": 1,
        "mem_pseudo_pressure": 3,
        "mem": 3,
        "totalcpu": 5,
    },
    "mem_pseudo_pressure": {"mem_pseudo_pressure": 1, "mem": 3, "totalcpu": 3},
    "mem": {"mem": 1, "totalcpu": 2},
    "totalcpu": {"totalcpu": 1},
}
# Larger stalls come first; among them, guests that are cheaper to migrate.
SIGNS: Mapping[str, int] = {
    "affinity": 1,
    "cpu_pressure": 1,
    "mem_pseudo_pressure": 1,
    "mem": -1,
    "totalcpu": -1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureThresholds:
    """Thresholds above which a guest is starved.

    Attributes:
        cpu_pressure: Fraction of time, in [0, 1], in which a guest may be stalled for
            CPU.
        memory: Fraction of the memory of a node, in [0, 1], that may be in use.
        memory_ksm: The same if much memory is merged.
        ksm: Fraction of the memory of a node, in [0, 1], above which much memory is
            merged.
    """

    cpu_pressure: float = 0.75
    memory: float = 0.85
    memory_ksm: float = 0.8
    ksm: float = 0.2

    def source_limit(self, node: Node) -> float:
        """Return the bytes in use above which guests leave *node*, of known capacity.

        Merged memory may be split at any time, so the limit is lower if much is merged.
        If the amount of merged memory is unknown, the higher limit applies: an unknown
        value does not make a guest starved.
        """
        return self._fractions(node)[1] * _memory(node)

    def target_limit(self, node: Node) -> float:
        """Return the bytes up to which *node*, of known capacity, receives guests.

        It equals `source_limit`, or the lower limit if the merged memory is unknown.
        """
        return self._fractions(node)[0] * _memory(node)

    def _fractions(self, node: Node) -> tuple[float, float]:
        if node.ksm_shared is None:
            fractions = self.memory, self.memory_ksm
            return min(fractions), max(fractions)
        exceeds_ksm = node.ksm_shared > self.ksm * _memory(node)
        fraction = self.memory_ksm if exceeds_ksm else self.memory
        return fraction, fraction


@dataclass(frozen=True, slots=True)
class StarvedGuest:
    """Starved guest.

    Attributes:
        guest: The guest; its usage is known.
        cpu_pressure: Fraction of time in which it is stalled for CPU; 0 if unknown, as
            an unknown value is no reason to prefer it.
        memory_pressure: Excess of its node over the memory limit, divided by the memory
            that the guest uses. In (0, 1) if the node would be below the limit without
            it, and largest for the guest that just suffices; else 0.
        detail: Why it is starved, for the operator.
    """

    guest: Guest
    cpu_pressure: float
    memory_pressure: float
    detail: str

    @property
    def criteria(self) -> tuple[float, ...]:
        """Return the values of the criteria, in the order of `PREFERENCES`.

        Affinity is always 0: the original does not define it, and rules are enforced
        separately here.
        """
        return (
            0.0,
            self.cpu_pressure,
            self.memory_pressure,
            float(self.guest.usage.memory or 0),
            self.guest.usage.cpu or 0.0,
        )


def find_starvation(
    guest: Guest, node: Node, thresholds: PressureThresholds
) -> StarvedGuest | None:
    """Return the starvation of *guest* on *node*, or None.

    The memory capacity and usage of the node must be known. Unknown values of the guest
    do not make it starved.
    """
    cpu_stall = guest.pressure.cpu.some or 0.0
    details = []
    if cpu_stall > thresholds.cpu_pressure:
        limit = f"more than {thresholds.cpu_pressure:.0%}"
        details.append(f"stalled for CPU {cpu_stall:.0%} of the time, {limit}")
    if exceeds_memory_threshold(node, thresholds):
        details.append(_memory_detail(guest, node, thresholds))
    if not details:
        return None
    pressure = _memory_pressure(guest, node, thresholds)
    return StarvedGuest(guest, cpu_stall, pressure, " and ".join(details))


def exceeds_memory_threshold(node: Node, thresholds: PressureThresholds) -> bool:
    """Return whether *node*, of known memory, exceeds its limit of memory in use."""
    return (node.usage.memory or 0) > thresholds.source_limit(node)


def has_metrics(node: Node) -> bool:
    """Return whether *node* is online and its capacity and usage are known."""
    return (
        node.online and node.capacity is not None and node.usage.resources is not None
    )


def eligible_guests(snapshot: Snapshot) -> list[Guest]:
    """Return the guests that are considered, in order of name: running VMs."""
    return [
        guest
        for _, guest in sorted(snapshot.guests.items())
        if guest.kind is GuestKind.VM
        and guest.state is GuestState.RUNNING
        and has_metrics(snapshot.nodes[guest.node])
    ]


def find_starved_guests(
    snapshot: Snapshot, thresholds: PressureThresholds
) -> list[StarvedGuest]:
    """Return the starved guests of *snapshot*, in order of name."""
    results = (
        find_starvation(guest, snapshot.nodes[guest.node], thresholds)
        for guest in eligible_guests(snapshot)
    )
    return [each for each in results if each is not None]


def criteria_weights(method: AhpMethod = AhpMethod.ROW_MEANS) -> tuple[float, ...]:
    """Return the weights of the criteria; negative if smaller is better.

    They are derived from `PREFERENCES` by AHP; the original does not specify the
    method.
    """
    names, matrix = judgment_matrix(PREFERENCES)
    shares = ahp(matrix, method).weights
    return tuple(SIGNS[name] * share for name, share in zip(names, shares, strict=True))


def rank_starved(
    starved_guests: Sequence[StarvedGuest], method: AhpMethod = AhpMethod.ROW_MEANS
) -> list[StarvedGuest]:
    """Return *starved_guests* in the order of TOPSIS, the most starved first.

    Ties are resolved by name.
    """
    ordered = sorted(starved_guests, key=lambda each: each.guest.id)
    if not ordered:
        return []
    scores = topsis_array(
        np.array([t.criteria for t in ordered]), criteria_weights(method)
    )
    return [ordered[index] for index in rank_descending(scores)]


def _memory_pressure(guest: Guest, node: Node, thresholds: PressureThresholds) -> float:
    used, own, limit = (
        node.usage.memory or 0,
        guest.usage.memory,
        thresholds.source_limit(node),
    )
    if own is None or not used - own < limit < used:
        return 0.0
    return (used - limit) / own


def _memory_detail(guest: Guest, node: Node, thresholds: PressureThresholds) -> str:
    size, used = _memory(node), node.usage.memory or 0
    sentence = (
        f"{node.id} uses {used / size:.1%} of its memory, more than "
        f"{thresholds.source_limit(node) / size:.0%}"
    )
    if guest.usage.memory is None:
        return sentence
    return f"{sentence}, and {(used - guest.usage.memory) / size:.1%} without it"


def _memory(node: Node) -> int:
    return node.capacity.memory if node.capacity is not None else 1
