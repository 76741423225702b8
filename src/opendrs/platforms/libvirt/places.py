"""Which domains on which hosts are one guest, and where it is.

A guest that migrates is on two hosts, at one of which it stands still. Anything
else that is on two hosts is not one guest on the move: it is named after its
host as well, so that nothing is hidden, and it is not to be moved.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import groupby

from opendrs.model import GuestId, NodeId
from opendrs.platforms.libvirt.answers import DomainAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A guest, and where it is.

    Attributes:
        id: What opendrs calls it.
        node: Where it is.
        domain: What that node says.
        migrating_to: Where else it is, as it moves there.
        executes: Whether it runs, here or already at the target.
        trouble: Why it must be left alone, in words.
    """

    id: GuestId
    node: NodeId
    domain: DomainAnswer
    migrating_to: NodeId | None = None
    executes: bool = False
    trouble: str | None = None


def places(domains: Mapping[NodeId, Iterable[DomainAnswer]]) -> tuple[Place, ...]:
    """Return every guest of the cluster once."""
    found: dict[str, list[Place]] = defaultdict(list)
    for node in sorted(domains):
        for domain in domains[node]:
            found[domain.uuid].append(_alone(node, domain))
    guests = [place for group in found.values() for place in _of_one_uuid(group)]
    return _named_apart(sorted(guests, key=lambda place: (place.id, place.node)))


def settled(domains: Mapping[NodeId, Iterable[DomainAnswer]]) -> bool:
    """Return whether no guest seems to run on two hosts.

    Hosts are not read at one instant: a guest that was still running on one
    may be running on the other a moment later. Reading again tells.
    """
    running = [
        domain.uuid for told in domains.values() for domain in told if domain.running
    ]
    return len(running) == len(set(running))


def _alone(node: NodeId, domain: DomainAnswer) -> Place:
    return Place(
        id=GuestId(domain.name), node=node, domain=domain, executes=domain.running
    )


def _of_one_uuid(group: list[Place]) -> list[Place]:
    """Return one guest, or each of those which should be one."""
    active = [place for place in group if place.domain.active]
    if not active:
        return group[:1]  # defined on several hosts, running on none
    if len(active) == 1:
        return [_stranded(active[0])]
    if (moving := _moving(active)) is not None:
        return [moving]
    where = ", ".join(place.node for place in active)
    trouble = f"one guest seems to run on {where} at once: stop all but one"
    return [replace(_apart(place), trouble=trouble) for place in active]


def _stranded(place: Place) -> Place:
    if not place.domain.arriving:
        return place
    trouble = "it is arriving from a host that does not answer"
    return replace(place, trouble=trouble)


def _moving(active: list[Place]) -> Place | None:
    """Return the guest that two hosts have as it moves, if that is the case."""
    if len(active) != 2:
        return None
    for source, target in (active, active[::-1]):
        begins = target.domain.arriving and not source.domain.arriving
        ends = source.domain.handed_over and target.domain.running
        if begins or ends:
            executes = source.executes or target.executes
            return replace(source, migrating_to=target.node, executes=executes)
    return None


def _named_apart(guests: list[Place]) -> tuple[Place, ...]:
    """Return *guests* with different guests of one name told apart."""
    named: list[Place] = []
    for _, same in groupby(guests, key=lambda place: place.id):
        alike = list(same)
        named += alike if len(alike) == 1 else [_namesake(p, alike) for p in alike]
    return tuple(named)


def _namesake(place: Place, alike: list[Place]) -> Place:
    others = ", ".join(other.node for other in alike if other is not place)
    trouble = f"another guest of the same name is on {others}"
    return replace(_apart(place), trouble=place.trouble or trouble)


def _apart(place: Place) -> Place:
    return replace(place, id=GuestId(f"{place.domain.name}@{place.node}"))
