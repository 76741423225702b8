"""Reader of the records that determine the state; expensive ones are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from opendrs.config.settings import Settings
from opendrs.controller.modes import OPERATOR_ENTRIES
from opendrs.controller.status import (
    cycle_starts,
    recorded_cycle,
    recorded_process,
    recorded_progress,
)
from opendrs.controller.views.cluster_columns import (
    EMPTY_COLUMNS,
    ClusterColumns,
    cluster_columns,
)
from opendrs.controller.views.state import FAILURE_AGE, StateInputs
from opendrs.ports import (
    OPEN_PLAN_STATES,
    Clock,
    EventLog,
    HistoryReader,
    PlanStore,
    SharedStore,
    StepRecord,
)

STEPS_REFRESH = 10.0  # seconds after which the steps are read again without an event


class StateReader:
    """Reader of the records that determine the state.

    The cluster is read when a cycle was recorded, and the steps when an event was. Used
    by one thread.

    Args:
        platform: Name of the platform.
        settings: The configuration.
        clock: The time.
        store: Entries, steps and the lease.
        history: Cycles.
        plans: The plans.
        events: Events of the controller.
    """

    def __init__(  # noqa: PLR0913 - the parts of the store
        self,
        platform: str,
        settings: Settings,
        clock: Clock,
        *,
        store: SharedStore,
        history: HistoryReader,
        plans: PlanStore,
        events: EventLog,
    ) -> None:
        self.events = events
        self._platform = platform
        self._settings = settings
        self._clock = clock
        self._store = store
        self._history = history
        self._plans = plans
        self._cycle_id: int | None = None
        self._run: str | None = None
        self._decision: Mapping[str, Any] = {}
        self._cluster: ClusterColumns = EMPTY_COLUMNS
        self._steps: tuple[StepRecord, ...] = ()
        self._steps_key: tuple[object, ...] = ()

    def read(self) -> StateInputs:
        """Return the records.

        Raises:
            StoreError: The store cannot be read, or a record is damaged.
        """
        self._read_cluster()
        now, store = self._clock.now(), self._store
        plans = tuple(self._plans.plans(OPEN_PLAN_STATES))
        return StateInputs(
            platform=self._platform,
            settings=self._settings,
            now=now,
            entries=store.load_all(OPERATOR_ENTRIES),
            holder=store.lease_holder(),
            process=recorded_process(store),
            cycle=recorded_cycle(store),
            run=self._run,
            decision=self._decision,
            cluster=self._cluster,
            plans=plans,
            steps=self._read_steps(now),
            progress=self._progress(),
            cycle_starts=cycle_starts(store),
        )

    def _read_cluster(self) -> None:
        newest = self._history.newest()
        if newest is None or newest.id == self._cycle_id:
            return
        record = self._history.record(newest)
        if record is None:
            return
        self._cluster = cluster_columns(record.document)
        self._decision = record.document.get("decision") or {}  # type: ignore[assignment]  # plain values
        self._cycle_id, self._run = newest.id, newest.run

    def _read_steps(self, now: datetime) -> tuple[StepRecord, ...]:
        refresh = int(self._clock.monotonic() / STEPS_REFRESH)
        key = (self.events.last_sequence(), refresh)
        if key != self._steps_key:
            self._steps = self._store.recent(now - FAILURE_AGE)
            self._steps_key = key
        return self._steps

    def _progress(self) -> Sequence[Mapping[str, Any]]:
        running = {each.step: each.run for each in self._steps if each.outcome is None}
        return [
            {"run": running[each["step"]], **each}
            for each in recorded_progress(self._store)
            if each.get("step") in running
        ]
