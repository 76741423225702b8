"""Who travels together, and who stays for what reason.

Guests that a strict rule keeps together are one party. Where they are on several
nodes, the rule is broken, and mending it is to gather them: a party then has a home,
the one of its nodes where it is taken to be, and those who are elsewhere go there if
the party goes nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from opendrs.model import Guest, GuestId, Limits, NodeId, Snapshot, first_few
from opendrs.policies.optimising.homes import Homes, transfer
from opendrs.policies.units import Selection, Unit, bundles, obstacles
from opendrs.rules import CompiledRules, Targets

OVER_BUDGET = "to bring it together with others takes more than the budget"


@dataclass(frozen=True, slots=True)
class Party:
    """Guests that are on one node in the end.

    Attributes:
        guests: Who they are; those of them who cannot move are not among them.
        home: The node where they are, or are taken to be.
        free: Whether they may go elsewhere than home.
    """

    guests: Unit
    home: NodeId
    free: bool = True

    @property
    def strays(self) -> Unit:
        """The guests that are not at home."""
        return tuple(guest for guest in self.guests if guest.node != self.home)

    @property
    def gathering(self) -> float:
        """The memory that bringing the strays home transfers, in GiB."""
        return transfer(self.strays)


@dataclass(frozen=True, slots=True)
class Parties:
    """Who may be moved, and who stays for what reason.

    Attributes:
        all: Who may be moved, in order of name.
        left_alone: Why each guest that stays does so; stopped ones are no subject.
    """

    all: tuple[Party, ...]
    left_alone: Mapping[GuestId, str]

    def within(self, gib: float, moves: float) -> Parties:
        """Return these without those that cannot be gathered for so much."""
        torn = [party for party in self.all if party.strays]
        if not torn:
            return self
        kept = [party for party in self.all if not party.strays]
        left_alone = dict(self.left_alone)
        for party in sorted(torn, key=lambda each: each.gathering):
            gib -= party.gathering
            moves -= len(party.strays)
            if gib >= 0 and moves >= 0:
                kept.append(party)
                continue
            gib += party.gathering
            moves += len(party.strays)
            left_alone.update({guest.id: OVER_BUDGET for guest in party.guests})
        return Parties(tuple(sorted(kept, key=_name)), left_alone)


def parties(
    snapshot: Snapshot, rules: CompiledRules, limits: Limits, selection: Selection
) -> Parties:
    """Return who may be moved in *snapshot*, at any cost."""
    left_alone = obstacles(snapshot, rules, limits, selection)
    targets = Targets(snapshot, rules, limits)
    homes = Homes(snapshot, targets, selection.mode)
    found: list[Party] = []
    for bundle in bundles(snapshot, rules):
        stuck = [guest for guest in bundle if guest.id in left_alone]
        party, why = _party(bundle, stuck, left_alone, homes)
        if party is not None:
            found.append(party)
        goes = () if party is None else party.guests
        for guest in bundle:
            if why is not None and guest not in goes:
                left_alone.setdefault(guest.id, why)
    return Parties(tuple(found), left_alone)


def _party(
    bundle: Unit,
    stuck: list[Guest],
    left_alone: Mapping[GuestId, str],
    homes: Homes,
) -> tuple[Party | None, str | None]:
    """Return the party that *bundle* is, and why some of it stay; one may be None."""
    nodes = {guest.node for guest in bundle}
    if not stuck:
        home = bundle[0].node if len(nodes) == 1 else homes.of(bundle)
        return Party(bundle, home), None
    held = {guest.node for guest in stuck}
    names = first_few([guest.id for guest in stuck], joint=" and ")
    why = f"it moves only with {names}, and {left_alone[stuck[0].id]}"
    if len(nodes) == 1 or len(held) > 1:
        return None, why
    (home,) = held
    strays = tuple(guest for guest in bundle if guest.node != home)
    closed = homes.targets.obstacle(strays, home)
    if closed is not None:
        return None, f"it must be with {names} on {home}, and {closed}"
    return Party(strays, home, free=False), why


def _name(party: Party) -> GuestId:
    return party.guests[0].id
