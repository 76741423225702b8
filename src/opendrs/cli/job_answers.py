"""Answers to the questions of jobs: the commands of the same name, without output.

The cluster is that of a recorded cycle: the serving process does not use the platform.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from opendrs.api.job_process import ReportProgress
from opendrs.cli.backtest_record import load_record
from opendrs.cli.backtest_report import BacktestReport, report_document
from opendrs.cli.backtest_run import PolicyChoice
from opendrs.cli.drain_requests import drain_preview, require_drainable
from opendrs.cli.drain_tables import preview_document
from opendrs.cli.drill_failure import (
    DrillCluster,
    FailureOptions,
    require_failed_node,
)
from opendrs.cli.drill_failure_tables import failure_impact_document
from opendrs.cli.place import placement_notes, read_start_request
from opendrs.cli.place_tables import placement_document
from opendrs.cli.platform_store import open_to_read
from opendrs.cli.platforms import PLATFORMS
from opendrs.cli.scenario_options import read_guest_size, read_scenario
from opendrs.cli.scenario_tables import answer_document
from opendrs.cli.what_if import answer_scenario
from opendrs.config.settings import NO_SETTINGS, Settings
from opendrs.config.settings_reading import read_settings
from opendrs.config.snapshot_reading import recorded_snapshot_from
from opendrs.controller import replay
from opendrs.controller.drained_nodes import in_maintenance
from opendrs.controller.reservations import add_reservations, without_reserved_guests
from opendrs.controller.serialization import plan_document
from opendrs.controller.step_serialization import plain
from opendrs.errors import ConfigurationError, DiagnosticCode, StoreError
from opendrs.model import NodeId, NodeState, Snapshot
from opendrs.placement import start_placement
from opendrs.policies import completed
from opendrs.ports import CycleRecord, HistoryFilter, Store
from opendrs.pve_ha.simulator.process_pool import simulate_failures
from opendrs.rules.undo import ORIGIN as UNDO_ORIGIN
from opendrs.simulation.backtest import run_backtest
from opendrs.store import History

Question = Mapping[str, Any]
Answer = dict[str, Any]


def answer_question(
    platform: str,
    config: Path | None,
    kind: str,
    question: Question,
    report: ReportProgress,
) -> Any:  # noqa: ANN401 - plain values
    """Return the answer to a question as plain values.

    Args:
        platform: Name of the platform.
        config: The configuration file; None without one.
        kind: Kind of the question.
        question: The fields of the request of this kind, without `kind`.
        report: Called with the progress of long answers.

    Raises:
        ConfigurationError: The question names something that does not exist.
        ModelError: The question cannot be answered for this cluster.
        StoreError: The store cannot be read.
    """
    settings = NO_SETTINGS if config is None else read_settings(config, PLATFORMS)
    if kind == "backtest":
        return plain(backtest(platform, settings, question, report))
    answers: dict[str, Callable[[_Recorded, Question], Answer]] = {
        "what-if": what_if,
        "place": place,
        "drain-preview": preview,
        "replay": replay_with_policy,
        "drill": partial(drill, report=report),
    }
    with open_to_read(platform, settings) as store:
        record = _record(History(store), question["run"])
        cluster = _Recorded(settings, store, record)
        return plain(answers[kind](cluster, question))


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Cluster that a question is about.

    Attributes:
        settings: The configuration.
        store: The store, open for reading.
        record: The cycle with its inputs.
    """

    settings: Settings
    store: Store
    record: CycleRecord

    def snapshot(self, *, protected: bool = False) -> Snapshot:
        """Return the cluster.

        Args:
            protected: With the rules that prevent the controller from undoing its own
                migrations.

        Raises:
            StoreError: The record is damaged.
        """
        try:
            document = self.record.document["snapshot"]
            snapshot = recorded_snapshot_from(document, self.record.run)
        except (ConfigurationError, LookupError) as error:
            raise StoreError(
                f"store: cycle {self.record.run}: snapshot cannot be read: {error}"
            ) from error
        if protected:
            return snapshot
        rules = (rule for rule in snapshot.rules if rule.origin != UNDO_ORIGIN)
        return replace(snapshot, rules=tuple(rules))


def what_if(cluster: _Recorded, question: Question) -> Answer:
    """Return the cluster after changes, and its capacity."""
    snapshot, settings = cluster.snapshot(), cluster.settings
    name = question["policy"]
    if name is None and question["settings"]:
        raise ConfigurationError(
            "settings: requires policy", code=DiagnosticCode.INCONSISTENT
        )
    policy = None if name is None else settings.load_policy(name, question["settings"])
    scenario = read_scenario(
        snapshot,
        add=question["add"],
        remove=question["remove"],
        fail=question["fail"],
        growth=question["growth"],
    )
    size = read_guest_size(snapshot, **question["guest"])
    answer = answer_scenario(snapshot, scenario, settings.limits, size, policy)
    return {**_origin(cluster.record), **answer_document(answer)}


