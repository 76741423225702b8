"""Checker of the invariants of a controller, from true events alone.

It shares no code with the controller: it imports nothing of opendrs, keeps its own
model of the cluster, and reads the record with plain sqlite3.

A promise binds as far as the controller could know better. It knows what its last look
at the cluster showed, and everything that it began itself until it recorded an outcome.
What others did since that look, or on a host that did not answer it, does not count.
Times are true times, whatever the clock of the controller shows.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from soak.invariants import (
    Action,
    CheckedLimits,
    CooldownStart,
    Invariant,
    Key,
    LastObservation,
    RecordedStep,
    TrueGuest,
    TrueJob,
    Violation,
)
from soak.record import Record

SLACK = 300.0  # seconds by which an abort may be late: answers are slow, tries rare
RELOCATION = "relocation"  # of a stopped guest, which uses no memory
MOVES = ("live-migration", "cold-migration", RELOCATION)
MAINTENANCE = ("drain", "return")


class Judge(Protocol):
    """Follows the same events, and judges further invariants."""

    def event(self, at: float, event: str, facts: Mapping[str, Any]) -> None:
        """Follow a true event."""

    def finish(self) -> None:
        """Judge the end."""


@dataclass(kw_only=True)
class InvariantChecker:
    """Follows the events of one cluster, and notes each promise that is not kept.

    Attributes:
        limits: The limits.
        record: The record of the controller.
        node_memory: Memory of each host, and the part that it uses by itself, in bytes.
        rules: Placement rules, with the attributes of `soak.cluster.Rule`.
        judges: Judges of further invariants.
        violations: What was found.
        counts: How often each event happened.
        trace: The last events, as text.
    """

    limits: CheckedLimits
    record: Record
    node_memory: Mapping[str, tuple[int, int]]
    rules: Sequence[Any] = ()
    judges: list[Judge] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    trace: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=400))
    _guests: dict[str, TrueGuest] = field(default_factory=dict)
    _jobs: dict[str, TrueJob] = field(default_factory=dict)
    _records: dict[Key, RecordedStep] = field(default_factory=dict)
    _unsure: dict[Key, str | None] = field(default_factory=dict)  # being written
    _look: LastObservation = field(default_factory=LastObservation)
    _now: float = 0.0
    _offset: float = 0.0
    _starting: RecordedStep | None = None
    _silent_until: dict[str, float] = field(default_factory=dict)
    _down_until: float = -math.inf
    _powered_on: dict[str, CooldownStart] = field(default_factory=dict)
    _all_aborted: bool = False
    _undisturbed: float = -math.inf
    _inherited: list[RecordedStep] = field(
        default_factory=list
    )  # of an earlier process

    def event(self, at: float, event: str, **facts: Any) -> None:  # noqa: ANN401
        """Record a true event."""
        self._now = at
        self.counts[event] += 1
        if event == "command":
            self.counts[facts["command"]] += 1
        again = facts.get("outcome") is None and self._key(facts) in self._records
        if event not in ("answered", "look", "writing") and not again:
            self.trace.append((at, f"{event} {_shown(facts)}"))
        handle = getattr(self, "_on_" + event.replace("-", "_"), None)
        if handle is not None:
            handle(**facts)
        for judge in self.judges:
            judge.event(at, event, facts)

    def _key(self, facts: Mapping[str, Any]) -> Key:
        return facts.get("run", ""), facts.get("step", "")

    def tick(self, at: float) -> None:
        """Record that a controller is alive, and true time has passed."""
        self._now = at
        for job in self._jobs.values():
            if job.state == "running" and job.own and job.action[0] in MOVES:
                self._require_in_time(job)

    def finish(self, places: Mapping[str, tuple[str, bool]]) -> None:
        """Judge the end, when no fault is left and all that ran has ended.

        Args:
            places: The true host of each guest, and whether it runs.
        """
        self._require_durable()
        for judge in self.judges:
            judge.finish()
        for key, row in self.record.outcomes().items():
            if row is None:
                self.report(Invariant.OPEN, f"{key} has no outcome", *key)
        mine = {name: (g.host, g.running) for name, g in self._guests.items()}
        for name in sorted(mine.keys() | places.keys()):
            if mine.get(name) != places.get(name):
                found, expected = places.get(name), mine.get(name)
                detail = f"{name}: {found} instead of {expected}"
                self.report(Invariant.GUEST, detail, name)

    # What others do.

    def _on_guest(self, guest: str, host: str, **about: Any) -> None:  # noqa: ANN401
        self._guests[guest] = TrueGuest(
            host=host,
            memory=about["memory"],
            running=about["running"],
            live=about["live"],
            tags=tuple(about["tags"]),
            since=about["since"],
            uses=[(self._now, about["used"])],
            changed=self._now,
            disturbed=self._now,
        )

    def _on_guest_removed(self, guest: str) -> None:
        del self._guests[guest]

    def _on_guest_switched(self, guest: str, running: bool) -> None:  # noqa: FBT001
        found = self._guests[guest]
        found.running = running
        found.since = found.changed = found.disturbed = self._now

    def _on_guest_memory(self, guest: str, used: int) -> None:
        self._guests[guest].uses.append((self._now, used))

    def _on_silent(self, host: str, seconds: float, **_: object) -> None:
        until = self._now + seconds + 1
        self._silent_until[host] = max(self._silent_until.get(host, 0.0), until)

    def _on_down(self, seconds: float) -> None:
        self._down_until = max(self._down_until, self._now + seconds + 1)

    def _on_clock(self, offset: float) -> None:
        moved = [guest.moved for guest in self._guests.values()]
        for each in (*moved, *self._powered_on.values()):
            if each is not None:
                each.clock_set(self._now, offset - self._offset)
        self._offset = offset

    # What happens between the controller and the platform.

    def _on_process(self, **_: object) -> None:
        """Begin a process: it knows what the record has, and has seen nothing."""
        self._require_durable()
        self._look = LastObservation()
        self._starting = None
        records = self._records.values()
        self._inherited = [record for record in records if record.outcome is None]
        self._all_aborted = False
        for job in self._jobs.values():
            job.attended, job.unanswered = self._now, None

    def _on_process_end(self, **_: object) -> None:
        """Learn what a process recorded in its last moment."""
        self._require_durable()

    def _on_abort_all(self) -> None:
        self._all_aborted = True

    def _on_stuck(self, calls: int) -> None:
        self.report(Invariant.PROGRESS, f"no cycle within {calls} calls")

    def _on_resumed(self) -> None:
        for job in self._jobs.values():
            job.attended = self._now

    def _on_former(self, method: str, facts: str) -> None:
        detail = f"a former leader calls {method}: {facts}"
        self.report(Invariant.LEADER, detail)

    def _on_no_leader(self, detail: str) -> None:
        self.report(Invariant.TAKEOVER, detail)

    def _on_look(
        self, taken: float, measured: float, silent: Iterable[str], **_: object
    ) -> None:
        self._look = LastObservation(taken, measured, frozenset(silent))

    def _on_unanswered(self, job: str) -> None:
        found = self._jobs[job]
        found.attended = self._now
        if found.unanswered is None:
            found.unanswered = self._now

    def _on_answered(self, job: str) -> None:
        self._jobs[job].unanswered = None

    def _on_task_unknown(self, job: str) -> None:
        if job in self._jobs:
            self._jobs[job].unknown = True

    def _on_start(self, **facts: str) -> None:
        action = _action(facts)
        same = [r for r in self._records.values() if r.action == action]
        opened = [record for record in same if record.outcome is None]
        if not opened or self.record.outcomes().get(opened[-1].key, "") is not None:
            self.report(Invariant.UNRECORDED, f"{action}", *action[1:])
        for record in self._inherited:
            if record.outcome is None:
                self.report(Invariant.OPEN, f"{record.key}", *record.action[1:])
        if not opened:
            self._starting = None
            return
        self._starting = opened[-1]
        self._starting.starts += 1
        if self._starting.starts > 1:
            self.report(Invariant.TWICE, f"{self._starting.key} {action}", *action[1:])
        if action[0] != "power-on" and {*action[2:]} & self._look.unreachable:
            self.report(Invariant.UNOBSERVED, f"{action}", *action[1:])
        if action[0] in MOVES:
            self._require_idle(action)
            # Unless it is accepted, this disturbs guests that are bound to it.
            self._disturb(action[1])

    def _disturb(self, name: str) -> None:
        guest = self._guests.get(name)
        if guest is not None:
            self._undisturbed = guest.disturbed
            guest.disturbed = self._now

    def _require_idle(self, action: Action) -> None:
        _, guest, source, target = action
        for job in self._open_jobs():
            if job.action[1] == guest:
                self.report(Invariant.TWICE, f"{guest} already does {job.id}", guest)
            if job.action[0] == "power-off" and job.action[3] in (source, target):
                detail = f"{guest} migrates while {job.action[3]} is powered off"
                self.report(Invariant.NOT_EMPTY, detail, guest, job.action[3])

    def _on_job(self, job: str, by: str, **facts: str) -> None:
        own = by == "controller"
        looked = self._look.taken - self.limits.lag
        found = TrueJob(
            job, _action(facts), own, self._now, attended=self._now, looked=looked
        )
        kind, guest, _, target = found.action
        if own:
            found.record = self._starting
            if found.record is not None:
                found.record.job = found
            if kind in MOVES:
                self._guests[guest].disturbed = self._undisturbed
                self._check_move(found)
            elif kind == "power-off":
                self._check_power_off(target)
        else:
            self._disturb(guest)
        self._jobs[job] = found
        if guest:
            self._guests[guest].job = job

    def _on_job_end(self, job: str, error: str) -> None:
        found = self._jobs[job]
        found.state = "failed" if error else "done"
        kind, name, _, target = found.action
        run = found.record.key[0] if found.record is not None else ""
        if kind in MOVES:
            self._end_move(found, self._guests[name], run)
        elif kind == "power-on" and found.own and not error and not found.lost:
            self._powered_on[target] = CooldownStart(self._now, run, self._now)

    def _end_move(self, job: TrueJob, guest: TrueGuest, run: str) -> None:
        guest.job = None
        if job.state == "failed":
            guest.disturbed = self._now
            return
        guest.host = job.action[3]
        guest.arrived = self._now
        if job.action[0] == "cold-migration":
            guest.since = self._now
        if not job.own:
            guest.changed = guest.disturbed = self._now
        elif job.lost:
            guest.changed = self._now  # where it is was unknown
        else:
            guest.moved = CooldownStart(self._now, run, self._now)
            self._require_together(job)

    def _on_abort(self, job: str) -> None:
        found = self._jobs[job]
        found.aborted = self._now if found.aborted is None else found.aborted
        record = found.record
        if record is None or self._all_aborted or self._group_failed(found):
            return
        elapsed = self._now - record.intended
        if found.action[0] in MOVES and elapsed < self.limits.timeout - 1e-6:
            detail = (
                f"{job} was aborted after {elapsed:.1f} s of {self.limits.timeout:g}"
            )
            self.report(Invariant.EARLY_ABORT, detail, job, *found.action[1:])

    # What is recorded.

    def _on_writing(
        self, run: str, step: str, outcome: str | None, **_: object
    ) -> None:
        self._unsure[run, step] = outcome

    def _on_written(
        self, run: str, step: str, outcome: str | None, **facts: str
    ) -> None:
        key = (run, step)
        self._unsure.pop(key, None)
        record = self._records.get(key)
        if record is None:
            record = RecordedStep(key, _action(facts), self._now)
            self._records[key] = record
        record.outcome = outcome
        if outcome is not None:
            self._check_outcome(record)
        elif record.job is not None:
            record.job.accepted = True

    def _check_outcome(self, record: RecordedStep) -> None:
        job, outcome = record.job, record.outcome
        kind, name, _, target = record.action
        if outcome in ("rejected", "skipped"):
            if record.starts:
                self.report(Invariant.OUTCOME, f"{record} was started", name)
            return
        if job is None:
            if outcome == "done":
                self.report(Invariant.OUTCOME, f"{record} was not started", name)
            return
        if outcome == "lost" and job.state == "running":
            self._require_timeout(job)
        guest = self._guests.get(name)
        untouched = kind in MOVES and guest and guest.disturbed <= job.began
        wrong = (outcome == "done" and job.state != "done") or (
            outcome in ("failed", "aborted")
            and not job.unknown
            and (job.state == "running" or (job.state == "done" and untouched))
        )
        if wrong:
            detail = f"{record.key} is {outcome}, and {job.id} is {job.state}"
            self.report(Invariant.OUTCOME, detail, job.id, *record.action[1:])
        if job.state == "running":
            job.lost = True
        if kind in MOVES and guest is not None and outcome in ("done", "lost"):
            at = min(guest.moved.at, self._now) if guest.moved else self._now
            guest.moved = CooldownStart(at, record.key[0], self._now)
        elif kind == "power-on" and outcome in ("done", "lost"):
            known = self._powered_on.get(target)
            at = known.at if known is not None and outcome == "done" else self._now
            self._powered_on[target] = CooldownStart(at, record.key[0], self._now)

    def _require_timeout(self, job: TrueJob) -> None:
        """Require that *job* was asked after, or aborted, for long without success."""
        since = [at for at in (job.unanswered, job.aborted) if at is not None]
        waited = self._now - min(since, default=self._now)
        if not job.unknown and waited < self.limits.timeout - 1e-6:
            detail = f"{job.id} is recorded as lost after {waited:.1f} s"
            self.report(Invariant.EARLY_LOSS, detail, job.id, *job.action[1:])

    # The promises at the start of a migration.

    def _check_move(self, job: TrueJob) -> None:
        kind, name, _, target = job.action
        guest, now = self._guests[name], self._now
        if (kind == "live-migration" and not guest.live) or self._pinned(name, guest):
            self.report(Invariant.IMMOBILE, f"{job.action}", name)
        run, step = job.record.key if job.record is not None else ("", "")
        plan = self.record.plan_of(run, step)
        # An operator has requested it: cooldown and quiet time do not apply.
        maintains = plan is not None and plan.policy in MAINTENANCE
        known = guest.since <= self._look.taken and not maintains
        if known and now - guest.since < self.limits.min_uptime - 1e-6:
            detail = f"{name} started {now - guest.since:.1f} s ago"
            self.report(Invariant.MIN_UPTIME, detail, name)
        if guest.moved is not None and guest.moved.run != run and not maintains:
            self._require_cooldown(Invariant.COOLDOWN, name, guest.moved)
        self._check_concurrency(job)
        if kind != RELOCATION:
            self._check_memory(name, target)
        self._check_rules(job)

    def _pinned(self, name: str, guest: TrueGuest) -> bool:
        return any(
            (rule.kind == "pin" and name in rule.guests)
            or (rule.kind == "tag-exclusion" and rule.tag in guest.tags)
            for rule in self.rules
        )

    def _require_cooldown(
        self, invariant: Invariant, name: str, moved: CooldownStart
    ) -> None:
        """Require that the cooldown is over, or is by a clock that was set forward."""
        elapsed = self._now - moved.at
        if elapsed >= self.limits.cooldown - 1e-6:
            return
        if moved.elapsed(self._now) >= self.limits.cooldown - 1e-6:
            self.counts["cooldown cut short by the clock"] += 1
            return
        detail = f"{name} after {elapsed:.1f} s of {self.limits.cooldown:g}"
        self.report(invariant, detail, name)

    def _check_concurrency(self, job: TrueJob) -> None:
        source, target = job.hosts
        running = [j for j in self._known_running() if j.action[0] in MOVES]
        for host in (source, target):
            there = [j for j in running if host in j.hosts]
            self._require_at_most(
                Invariant.PER_NODE, host, job, there, self.limits.per_node
            )
        self._require_at_most(
            Invariant.PER_CLUSTER, "the cluster", job, running, self.limits.per_cluster
        )
        for name, (nodes, most) in self.limits.networks.items():
            if (source in nodes) != (target in nodes):
                over = [
                    j for j in running if (j.hosts[0] in nodes) != (j.hosts[1] in nodes)
                ]
                self._require_at_most(Invariant.PER_NETWORK, name, job, over, most)

    def _require_at_most(
        self,
        invariant: Invariant,
        where: str,
        job: TrueJob,
        there: list[TrueJob],
        most: int,
    ) -> None:
        """Require at most *most*, or alone the guests that must start together."""
        others = [other for other in there if not self._start_together(job, other)]
        if others and len(there) + 1 > most:
            ids = ", ".join(other.id for other in there)
            detail = f"{job.id} starts at {where} beside {ids}: at most {most}"
            names = [n for j in (job, *there) for n in (j.id, *j.action[1:])]
            self.report(invariant, detail, *names)

    def _check_memory(self, name: str, target: str) -> None:
        """Require memory for a guest, by limits and by use as it was measured.

        A guest that arrived since the loads were measured is not in use there yet.
        """
        there, measured = {name}, {name}
        for other, guest in self._guests.items():
            if not guest.running:
                continue
            job = self._jobs[guest.job] if guest.job is not None else None
            arriving = (
                job is not None
                and self._is_known_running(job)
                and job.action[3] == target
            )
            if arriving or (guest.host == target and guest.changed <= self._look.taken):
                there.add(other)
                if arriving or guest.arrived <= self._look.measured:
                    measured.add(other)
        (memory, own), terms = self.node_memory[target], self.limits
        used = own + sum(self._used(self._guests[g]) for g in measured)
        limits = sum(self._guests[g].memory for g in there)
        if used > memory * (1 - terms.headroom) + 1:
            names = sorted(measured)
            detail = f"{used / 2**30:.2f} GiB in use on {target} with {names}"
            self.report(Invariant.HEADROOM, detail, target, *names)
        if limits > memory * terms.overcommit + 1:
            detail = f"{limits / 2**30:.2f} GiB of limits on {target}: {sorted(there)}"
            self.report(Invariant.OVERCOMMIT, detail, target, *there)

    def _used(self, guest: TrueGuest) -> int:
        """Return the least memory in use since the loads were measured."""
        before = [u for at, u in guest.uses if at <= self._look.measured]
        since = [u for at, u in guest.uses if at > self._look.measured]
        return min([*before[-1:], *since])

    def _check_rules(self, job: TrueJob) -> None:
        _, name, source, target = job.action
        kept = []
        for number, rule in enumerate(self.rules):
            if not rule.strict or name not in rule.guests:
                continue
            if rule.kind == "affinity":
                if self._are_together(map(self._known_nodes, self._members(rule))):
                    kept.append(number)
            elif rule.kind == "node-affinity":
                if source in rule.hosts and target not in rule.hosts:
                    self.report(Invariant.RULE, f"{name} on {target}: {rule}", name)
            elif rule.kind == "anti-affinity" and job.action[0] != RELOCATION:
                for other in set(rule.guests) & self._guests.keys() - {name}:
                    places = self._known_nodes(self._guests[other])
                    if target in places and source not in places:
                        detail = f"{name} with {other} on {target}: {rule}"
                        self.report(Invariant.RULE, detail, name, other)
        job.kept = tuple(kept)

    def _known_nodes(self, guest: TrueGuest) -> set[str]:
        """Return the nodes at which *guest* may count."""
        if not guest.running or guest.changed > self._look.taken:
            return set()
        job = self._jobs[guest.job] if guest.job is not None else None
        moving = job is not None and self._is_known_running(job)
        return {guest.host, *([job.action[3]] if job is not None and moving else [])}

    def _are_together(self, places: Iterable[set[str]]) -> bool:
        """Return whether guests, each in some *places*, share one."""
        found = list(places)
        return not found or bool(set.intersection(*found))

    def _members(self, rule: Any) -> list[TrueGuest]:  # noqa: ANN401 - see `rules`
        found = [self._guests[name] for name in rule.guests if name in self._guests]
        return [guest for guest in found if guest.running]

    def _require_together(self, job: TrueJob) -> None:
        """Require that guests stay together, unless others disturbed them."""
        name = job.action[1]
        if self._delays_group(job):
            return
        for number in job.kept:
            rule = self.rules[number]
            members = self._members(rule)
            others = [guest for guest in members if guest is not self._guests[name]]
            if any(guest.disturbed >= job.looked for guest in others):
                continue
            if not self._are_together(map(self._true_nodes, members)):
                self.report(Invariant.RULE, f"{name} arrived: {rule}", *rule.guests)

    def _delays_group(self, job: TrueJob) -> bool:
        """Return whether the platform has not answered the start of an ended *job*.

        The controller waits for the answer; the other guests of the group, whose starts
        are recorded, follow: docs/explanation/sequencing.md, "Guests that stay
        together".
        """
        if job.record is None or job.accepted or self._starting is not job.record:
            return False
        members = self._closure(job.action[1])
        return any(
            record.key[0] == job.record.key[0]
            and record.action[1] in members
            and record.outcome is None
            and not record.starts
            for record in self._records.values()
        )

    def _true_nodes(self, guest: TrueGuest) -> set[str]:
        job = self._jobs[guest.job] if guest.job is not None else None
        return {guest.host} if job is None else {guest.host, job.action[3]}

    # Power.

    def _check_power_off(self, host: str) -> None:
        there = [
            name
            for name, guest in self._guests.items()
            if guest.host == host and guest.changed <= self._look.taken
        ]
        there += [
            j.action[1]
            for j in self._known_running()
            if host in j.hosts and j.action[1]
        ]
        if there:
            self.report(Invariant.NOT_EMPTY, f"{host} has {there}", host, *there)
        if host in self._powered_on:
            self._require_cooldown(Invariant.STAYS_ON, host, self._powered_on[host])

    # Timeouts.

    def _require_in_time(self, job: TrueJob) -> None:
        unreachable = max(
            self._down_until, *(self._silent_until.get(h, -math.inf) for h in job.hosts)
        )
        if self._now < unreachable:
            job.attended = self._now
        since = max(job.began, job.attended)
        late = self._now - since > self.limits.timeout + SLACK
        if late and job.aborted is None and not job.lost:
            detail = f"{job.id} runs for {self._now - job.began:.0f} s"
            self.report(Invariant.LATE_ABORT, detail, job.id, *job.action[1:])
            job.lost = True  # once is enough

    # The model.

    def _open_jobs(self) -> list[TrueJob]:
        """Return what the controller began and has no outcome for."""
        return [
            job
            for job in self._jobs.values()
            if job.state == "running" and job.own and not job.lost
        ]

    def _known_running(self) -> list[TrueJob]:
        return [
            j
            for j in self._jobs.values()
            if j.state == "running" and self._is_known_running(j)
        ]

    def _is_known_running(self, job: TrueJob) -> bool:
        """Return whether the controller can know that *job* is under way."""
        shown = job.began + self.limits.lag <= self._look.taken
        if job.action[0] == RELOCATION:
            return shown  # nothing else shows where a stopped guest is
        if job.own:  # also when it is recorded as lost, as long as it may be running
            return shown or not job.lost
        return shown and job.action[2] not in self._look.unreachable

    def _start_together(self, one: TrueJob, other: TrueJob) -> bool:
        """Return whether strict rules let both start together as one."""
        same_run = (
            one.record and other.record and one.record.key[0] == other.record.key[0]
        )
        if not same_run or one.hosts != other.hosts:
            return False
        return other.action[1] in self._closure(one.action[1])

    def _closure(self, guest: str) -> set[str]:
        found, size = {guest}, 0
        while len(found) > size:
            size = len(found)
            for rule in self.rules:
                if rule.kind == "affinity" and rule.strict and found & set(rule.guests):
                    found |= set(rule.guests)
        return found

    def _group_failed(self, job: TrueJob) -> bool:
        """Return whether a step of the same unit did not succeed."""
        if job.record is None:
            return False
        members = self._closure(job.action[1]) - {job.action[1]}
        return any(
            record.action[1] in members
            and record.key[0] == job.record.key[0]
            and record.outcome not in (None, "done")
            for record in self._records.values()
        )

    # The record.

    def _require_durable(self) -> None:
        """Require that all writes that returned are there; learn those that did not."""
        rows = self.record.outcomes()
        for key, record in self._records.items():
            expected = {record.outcome}
            if key in self._unsure:
                expected.add(self._unsure[key])
            if key not in rows or rows[key] not in expected:
                detail = f"{key}: {rows.get(key, 'no record')} instead of {expected}"
                self.report(Invariant.DURABLE, detail, *key)
        for key in self._unsure.keys() & rows.keys():
            if key not in self._records:
                action = self.record.action(key)
                self._records[key] = RecordedStep(key, action, self._now)
            if self._records[key].outcome != rows[key]:
                self._records[key].outcome = rows[key]
                self._check_outcome(self._records[key])
        self._unsure.clear()

    def report(self, invariant: Invariant, detail: str, *names: str) -> None:
        """Note a promise that was not kept."""
        self.violations.append(Violation(self._now, invariant, detail, tuple(names)))
        self.trace.append((self._now, f"VIOLATION {invariant.name}: {detail}"))


def _action(facts: Mapping[str, str]) -> Action:
    return facts["kind"], facts["guest"], facts["source"], facts["target"]


def _shown(facts: Mapping[str, Any]) -> str:
    short = dict(facts)
    if "run" in short:
        short["run"] = ".".join(facts["run"].split()[-2:])  # process and number
    return " ".join(f"{name}={value}" for name, value in short.items() if value != "")
