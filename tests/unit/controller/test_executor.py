"""Execution of plans: each step gets an outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta

import pytest

from opendrs.controller import CancellationToken
from opendrs.errors import (
    LeaseLostError,
    PermissionDeniedError,
    PlatformError,
    PlatformUnavailableError,
    StoreError,
    UnsupportedError,
)
from opendrs.model import (
    Affinity,
    AntiAffinity,
    GuestId,
    Limits,
    NodeId,
    NodeState,
    PowerOff,
    PowerOn,
    Rule,
    Snapshot,
    Step,
    StepId,
    Usage,
)
from opendrs.ports import Outcome, StepRecord
from support.builders import NOON, cluster, guest, guest_ids, node
from support.simulated_cluster import (
    SHORT_LIMITS,
    InterceptedPorts,
    SimulatedCluster,
    migration,
    outcomes,
    step,
)

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
DONE, FAILED, ABORTED = Outcome.DONE, Outcome.FAILED, Outcome.ABORTED
REJECTED, SKIPPED, LOST = Outcome.REJECTED, Outcome.SKIPPED, Outcome.LOST
ONE = step("1", migration("vm1", "a", "b"))
TWO = step("2", migration("vm2", "a", "c"))
TOGETHER = Affinity(guests=guest_ids("vm1", "vm2"), name="a pair")


def sample_cluster(*rules: Rule) -> Snapshot:
    """Return three nodes, with six guests of 10 GiB on the first."""
    guests = {f"vm{number}": ("a", 0.1) for number in range(1, 7)}
    return cluster({"a": 0.7, "b": 0.1, "c": 0.1}, guests, rules)


def test_execute_plan_performs_all_steps() -> None:
    simulation = SimulatedCluster(sample_cluster())

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [DONE, DONE]
    assert report.all_done
    assert report.summary == "2 done"
    assert (simulation.node_of("vm1"), simulation.node_of("vm2")) == ("b", "c")


def test_execute_empty_plan_is_done() -> None:
    simulation = SimulatedCluster(sample_cluster())

    assert simulation.execute().summary == "nothing to do"
    assert simulation.elapsed == 0


def test_execute_notifies_observer() -> None:
    simulation = SimulatedCluster(sample_cluster())

    report = simulation.execute(ONE, TWO)

    assert simulation.observer.started_steps == ["1", "2"]
    assert set(simulation.observer.progress) == {"1", "2"}
    assert {record.step for record in simulation.observer.finished} == {"1", "2"}
    assert set(simulation.observer.finished) == set(report.records)


def test_execute_writes_records_to_store() -> None:
    simulation = SimulatedCluster(sample_cluster())

    report = simulation.execute(ONE, TWO)

    assert set(simulation.store.recent(NOON)) == set(report.records)
    assert simulation.store.unfinished() == ()


def test_execute_records_intention_then_task() -> None:
    simulation = SimulatedCluster(sample_cluster())
    calls: list[str] = []

    @contextmanager
    def listening(name: str) -> Iterator[None]:
        calls.append(name)
        yield

    simulation.intercept(listening)
    simulation.execute(ONE)

    started = calls.index(f"start {ONE.action}")
    assert calls[started - 1] == "write 1 None None"
    assert calls[started + 1] == "write 1 live-migration vm1 a b None"


def test_step_waits_for_dependencies() -> None:
    simulation = SimulatedCluster(sample_cluster())

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "c"), "1"))
    first, second = report.records

    assert outcomes(report) == [DONE, DONE]
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at


def test_step_with_failed_dependency_is_skipped() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        3, lambda: simulation.simulated_platform.fail_node(B)
    )

    report = simulation.execute(
        ONE,
        step("2", migration("vm2", "a", "c"), "1"),
        step("3", migration("vm3", "a", "c"), "2"),
    )

    assert outcomes(report) == [FAILED, SKIPPED, SKIPPED]
    assert report.records[1].detail.endswith(": 1")
    assert simulation.node_of("vm2") == "a"


def test_a_guest_may_move_twice_in_one_plan() -> None:
    simulation = SimulatedCluster(sample_cluster(), limits=Limits(cooldown=600))

    report = simulation.execute(ONE, step("2", migration("vm1", "b", "c"), "1"))

    assert outcomes(report) == [DONE, DONE]
    assert simulation.node_of("vm1") == "c"


def test_guard_rejection_is_recorded_with_detail() -> None:
    full = replace(
        sample_cluster(), nodes={**sample_cluster().nodes, B: node("b", 0.9)}
    )
    simulation = SimulatedCluster(full)

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [REJECTED, DONE]
    detail = report.records[0].detail
    assert detail.startswith("b: 90.0 GiB ")
    assert " 10.0 GiB " in detail
    assert simulation.node_of("vm1") == "a"


def test_guard_checks_each_step_on_fresh_snapshot() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        8, lambda: simulation.simulated_platform.fail_node(C)
    )

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "c"), "1"))

    assert outcomes(report) == [DONE, REJECTED]
    assert report.records[1].detail.startswith("c: ")
    assert "offline" in report.records[1].detail


def max_parallel(simulation: SimulatedCluster, *steps: Step) -> dict[str, int]:
    """Carry out *steps*; return how many moved at once, by node and in all."""
    most = Counter({"all": 0})

    @contextmanager
    def counting(_: str) -> Iterator[None]:
        yield
        seen = simulation.simulated_platform.observe().guests.values()
        moving = [found for found in seen if found.migrating_to is not None]
        now = Counter(name for found in moving for name in found.occupied_nodes)
        for name, count in [*now.items(), ("all", len(moving))]:
            most[name] = max(most[name], count)

    simulation.intercept(counting)
    assert simulation.execute(*steps).all_done
    return dict(most)


def test_migrations_per_node_are_limited() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, max_migrations_per_node=2)
    )
    steps = [step(str(n), migration(f"vm{n}", "a", "bc"[n % 2])) for n in range(1, 7)]

    assert max_parallel(simulation, *steps) == {"a": 2, "b": 1, "c": 1, "all": 2}


def test_parallel_migrations_are_limited() -> None:
    simulation = SimulatedCluster(
        sample_cluster(),
        limits=replace(
            SHORT_LIMITS, max_migrations_per_node=6, max_parallel_migrations=3
        ),
    )
    steps = [step(str(n), migration(f"vm{n}", "a", "b")) for n in range(1, 7)]

    assert max_parallel(simulation, *steps) == {"a": 3, "b": 3, "all": 3}


def test_waiting_detail_is_reported_once() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, max_migrations_per_node=1)
    )

    simulation.execute(ONE, TWO)

    ((step_id, detail),) = simulation.observer.waits
    assert step_id == "2"
    assert detail.startswith("a: 1 ")


def test_step_waits_for_memory_of_evicted_guest() -> None:
    # b has room for one of them only once vm7 has left; the plan does not say.
    full = {**sample_cluster().nodes, B: node("b", 0.8)}
    guests = {**sample_cluster().guests, GuestId("vm7"): guest("vm7", "b", 0.2)}
    simulation = SimulatedCluster(replace(sample_cluster(), nodes=full, guests=guests))
    tight = step("2", migration("vm6", "a", "b"))
    second = step("3", migration("vm5", "a", "b"))

    report = simulation.execute(step("1", migration("vm7", "b", "c")), tight, second)

    assert outcomes(report) == [DONE, DONE, DONE]


def test_non_converging_migration_is_aborted() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, migration_timeout=60)
    )
    simulation.simulated_platform.make_non_converging(GuestId("vm1"))

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [ABORTED, DONE]
    detail = report.records[0].detail
    assert detail.startswith("timeout: ")
    assert all(part in detail for part in ("60 s", "2048 MiB/s", "1024 MiB/s", "vm1"))


def test_controller_without_its_lease_aborts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another one follows the migration, from when it takes over."""
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, migration_timeout=60)
    )
    simulation.simulated_platform.make_non_converging(GuestId("vm1"))
    started = simulation.clock.monotonic()
    aborted: list[str] = []

    def require_lease() -> None:
        if simulation.clock.monotonic() > started + 30:
            raise LeaseLostError("another controller may be active")

    monkeypatch.setattr(simulation.store, "require_lease", require_lease)
    monkeypatch.setattr(simulation.simulated_platform, "abort", aborted.append)

    with pytest.raises(LeaseLostError):
        simulation.execute(ONE)
    assert not aborted


