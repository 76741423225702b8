"""Repeated, lost and late requests: none is executed twice or when stale."""

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

from opendrs.config.api_schema import RequestBody, RequestStatus
from opendrs.model import LiveMigration, LoadState
from opendrs.ports import RequestRecord, RequestState
from support.agent_cluster import STALENESS_LIMITS, AgentCluster
from support.builders import cluster

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
LOAD_STATE_MOVES = {
    RequestState.QUEUED: set(RequestState),
    RequestState.EVALUATING: set(RequestState),
    RequestState.EXECUTING: {
        RequestState.EXECUTING,
        RequestState.DONE,
        RequestState.REJECTED,
        RequestState.FAILED,
    },
}


class AgentRequestMachine(RuleBasedStateMachine):
    """Agents that send, repeat and lose requests, and a controller that restarts."""

    written = Bundle("written")

    def __init__(self) -> None:
        super().__init__()
        self._place = TemporaryDirectory()
        self.agent_cluster = AgentCluster(Path(self._place.name), ORIGIN)
        self.agent_cluster.__enter__()
        self.accepted: dict[str, RequestBody] = {}
        self.last: dict[str, int] = {}
        self.received_at: dict[str, datetime] = {}
        self.seen: dict[str, RequestRecord] = {}

    def teardown(self) -> None:
        self.agent_cluster.__exit__(None, None, None)
        self._place.cleanup()

    @rule(
        target=written,
        node=NODES,
        load_state=st.sampled_from(LoadState),
        evict=GUESTS,
        age=st.sampled_from([0, 0, 0, 100, 299, 301, -59, -61, 5000]),
        back=st.sampled_from([0, 0, 0, 1, 2]),
    )
    def write(
        self, node: str, load_state: LoadState, evict: list[str], age: int, back: int
    ) -> RequestBody:
        """Let an agent write a request, which may never be sent."""
        request = self.agent_cluster.build_request(
            node,
            load_state,
            evict if load_state is LoadState.OVERLOADED else (),
            taken_at=self.agent_cluster.simulation.clock.now() - timedelta(seconds=age),
        )
        sequence = max(0, request.sequence - back)
        return request.model_copy(update={"sequence": sequence})

    @rule(target=written, load_states=st.tuples(*[st.sampled_from(LoadState)] * 3))
    def send_from_all_nodes(
        self, load_states: tuple[LoadState, ...]
    ) -> MultipleResults[RequestBody]:
        """Let the agents of all nodes send a request that is fresh."""
        spoken = []
        for node, load_state in zip(("h1", "h2", "h3"), load_states, strict=True):
            here = [g.id for g in ORIGIN.guests.values() if g.node == node]
            evict = here[:2] if load_state is LoadState.OVERLOADED else []
            request = self.agent_cluster.build_request(node, load_state, evict)
            self.send(request, 1)
            spoken.append(request)
        return multiple(*spoken)

    @rule(request=written, times=st.integers(1, 2))
    def send(self, request: RequestBody, times: int) -> None:
        """Send it, for the first time or again."""
        for _ in range(times):
            expected = self._expected(request)
            answer = self.agent_cluster.send(request)
            assert answer.status == expected
            if expected == 202:
                self.accepted[str(request.id)] = request
                self.last[request.node] = request.sequence
                self.received_at[request.node] = (
                    self.agent_cluster.simulation.clock.now()
                )

    @rule(request=written)
    def resend_changed(self, request: RequestBody) -> None:
        """Send another request of the same id."""
        if str(request.id) in self.accepted:
            other = request.model_copy(update={"sequence": request.sequence + 1000})
            assert self.agent_cluster.send(other).status == 409

    def _expected(self, request: RequestBody) -> int:
        """Return what must be answered: an oracle that knows nothing of the desk."""
        if str(request.id) in self.accepted:
            return 200
        age = (
            self.agent_cluster.simulation.clock.now() - request.taken_at
        ).total_seconds()
        grows = request.sequence > self.last.get(request.node, -1)
        fresh = (
            -STALENESS_LIMITS.max_clock_skew <= age <= STALENESS_LIMITS.max_sample_age
        )
        return 202 if grows and fresh else 412

    @rule(seconds=st.sampled_from([1, 60, 299, 1000]))
    def wait(self, seconds: int) -> None:
        """Let time pass."""
        self.agent_cluster.simulation.clock.sleep(seconds)

    @rule()
    def cycle(self) -> None:
        """Let the controller work: all is answered, and the silent are spared."""
        now, before = (
            self.agent_cluster.simulation.clock.now(),
            self.agent_cluster.simulation.simulated_platform.starts.copy(),
        )

        self.agent_cluster.run_cycle()

        assert self.agent_cluster.request_store.open_requests() == ()
        for action in self.agent_cluster.simulation.simulated_platform.starts - before:
            assert isinstance(action, LiveMigration)
            for node in (action.source, action.target):
                silence = (now - self.received_at[node]).total_seconds()
                assert silence <= STALENESS_LIMITS.agent_timeout

    @rule()
    def restart(self) -> None:
        """Let a new process take over."""
        self.agent_cluster.restart()

    @precondition(lambda self: self.agent_cluster.request_store.open_requests())
    @rule(begun=st.booleans())
    def kill_after_evaluation(self, *, begun: bool) -> None:
        """Let the process die once it has decided, and a new one take over."""
        self.agent_cluster.request_batch.reconcile()
        seen = self.agent_cluster.simulation.simulated_platform.observe()
        evaluation = next(self.agent_cluster.request_batch.evaluations(seen))
        if begun:
            self.agent_cluster.request_batch.record_decision(
                evaluation.decision,
                f"dead {len(self.seen)}",
                evaluation.decision.plan.steps,
            )
        self.agent_cluster.restart()

    @invariant()
    def accepted_requests_stay_known(self) -> None:
        for name, request in self.accepted.items():
            answer = self.agent_cluster.service.get_status(
                name, self.agent_cluster.record(request.id).node
            )
            assert isinstance(answer.body, RequestStatus)

    @invariant()
    def closed_requests_never_change(self) -> None:
        for name in self.accepted:
            now = self.agent_cluster.request_store.request(name)
            assert now is not None
            before = self.seen.get(name)
            self.seen[name] = now
            if before is None:
                continue
            if before.state.closed:
                assert now == before
            else:
                assert now.state in LOAD_STATE_MOVES[before.state]
            if before.run is not None:
                assert (now.run, now.steps) == (before.run, before.steps)

    @invariant()
    def older_requests_are_closed(self) -> None:
        records = [
            self.agent_cluster.record(request.id) for request in self.accepted.values()
        ]
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
    def guests_migrate_at_most_once_per_request(self) -> None:
        evicted: Counter[str] = Counter()
        drained: Counter[str] = Counter()
        for request in self.accepted.values():
            evicted.update(request.evict)
            drained[request.node] += request.load_state is LoadState.UNDERLOADED
        moved: Counter[tuple[str, str]] = Counter()
        for (
            action,
            times,
        ) in self.agent_cluster.simulation.simulated_platform.starts.items():
            assert isinstance(action, LiveMigration)
            moved[action.guest, action.source] += times
        for (guest, source), times in moved.items():
            assert times <= evicted[guest] + drained[source]


TestAgentRequests = AgentRequestMachine.TestCase
TestAgentRequests.settings = settings(max_examples=30, stateful_step_count=30)
