"""Guests of a scenario: sizes and anti-affinity groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opendrs.errors import ConfigurationError, DiagnosticCode
from opendrs.escapes import repr_value
from opendrs.model import Megabytes
from opendrs.simulation.hardware import GuestSpecs, HostSpecs
from opendrs.simulation.workload import Integers, Workload

MAX_GUEST_VALUE = 1e9  # MB, MIPS, or ratio of shares
MAX_CORES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestProfile:
    """Profile of similar guests.

    Attributes:
        mips: MIPS of all cores.
        memory: Memory limit in MB.
        cores: Number of cores a guest can use at once.
        share: Number of guests with this profile, relative to the others.

    Raises:
        ConfigurationError: A value is out of range.
    """

    mips: float
    memory: Megabytes
    cores: int = 1
    share: float = 1.0

    def __post_init__(self) -> None:
        messages = []
        for name in ("mips", "memory", "share"):
            value = getattr(self, name)
            if not 0 < value <= MAX_GUEST_VALUE:
                bound = f"at most {MAX_GUEST_VALUE:g}" if value > 0 else "more than 0"
                messages.append(f"{name}: expected {bound}, got {value:g}")
        if not 1 <= self.cores <= MAX_CORES:
            messages.append(
                f"cores: expected a number in [1, {MAX_CORES}], got {self.cores}"
            )
        if messages:
            raise ConfigurationError(*messages)


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestOptions:
    """Options of the guests besides their load.

    Attributes:
        anti_affinity_groups: Number of consecutive guests, by name, that must be on
            different hosts; or groups of names whose members must be.
        kinds: Profiles. The guests, by name, are divided among them in order. Empty for
            the sizes in the trace, or the default sizes.
    """

    anti_affinity_groups: int | tuple[tuple[str, ...], ...] = 0
    kinds: tuple[GuestProfile, ...] = ()

    def guest_specs(self, workload: Workload, hosts: HostSpecs) -> GuestSpecs:
        """Return the guests of *workload* as arrays.

        Raises:
            ConfigurationError: A group contains a guest that does not exist.
        """
        group_size = (
            self.anti_affinity_groups
            if isinstance(self.anti_affinity_groups, int)
            else 0
        )
        guests = GuestSpecs.for_workload(workload, hosts, group_size)
        if not isinstance(self.anti_affinity_groups, int):
            guests = replace(
                guests,
                anti_affinity_group=_group_numbers(
                    self.anti_affinity_groups, workload.names
                ),
            )
        return _with_profiles(guests, self.kinds) if self.kinds else guests


def _group_numbers(groups: Sequence[Sequence[str]], names: Sequence[str]) -> Integers:
    guest_index = {name: number for number, name in enumerate(names)}
    group_of = np.full(len(names), -1, np.int64)
    missing = []
    for number, group in enumerate(groups):
        for name in group:
            if name in guest_index:
                group_of[guest_index[name]] = number
            else:
                missing.append(
                    f"guests.anti_affinity_groups[{number}]: unknown guest: "
                    f"{repr_value(name)}"
                )
    if missing:
        raise ConfigurationError(*missing[:10], code=DiagnosticCode.MISSING_KEY)
    return group_of


def _with_profiles(guests: GuestSpecs, kinds: Sequence[GuestProfile]) -> GuestSpecs:
    """Return guests with the profiles *kinds*; equal shares match CloudSim."""
    count = len(guests.cpu)
    shares = np.array([kind.share for kind in kinds])
    # The small correction prevents rounding from adding a guest.
    sizes = np.ceil(count * shares / shares.sum() - 1e-9)
    kind = np.searchsorted(np.cumsum(sizes), np.arange(count), side="right")
    kind = np.minimum(kind, len(kinds) - 1)
    return replace(
        guests,
        cpu=np.array([float(each.mips) for each in kinds])[kind],
        memory=np.array([float(each.memory) for each in kinds])[kind],
        cores=np.array([float(each.cores) for each in kinds])[kind],
    )
