"""Whatever is sent, repeated, lost or late: nothing twice, and nothing stale."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    invariant,
    multiple,
    precondition,
    rule,
)

from builders import cluster
from hall import FRESHNESS, Hall
from opendrs.controller.requests.wire import Request, RequestState, Standing, Verdict
from opendrs.model import Migration
from opendrs.ports import RequestRecord

ORIGIN = cluster(
    {"h1": 0.9, "h2": 0.3, "h3": 0.1},
    {
        "vm1": ("h1", 0.3),
        "vm2": ("h1", 0.3),
        "vm3": ("h1", 0.2),
        "vm4": ("h2", 0.2),
        "vm5": ("h3", 0.05),
    },
)
NODES = st.sampled_from(["h1", "h1", "h2", "h3"])
GUESTS = st.lists(st.sampled_from(sorted(ORIGIN.guests)), max_size=3, unique=True)
# How a request may go on from one state to the next that is seen.
WAYS = {
    RequestState.QUEUED: set(RequestState),
    RequestState.DECIDING: set(RequestState),
    RequestState.EXECUTING: {
        RequestState.EXECUTING,
        RequestState.DONE,
        RequestState.REFUSED,
        RequestState.FAILED,
    },
}


class Agents(RuleBasedStateMachine):
    """Agents that send, repeat and lose requests, and a controller that restarts."""

    written = Bundle("written")

    def __init__(self) -> None:
        super().__init__()
        self._place = TemporaryDirectory()
        self.hall = Hall(Path(self._place.name), ORIGIN)
        self.hall.__enter__()
        self.accepted: dict[str, Request] = {}
        self.last: dict[str, int] = {}
        self.heard: dict[str, datetime] = {}
        self.seen: dict[str, RequestRecord] = {}

    def teardown(self) -> None:
        self.hall.__exit__(None, None, None)
        self._place.cleanup()

    @rule(
        target=written,
        node=NODES,
        verdict=st.sampled_from(Verdict),
        leaving=GUESTS,
        age=st.sampled_from([0, 0, 0, 100, 299, 301, -59, -61, 5000]),
        back=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def write(
        self, node: str, verdict: Verdict, leaving: list[str], age: int, back: int
    ) -> Request:
        """Let an agent write a request, which may never be sent."""
        request = self.hall.request(
            node,
            verdict,
            leaving if verdict is Verdict.OVERLOADED else (),
            taken_at=self.hall.stage.clock.now() - timedelta(seconds=age),
        )
        sequence = max(0, request.sequence - back)
        return request.model_copy(update={"sequence": sequence})

    @rule(target=written, verdicts=st.tuples(*[st.sampled_from(Verdict)] * 3))
    def all_speak(self, verdicts: tuple[Verdict, ...]) -> MultipleResults[Request]:
        """Let the agents of all nodes send a request that is fresh."""
        spoken = []
        for node, verdict in zip(("h1", "h2", "h3"), verdicts, strict=True):
            here = [g.id for g in ORIGIN.guests.values() if g.node == node]
            leaving = here[:2] if verdict is Verdict.OVERLOADED else []
            request = self.hall.request(node, verdict, leaving)
            self.send(request, 1)
            spoken.append(request)
        return multiple(*spoken)

    @rule(request=written, times=st.integers(1, 2))
    def send(self, request: Request, times: int) -> None:
        """Send it, for the first time or again."""
        for _ in range(times):
            expected = self._expected(request)
            answer = self.hall.send(request)
            assert answer.status == expected
            if expected == 202:
                self.accepted[str(request.id)] = request
                self.last[request.node] = request.sequence
                self.heard[request.node] = self.hall.stage.clock.now()

    @rule(request=written)
    def say_something_else(self, request: Request) -> None:
        """Send another request of the same id."""
        if str(request.id) in self.accepted:
            other = request.model_copy(update={"sequence": request.sequence + 1000})
            assert self.hall.send(other).status == 409

    def _expected(self, request: Request) -> int:
        """Return what must be answered: an oracle that knows nothing of the desk."""
        if str(request.id) in self.accepted:
            return 200
        age = (self.hall.stage.clock.now() - request.taken_at).total_seconds()
        grows = request.sequence > self.last.get(request.node, -1)
        fresh = -FRESHNESS.max_skew <= age <= FRESHNESS.max_age
        return 202 if grows and fresh else 412

    @rule(seconds=st.sampled_from([1, 60, 299, 1000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.hall.stage.clock.sleep(seconds)

    @rule()
    def cycle(self) -> None:
        """Let the controller work: all is answered, and the silent are spared."""
        now, before = self.hall.stage.clock.now(), self.hall.stage.world.starts.copy()

        self.hall.cycle()

        assert self.hall.inbox.unclosed() == ()
        for action in self.hall.stage.world.starts - before:
            assert isinstance(action, Migration)
            for node in (action.source, action.target):
                silence = (now - self.heard[node]).total_seconds()
                assert silence <= FRESHNESS.silence

    @rule()
    def restart(self) -> None:
        """Let a new process take over."""
        self.hall.begin()

    @precondition(lambda self: self.hall.inbox.unclosed())
    @rule(begun=st.booleans())
    def die(self, *, begun: bool) -> None:
        """Let the process die once it has decided, and a new one take over."""
        self.hall.docket.settle()
        seen = self.hall.stage.world.observe()
        judgement = self.hall.docket.judge(seen)
        if begun:
            self.hall.docket.begin(seen, judgement.decision, f"dead {len(self.seen)}")
        self.hall.begin()

    @invariant()
    def what_was_accepted_is_known_for_ever(self) -> None:
        for name, request in self.accepted.items():
            answer = self.hall.desk.look_up(name, self.hall.record(request.id).node)
            assert isinstance(answer.body, Standing)

    @invariant()
    def what_is_closed_never_changes_and_what_runs_is_never_put_back(self) -> None:
        for name in self.accepted:
            now = self.hall.inbox.request(name)
            assert now is not None
            before = self.seen.get(name)
            self.seen[name] = now
            if before is None:
                continue
            if before.state.closed:
                assert now == before
            else:
                assert now.state in WAYS[before.state]
            if before.run is not None:
                assert (now.run, now.steps) == (before.run, before.steps)

    @invariant()
    def none_stays_open_once_a_newer_one_of_its_node_was_decided(self) -> None:
        records = [self.hall.record(request.id) for request in self.accepted.values()]
        for record in records:
            superseded = record.state is RequestState.SUPERSEDED
            if record.state.closed and not superseded:
                assert not any(
                    other.node == record.node
                    and other.sequence < record.sequence
                    and not other.state.closed
                    for other in records
                )

    @invariant()
    def nobody_is_moved_more_often_than_was_asked_for(self) -> None:
        asked: Counter[str] = Counter()
        emptied: Counter[str] = Counter()
        for request in self.accepted.values():
            asked.update(request.leaving)
            emptied[request.node] += request.verdict is Verdict.UNDERLOADED
        moved: Counter[tuple[str, str]] = Counter()
        for action, times in self.hall.stage.world.starts.items():
            assert isinstance(action, Migration)
            moved[action.guest, action.source] += times
        for (guest, source), times in moved.items():
            assert times <= asked[guest] + emptied[source]


TestAgents = Agents.TestCase
TestAgents.settings = settings(max_examples=30, stateful_step_count=30)
