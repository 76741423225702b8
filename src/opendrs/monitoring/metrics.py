"""Metrics of a running controller, for Prometheus."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from opendrs import __version__
from opendrs.controller.cycle import CycleResult
from opendrs.controller.modes import BREAKER_KEY, OPERATOR_ENTRIES, open_api_breaker
from opendrs.controller.observers import NullControllerObserver
from opendrs.errors import PlatformError
from opendrs.guard import Rejection, RejectionReason
from opendrs.metrics import ImbalanceMetric, imbalance
from opendrs.model import ACTION_KINDS, Node, NodeState, Snapshot, Step
from opendrs.monitoring import declarations
from opendrs.monitoring.declarations import MetricDeclaration
from opendrs.policies import DecisionReason
from opendrs.ports import Clock, Outcome, PlanState, StepRecord, Store
from opendrs.rules import violations

RESOURCES = ("cpu", "memory")
DURATION_BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3_600)  # seconds

disable_created_metrics()  # type: ignore[no-untyped-call]  # one more series for each


class ControllerMetrics(NullControllerObserver):
    """Controller observer that counts events, and keeps values of the last snapshot.

    The registry is its own: other libraries in the process cannot add metrics. Values
    of closed lists exist from the start with 0, so that rates include the first event.

    Args:
        clock: The time.
        holds_lease: Function that returns True if this controller holds the lease; it
            must not block.
        plan_counts: Function that returns the number of plans in a store by state.

    Attributes:
        registry: The metrics.
    """

    def __init__(
        self,
        clock: Clock,
        holds_lease: Callable[[], bool],
        plan_counts: Callable[[Store], Mapping[PlanState, int]],
    ) -> None:
        self._clock = clock
        self._plan_counts = plan_counts
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._cycles = self._counter(declarations.CYCLES, ("finished", "failed"))
        self._decisions = self._counter(declarations.DECISIONS)
        self._steps = self._counter(
            declarations.STEPS, sorted(ACTION_KINDS.values()), Outcome
        )
        self._rejections = self._counter(declarations.REJECTIONS, RejectionReason)
        duration = declarations.CYCLE_DURATION
        self._duration = Histogram(
            duration.name,
            duration.help,
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        )
        self._interval = self._gauge(declarations.CYCLE_INTERVAL)
        self._gauge(declarations.LEASE_HELD).set_function(holds_lease)
        self._gauge(declarations.BUILD_INFO).labels(__version__).set(1)
        self._last_cycle: tuple[GaugeMetricFamily, ...] = ()
        self._store: Store | None = None
        self._cluster = _ClusterCollector()
        self.registry.register(self._cluster)

    def lease_acquired(self, store: Store) -> None:
        """Keep the store, which contains the plans and the circuit breaker."""
        self._store = store

    def configured(self, policy: str, interval: float) -> None:
        """Set the interval, and create the counters of the decisions of *policy*."""
        self._interval.set(interval)
        for reason in DecisionReason:
            self._decisions.labels(policy, reason.value)

    def cycle_finished(self, result: CycleResult, seconds: float) -> None:
        """Count the cycle and its decision, and keep the values of its snapshot."""
        self._cycles.labels("finished").inc()
        self._duration.observe(seconds)
        decided = result.decided
        if decided is None:
            return
        decision = decided.decision
        self._decisions.labels(decided.policy.name, decision.reason.value).inc()
        ended_at = self._clock.now().timestamp()
        self._last_cycle = (_family(declarations.LAST_CYCLE, [((), ended_at)]),)
        self._cluster.families = (
            *self._last_cycle,
            _family(declarations.PLANNED_STEPS, [((), len(decision.plan.steps))]),
            *self._breaker_families(),
            _family(declarations.PLANS, self._plan_values()),
            *cluster_families(decided.snapshot),
        )

    def _breaker_families(self) -> list[GaugeMetricFamily]:
        if self._store is None:
            return []
        entries = self._store.load_all(OPERATOR_ENTRIES)
        is_open = {
            declarations.BREAKER_OPEN: BREAKER_KEY in entries,
            declarations.API_BREAKER_OPEN: open_api_breaker(entries) is not None,
        }
        return [_family(name, [((), value)]) for name, value in is_open.items()]

    def _plan_values(self) -> list[tuple[tuple[str, ...], float]]:
        if self._store is None:
            return []
        counts = self._plan_counts(self._store)
        return [((state.value,), counts.get(state, 0)) for state in PlanState]

    def cycle_failed(self, error: PlatformError, seconds: float) -> None:
        """Count the cycle, and remove the values of the snapshot: they are unknown."""
        del error, seconds
        self._cycles.labels("failed").inc()
        self._cluster.families = self._last_cycle

    def step_rejected(self, step: Step, rejection: Rejection) -> None:
        """Count the rejection."""
        del step
        self._rejections.labels(rejection.reason.value).inc()

    def step_finished(self, step: Step, record: StepRecord) -> None:
        """Count the step."""
        outcome = record.outcome or Outcome.LOST
        self._steps.labels(ACTION_KINDS[type(step.action)], outcome.value).inc()

    def _counter(self, declared: MetricDeclaration, *values: Iterable[str]) -> Counter:
        """Return a counter; *values* are those of each label, if they are known."""
        counter = Counter(
            declared.name, declared.help, declared.labels, registry=self.registry
        )
        for labels in product(*values) if values else ():
            counter.labels(*map(str, labels))
        return counter

    def _gauge(self, declared: MetricDeclaration) -> Gauge:
        return Gauge(
            declared.name, declared.help, declared.labels, registry=self.registry
        )


class _ClusterCollector(Collector):
    """Collector of the values of one snapshot, which are replaced as a whole.

    Attributes:
        families: Metrics with their values; empty before the first snapshot.
    """

    def __init__(self) -> None:
        self.families: tuple[GaugeMetricFamily, ...] = ()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the metrics."""
        yield from self.families


def cluster_families(snapshot: Snapshot) -> Iterator[GaugeMetricFamily]:
    """Yield the metrics of *snapshot*. Unknown loads have no value."""
    states = Tally(node.state for node in snapshot.nodes.values())
    yield _family(
        declarations.NODES, [((state.value,), states[state]) for state in NodeState]
    )
    yield _family(declarations.GUESTS, [((), len(snapshot.guests))])
    found = violations(snapshot)
    strict = sum(each.strict for each in found)
    yield _family(
        declarations.VIOLATED_RULES,
        [(("strict",), strict), (("soft",), len(found) - strict)],
    )
    online = [node for _, node in sorted(snapshot.nodes.items()) if node.online]
    loads = {name: [_load(node, name) for node in online] for name in RESOURCES}
    yield _family(
        declarations.IMBALANCE,
        [
            ((name,), imbalance(complete, ImbalanceMetric.CV))
            for name, values in loads.items()
            if (complete := [each for each in values if each is not None])
            and len(complete) == len(values)
        ],
    )
    yield _family(
        declarations.NODE_LOAD,
        [
            ((node.id, name), load)
            for name, values in loads.items()
            for node, load in zip(online, values, strict=True)
            if load is not None
        ],
    )


def _load(node: Node, resource: str) -> float | None:
    """Return the used fraction of a resource of *node*; None if it is unknown."""
    used = getattr(node.usage, resource)
    if node.capacity is None or used is None:
        return None
    return float(used / getattr(node.capacity, resource))


def _family(
    declared: MetricDeclaration, values: Iterable[tuple[tuple[str, ...], float]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
    for labels, value in values:
        family.add_metric(labels, value)
    return family
