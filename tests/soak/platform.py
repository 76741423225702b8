"""The cluster as a controller sees it: a platform that fails, a clock that jumps."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from opendrs.errors import (
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    UnexpectedResponseError,
)
from opendrs.model import (
    Action,
    Affinity,
    AntiAffinity,
    ColdMigration,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    LiveMigration,
    Mobility,
    Node,
    NodeAffinity,
    NodeId,
    NodeState,
    Pin,
    PowerOff,
    PowerOn,
    Pressure,
    Relocation,
    Resources,
    Snapshot,
    Stall,
    TagExclusion,
    Usage,
)
from opendrs.model import Rule as ModelRule
from opendrs.ports import TaskId, TaskState, TaskStatus
from soak.cluster import (
    CONTROLLER,
    MIGRATE,
    MOVES,
    POWER_OFF,
    POWER_ON,
    RELOCATE,
    RESTART,
    Cluster,
    ImpossibleError,
    Job,
    Rule,
)
from soak.cluster import Guest as TrueGuest
from soak.undo import Look

START = datetime(2026, 11, 21, 12, tzinfo=UTC)
HIDDEN, UNKNOWN, ARRIVING = "hidden", "unknown", "arriving"
KINDS: dict[str, type[Action]] = {
    MIGRATE: LiveMigration,
    RESTART: ColdMigration,
    RELOCATE: Relocation,
    POWER_ON: PowerOn,
    POWER_OFF: PowerOff,
}
SHORT_SLEEP, LONG_SLEEP = 0.5, 10.0  # seconds
_BUSY = 0.7  # load of a host above which its guests wait


@dataclass(kw_only=True)
class FaultyPlatform:
    """All that a controller can ask, as `Platform` and `Clock` have it.

    Each question takes time, and may fail before or after it took effect.

    Attributes:
        cluster: The truth.
        draw: Draws errors and delays.
        errors: Part of the questions that fail.
        slow: Part of the questions that take up to half a minute.
        unreachable_guests: Guests of a silent host: HIDDEN; UNKNOWN, as Proxmox VE
            shows them; or hidden except for those that ARRIVING shows on their
            target, as libvirt.
        lag: Seconds after which a job shows in the cluster.
        period: Seconds from one measurement of loads to the next; 0 for live ones.
        offset: Seconds by which the clock is ahead of true time.
        origin: Monotonic time of the process at true time 0.
        down_until: True time until which the whole platform answers nothing.
        forgotten: Tasks that the platform no longer knows.
    """

    cluster: Cluster
    draw: random.Random
    errors: float = 0.0
    slow: float = 0.0
    unreachable_guests: str = HIDDEN
    lag: float = 0.0
    period: float = 0.0
    offset: float = 0.0
    origin: float = 0.0
    down_until: float = -math.inf
    forgotten: set[str] = field(default_factory=set)
    _is_unnoticed: bool = False
    _measured: dict[str, tuple[float, int]] = field(default_factory=dict)
    _measured_at: float = 0.0

    def __post_init__(self) -> None:
        self.measure()

    def now(self) -> datetime:
        """Return the time that the clock shows."""
        return START + timedelta(seconds=self.cluster.now + self.offset)

    def monotonic(self) -> float:
        """Return the seconds since an instant that differs from process to process."""
        return self.cluster.now + self.origin

    def sleep(self, seconds: float) -> None:
        """Let *seconds* pass, and never less than a clock can show.

        A controller that waits for its next cycle continues late: to look for
        commands of operators twice a second would take most of the time of a test.
        """
        passes = LONG_SLEEP if seconds == SHORT_SLEEP else max(seconds, 1e-6)
        self.cluster.advance(passes)

    @contextmanager
    def unnoticed(self) -> Iterator[None]:
        """Answer a former leader, without a notice to the judges."""
        self._is_unnoticed = True
        try:
            yield
        finally:
            self._is_unnoticed = False

    def _report(self, event: str, **facts: object) -> None:
        if not self._is_unnoticed:
            self.cluster.report_event(event, **facts)

    def observe(self) -> Snapshot:
        """Return the cluster as it can be seen, without rules."""
        self._fail_before()
        cluster = self.cluster
        answering = [name for name in sorted(cluster.hosts) if cluster.answers(name)]
        if not answering:
            raise PlatformUnavailableError("no host answers")
        taken = cluster.now
        found = self._snapshot(set(answering))
        self._fail_after()
        self._report(
            "look",
            taken=taken,
            measured=self._measured_at if self.period else taken,
            silent=sorted(set(cluster.hosts) - set(answering)),
            shown=_look(found),
        )
        return found

    def start(self, action: Action) -> TaskId:
        """Start *action*."""
        kind, guest, source, target = plain(action)
        self.cluster.report_event(
            "start", kind=kind, guest=guest, source=source, target=target
        )
        self._fail_before()
        if self.draw.random() < self.errors / 4:
            error = self.draw.choice([PermissionDeniedError, PlatformError])
            raise error("the platform rejects it")
        if kind in MOVES:
            self._require_answers(source, target)
        try:
            job = self.cluster.begin(kind, guest, source, target, CONTROLLER)
        except ImpossibleError as error:
            raise PlatformError(str(error)) from error
        self._fail_after()
        return TaskId(job.id)

    def find(self, action: Action) -> TaskId:
        """Return the task of the newest job that does *action*."""
        self._fail_before()
        wanted = plain(action)
        if wanted[0] in MOVES:
            self._require_answers(wanted[2])
        jobs = self.cluster.jobs.values()
        found = [j.id for j in jobs if (j.kind, j.guest, *j.hosts) == wanted]
        self._fail_after()
        return TaskId(found[-1] if found else f"none {wanted}")

    def status(self, task: TaskId) -> TaskStatus:
        """Return how *task* stands."""
        job = self.cluster.jobs.get(task)
        try:
            self._fail_before()
            if job is not None and job.guest:
                self._require_answers(job.source)
            self._fail_after()
        except PlatformError:
            if job is not None:
                self._report("unanswered", job=task)
            raise
        if job is None or task in self.forgotten:
            self._report("task-unknown", job=task)
            return TaskStatus(TaskState.LOST, f"{task} is not known")
        self._report("answered", job=task)
        return TaskStatus(
            TaskState(job.state), job.fails if job.state == "failed" else ""
        )

    def abort(self, task: TaskId) -> None:
        """Abort *task*."""
        job = self.cluster.jobs[task]
        self._fail_before()
        if job.guest:
            self._require_answers(job.source)
        self.cluster.abort(job)
        self._fail_after()

    def measure(self) -> None:
        """Measure the loads, and again after each period."""
        guests = self.cluster.guests.values()
        self._measured = {g.name: (g.load, g.used) for g in guests}
        self._measured |= {n: self._use_of(n) for n in self.cluster.hosts}
        self._measured_at = self.cluster.now
        if self.period:
            self.cluster.schedule(self.cluster.now + self.period, self.measure)

    def _fail_before(self) -> None:
        slow = self.draw.random() < self.slow
        self.cluster.advance(self.draw.uniform(5, 30) if slow else 0.05)
        if self.down_until > self.cluster.now or self.draw.random() < self.errors:
            raise PlatformUnavailableError("the platform does not answer")

    def _fail_after(self) -> None:
        self.cluster.advance(0.05)
        if self.draw.random() < self.errors / 2:
            self.cluster.advance(self.draw.uniform(5, 30))
            if self.draw.random() < 0.5:
                raise UnexpectedResponseError("502 Bad Gateway")
            raise PlatformUnavailableError("the answer did not arrive")

    def _require_answers(self, *hosts: str) -> None:
        for host in hosts:
            if not self.cluster.answers(host):
                raise PlatformUnavailableError(f"{host} does not answer")

    def _snapshot(self, answering: set[str]) -> Snapshot:
        cluster = self.cluster
        if not self.period:
            self.measure()
        nodes = {NodeId(n): self._node(n, n in answering) for n in cluster.hosts}
        found = [self._guest(g, answering) for g in cluster.guests.values()]
        guests = {guest.id: guest for guest in found if guest is not None}
        return Snapshot(taken_at=self.now(), nodes=nodes, guests=guests)

    def _node(self, name: str, answers: bool) -> Node:  # noqa: FBT001
        host = self.cluster.hosts[name]
        if not answers:
            state = NodeState.UNKNOWN if host.on else NodeState.OFFLINE
            return Node(id=NodeId(name), state=state)
        load, used = self._measured[name]
        return Node(
            id=NodeId(name),
            capacity=Resources(host.cpu, host.memory),
            usage=Usage(min(load, host.cpu), used),
            state=NodeState.ONLINE,
            architecture="x86_64",
            cpu_model="EPYC",
            load_average=load,
            ksm_shared=0,
            pressure=Pressure(*[_pressure_stall(load / host.cpu)] * 3),
        )

    def _guest(self, guest: TrueGuest, answering: set[str]) -> Guest | None:
        if guest.host not in answering:
            return self._unseen(guest, answering)
        job = guest.job
        shows = job is not None and self.cluster.now >= job.began + self.lag
        waits = _pressure_stall(self._measured[guest.host][0] / self._cpu(guest.host))
        return Guest(
            id=GuestId(guest.name),
            node=NodeId(guest.host),
            kind=GuestKind.VM,
            state=GuestState.RUNNING if guest.running else GuestState.STOPPED,
            limit=Resources(guest.cores, guest.memory),
            usage=self._usage(guest),
            pressure=Pressure(*[waits] * 3) if guest.running else Pressure(),
            uptime=self.cluster.now - guest.since if guest.running else None,
            mobility=Mobility.LIVE if guest.live else Mobility.COLD,
            ha_managed=True,
            tags=frozenset(guest.tags),
            migrating_to=NodeId(job.target) if job is not None and shows else None,
        )

    def _unseen(self, guest: TrueGuest, answering: set[str]) -> Guest | None:
        """Return what shows of a guest whose host is silent."""
        job, where = guest.job, guest.host
        if (
            self.unreachable_guests == ARRIVING
            and job is not None
            and job.target in answering
        ):
            where, state = job.target, GuestState.PAUSED
        elif self.unreachable_guests == UNKNOWN:
            state = GuestState.UNKNOWN
        else:
            return None
        return Guest(
            id=GuestId(guest.name),
            node=NodeId(where),
            kind=GuestKind.VM,
            state=state,
            limit=Resources(guest.cores, guest.memory),
            mobility=Mobility.NONE,
            mobility_detail="its host does not answer",
            tags=frozenset(guest.tags),
        )

    def _usage(self, guest: TrueGuest) -> Usage:
        if not guest.running:
            return Usage(0.0, 0)
        measured = self._measured.get(guest.name)
        return Usage() if measured is None else Usage(*measured)

    def _use_of(self, name: str) -> tuple[float, int]:
        """Return the busy cores and the memory in use of a host, as its sensors do."""
        cpu, memory = 0.3, float(self.cluster.hosts[name].own)
        for guest in self.cluster.guests.values():
            if guest.running and guest.host == name:
                cpu, memory = cpu + guest.load, memory + guest.used
            elif guest.job is not None and guest.job.target == name:
                memory += guest.used * _progress(guest.job, self.cluster.now)
        return min(cpu, self._cpu(name)), int(memory)

    def _cpu(self, name: str) -> float:
        return self.cluster.hosts[name].cpu


def _look(snapshot: Snapshot) -> Look:
    """Return what *snapshot* shows, for the judge."""
    nodes, guests = snapshot.nodes, snapshot.guests
    use = {str(name): node.usage for name, node in nodes.items()}
    use |= {str(name): guest.usage for name, guest in guests.items()}
    return Look(
        use={name: (usage.cpu, usage.memory) for name, usage in use.items()},
        size={
            str(node.id): (node.capacity.cpu, node.capacity.memory)
            for node in nodes.values()
            if node.capacity is not None
        },
        places={
            str(guest.id): (guest.node, guest.migrating_to or guest.node)
            for guest in guests.values()
            if guest.state is GuestState.RUNNING
        },
    )


def plain(action: Action) -> tuple[str, str, str, str]:
    """Return kind, guest, source and target; a switch has its node as both."""
    kind = next(name for name, kind in KINDS.items() if isinstance(action, kind))
    if isinstance(action, PowerOn | PowerOff):
        return kind, "", action.node, action.node
    return kind, action.guest, action.source, action.target


def model_rule(rule: Rule) -> ModelRule:
    """Return *rule* as opendrs has it."""
    guests = frozenset(map(GuestId, rule.guests))
    if rule.kind == "affinity":
        return Affinity(guests=guests, strict=rule.strict)
    if rule.kind == "anti-affinity":
        return AntiAffinity(guests=guests, strict=rule.strict)
    if rule.kind == "node-affinity":
        nodes = {NodeId(host): 1 for host in rule.hosts}
        return NodeAffinity(guests=guests, nodes=nodes, strict=rule.strict)
    if rule.kind == "pin":
        return Pin(guests=guests)
    return TagExclusion(tags=frozenset({rule.tag}))


def _progress(job: Job, now: float) -> float:
    if job.kind != MIGRATE:
        return 0.0
    return 0.9 if math.isinf(job.ends) else (now - job.began) / (job.ends - job.began)


def _pressure_stall(load: float) -> Stall:
    some = min(1.0, max(0.0, load - _BUSY) * 3)
    return Stall(some, some / 2)