def test_failed_target_detail_names_location() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        5, lambda: simulation.simulated_platform.fail_node(B)
    )

    report = simulation.execute(ONE)

    assert outcomes(report) == [FAILED]
    assert report.records[0].detail == "b died; vm1 is on a (running)"


def test_broken_connection_is_reported() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        5, lambda: simulation.simulated_platform.cut_link(B)
    )

    report = simulation.execute(ONE)

    assert outcomes(report) == [FAILED]
    assert simulation.node_of("vm1") == "a"


def test_unknown_task_is_lost() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        5, lambda: simulation.simulated_platform.forget_task(ONE.action)
    )

    report = simulation.execute(ONE)

    assert outcomes(report) == [LOST]
    assert simulation.node_of("vm1") == "a"


def test_short_outage_is_tolerated() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        3, simulation.simulated_platform.disconnect
    )
    simulation.simulated_platform.schedule_fault(
        40, simulation.simulated_platform.reconnect
    )

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "c"), "1"))

    assert outcomes(report) == [DONE, DONE]
    assert [step_id for step_id, _ in simulation.observer.waits] == ["1"]


def test_unreachable_platform_is_polled_with_backoff() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(
        3, simulation.simulated_platform.disconnect
    )
    simulation.simulated_platform.schedule_fault(
        200, simulation.simulated_platform.reconnect
    )
    attempts: list[float] = []

    @contextmanager
    def noting(name: str) -> Iterator[None]:
        if name == "status":
            attempts.append(simulation.elapsed)
        yield

    simulation.intercept(noting)
    simulation.execute(ONE)

    assert attempts == [1, 2, 3, 4, 6, 10, 18, 34, 66, 126, 186, 246]


