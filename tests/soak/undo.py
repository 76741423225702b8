"""Judge of moves that undo earlier ones.

It imports nothing of opendrs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from soak.checker import MAINTENANCE, MOVES
from soak.consent import REPAIRS
from soak.invariants import CooldownStart, Invariant, Key
from soak.record import Record

REPAIRING = ("optimize", "repair")  # they repair rules while they balance
SLACK = 1.0  # seconds from a look to the decision about it
Load = tuple[float | None, float | None]  # CPU and memory in use
Place = tuple[str, str]  # where a guest is, and where it migrates to


@dataclass(frozen=True, slots=True)
class Look:
    """State of the cluster as one look showed it.

    Attributes:
        use: CPU and memory in use, of hosts and guests; None where unknown.
        size: CPU and memory of each host; None where unknown.
        places: Where each running guest is.
    """

    use: Mapping[str, Load] = field(default_factory=dict)
    size: Mapping[str, Load] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)

    def share(self, host: str, added: Load = (0.0, 0.0)) -> list[float | None]:
        """Return the parts of CPU and memory in use on *host* with *added*."""
        size = self.size.get(host, (None, None))
        use = self.use.get(host, (None, None))
        return [
            None
            if not whole or part is None or more is None
            else max(0.0, part + more) / whole
            for part, more, whole in zip(use, added, size, strict=True)
        ]


@dataclass(slots=True)
class PastMove:
    """A migration that the controller has intended."""

    guest: str
    source: str
    target: str
    start: CooldownStart
    before: Look
    done: bool = False

    def has_load_changed(self, now: Look, noise: float) -> bool:
        """Return whether the target is busier than just after the move."""
        moved = self.before.use.get(self.guest, (None, None))
        cpu, memory = (None if part is None else -part for part in moved)
        after = zip(
            self.before.share(self.target, moved),
            self.before.share(self.source, (cpu, memory)),
            strict=True,
        )
        present = zip(now.share(self.target), now.share(self.source), strict=True)
        return any(
            None not in (*then, *later)
            and (later[0] - later[1]) - (then[0] - then[1]) > noise - 1e-9  # type: ignore[operator]
            for then, later in zip(after, present, strict=True)
        )


class UndoJudge:
    """Judges whether guests return to hosts that they left, within the horizon.

    Args:
        record: The record of the controller.
        horizon: In seconds.
        noise: Change of load that is none.
        rules: Placement rules, with the attributes of `soak.cluster.Rule`.
        report: Called with each promise that is not kept.
    """

    def __init__(
        self,
        record: Record,
        horizon: float,
        noise: float,
        rules: Sequence[Any],
        report: Callable[..., None],
    ) -> None:
        self._record = record
        self._horizon = horizon
        self._noise = noise
        self._rules = [rule for rule in rules if rule.strict]
        self._report = report
        self._now = self._offset = 0.0
        self._look = Look()
        self._past: dict[Key, PastMove] = {}
        self._decisions: dict[str, Mapping[tuple[str, str], str]] = {}
        self._repairing: dict[str, bool] = {}
        self._drained: set[str] = set()

    def event(self, at: float, event: str, facts: Mapping[str, Any]) -> None:
        """Follow a true event."""
        self._now = at
        handle = getattr(self, "_on_" + event.replace("-", "_"), None)
        if handle is not None:
            handle(**facts)

    def finish(self) -> None:
        """Do nothing: all is judged as it happens."""

    def _on_clock(self, offset: float) -> None:
        for past in self._past.values():
            past.start.clock_set(self._now, offset - self._offset)
        self._offset = offset

    def _on_command(self, command: str, host: str = "", **_: object) -> None:
        if command == "drain":
            self._drained.add(host)
        elif command == "undrain":
            self._drained.discard(host)

    def _on_look(self, shown: Look | None = None, **_: object) -> None:
        if shown is not None:
            self._look = shown

    def _on_cycle(self, run: str, **_: object) -> None:
        """Note which moves a decision must not contain."""
        look = self._look
        self._decisions[run] = {
            (past.guest, past.source): f"it left {age:.0f} s ago"
            for past in self._past.values()
            if past.done
            and (age := self._age(past)) < self._horizon - SLACK
            and past.source not in look.places.get(past.guest, (past.source,))
            and not past.has_load_changed(look, self._noise)
        }
        occupied = {host for place in look.places.values() for host in place}
        self._repairing[run] = bool(occupied & self._drained) or any(
            map(self._is_broken, self._rules)
        )

    def _age(self, past: PastMove) -> float:
        """Return the most seconds since *past*, by true time and by the clock."""
        return max(self._now - past.start.at, past.start.elapsed(self._now))

    def _is_broken(self, rule: Any) -> bool:  # noqa: ANN401 - see `rules`
        """Return whether the last look shows that *rule* does not hold."""
        places = self._look.places
        found = [places[guest] for guest in rule.guests if guest in places]
        if rule.kind == "affinity":
            return len({host for place in found for host in place}) > 1
        if rule.kind == "node-affinity":
            return any({*place} - {*rule.hosts} for place in found)
        if rule.kind == "anti-affinity":
            occupied = [host for place in found for host in {*place}]
            return len(occupied) > len(set(occupied))
        return False

    def _on_writing(
        self, run: str, step: str, outcome: str | None, **action: str
    ) -> None:
        key = (run, step)
        if outcome is not None or key in self._past or action.get("kind") not in MOVES:
            return
        guest, source, target = (
            action["guest"], action["source"], action["target"],
        )  # fmt: skip
        start = CooldownStart(self._now, run, self._now)
        self._past[key] = PastMove(guest, source, target, start, self._look)
        undone = self._decisions.get(run, {}).get((guest, target))
        if undone is None:
            return
        plan = self._record.plan_of(run, step)
        if plan is None or plan.policy in MAINTENANCE or plan.reason in REPAIRS:
            return
        if plan.policy in REPAIRING and self._repairing[run]:
            return
        detail = f"{plan.policy}: {guest} returns to {target}: {undone}"
        self._report(Invariant.UNDONE, detail, guest, target)

    def _on_written(
        self, run: str, step: str, outcome: str | None, **_: object
    ) -> None:
        past = self._past.get((run, step))
        if past is not None:
            past.done = outcome == "done"
