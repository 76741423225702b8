"""Metrics of a controller on a simulated cluster."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from prometheus_client import generate_latest

from opendrs.controller import SystemClock
from opendrs.controller.modes import BREAKER_KEY
from opendrs.errors import PlatformUnavailableError
from opendrs.model import AntiAffinity, NodeId, NodeState, Snapshot, time_as_text
from opendrs.monitoring.declarations import METRICS
from opendrs.monitoring.health import HealthMonitor
from opendrs.monitoring.metrics import ControllerMetrics, cluster_families
from opendrs.ports import Outcome, PlanState
from support.builders import NOON, cluster, guest_ids, node
from support.monitored_controller import LOPSIDED, MonitoredController
from support.simulated_cluster import SimulatedCluster

PROMTOOL = shutil.which("promtool")


class MetricsSetup:
    """A controller with metrics."""

    def __init__(self, origin: Snapshot = LOPSIDED) -> None:
        simulation = SimulatedCluster(origin)
        self.health = HealthMonitor(simulation.clock, 3)
        self.metrics = ControllerMetrics(
            simulation.clock,
            lambda: self.health.holds_lease,
            lambda _: {PlanState.DONE: 2},
        )
        self.setup = MonitoredController(
            self.health, self.metrics, simulation=simulation
        )

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


def test_cycle_counts_decision_and_steps() -> None:
    found = MetricsSetup()

    found.setup.controller.run_once()

    assert found.value("opendrs_cycles_total", result="finished") == 1
    reason = {"policy": "balance", "reason": "improves-balance"}
    assert found.value("opendrs_decisions_total", **reason) == 1
    assert (
        found.value("opendrs_decisions_total", **reason | {"reason": "balanced"}) == 0
    )
    moves = {"action": "live-migration"}
    assert found.value("opendrs_steps_total", **moves, outcome="done") == 2
    assert found.value("opendrs_steps_total", **moves, outcome="failed") == 0
    assert found.value("opendrs_planned_steps") == 2
    assert found.value("opendrs_plans", state="done") == 2
    assert found.value("opendrs_plans", state="proposed") == 0
    assert found.value("opendrs_cycle_duration_seconds_count") == 1
    duration = found.value("opendrs_cycle_duration_seconds_sum")
    assert duration == found.setup.simulation.elapsed > 0
    ended_at = NOON.timestamp() + found.setup.simulation.elapsed
    assert found.value("opendrs_last_cycle_timestamp_seconds") == ended_at
    assert found.value("opendrs_cycle_interval_seconds") == 300


def test_snapshot_gives_loads_and_imbalance() -> None:
    apart = AntiAffinity(guests=guest_ids("one", "two"), name="apart")
    found = MetricsSetup(
        cluster({"a": 0.6, "b": 0.2}, {"one": ("a", 0.2), "two": ("a", 0.2)}, [apart])
    )

    found.setup.controller.run_once()

    assert found.value("opendrs_nodes", state="online") == 2
    assert found.value("opendrs_nodes", state="unknown") == 0
    assert found.value("opendrs_guests") == 2
    assert found.value("opendrs_rule_violations", strictness="strict") == 1
    assert found.value("opendrs_rule_violations", strictness="soft") == 0
    for resource in ("cpu", "memory"):
        load = {"node": "a", "resource": resource}
        assert found.value("opendrs_node_load_ratio", **load) == pytest.approx(0.6)
        # Mean 0.4, deviation 0.2.
        imbalance = found.value("opendrs_imbalance_ratio", resource=resource)
        assert imbalance == pytest.approx(0.5)


def test_unknown_load_has_no_value() -> None:
    origin = cluster({"a": 0.6, "b": None}, {})

    loads, imbalances = (
        {sample.labels["resource"]: sample.value for sample in family.samples}
        for family in list(cluster_families(origin))[:2:-1]
    )

    assert loads == {"cpu": 0.6, "memory": 0.6}
    assert imbalances == {}


def test_offline_node_has_no_load() -> None:
    origin = cluster({"a": 0.6}, {})
    off = node("b", 0.1, state=NodeState.OFFLINE)
    *_, loads = cluster_families(replace(origin, nodes={**origin.nodes, off.id: off}))

    assert {sample.labels["node"] for sample in loads.samples} == {"a"}


def test_rejection_is_counted_by_reason() -> None:
    found = MetricsSetup()
    platform = found.setup.simulation.simulated_platform

    @contextmanager
    def isolate_target(call: str) -> Iterator[None]:
        if call == "note cycle":  # after the decision
            platform.isolate(NodeId("b"))
        yield

    found.setup.simulation.intercept(isolate_target)
    setup = MonitoredController(found.metrics, simulation=found.setup.simulation)

    setup.controller.run_once()

    rejected = found.setup.simulation.store.recent(NOON)
    assert {record.outcome for record in rejected} == {Outcome.REJECTED}
    counted = found.value("opendrs_rejections_total", reason="target-offline")
    assert counted == len(rejected) > 0


def test_failed_cycle_removes_values_of_snapshot() -> None:
    found = MetricsSetup()
    found.setup.controller.run_once()
    found.setup.simulation.simulated_platform.disconnect()

    with pytest.raises(PlatformUnavailableError):
        found.setup.controller.run_once()

    assert found.value("opendrs_cycles_total", result="failed") == 1
    assert found.value("opendrs_guests") is None
    assert found.value("opendrs_node_load_ratio", node="a", resource="cpu") is None
    assert found.value("opendrs_last_cycle_timestamp_seconds") is not None


def test_open_breaker_is_shown() -> None:
    found = MetricsSetup()
    found.setup.controller.run_once()
    before = found.value("opendrs_breaker_open")
    found.setup.simulation.store.save(BREAKER_KEY, {"opened_at": time_as_text(NOON)})

    found.setup.controller.run_once()

    assert (before, found.value("opendrs_breaker_open")) == (0, 1)


def test_lease_is_shown() -> None:
    health = HealthMonitor(SystemClock(), 3)
    metrics = ControllerMetrics(SystemClock(), lambda: health.holds_lease, lambda _: {})

    before = metrics.registry.get_sample_value("opendrs_lease_held")
    health.lease_acquired(SimulatedCluster(LOPSIDED).store)

    assert before == 0
    assert metrics.registry.get_sample_value("opendrs_lease_held") == 1


def test_exposed_metrics_are_the_declared_ones() -> None:
    found = MetricsSetup()
    found.setup.controller.run_once()

    families = {
        (family.name + "_total" * (family.type == "counter"), family.type)
        for family in found.metrics.registry.collect()
        if not family.name.startswith("process_")
    }

    assert families == {(each.name, each.type.value) for each in METRICS}


def test_number_of_series_does_not_grow_with_guests() -> None:
    guests = {f"vm{number}": ("a", 0.001) for number in range(500)}
    few, many = (
        MetricsSetup(cluster({"a": 0.5, "b": 0.5}, each)) for each in ({}, guests)
    )
    for each in (few, many):
        each.setup.controller.run_once()

    counts = [
        len(generate_latest(each.metrics.registry).splitlines()) for each in (few, many)
    ]

    assert counts[0] == counts[1]


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed")
def test_promtool_finds_no_problem() -> None:
    found = MetricsSetup()
    found.setup.controller.run_once()
    assert PROMTOOL is not None

    checked = subprocess.run(  # noqa: S603 - the checker of Prometheus
        [PROMTOOL, "check", "metrics"],
        input=generate_latest(found.metrics.registry),
        capture_output=True,
        check=False,
    )

    assert (checked.returncode, checked.stderr) == (0, b"")
    assert not math.isnan(found.value("opendrs_lease_held") or math.nan)
