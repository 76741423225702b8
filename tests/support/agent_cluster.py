"""A simulated cluster with an agent on each node, and their controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import UUID, uuid4

import httpx2

from opendrs.api.service import RequestService, ServiceResponse
from opendrs.config.api_schema import (
    RequestBody,
    RequestStatus,
    UsageSamples,
    request_path,
)
from opendrs.config.settings import StalenessLimits
from opendrs.controller import ExecutionReport
from opendrs.controller.agent_requests import RequestBatch
from opendrs.controller.consent import Approval, ConsentApproval
from opendrs.controller.loop import Controller, LoopSettings, WakeupEvent
from opendrs.model import GuestId, LoadState, NodeId, Snapshot
from opendrs.policies.consolidation import Consolidate
from opendrs.policies.consolidation.settings import DetectorKind
from opendrs.ports import RequestRecord
from opendrs.store import DatabaseRequestStore, SqliteStore
from support.simulated_cluster import SHORT_LIMITS, SimulatedCluster

INTERVAL = 300.0
STALENESS_LIMITS = StalenessLimits(
    interval=INTERVAL, agent_timeout=900, max_sample_age=300, max_clock_skew=60
)

AGENT_POLICY = Consolidate(limits=SHORT_LIMITS, detector=DetectorKind.LAST_N_AVERAGE)
"""It does what agents ask for, if it may; by default it weighs it as well."""


class AgentCluster:
    """A cluster, a controller and its desk; used in a `with` statement.

    Args:
        directory: A directory for the record.
        origin: The cluster in the beginning.
        policy: What decides.
        approval: Approves the plans; by default all of them.
    """

    def __init__(
        self,
        directory: Path,
        origin: Snapshot,
        policy: Consolidate | None = None,
        *,
        approval: Approval | None = None,
    ) -> None:
        self.simulation = SimulatedCluster(origin)
        self.policy = policy or AGENT_POLICY
        self.store = SqliteStore(directory / "record.sqlite")
        self.approval = approval or ConsentApproval(lambda _: True)
        self._sequences: Counter[str] = Counter()

    def __enter__(self) -> Self:
        self.store.__enter__()
        # No power fails here, and to wait for a disk takes most of the time.
        engine = self.store._engine  # noqa: SLF001 - no setting of the product
        assert engine is not None
        connection = engine.raw_connection()
        connection.cursor().execute("PRAGMA synchronous = OFF")
        self.restart()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.store.__exit__(kind, error, trace)

    def restart(self) -> None:
        """Let a new process take over: all that is left is the record."""
        self.simulation.store = self.store
        self.request_store = DatabaseRequestStore(self.store)
        self.wakeup_event = WakeupEvent()
        self.service = RequestService(
            self.request_store,
            self.store,
            self.simulation.clock,
            STALENESS_LIMITS,
            self.wakeup_event.set,
        )
        self.request_batch = RequestBatch(
            self.policy,
            self.request_store,
            self.store,
            self.simulation.clock,
            STALENESS_LIMITS,
        )
        self.controller = Controller(
            LoopSettings(
                interval=INTERVAL,
                batch_window=10,
                observe=self.simulation.simulated_platform.observe,
                require_alive=lambda: None,
            ),
            self.simulation.context(),
            self.request_batch,
            self.wakeup_event,
            self.approval,
        )

    def run_cycle(self) -> ExecutionReport:
        """Run one cycle."""
        return self.controller.run_once()

    def build_request(  # noqa: PLR0913 - as a request has them
        self,
        node: str,
        load_state: LoadState = LoadState.NORMAL,
        evict: Sequence[str] = (),
        *,
        taken_at: datetime | None = None,
        sequence: int | None = None,
        guests: dict[str, list[float]] | None = None,
        interval: float = INTERVAL,
    ) -> RequestBody:
        """Return a request of the agent on *node*, by default as of now."""
        if sequence is None:
            self._sequences[node] += 1
            sequence = self._sequences[node]
        return RequestBody(
            id=uuid4(),
            node=node,
            sequence=sequence,
            taken_at=taken_at or self.simulation.clock.now(),
            load_state=load_state,
            evict=list(evict),
            samples=UsageSamples(
                interval=interval, guests=guests or {}, host_overhead=[0.0]
            ),
        )

    def send(self, request: RequestBody) -> ServiceResponse:
        """Send *request* with the token of its node."""
        return self.service.submit(request, NodeId(request.node))

    def submit(
        self,
        node: str,
        load_state: LoadState = LoadState.NORMAL,
        evict: Sequence[str] = (),
    ) -> UUID:
        """Let the agent on *node* send a request, which is accepted."""
        request = self.build_request(node, load_state, evict)
        response = self.send(request)
        assert response.status == 202, response
        return request.id

    def get_status(self, name: UUID) -> RequestStatus:
        """Return how that request stands."""
        record = self.record(name)
        response = self.service.get_status(str(name), record.node)
        assert isinstance(response.body, RequestStatus)
        return response.body

    def record(self, name: UUID) -> RequestRecord:
        """Return what is written down of that request."""
        found = self.request_store.request(str(name))
        assert found is not None
        return found


def put_request(client: httpx2.Client, request: RequestBody) -> httpx2.Response:
    """Send *request* as the agent does."""
    return client.put(request_path(request.id), content=request.model_dump_json())


class ServiceProxy(RequestService):
    """A desk that leads to that of the hall which is open now."""

    def __init__(self) -> None:
        self.service: RequestService

    def submit(self, request: RequestBody, node: NodeId) -> ServiceResponse:
        """Ask the desk."""
        return self.service.submit(request, node)

    def get_status(self, name: str, node: NodeId) -> ServiceResponse:
        """Ask the desk."""
        return self.service.get_status(name, node)

    def get_samples(self, guest: GuestId) -> ServiceResponse:
        """Ask the desk."""
        return self.service.get_samples(guest)