def test_long_outage_loses_step() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, migration_timeout=60)
    )
    simulation.simulated_platform.schedule_fault(
        3, simulation.simulated_platform.disconnect
    )

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "c")))

    assert outcomes(report) == [LOST, LOST]
    assert "60 s" in report.records[0].detail
    assert 60 < simulation.elapsed < 180


def test_unobservable_cluster_starts_nothing() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, migration_timeout=60)
    )
    simulation.simulated_platform.disconnect()

    report = simulation.execute(ONE)

    assert outcomes(report) == [SKIPPED]
    assert [step_id for step_id, _ in simulation.observer.waits] == ["1"]


def failing(
    simulation: SimulatedCluster,
    about: str,
    error: PlatformError,
    *,
    too_late: bool = False,
) -> None:
    """Let the first call of *about* fail, before or after it took effect."""
    left = [error]

    @contextmanager
    def interceptor(name: str) -> Iterator[None]:
        strikes = name.startswith(about) and bool(left)
        if strikes and not too_late:
            raise left.pop()
        yield
        if strikes:
            raise left.pop()

    simulation.intercept(interceptor)


@pytest.mark.parametrize(
    "error", [UnsupportedError, PermissionDeniedError, PlatformError]
)
def test_step_not_accepted_by_platform_fails(
    error: type[PlatformError],
) -> None:
    simulation = SimulatedCluster(sample_cluster())
    failing(simulation, "start", error("no"))

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [FAILED, DONE]
    assert report.records[0].detail.endswith(": no")


def test_step_started_despite_error_is_tracked() -> None:
    simulation = SimulatedCluster(sample_cluster())
    failing(simulation, "start", PlatformUnavailableError("time out"), too_late=True)

    report = simulation.execute(ONE)

    assert outcomes(report) == [DONE]
    assert simulation.observer.started_steps == ["1"]


def test_older_task_of_same_action_is_not_adopted() -> None:
    simulation = SimulatedCluster(sample_cluster())
    there_and_back = [ONE, step("2", migration("vm1", "b", "a"), "1")]
    assert outcomes(simulation.execute(*there_and_back, run="first")) == [DONE, DONE]
    failing(simulation, "start", PlatformUnavailableError("time out"))

    report = simulation.execute(ONE, run="second")

    assert outcomes(report) == [FAILED]
    assert report.records[0].detail.endswith(": time out")


def test_permission_denied_for_status_loses_step() -> None:
    simulation = SimulatedCluster(sample_cluster())
    failing(simulation, "status", PermissionDeniedError("no"))

    report = simulation.execute(ONE)

    assert outcomes(report) == [LOST]
    assert ": no; " in report.records[0].detail


def test_permission_denied_for_observe_starts_nothing() -> None:
    simulation = SimulatedCluster(sample_cluster())
    failing(simulation, "observe", PermissionDeniedError("no"))

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [SKIPPED, SKIPPED]
    assert report.records[0].detail.endswith(": no")


@pytest.mark.parametrize(
    ("error", "detail"),
    [
        (PlatformUnavailableError("busy"), []),
        (PlatformError("no"), [("1", "could not be aborted: no")]),
    ],
)
def test_unavailable_abort_is_repeated_and_failed_abort_loses_step(
    error: PlatformError, detail: list[tuple[str, str]]
) -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, migration_timeout=60)
    )
    simulation.simulated_platform.make_non_converging(GuestId("vm1"))
    failing(simulation, "abort", error)

    report = simulation.execute(ONE)

    # Without an answer the question is repeated; else the step is lost.
    assert outcomes(report) == [LOST if detail else ABORTED]
    assert simulation.observer.waits == detail


