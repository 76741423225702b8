"""From what was decided over columns to a plan with its reasons."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

import numpy as np

from opendrs.model import GIB, NodeId, NodeState, Plan, first_few
from opendrs.policies.base import Decision, MemoryT, Reason
from opendrs.policies.consolidation.histories import Truths
from opendrs.policies.consolidation.moves import Moves
from opendrs.policies.consolidation.neighbours import RulesOfPlaces
from opendrs.policies.consolidation.packing import Packing, Shift
from opendrs.policies.consolidation.power import power_columns
from opendrs.policies.consolidation.scene import Scene
from opendrs.policies.consolidation.strategy import Foresight, Strategy
from opendrs.policies.passage import Journey, Passage, Switch, in_turn
from opendrs.policies.units import summary

NEARER = 3  # hosts that would have been fuller, and are named with what closes them
FULLEST = 20  # hosts of which those are told


class Proposal:
    """A plan, and what it does for the cluster.

    Args:
        scene: The cluster.
        moves: What was decided.
        strategy: How.
        power: Whether empty hosts are put to sleep.
    """

    def __init__(
        self,
        scene: Scene,
        moves: Moves,
        strategy: Strategy | Foresight,
        *,
        power: bool,
    ) -> None:
        self._scene, self._moves, self._full = scene, moves, strategy.full
        self._power = power
        places = RulesOfPlaces(scene)
        self._before = Packing(strategy.last_n, scene.fleet, scene.crowd, places)
        self._after = moves.packing
        load = np.where(scene.known, -self._before.load / scene.fleet.cpu, np.inf)
        fullest = np.argsort(load, kind="stable")[: min(FULLEST, scene.known.sum())]
        self._fullest: list[int] = fullest.tolist()
        self._way = self._passage()
        self._keep(self._way.given_up)

    def decision(self, memory: MemoryT) -> Decision[MemoryT]:
        """Return the decision, with *memory* to keep."""
        plan = self._way.plan
        before = self._measures(self._before, self._scene.known)
        after = self._measures(self._after, self._on_afterwards())
        return Decision(
            self._reason(plan),
            memory,
            plan,
            self._detail(before, after),
            before,
            after if plan.steps else before,
            (*self._notes(), *self._way.notes),
        )

    def _passage(self) -> Passage:
        journeys = [
            self._journey(shift, self._relieves(shift)) for shift in self._moves.relief
        ]
        for shifts in self._moves.emptying:
            journeys += [self._journey(each, self._empties(each)) for each in shifts]
        return in_turn(
            journeys,
            self._scene.snapshot,
            self._scene.rules,
            self._scene.limits,
            wake=self._woken(),
            sleep=self._put_to_sleep(),
        )

    def _keep(self, given_up: Iterable[Journey]) -> None:
        """Leave those where they are who cannot go after all."""
        names = {each.name for each in given_up}
        for guest, unit in enumerate(self._scene.guests):
            if unit[0].id in names:
                self._after.put(guest, int(self._scene.crowd.host[guest]))

    def _journey(self, shift: Shift, begin: str) -> Journey:
        unit = self._scene.guests[shift.guest]
        target = self._name(shift.target)
        cpu = float(self._after.need[shift.guest])
        memory = float(self._scene.crowd.memory[shift.guest]) / GIB
        change = (
            f"{self._load(self._before, shift.target)} → "
            f"{self._load(self._after, shift.target)} in the end"
        )
        sentences = [
            begin,
            f"takes {cpu:.2f} cores and {memory:.2f} GiB to {target} ({change})",
        ]
        if len(unit) > 1:
            names = first_few([guest.id for guest in unit], joint=" and ")
            sentences.append(f"{names} must stay together and move as one")
        sentences += self._nearer(shift)
        return Journey(unit, target, "; ".join(sentences))

    def _relieves(self, shift: Shift) -> str:
        name, load = self._name(shift.source), self._load(self._before, shift.source)
        if self._moves.risk is None:
            return f"{name} is overloaded ({load})"
        risk = min(1.0, self._moves.risk[shift.source])
        return f"{name} ({load}) is likely to lack CPU {risk:.0%} of the time"

    def _empties(self, shift: Shift) -> str:
        name, load = self._name(shift.source), self._load(self._before, shift.source)
        return f"{name} ({load}) can be emptied"

    def _nearer(self, shift: Shift) -> list[str]:
        """Return which fuller hosts with enough CPU were closed, and by what."""
        unit, targets = self._scene.guests[shift.guest], self._scene.targets
        load = self._before.load / self._scene.fleet.cpu
        fuller = [p for p in self._fullest if load[p] > load[shift.target]]
        closed = (
            f"{self._name(place)} is fuller ({load[place]:.0%}), but {why}"
            for place in fuller
            if place != shift.source
            for why in [targets.obstacle(unit, self._name(place))]
            if why is not None
        )
        return [*islice(closed, NEARER)]

    def _woken(self) -> list[Switch]:
        why = "no host that runs has room"
        return [
            Switch(self._name(p), why)
            for p in np.flatnonzero(self._awake_afterwards()).tolist()
        ]

    def _awake_afterwards(self) -> Truths:
        """Return which hosts are woken, because somebody comes there."""
        return self._after.woken & (self._after.count > 0)

    def _put_to_sleep(self) -> list[Switch]:
        if not self._power:
            return []
        return [
            Switch(self._name(place), "nobody is on it any more")
            for place in np.flatnonzero(self._asleep_afterwards()).tolist()
        ]

    def _asleep_afterwards(self) -> Truths:
        """Return which hosts can be put to sleep once all has moved.

        One host always stays on, lest there be none to start a guest on.
        """
        found = np.zeros(len(self._scene.nodes), np.bool_)
        if not self._power:
            return found
        left = {shifts[0].source for shifts in self._moves.emptying}
        for place, name in enumerate(self._scene.nodes):
            may = self._scene.known[place] and not self._rests(name)
            gone = place in left and not self._after.count[place]
            found[place] = may and (gone or self._vacant(place))
        staying = self._scene.known & ~found
        if not (staying | self._awake_afterwards()).any():
            found[np.flatnonzero(found)[:1]] = False
        return found

    def _on_afterwards(self) -> Truths:
        on = self._scene.known | self._awake_afterwards()
        return on & ~self._asleep_afterwards()

    def _measures(self, packing: Packing, on: Truths) -> dict[str, float]:
        """Return the measures of the cluster with the hosts *on* running."""
        fleet = self._scene.fleet
        load = np.clip(packing.load / fleet.cpu, 0, 1)
        active = on & ((packing.count > 0) | fleet.stuck)
        return {
            "active_hosts": float(active.sum()),
            "hosts_on": float(on.sum()),
            "overload_time_fraction": self._overload(packing, active),
            "power_watts": float(
                power_columns(fleet.watts, fleet.curve, load)[on].sum()
            ),
        }

    def _overload(self, packing: Packing, active: Truths) -> float:
        """Return the part of the remembered time that active hosts were overloaded."""
        used = packing.used()
        over: Truths = used > self._full * self._scene.fleet.cpu[:, None]
        time = int(used.shape[1] * active.sum())
        return float(over[active].sum() / time) if time else 0.0

    def _reason(self, plan: Plan) -> Reason:
        if plan.steps:
            relieves = bool(self._moves.relief)
            return Reason.RELIEVES_OVERLOAD if relieves else Reason.SAVES_POWER
        overloaded = bool(self._moves.overloaded.any())
        return Reason.NO_CANDIDATE if overloaded else Reason.ALREADY_CONSOLIDATED

    def _detail(self, before: dict[str, float], after: dict[str, float]) -> str:
        overloaded = [
            self._name(p) for p in np.flatnonzero(self._moves.overloaded).tolist()
        ]
        told = f"overloaded: {first_few(overloaded) or 'no host'}"
        relieved = dict.fromkeys(self._name(each.source) for each in self._moves.relief)
        likely = [name for name in relieved if name not in overloaded]
        if likely:
            told += f"; likely to lack CPU: {first_few(likely)}"
        if not self._moves.relief and not self._moves.emptying:
            return f"{told}; no host is to be emptied"
        return (
            f"{told}; active hosts {before['active_hosts']:.0f} → "
            f"{after['active_hosts']:.0f}"
        )

    def _notes(self) -> tuple[str, ...]:
        nodes, cooldown = self._scene.snapshot.nodes, self._scene.limits.cooldown
        unknown = sorted(
            name
            for place, name in enumerate(self._scene.nodes)
            if not self._scene.known[place]
            and nodes[name].state in (NodeState.ONLINE, NodeState.UNKNOWN)
            and name not in self._scene.asleep
        )
        return (
            *(f"node {name} is not measured and left as it is" for name in unknown),
            *(
                f"node {name} was woken less than {cooldown:g} s ago and stays on"
                for name in self._resting()
            ),
            *(f"contradiction: {found}" for found in self._scene.rules.contradictions),
            *summary(self._scene.units.left_alone),
        )

    def _resting(self) -> list[NodeId]:
        """Return the empty nodes that are not put to sleep yet."""
        if not self._power:
            return []
        return [
            name
            for place, name in enumerate(self._scene.nodes)
            if self._vacant(place) and self._rests(name)
        ]

    def _vacant(self, place: int) -> bool:
        """Return whether nobody is there, and nobody comes."""
        empty = self._scene.empty(self._name(place))
        return empty and not self._after.count[place]

    def _rests(self, name: NodeId) -> bool:
        """Return whether the node was woken so lately that it stays on."""
        snapshot, limits = self._scene.snapshot, self._scene.limits
        woken_at = snapshot.nodes[name].woken_at
        if woken_at is None:
            return False
        # A time in the future is treated as now.
        since = max(0.0, (snapshot.taken_at - woken_at).total_seconds())
        return since < limits.cooldown

    def _name(self, place: int) -> NodeId:
        return self._scene.nodes[place]

    def _load(self, packing: Packing, place: int) -> str:
        return f"{packing.load[place] / self._scene.fleet.cpu[place]:.0%}"
