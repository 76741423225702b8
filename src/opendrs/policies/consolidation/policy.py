"""Pack guests onto few hosts, so that the others can sleep.

OpenStack Neat's division of the problem: which hosts are overloaded, which could
be emptied, who leaves, and where they go. By default all four are answered by one
forecast of each host's load (`foreseeing`); the answers of the literature can be
chosen by name. Unlike there, memory, rules, processors and what may move always
bind, hosts are emptied with restraint, and no guest is moved within its cooldown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opendrs.model import DEFAULT_LIMITS, Limits, NodeId, Snapshot
from opendrs.model.limits import FASTEST, LONGEST_TIME
from opendrs.model.quantities import BytesPerSecond, Seconds
from opendrs.policies.base import MOST_WEIGHT, Decision, Reason, require_ratio
from opendrs.policies.consolidation.decision import decided, judged
from opendrs.policies.consolidation.detection import Tallies, require_samples
from opendrs.policies.consolidation.histories import Floats
from opendrs.policies.consolidation.memories import Memory, no_memory, with_sample
from opendrs.policies.consolidation.neighbours import RulesOfPlaces
from opendrs.policies.consolidation.petitions import (
    Petition,
    Petitions,
    heard,
    petition,
    pooled,
    told,
)
from opendrs.policies.consolidation.power import SPECPOWER
from opendrs.policies.consolidation.proposal import Proposal
from opendrs.policies.consolidation.scene import Scene
from opendrs.policies.consolidation.strategy import (
    Detection,
    Foresight,
    Leaving,
    Placement,
    Strategy,
    detector,
    selection,
    underload,
)
from opendrs.policies.outlook import under_way

OF_DETECTORS = ("parameter", "selection", "placement")
OF_FORECAST = ("price",)
# Chosen on 20110303 and 20110306 of PlanetLab: with them the least time without CPU
# where some 1.23 times the least energy is needed.
BOUND = 0.05
PRICE = 0.004
DETECTORS_BOUND = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Consolidate:
    """Relieve overloaded hosts, and empty those that have little to do.

    Attributes:
        detector: How an overloaded host is told. With a forecast also who leaves
            and where to; with any other the settings that begin with "Detectors".
        bound: Part of the time for which hosts may lack CPU on average, by the
            forecast (usually 0.05). Detectors: part of the remembered time that a
            host which receives a guest may have been overloaded, had the guest been
            there (usually 0.1).
        price: How much a migration has to take off the sum of what hosts lack, as
            part of the time (usually 0.004); only with a forecast.
        parameter: Detectors: the load from which a host is overloaded (threshold,
            last-n-average, otf, mhod), or the safety (mad, iqr, lr, lrr).
        selection: Detectors: which guest leaves it first; least-sufficient unless
            given.
        placement: Detectors: which of the hosts with room receives; spread unless
            given.
        target: Part of a host's CPU, in [0, 1], up to which it is filled on average
            when others are emptied (usually 1; detectors: 0.75).
        relief: The same with guests that leave overloaded hosts (usually 1;
            detectors: 0.85).
        underload: Mean load up to which a host is emptied if it can be; 0 for none
            (usually 1; detectors: 0.75).
        full: Part of a host's CPU from which it is overloaded: by the forecast if it
            needs so much on average, and others may be woken for its guests.
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
        ValueError: A setting is out of range, or of no account with that detector.
    """

    name: ClassVar[str] = "consolidate"
    detector: Detection = Detection.FORECAST
    bound: float | None = None
    price: float | None = None
    parameter: float | None = None
    selection: Leaving | None = None
    placement: Placement | None = None
    target: float | None = None
    relief: float | None = None
    underload: float | None = None
    full: float = 0.95
    last_n: int = 24
    history: int = 48
    attempts: int = 3
    emptied: int = 1000
    power: bool = False
    server: str = "ibm-x3550-x5675"
    interval: Seconds = 300.0
    bandwidth: BytesPerSecond = 62.5e6
    seed: int = 0
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("bound", "target", "relief", "full", "underload"):
            if (value := getattr(self, name)) is not None:
                require_ratio(name, value, 1.0)
        if self.price is not None:
            require_ratio("price", self.price, MOST_WEIGHT)
        for name in ("last_n", "history", "attempts", "emptied"):
            require_samples(name, getattr(self, name))
        for name, most in (("interval", LONGEST_TIME), ("bandwidth", FASTEST)):
            require_ratio(name, getattr(self, name), most)
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be above 0")
        if self.server not in SPECPOWER:
            known = ", ".join(SPECPOWER)
            raise ValueError(f"server: no power curve {self.server!r} ({known})")
        self._require_of_account()
        self.strategy()

    def _require_of_account(self) -> None:
        """Refuse settings that the detector would pass over."""
        foreseeing = self.detector is Detection.FORECAST
        for name in OF_DETECTORS if foreseeing else OF_FORECAST:
            if getattr(self, name) is not None:
                raise ValueError(
                    f"{name} is of no account with the detector {self.detector.value}"
                )

    def initial_memory(self) -> Memory:
        """Return the memory of who has seen nothing."""
        return no_memory()

    def strategy(self, cycle: int = 0) -> Strategy | Foresight:
        """Return how to decide in the cycle of that number."""
        foreseeing = self.detector is Detection.FORECAST
        return self._foresight() if foreseeing else self._strategy(cycle)

    def _foresight(self) -> Foresight:
        return Foresight(
            bound=_or(self.bound, BOUND),
            price=_or(self.price, PRICE),
            target=_or(self.target, 1.0),
            relief=_or(self.relief, 1.0),
            underload=_or(self.underload, 1.0),
            full=self.full,
            last_n=self.last_n,
            attempts=self.attempts,
            emptied=self.emptied,
        )

    def _strategy(self, cycle: int) -> Strategy:
        bound, seed = _or(self.bound, DETECTORS_BOUND), f"{self.seed}/{cycle}"
        leaving = self.selection or Leaving.LEAST_SUFFICIENT
        return Strategy(
            detector=detector(self.detector, self.parameter, bound, self.last_n),
            underload=underload(_or(self.underload, 0.75), self.last_n),
            selection=selection(leaving, self.last_n, seed),
            placement=self.placement or Placement.SPREAD,
            target=_or(self.target, 0.75),
            relief=_or(self.relief, 0.85),
            full=self.full,
            bound=bound,
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
        scene = self._scene(snapshot, now)
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
        scene = self._scene(known, now)
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


def _or(given: float | None, usual: float) -> float:
    return usual if given is None else given


def _not_yet(snapshot: Snapshot, memory: Memory) -> tuple[Reason, str] | None:
    """Return why nothing can be decided now."""
    moving = under_way(snapshot)
    if moving is not None:
        return moving
    if not memory["nodes"]:
        return Reason.NOT_MEASURED, "no node is online and measured"
    return None