def test_store_failure_starts_nothing_more() -> None:
    simulation = SimulatedCluster(sample_cluster())

    @contextmanager
    def full(name: str) -> Iterator[None]:
        if name.startswith("write 2"):
            raise StoreError("the disk is full")
        yield

    simulation.intercept(full)

    with pytest.raises(StoreError, match="the disk is full"):
        simulation.execute(ONE, TWO)
    assert (
        simulation.simulated_platform.observe().guests[GuestId("vm2")].migrating_to
        is None
    )


def test_cancel_skips_pending_and_finishes_running() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, max_parallel_migrations=1)
    )
    simulation.simulated_platform.schedule_fault(3, simulation.cancellation.cancel)

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [DONE, SKIPPED]
    assert report.summary == "1 done, 1 skipped"
    assert not report.all_done


def test_cancel_leaves_steps_of_unreachable_platform_to_recovery() -> None:
    simulation = SimulatedCluster(
        sample_cluster(), limits=replace(SHORT_LIMITS, max_parallel_migrations=1)
    )
    simulation.simulated_platform.schedule_fault(
        2, simulation.simulated_platform.disconnect
    )
    simulation.simulated_platform.schedule_fault(3, simulation.cancellation.cancel)

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [None, SKIPPED]
    assert report.summary == "1 skipped, 1 unfinished"
    assert not report.all_done
    assert simulation.elapsed < 20
    assert [record.step for record in simulation.store.unfinished()] == ["1"]
    simulation.simulated_platform.reconnect()
    simulation.cancellation = CancellationToken()
    assert [record.outcome for record in simulation.recover()] == [DONE]
    assert set(simulation.simulated_platform.starts.values()) == {1}


def test_cancel_twice_aborts_running() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.simulated_platform.schedule_fault(2, simulation.cancellation.cancel)
    simulation.simulated_platform.schedule_fault(3, simulation.cancellation.cancel)

    report = simulation.execute(ONE, TWO)

    assert outcomes(report) == [ABORTED, ABORTED]
    assert "vm1" in report.records[0].detail
    assert simulation.elapsed < 6


def test_guest_migrated_by_earlier_run_is_rejected() -> None:
    simulation = SimulatedCluster(sample_cluster(), limits=Limits(cooldown=600))
    simulation.execute(ONE, run="first")

    report = simulation.execute(
        step("1", migration("vm1", "b", "c")), TWO, run="second"
    )

    assert outcomes(report) == [REJECTED, DONE]
    assert "600 s" in report.records[0].detail


def test_power_actions_are_ordered_with_migrations() -> None:
    powered_off = node("c", 0.0, state=NodeState.OFFLINE)
    origin = cluster({"a": 0.7, "b": 0.2}, {"vm1": ("b", 0.1)})
    simulation = SimulatedCluster(
        replace(origin, nodes={**origin.nodes, C: powered_off})
    )

    report = simulation.execute(
        step("wake", PowerOn(C)),
        step("move", migration("vm1", "b", "c"), "wake"),
        step("sleep", PowerOff(B), "move"),
    )

    assert outcomes(report) == [DONE, DONE, DONE]
    assert simulation.simulated_platform.observe().nodes[B].state is NodeState.OFFLINE


def test_affinity_group_starts_together() -> None:
    simulation = SimulatedCluster(sample_cluster(TOGETHER))

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "b")))

    assert outcomes(report) == [DONE, DONE]
    assert report.records[0].intended_at == report.records[1].intended_at


def test_affinity_group_is_not_split() -> None:
    simulation = SimulatedCluster(sample_cluster(TOGETHER))

    report = simulation.execute(ONE)

    assert outcomes(report) == [REJECTED]
    assert "a pair: " in report.records[0].detail


def test_group_is_rejected_when_one_is_rejected() -> None:
    simulation = SimulatedCluster(sample_cluster(TOGETHER))
    second = step("2", migration("vm2", "a", "b"))
    failing(simulation, f"start {second.action}", UnsupportedError("no"))

    report = simulation.execute(ONE, second)

    assert outcomes(report) == [ABORTED, FAILED]
    assert "step 2 " in report.records[0].detail
    assert simulation.node_of("vm1") == simulation.node_of("vm2") == "a"


