"""A simulated cluster whose nodes have agents, and a controller that hears them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

from opendrs.controller import Report
from opendrs.controller.loop import Bell, Controller, Routine
from opendrs.controller.requests.desk import Answer, Desk
from opendrs.controller.requests.docket import Docket
from opendrs.controller.requests.settings import Freshness
from opendrs.controller.requests.wire import Request, Samples, Standing, Verdict
from opendrs.controller.stores import SqliteInbox, SqliteStore
from opendrs.model import GuestId, NodeId, Snapshot
from opendrs.policies import Consolidate
from opendrs.policies.consolidation.strategy import Detection
from opendrs.ports import RequestRecord
from stage import HASTY, Stage

INTERVAL = 300.0
FRESHNESS = Freshness(interval=INTERVAL, silence=900, max_age=300, max_skew=60)

TRUSTING = Consolidate(limits=HASTY, detector=Detection.LAST_N_AVERAGE)
"""It does what agents ask for, if it may; by default it weighs it as well."""


class Hall:
    """A cluster, a controller and its desk; used in a `with` statement.

    Args:
        place: A directory for the record.
        origin: The cluster in the beginning.
        policy: What decides.
    """

    def __init__(
        self, place: Path, origin: Snapshot, policy: Consolidate | None = None
    ) -> None:
        self.stage = Stage(origin)
        self.policy = policy or TRUSTING
        self.store = SqliteStore(place / "record.sqlite")
        self._sequences: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.store.__enter__()
        # No power fails here, and to wait for a disk takes most of the time.
        with self.store.database() as database:
            database.execute("PRAGMA synchronous = OFF")
        self.begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.store.__exit__(kind, error, trace)

    def begin(self) -> None:
        """Let a new process take over: all that is left is the record."""
        self.stage.store = self.store
        self.inbox = SqliteInbox(self.store)
        self.bell = Bell()
        self.desk = Desk(
            self.inbox, self.store, self.stage.clock, FRESHNESS, self.bell.ring
        )
        self.docket = Docket(
            self.policy, self.inbox, self.store, self.stage.clock, FRESHNESS
        )
        self.controller = Controller(
            Routine(
                interval=INTERVAL,
                gathering=10,
                observe=self.stage.world.observe,
                require_alive=lambda: None,
            ),
            self.stage.means(),
            self.docket,
            self.bell,
        )

    def cycle(self) -> Report:
        """Run one cycle."""
        return self.controller.once()

    def request(  # noqa: PLR0913 - as a request has them
        self,
        node: str,
        verdict: Verdict = Verdict.CALM,
        leaving: Sequence[str] = (),
        *,
        taken_at: datetime | None = None,
        sequence: int | None = None,
        guests: dict[str, list[float]] | None = None,
        interval: float = INTERVAL,
    ) -> Request:
        """Return a request of the agent on *node*, as of now unless said otherwise."""
        if sequence is None:
            self._sequences[node] += 1
            sequence = self._sequences[node]
        return Request(
            id=uuid4(),
            node=node,
            sequence=sequence,
            taken_at=taken_at or self.stage.clock.now(),
            verdict=verdict,
            leaving=list(leaving),
            samples=Samples(interval=interval, guests=guests or {}, own=[0.0]),
        )

    def send(self, request: Request) -> Answer:
        """Send *request* with the token of its node."""
        return self.desk.take(request, NodeId(request.node))

    def ask(
        self, node: str, verdict: Verdict = Verdict.CALM, leaving: Sequence[str] = ()
    ) -> UUID:
        """Let the agent on *node* send a request, which is accepted."""
        request = self.request(node, verdict, leaving)
        answer = self.send(request)
        assert answer.status == 202, answer
        return request.id

    def standing(self, name: UUID) -> Standing:
        """Return how that request stands."""
        record = self.record(name)
        answer = self.desk.look_up(str(name), record.node)
        assert isinstance(answer.body, Standing)
        return answer.body

    def record(self, name: UUID) -> RequestRecord:
        """Return what is written down of that request."""
        found = self.inbox.request(str(name))
        assert found is not None
        return found


class Usher(Desk):
    """A desk that leads to that of the hall which is open now."""

    def __init__(self) -> None:
        self.desk: Desk

    def take(self, request: Request, node: NodeId) -> Answer:
        """Ask the desk."""
        return self.desk.take(request, node)

    def look_up(self, name: str, node: NodeId) -> Answer:
        """Ask the desk."""
        return self.desk.look_up(name, node)

    def samples(self, guest: GuestId) -> Answer:
        """Ask the desk."""
        return self.desk.samples(guest)
