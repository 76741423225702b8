"""Starved guests, ranked by TOPSIS with weights from AHP.

Source:
A. Derumier, balancer for Proxmox VE's HA manager (patch series of April 2022).
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

# How many times as important a criterion is as another. There, the last is called
# total_cpu here and totalcpu elsewhere, so that it has no weight.
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
# Who waits most is helped first; of those, who is moved most easily.
SIGNS: Mapping[str, int] = {
    "affinity": 1,
    "cpu_pressure": 1,
    "mem_pseudo_pressure": 1,
    "mem": -1,
    "totalcpu": -1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureThresholds:
    """From when on a guest is in trouble.

    Attributes:
        cpu_pressure: Part of the time, in [0, 1], that a guest may wait for cpu.
        memory: Part of a node's memory, in [0, 1], that may be in use.
        memory_ksm: The same where much memory is merged.
        ksm: Part of a node's memory, in [0, 1], above which much is.
    """

    cpu_pressure: float = 0.75
    memory: float = 0.85
    memory_ksm: float = 0.8
    ksm: float = 0.2

    def source_limit(self, node: Node) -> float:
        """Return the bytes above which *node*, of known capacity, gives guests away.

        Merged memory may part again at any time, so there the bound is lower.
        Where it is not known how much is merged, the higher bound holds: nobody is
        in trouble by what is not known.
        """
        return self._fractions(node)[1] * _memory(node)

    def target_limit(self, node: Node) -> float:
        """Return the bytes up to which *node*, of known capacity, receives guests.

        It is what it gives above, or the lower bound where that is not known.
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
    """A guest in trouble.

    Attributes:
        guest: The guest; what it uses is known.
        cpu_pressure: Part of the time that it waits for cpu; 0 also where that is
            not known, for then it is no reason to prefer it.
        memory_pressure: What its node uses above its bound, as a part of what the
            guest uses: in (0, 1) when the node would be below the bound without
            it, and the largest for the guest that just suffices; else 0.
        detail: What the trouble is, in words.
    """

    guest: Guest
    cpu_pressure: float
    memory_pressure: float
    detail: str

    @property
    def criteria(self) -> tuple[float, ...]:
        """Return what it is ranked by, in the order of `PREFERENCES`.

        Affinity is always 0: nothing is known there that would be in trouble by
        a rule, and rules are kept here otherwise.
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
    """Return what trouble *guest* is in on *node*; None if in none.

    The memory of the node, and what it uses, must be known. What is not known of
    the guest is no trouble.
    """
    cpu_stall = guest.pressure.cpu.some or 0.0
    details = []
    if cpu_stall > thresholds.cpu_pressure:
        limit = f"more than {thresholds.cpu_pressure:.0%}"
        details.append(f"it waits for cpu {cpu_stall:.0%} of the time, {limit}")
    if exceeds_memory_threshold(node, thresholds):
        details.append(_memory_detail(guest, node, thresholds))
    if not details:
        return None
    pressure = _memory_pressure(guest, node, thresholds)
    return StarvedGuest(guest, cpu_stall, pressure, " and ".join(details))


def exceeds_memory_threshold(node: Node, thresholds: PressureThresholds) -> bool:
    """Return whether *node*, of known memory, uses more of it than it may."""
    return (node.usage.memory or 0) > thresholds.source_limit(node)


def has_metrics(node: Node) -> bool:
    """Return whether *node* takes part and all is known of it."""
    return (
        node.online and node.capacity is not None and node.usage.resources is not None
    )


def eligible_guests(snapshot: Snapshot) -> list[Guest]:
    """Return the guests that are judged, in order of name: running vms."""
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
    """Return who is in trouble in *snapshot*, in order of name."""
    results = (
        find_starvation(guest, snapshot.nodes[guest.node], thresholds)
        for guest in eligible_guests(snapshot)
    )
    return [each for each in results if each is not None]


def criteria_weights(method: AhpMethod = AhpMethod.ROW_MEANS) -> tuple[float, ...]:
    """Return the weights of the criteria; negative where less is better.

    They come from `PREFERENCES` by AHP, of which the source does not say how.
    """
    names, matrix = judgment_matrix(PREFERENCES)
    shares = ahp(matrix, method).weights
    return tuple(SIGNS[name] * share for name, share in zip(names, shares, strict=True))


def rank_starved(
    starved_guests: Sequence[StarvedGuest], method: AhpMethod = AhpMethod.ROW_MEANS
) -> list[StarvedGuest]:
    """Return *starved_guests* by TOPSIS, the worst first.

    Between equals the name of the guest decides.
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
