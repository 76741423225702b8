"""Pack guests onto few hosts, so that the others can sleep.

OpenStack Neat's division of the problem: which hosts are overloaded, which could
be emptied, who leaves, and where they go; each part chosen by name. Unlike there,
memory, rules, processors and what may move always bind, a host that receives must
keep the bound on overload by what is remembered of it, and hosts are emptied with
restraint: `target` below the load that counts as overloaded, and no guest within
its cooldown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opendrs.model import DEFAULT_LIMITS, Limits, NodeId, Snapshot
from opendrs.policies.base import Decision, Reason, require_ratio
from opendrs.policies.consolidation.decision import decided, judged
from opendrs.policies.consolidation.detection import Tallies, require_samples
from opendrs.policies.consolidation.histories import Floats
from opendrs.policies.consolidation.memories import Memory, no_memory, with_sample
from opendrs.policies.consolidation.petitions import (
    Petition,
    Petitions,
    heard,
    levelled,
    petition,
    pooled,
    told,
)
from opendrs.policies.consolidation.power import SPECPOWER
from opendrs.policies.consolidation.proposal import Proposal
from opendrs.policies.consolidation.scene import RulesOfPlaces, Scene
from opendrs.policies.consolidation.strategy import (
    Detection,
    Leaving,
    Placement,
    Strategy,
    detector,
    selection,
    underload,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """Relieve overloaded hosts, and empty those that have little to do.

    Attributes:
        detector: How an overloaded host is told.
        parameter: The load from which it is (threshold, last-n-average, otf, mhod),
            or the safety (mad, iqr, lr, lrr); None for the usual one.
        selection: Which guest leaves it first.
        placement: Which of the hosts with room receives.
        target: Part of a host's CPU, in [0, 1], up to which it is filled when
            others are emptied.
        relief: The same with guests that leave overloaded hosts.
        underload: Mean load up to which a host is emptied if it can be; 0 for none.
        full: Part of a host's CPU from which the time counts as overloaded.
        bound: Part of the remembered time that a host which receives a guest may
            have been overloaded, had the guest been there.
        last_n: Cycles over which the need of a guest is averaged.
        history: Cycles that are remembered.
        attempts: Hosts in a row that cannot be emptied, after which none is tried.
        emptied: Hosts that are emptied at most in one cycle.
        power: Whether hosts are put to sleep once empty, and woken when needed.
        server: Whose power curve hosts are taken to have, of those in the reference.
        interval: Seconds from one cycle to the next.
        bandwidth: Bytes a second at which guests migrate.
        seed: Of a random selection.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "consolidate"
    detector: Detection = Detection.LAST_N_AVERAGE
    parameter: float | None = None
    selection: Leaving = Leaving.LEAST_SUFFICIENT
    placement: Placement = Placement.SPREAD
    target: float = 0.75
    relief: float = 0.85
    underload: float = 0.75
    full: float = 0.95
    bound: float = 0.1
    last_n: int = 24
    history: int = 30
    attempts: int = 3
    emptied: int = 1000
    power: bool = False
    server: str = "ibm-x3550-x5675"
    interval: float = 300.0
    bandwidth: float = 62.5e6
    seed: int = 0
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("target", "relief", "full", "bound"):
            require_ratio(name, getattr(self, name), 1.0)
        require_ratio("underload", self.underload)
        for name in ("last_n", "history", "attempts", "emptied"):
            require_samples(name, getattr(self, name))
        for name in ("interval", "bandwidth"):
            require_ratio(name, getattr(self, name))
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be above 0")
        if self.server not in SPECPOWER:
            known = ", ".join(SPECPOWER)
            raise ValueError(f"server: no power curve {self.server!r} ({known})")
        detector(self.detector, self.parameter, self.bound, self.last_n)

    def initial_memory(self) -> Memory:
        """Return the memory of who has seen nothing."""
        return no_memory()

    def strategy(self, cycle: int = 0) -> Strategy:
        """Return how to decide in the cycle of that number."""
        return Strategy(
            detector=detector(self.detector, self.parameter, self.bound, self.last_n),
            underload=underload(self.underload, self.last_n),
            selection=selection(self.selection, self.last_n, f"{self.seed}/{cycle}"),
            placement=self.placement,
            target=self.target,
            relief=self.relief,
            full=self.full,
            bound=self.bound,
            last_n=self.last_n,
            attempts=self.attempts,
            emptied=self.emptied,
        )

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision[Memory]:
        """Return who should move where, and which hosts to wake or put to sleep.

        Args:
            snapshot: The cluster now; its usage is one sample.
            memory: What was seen in the cycles before.
        """
        now = with_sample(memory, snapshot, self.history)
        if (early := _not_yet(snapshot, now)) is not None:
            return Decision(early[0], now, detail=early[1])
        scene = self._scene(snapshot, now)
        strategy = self.strategy(now["cycle"])
        moves = decided(
            strategy,
            scene.fleet,
            scene.crowd,
            RulesOfPlaces(scene),
            self._judging(scene),
        )
        proposal = Proposal(scene, moves, strategy, power=self.power)
        return proposal.decision(scene.remembered(moves.tallies))

    def petition(
        self, snapshot: Snapshot, memory: Memory, node: NodeId
    ) -> tuple[Petition | None, Memory]:
        """Return what *node* asks for, by what its own agent knows.

        Args:
            snapshot: The node and its guests now; their usage is one sample.
            memory: What was seen in the cycles before.
            node: Whose agent asks.

        Returns:
            That, or None where the node is not online and measured; and what to
            remember.
        """
        now = with_sample(memory, snapshot, self.history)
        if node not in now["nodes"]:
            return None, now
        scene = self._scene(snapshot, levelled(now))
        strategy = self.strategy(now["cycle"])
        said, tallies = judged(
            strategy,
            scene.fleet,
            scene.crowd,
            RulesOfPlaces(scene),
            self._judging(scene),
        )
        kept: Memory = {**now, "tallies": scene.remembered(tallies)["tallies"]}
        return petition(scene, said, node), kept

    def answer(self, snapshot: Snapshot, memory: Petitions) -> Decision[Petitions]:
        """Return what to do about what the agents of all nodes ask for.

        A node without a petition is unknown: it is not filled, not emptied, and
        not put to sleep.

        Args:
            snapshot: The cluster now.
            memory: What the agents have sent.
        """
        known = heard(snapshot, memory["petitions"])
        now = pooled(known, memory, self.history)
        if (early := _not_yet(known, now)) is not None:
            return Decision(early[0], memory, detail=early[1])
        scene = self._scene(known, levelled(now))
        strategy = self.strategy()
        moves = decided(
            strategy,
            scene.fleet,
            scene.crowd,
            RulesOfPlaces(scene),
            told(scene, memory["petitions"]),
        )
        proposal = Proposal(scene, moves, strategy, power=self.power)
        return proposal.decision(memory)

    def _scene(self, snapshot: Snapshot, memory: Memory) -> Scene:
        curve = SPECPOWER[self.server]
        return Scene(snapshot, memory, self.limits, curve, wake=self.power)

    def _judging(self, scene: Scene) -> tuple[Tallies, Floats]:
        return scene.tallies(), scene.transfer() / self.bandwidth / self.interval


def _not_yet(snapshot: Snapshot, memory: Memory) -> tuple[Reason, str] | None:
    """Return why nothing can be decided now."""
    moving = sorted(g.id for g in snapshot.guests.values() if g.migrating_to)
    if moving:
        return Reason.MIGRATION_UNDER_WAY, f"on the move: {', '.join(moving)}"
    if not memory["nodes"]:
        return Reason.NOT_MEASURED, "no node is online and measured"
    return None
