"""Move guests from the busiest host to less busy ones when they are far apart.

The rebalancing of Incus, in its own forms for comparison, and by default without
their defects: sums that overflow, cores that are added to bytes, hosts that are
compared by what they were before the moves, and a rule for equals that fills the
fuller host. Whatever the form, it differs from Incus in these:

- Rules, memory with its headroom, processors, and what may move always bind, and
  guests that a rule keeps together move as one. Only running guests move.
- A node without measurements stops the decision, and so does a guest on the move.
- Each cycle is one run: there is no interval, and no first run that is skipped.
- Architectures are gone through in order of name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from opendrs.model import (
    DEFAULT_LIMITS,
    Guest,
    GuestId,
    Limits,
    NodeId,
    NodeState,
    Snapshot,
)
from opendrs.model.limits import LONGEST_TIME
from opendrs.model.quantities import Seconds
from opendrs.policies.base import Decision, Reason, require_ratio
from opendrs.policies.board import Board
from opendrs.policies.outlook import notes, under_way
from opendrs.policies.passage import Journey, in_turn
from opendrs.policies.threshold_rebalance.forms import Form, Host
from opendrs.policies.threshold_rebalance.run import Run, Terms
from opendrs.policies.threshold_rebalance.standing import (
    CpuMeasure,
    Standing,
    hosts_of,
)
from opendrs.policies.units import Selection
from opendrs.scoring import UsageMode
from opendrs.scoring.usage import lacking, nodes_without_figures

Memory = dict[str, list[str]]  # when each guest was moved, and where to


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdRebalance:
    """Even the busiest host and the least busy, a few guests at a time.

    Attributes:
        form: Whose arithmetic: corrected, or that of a version of Incus.
        threshold: From how far apart the busiest and the least busy are evened, as
            a part of the points of the busiest.
        floor: Part of its resources, in [0, 1], from which a host is busy at all.
        batch: Guests moved at most in one run; guests that stay together are one.
        cooldown: Seconds for which a guest that was moved is left alone.
        cpu: What tells how busy the processors of a node are.
        mode: What a guest counts for: its limits, or measured use.
        unscheduled: Labels of nodes that are neither source nor target.
        limits: What the operator allows.

    Raises:
        ValueError: A setting is out of range.
    """

    name: ClassVar[str] = "threshold-rebalance"
    form: Form = Form.CORRECTED
    threshold: float = 0.2  # cluster.rebalance.threshold
    floor: float = 0.0
    batch: int = 1  # cluster.rebalance.batch
    cooldown: Seconds = 21_600.0  # cluster.rebalance.cooldown: 6 hours
    cpu: CpuMeasure = CpuMeasure.EITHER
    mode: UsageMode = UsageMode.STATIC
    unscheduled: tuple[str, ...] = ()
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        for name in ("threshold", "floor"):
            require_ratio(name, getattr(self, name), 1.0)
        require_ratio("cooldown", self.cooldown, LONGEST_TIME)
        if self.batch < 0:
            raise ValueError(f"batch must be at least 0, not {self.batch}")

    def initial_memory(self) -> Memory:
        """Return the memory of who has moved nobody yet."""
        return {}

    def decide(self, snapshot: Snapshot, memory: Memory) -> Decision[Memory]:
        """Return who leaves the busiest hosts, and for where.

        Args:
            snapshot: The cluster now.
            memory: Whom the runs before have moved when.
        """
        moving = under_way(snapshot)
        if moving is not None:
            return Decision(moving[0], memory, detail=moving[1])
        kept = self._kept(memory, snapshot)
        hosts, missing = self._hosts(snapshot)
        if missing or not hosts:
            dark = [snapshot.nodes[name] for name in missing]
            found = nodes_without_figures(dark, UsageMode.DYNAMIC) or lacking(
                "node", {"load_average": missing}
            )
            detail = "; ".join(found) or "no node takes part"
            return Decision(Reason.NOT_MEASURED, kept, detail=detail)
        standing = Standing(snapshot, hosts, self.form)
        before = self._measures(snapshot)
        verdicts = [self._terms.content(standing.gap(g)) for g in standing.groups]
        if None not in verdicts:
            detail = "; ".join(filter(None, verdicts)) or "there is nobody to compare"
            return Decision(
                Reason.BALANCED, kept, detail=detail, before=before, after=before
            )
        return self._run(snapshot, standing, kept, before)

    @property
    def _terms(self) -> Terms:
        return Terms(
            form=self.form,
            mode=self.mode,
            threshold=self.threshold,
            floor=self.floor,
            batch=self.batch,
        )

    def _hosts(
        self, snapshot: Snapshot
    ) -> tuple[dict[NodeId, Host], tuple[NodeId, ...]]:
        """Return the nodes that take part, and who of them was not measured."""
        aside = frozenset(self.unscheduled)
        nodes = [
            node
            for node in snapshot.nodes.values()
            if node.online and not node.labels & aside
        ]
        hosts, missing = hosts_of(nodes, self.cpu)
        if self.mode is UsageMode.DYNAMIC:  # what guests use is weighed against that
            dark = {node.id for node in nodes if node.usage.known is None}
            missing = tuple(sorted(dark.union(missing)))
        return hosts, missing

    def _run(
        self,
        snapshot: Snapshot,
        standing: Standing,
        kept: Memory,
        before: Mapping[str, float],
    ) -> Decision[Memory]:
        selection = Selection(
            mode=self.mode, relocate=False, unlimited=self.form.original
        )
        board = Board(snapshot, self.limits, selection)
        run = Run(board, standing, self._terms, self._resting(snapshot, kept))
        way = in_turn(run.journeys, snapshot, board.rules, self.limits)
        after = self._measures(snapshot.after(*way.actions)) if way.made else before
        return Decision(
            Reason.IMPROVES_BALANCE if way.made else run.reason,
            {**kept, **_moved(way.made, snapshot.taken_at)},
            way.plan,
            "; ".join(run.verdicts),
            before,
            after,
            (*notes(board), *run.stays, *way.notes),
        )

    def _measures(self, snapshot: Snapshot) -> dict[str, float]:
        """Return the measures of the hosts that are furthest apart.

        Nothing where something was not measured.
        """
        hosts, missing = self._hosts(snapshot)
        standing = Standing(snapshot, hosts, self.form)
        gaps = [standing.gap(group) for group in standing.groups]
        if missing or not gaps:
            return {}
        widest = max(gaps, key=lambda gap: gap.difference)
        return {
            "difference": widest.difference,
            "highest_score": widest.highest / 100,
            "lowest_score": widest.lowest / 100,
        }

    def _kept(self, memory: Memory, snapshot: Snapshot) -> Memory:
        """Return what of *memory* still counts.

        A guest that is not where it was to go was not moved, or went on by itself. One
        that is not seen is where it was if that node does not answer. A time in the
        future is taken to be now.
        """
        now = snapshot.taken_at
        return {
            name: [min(datetime.fromisoformat(at), now).isoformat(), node]
            for name, (at, node) in memory.items()
            if _may_be_on(node, snapshot.guests.get(GuestId(name)), snapshot)
            and self._rests(datetime.fromisoformat(at), snapshot)
        }

    def _resting(self, snapshot: Snapshot, kept: Memory) -> dict[GuestId, str]:
        """Return why each guest that was moved too lately is left alone.

        Incus knows of the moves of its own rebalancing only.
        """
        known = set(kept)
        if not self.form.original:
            known |= {
                guest.id
                for guest in snapshot.guests.values()
                if guest.moved_at is not None and self._rests(guest.moved_at, snapshot)
            }
        why = f"it was moved less than {self.cooldown:g} s ago"
        return {GuestId(name): why for name in sorted(known)}

    def _rests(self, moved_at: datetime, snapshot: Snapshot) -> bool:
        # A time in the future is treated as now.
        since = max(0.0, (snapshot.taken_at - moved_at).total_seconds())
        return since < self.cooldown


def _may_be_on(name: str, guest: Guest | None, snapshot: Snapshot) -> bool:
    if guest is not None:
        return guest.node == name
    node = snapshot.nodes.get(NodeId(name))
    return node is not None and node.state is NodeState.UNKNOWN


def _moved(journeys: Iterable[Journey], at: datetime) -> Memory:
    targets: dict[GuestId, NodeId] = {
        guest.id: journey.target for journey in journeys for guest in journey.guests
    }
    return {name: [at.isoformat(), node] for name, node in sorted(targets.items())}
