"""Clusters of recorded cycles, kept because reading them takes long.

Recorded cycles do not change. Reading one of 20,000 guests takes 0.2 s, and building
its snapshot 0.4 s more.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from opendrs.config.snapshot_reading import recorded_snapshot_from
from opendrs.controller.views.cluster_columns import reading_record
from opendrs.controller.views.load_points import LoadPoint, load_point
from opendrs.controller.views.reasons import reason_documents
from opendrs.controller.views.rule_states import rule_documents
from opendrs.errors import ConfigurationError, StoreError
from opendrs.metrics import ImbalanceMetric
from opendrs.model import Snapshot
from opendrs.ports import CycleRecord, CycleSummary, HistoryReader

KEPT_CLUSTERS = 3
MAX_VALUES = 12_000_000  # loads that are kept: 48 MB
TIME_LIMIT = 2.0  # seconds in which one request reads further points


class RecordedCluster:
    """The cluster of one cycle, with what is derived from its record.

    Attributes:
        cycle: The record of the cycle with its inputs.
    """

    def __init__(self, cycle: CycleRecord) -> None:
        self.cycle = cycle
        self._lock = threading.Lock()

    @property
    def rules(self) -> list[dict[str, Any]]:
        """Return the documents of all rules.

        Raises:
            StoreError: The record is damaged.
        """
        with self._lock:
            return self._rules

    @property
    def reasons(self) -> list[dict[str, Any]]:
        """Return why guests stay and nodes receive none.

        Raises:
            StoreError: The record is damaged.
        """
        with self._lock:
            return self._reasons

    @cached_property
    def _reasons(self) -> list[dict[str, Any]]:
        return reason_documents(self.cycle, self._snapshot)

    @cached_property
    def _rules(self) -> list[dict[str, Any]]:
        with reading_record(self.cycle.run):
            decision: Any = self.cycle.document["decision"]
            return rule_documents(self._snapshot, decision)

    @cached_property
    def _snapshot(self) -> Snapshot:
        try:
            return recorded_snapshot_from(
                self.cycle.document["snapshot"], self.cycle.run
            )
        except ConfigurationError as error:
            raise StoreError(
                f"store: cycle {self.cycle.run}: cannot be read: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class LoadHistory:
    """Loads over time.

    Attributes:
        points: The loads, oldest first.
        complete: False if the time did not suffice for all; ask again for the others.
    """

    points: tuple[LoadPoint, ...]
    complete: bool


class RecordedClusters:
    """Reader of clusters and loads, which are kept. Threads may share it.

    Args:
        monotonic: Seconds of a clock that is never set.
        metric: Metric of the imbalance, which is that of the configured policy.
    """

    def __init__(
        self,
        monotonic: Callable[[], float] = time.monotonic,
        metric: ImbalanceMetric = ImbalanceMetric.CV,
    ) -> None:
        self._monotonic = monotonic
        self._metric = metric
        self._lock = threading.Lock()
        self._clusters: OrderedDict[int, RecordedCluster] = OrderedDict()
        self._reading = threading.Lock()  # held while points are read
        self._points: OrderedDict[int, LoadPoint] = OrderedDict()

    def cluster(
        self, history: HistoryReader, cycle: CycleSummary
    ) -> RecordedCluster | None:
        """Return the cluster of *cycle*; None if its inputs are not stored.

        Raises:
            StoreError: The record cannot be read.
        """
        with self._lock:
            if cycle.id not in self._clusters:
                record = history.record(cycle)
                if record is None:
                    return None
                self._clusters[cycle.id] = RecordedCluster(record)
            self._clusters.move_to_end(cycle.id)
            if len(self._clusters) > KEPT_CLUSTERS:
                self._clusters.popitem(last=False)
            return self._clusters[cycle.id]

    def loads(
        self, history: HistoryReader, cycles: Iterable[CycleSummary]
    ) -> LoadHistory:
        """Return the loads of those of *cycles* that have their inputs.

        The newest are read first, for at most `TIME_LIMIT`. While another thread reads
        some, only those that were read before are returned.

        Raises:
            StoreError: A record cannot be read.
        """
        wanted = sorted(cycles, key=lambda each: each.id, reverse=True)
        if not self._reading.acquire(blocking=False):
            return self._known_loads(wanted)
        try:
            ends_at = self._monotonic() + TIME_LIMIT
            for cycle in wanted:
                if cycle.id in self._points:
                    self._points.move_to_end(cycle.id)
                elif self._monotonic() > ends_at:
                    break
                elif (record := history.record(cycle)) is not None:
                    self._keep(cycle.id, record)
            return self._known_loads(wanted)
        finally:
            self._reading.release()

    def _known_loads(self, cycles: Sequence[CycleSummary]) -> LoadHistory:
        """Return the loads of *cycles* that were read."""
        points = self._points
        found = [point for each in cycles if (point := points.get(each.id)) is not None]
        ordered = sorted(found, key=lambda point: point.at)
        return LoadHistory(tuple(ordered), len(found) == len(cycles))

    def _keep(self, cycle: int, record: CycleRecord) -> None:
        former = next(reversed(self._points.values()), None)
        point = self._points[cycle] = load_point(record, former, self._metric)
        size = 2 * (len(point.nodes.cpu) + len(point.guests.cpu) + 1)
        while len(self._points) * size > MAX_VALUES:
            self._points.popitem(last=False)