def test_group_start_stops_after_first_failure() -> None:
    simulation = SimulatedCluster(sample_cluster(TOGETHER))
    failing(simulation, "start", UnsupportedError("no"))

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "b")))

    assert outcomes(report) == [FAILED, SKIPPED]
    assert simulation.observer.started_steps == []


def test_separated_group_detail_names_rule() -> None:
    simulation = SimulatedCluster(
        sample_cluster(TOGETHER), limits=replace(SHORT_LIMITS, migration_timeout=60)
    )
    simulation.simulated_platform.make_non_converging(GuestId("vm2"))

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "b")))

    assert outcomes(report) == [DONE, ABORTED]
    assert report.records[1].detail.endswith("rule is violated now: a pair")


def test_group_with_circular_dependency_is_skipped() -> None:
    simulation = SimulatedCluster(sample_cluster(TOGETHER))

    report = simulation.execute(
        ONE,
        step("2", migration("vm3", "a", "c"), "1"),
        step("3", migration("vm2", "a", "b"), "2"),
    )

    assert outcomes(report) == [SKIPPED, SKIPPED, SKIPPED]


def test_group_members_may_depend_on_each_other() -> None:
    simulation = SimulatedCluster(sample_cluster(TOGETHER))

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "b"), "1"))

    assert outcomes(report) == [DONE, DONE]


def test_anti_affinity_holds_during_migration() -> None:
    # vm2 may come to b only when vm1 has left it, whatever the plan says.
    apart = AntiAffinity(guests=guest_ids("vm1", "vm2"))
    places = {"vm1": ("b", 0.1), "vm2": ("a", 0.1)}
    origin = cluster({"a": 0.3, "b": 0.3, "c": 0.1}, places, [apart])
    simulation = SimulatedCluster(origin)

    report = simulation.execute(
        step("1", migration("vm1", "b", "c")), step("2", migration("vm2", "a", "b"))
    )
    first, second = report.records

    assert outcomes(report) == [DONE, DONE]
    assert first.ended_at is not None
    assert second.intended_at >= first.ended_at


def test_wait_for_foreign_migrations_times_out() -> None:
    foreign = guest("vm7", "b", 0.1, migrating_to=C)
    origin = replace(
        sample_cluster(), guests={**sample_cluster().guests, GuestId("vm7"): foreign}
    )
    limits = replace(SHORT_LIMITS, migration_timeout=60, max_migrations_per_node=1)
    simulation = SimulatedCluster(origin, limits=limits, bandwidth=1.0)

    report = simulation.execute(ONE)

    assert outcomes(report) == [REJECTED]
    assert report.records[0].detail.startswith("b: 1 ")
    assert 60 <= simulation.elapsed < 70


class PartlyMeasuredPlatform(InterceptedPorts):
    """A cluster that cannot measure b for *left* looks once vm1 is there."""

    left = 3

    def observe(self) -> Snapshot:
        seen = super().observe()
        if seen.guests[GuestId("vm1")].node == A or not self.left:
            return seen
        self.left -= 1
        return replace(seen, nodes={**seen.nodes, B: node("b", None)})


@pytest.mark.parametrize(("looks", "expected"), [(3, DONE), (30, REJECTED)])
def test_short_gap_of_metrics_is_tolerated(looks: int, expected: Outcome) -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.platform = foggy = PartlyMeasuredPlatform(
        simulation.simulated_platform, simulation.store, lambda _: nullcontext()
    )
    foggy.left = looks

    report = simulation.execute(ONE, step("2", migration("vm2", "a", "b"), "1"))

    assert outcomes(report) == [DONE, expected]


def test_rejected_step_record_has_both_times() -> None:
    simulation = SimulatedCluster(sample_cluster())
    simulation.clock.sleep(30)

    report = simulation.execute(step("1", migration("vm1", "b", "a")))

    (record,) = report.records
    assert replace(record, detail="") == StepRecord(
        run="run",
        step=StepId("1"),
        action=migration("vm1", "b", "a"),
        intended_at=NOON + timedelta(seconds=30),
        ended_at=NOON + timedelta(seconds=30),
        outcome=REJECTED,
    )


def test_unknown_usage_is_not_zero() -> None:
    blind = replace(node("b", 0.1), usage=Usage(1.0, None))
    simulation = SimulatedCluster(
        replace(sample_cluster(), nodes={**sample_cluster().nodes, B: blind})
    )

    report = simulation.execute(ONE)

    assert outcomes(report) == [REJECTED]
    assert report.records[0].detail.startswith("b: ")