def place(cluster: _Recorded, question: Question) -> Answer:
    """Return the ranking of the nodes for the start of guests."""
    snapshot = cluster.snapshot()
    names = ("cpu", "memory", "like", "tags", "count")
    request = read_start_request(snapshot, **{name: question[name] for name in names})
    found = start_placement(snapshot, request, cluster.settings.limits)
    notes = placement_notes(snapshot, request)
    return {**_origin(cluster.record), **placement_document(request, found, notes)}


def preview(cluster: _Recorded, question: Question) -> Answer:
    """Return the plan of a drain, and the load of the targets afterwards."""
    snapshot, node = cluster.snapshot(protected=True), NodeId(question["node"])
    require_drainable(node, snapshot)
    # First, as in a cycle: nothing is reserved on a drained node.
    drained = in_maintenance(without_reserved_guests(snapshot), node)
    drained = add_reservations(drained, cluster.store)
    limits = cluster.settings.limits
    found = drain_preview(drained, node, limits)
    return {
        **_origin(cluster.record),
        "node": node,
        "drained": snapshot.nodes[node].state is NodeState.MAINTENANCE,
        **preview_document(found),
    }


def replay_with_policy(cluster: _Recorded, question: Question) -> Answer:
    """Return the recorded decision, and the one of another policy or of the same."""
    recorded: Any = cluster.record.document["decision"]
    name = question["policy"]
    if name is None:
        replayed = replay(cluster.record)
        decision = replayed.repeated
        same: bool | None = replayed.is_same
    else:
        policy = cluster.settings.load_policy(name, question["settings"])
        snapshot = cluster.snapshot(protected=True)
        decided = policy.decide(snapshot, policy.initial_memory())
        found = completed(policy, snapshot, decided)
        decision, same = plan_document(policy.name, found, snapshot), None
    return {
        **_origin(cluster.record),
        "same": same,
        "recorded": recorded,
        "replayed": decision,
    }


def drill(cluster: _Recorded, question: Question, report: ReportProgress) -> Answer:
    """Return the impact of a failure of nodes, or of each node alone."""
    snapshot = cluster.snapshot()
    options = FailureOptions(
        assume_ha=question["assume_ha"], scheduler="basic", config=None
    )
    drilled = DrillCluster(snapshot, cluster.settings.limits, options)
    simulation = drilled.failure_simulation(lambda _: None)
    named = [
        require_failed_node(name, snapshot) for name in dict.fromkeys(question["nodes"])
    ]
    if named:
        impacts = [simulation.simulate(named)]
    else:
        online = [name for name, node in sorted(snapshot.nodes.items()) if node.online]
        # In this process alone: another one would go on after the time limit.
        impacts = []
        with simulate_failures(simulation, online, processes=1) as results:
            for impact in results:
                impacts.append(impact)
                report(f"{len(impacts):,} of {len(online):,} failures")
    return {
        **_origin(cluster.record),
        "survived": bool(impacts) and all(impact.survived for impact in impacts),
        "failures": [failure_impact_document(impact) for impact in impacts],
    }


def backtest(
    platform: str, settings: Settings, question: Question, report: ReportProgress
) -> Answer:
    """Return policies over the recorded load of *platform*, side by side."""
    names = tuple(dict.fromkeys(question["policies"]))
    changes = {name: question["settings"].get(name, {}) for name in names}
    if unknown := sorted(question["settings"].keys() - set(names)):
        raise ConfigurationError(
            f"settings: {unknown[0]}: expected one of the policies",
            code=DiagnosticCode.UNKNOWN_NAME,
        )
    every, seed = question["every"], 1
    choice = PolicyChoice(
        settings=settings,
        names=names,
        changes=changes,
        with_schedule=question["schedule"],
        every=every,
        seed=seed,
    )
    choice.backtest_settings()  # reports errors before the record is read
    record = load_record(platform, settings, question["since"])
    chosen = choice.backtest_settings(record.interval)
    rows = run_backtest(
        record,
        chosen,
        lambda row, done, all_: report(f"{row}: {done:,} of {all_:,} snapshots"),
    )
    found = BacktestReport(
        source=platform, record=record, every=every, seed=seed, rows=tuple(rows)
    )
    return report_document(found, with_series=False)


def _record(history: History, run: str | None) -> CycleRecord:
    """Return the cycle *run*, or the newest one that has its inputs.

    Raises:
        ConfigurationError: There is no such cycle, or its inputs are dropped.
        StoreError: The store cannot be read.
    """
    if run is None:
        cycles = history.cycles(HistoryFilter())
        found = next((each for each in cycles if each.inputs != "dropped"), None)
    else:
        found = history.cycle_of(run)
    record = None if found is None else history.record(found)
    if record is None:
        expected = "a recorded cycle" if run is None else f"a stored cycle {run}"
        raise ConfigurationError(
            f"run: expected {expected}, got none", code=DiagnosticCode.UNKNOWN_NAME
        )
    return record


def _origin(record: CycleRecord) -> Answer:
    return {"run": record.run, "observed_at": _observed_at(record)}


def _observed_at(record: CycleRecord) -> object:
    snapshot = record.document["snapshot"]
    return snapshot["taken_at"] if isinstance(snapshot, Mapping) else None
