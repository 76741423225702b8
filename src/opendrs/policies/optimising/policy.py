"""The few migrations that bring most, at any size, with how near to the best they are.

The plan is searched for as a whole: which guests go where in the end, whatever lies in
between. Only then is the order made in which the steps are safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from opendrs.model import DEFAULT_LIMITS, Limits, Snapshot
from opendrs.policies.base import (
    MOST_UNEVEN,
    MOST_WEIGHT,
    Decision,
    Reason,
    require_ratio,
)
from opendrs.policies.optimising.budget import KNEE, Budget
from opendrs.policies.optimising.calm import Calm, calm
from opendrs.policies.optimising.case import Case
from opendrs.policies.optimising.lack import lack
from opendrs.policies.optimising.parties import Parties, parties
from opendrs.policies.optimising.scene import Scene
from opendrs.policies.optimising.searches import SearchKind
from opendrs.policies.optimising.spare import fill_for, no_room
from opendrs.policies.optimising.standing import Standing, standing
from opendrs.policies.optimising.work import Work
from opendrs.policies.optimising.worth import Goal, Worth, weight_of
from opendrs.policies.outlook import not_ready, obstacles
from opendrs.policies.units import Selection
from opendrs.rules import CompiledRules, compile_rules
from opendrs.scoring import UsageMode

PORTIONS = 20  # in which the work is done
LEAST = 20_000  # moves that are looked at for the smallest of clusters
MOST = 40_000_000  # and for the largest: some half a minute's


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimize:
    """Make the moves that together bring most for what they cost.

    Attributes:
        mode: What counts as load: measured use, or the guests' limits.
        priorities: What the plan is for, what matters most first: repair, contention,
            evenness, packing.
        budget: How much may be moved: knee (as far as it brings much), unlimited, or
            amounts such as "500 GiB", "40 moves" or "30 min".
        cpu: What the evenness of processor load counts.
        memory: What the evenness of memory counts.
        thrift: What moving the memory of a whole node costs, where 1 is a node with
            twice the even load: the larger, the less is moved for little.
        soft: What a guest that breaks a soft rule costs, in the same measure.
        busy: The part of a node's cores above which guests are taken to wait.
        pressure: The part of the time, in [0, 1], that a guest may wait for cpu or for
            memory (PSI) before it is contention.
        threshold: The unevenness up to which nothing is done for evenness alone.
        margin: Least part of the unevenness, in [0, 1], that a plan must take away.
        spare: For the loss of how many nodes there must be room in memory.
        relocate: Whether containers may be stopped, moved and started.
        effort: How many moves are looked at for each guest, or for some of them where
            few may move; in all, 40 million at most.
        seed: Where the random numbers begin.
        search: Which search plans large clusters: compiled; plain, which needs no
            compiled code and whose plans are a little worse; or auto, which is
            compiled where compiled code is available. A note says where it was plain.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "optimize"
    mode: UsageMode = UsageMode.DYNAMIC
    priorities: tuple[Goal, ...] = (Goal.REPAIR, Goal.CONTENTION, Goal.EVENNESS)
    budget: str = KNEE
    cpu: float = 1.0
    memory: float = 1.0
    thrift: float = 0.01
    soft: float = 0.1
    busy: float = 0.85
    pressure: float = 0.2
    threshold: float = 0.05
    margin: float = 0.1
    spare: int = 0
    relocate: bool = False
    effort: int = 1000
    seed: int = 0
    search: SearchKind = SearchKind.AUTO
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("cpu", "memory", "thrift", "soft"):
            require_ratio(name, getattr(self, name), MOST_WEIGHT)
        for name in ("margin", "pressure", "busy"):
            require_ratio(name, getattr(self, name), 1.0)
        require_ratio("threshold", self.threshold, MOST_UNEVEN)
        for name in ("spare", "effort", "seed"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"{name} must be at least 0, not {getattr(self, name)}"
                )
        if not self.priorities:
            raise ValueError(f"priorities must name at least one of {', '.join(Goal)}")
        if len(set(self.priorities)) < len(self.priorities):
            raise ValueError("priorities must name each goal once")
        if Goal.EVENNESS in self.priorities and not self.cpu + self.memory > 0:
            raise ValueError("cpu and memory must not both be 0 for evenness")
        Budget.parsed(self.budget)

    def initial_memory(self) -> None:
        """Return None: each decision stands by itself."""

    def decide(self, snapshot: Snapshot, memory: None) -> Decision[None]:
        """Return the moves that bring most, and how near to the best they are."""
        del memory
        work = self.work(snapshot)
        if isinstance(work, Decision):
            return work
        iterations = min(MOST, max(LEAST, self.effort * work.extent))
        for portion in range(PORTIONS):
            work.improve(iterations // PORTIONS, (portion + 1) / PORTIONS)
        return work.decision()

    def work(self, snapshot: Snapshot) -> Work | Decision[None]:
        """Return the work on a decision, or the decision where there is no work."""
        waiting = not_ready(snapshot, self.mode)
        if waiting is not None:
            return Decision(waiting[0], None, detail=waiting[1])
        missing = lack(snapshot, self.pressure)
        snapshot = missing.asked(snapshot)
        before = standing(
            snapshot,
            self.mode,
            self.limits,
            calm(snapshot, self.mode, self.busy, missing),
        )
        rules = compile_rules(snapshot)
        budget = Budget.parsed(self.budget)
        chosen = Selection(mode=self.mode, relocate=self.relocate)
        who = parties(snapshot, rules, self.limits, chosen)
        who = who.within(budget.gib, budget.moves)
        notes = (*missing.told(), *obstacles(snapshot, rules, who.left_alone))
        at_rest = self._at_rest(before, budget, who)
        if at_rest is not None:
            reason, why = at_rest
            figures = before.figures
            return Decision(
                reason, None, detail=why, before=figures, after=figures, notes=notes
            )
        return Work(self._case(snapshot, rules, who, before, notes))

    def _at_rest(
        self, before: Standing, budget: Budget, who: Parties
    ) -> tuple[Reason, str] | None:
        """Return why there is nothing to search for; None if there is."""
        if self._is_well(before):
            return Reason.BALANCED, (
                f"unevenness {before.unevenness:.3f} is not above the threshold "
                f"{self.threshold:g}, and nothing is broken"
            )
        if budget.nothing:
            return Reason.LIMIT_REACHED, f"a budget of {budget} lets nothing move"
        if not who.all:
            return Reason.NO_CANDIDATE, "no guest may be moved"
        return None

    def _is_well(self, before: Standing) -> bool:
        goals = set(self.priorities)
        return not (
            Goal.PACKING in goals
            or (Goal.REPAIR in goals and (before.broken or before.overfull > 0))
            or (Goal.CONTENTION in goals and before.contention > 0)
            or (Goal.EVENNESS in goals and before.unevenness > self.threshold)
        )

    def _case(
        self,
        snapshot: Snapshot,
        rules: CompiledRules,
        who: Parties,
        before: Standing,
        notes: tuple[str, ...],
    ) -> Case:
        scene = Scene(snapshot, rules, who.all, self.limits, self.mode)
        if self.spare:
            memory = [*scene.memory_of_nodes()]
            fill = fill_for(memory, self.spare)
            if fill is None:
                notes = (*notes, no_room(memory, self.spare))
            else:
                scene = Scene(
                    snapshot, rules, who.all, self.limits, self.mode, fill=fill
                )
        return Case(
            snapshot=snapshot,
            rules=rules,
            parties=who,
            scene=scene,
            before=before,
            priorities=self.priorities,
            worth=self._worth(scene, before.calm),
            budget=Budget.parsed(self.budget),
            margin=self.margin,
            limits=self.limits,
            mode=self.mode,
            seed=self.seed,
            search=self.search,
            notes=notes,
        )

    def _worth(self, scene: Scene, quiet: Calm) -> Worth:
        even = weight_of(Goal.EVENNESS, self.priorities)
        least = even if even > 0 else 1.0
        return Worth(
            broken=weight_of(Goal.REPAIR, self.priorities),
            contention=weight_of(Goal.CONTENTION, self.priorities),
            cpu=even * self.cpu,
            memory=even * self.memory,
            used=weight_of(Goal.PACKING, self.priorities),
            soft=least * self.soft,
            calm=quiet,
            gib=least * self.thrift / scene.mean_memory,
        )
