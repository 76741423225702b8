"""The options --fail and --each-node: simulated node failures of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opendrs.cli.configuration import load_settings
from opendrs.cli.console import console, print_json
from opendrs.cli.drill_failure_tables import (
    failure_impact_document,
    print_failure_impact,
    print_failure_impacts,
)
from opendrs.cli.drill_output import (
    JSON,
    LOG,
    DrillOutput,
    count_progress,
    drill_progress,
    print_log,
)
from opendrs.cli.sources import observe, open_source
from opendrs.config import suggestion
from opendrs.errors import UnknownNodeError
from opendrs.escapes import repr_value
from opendrs.model import Limits, NodeId, Snapshot
from opendrs.pve_ha.simulator.node_failure import NodeFailureSimulation
from opendrs.pve_ha.simulator.plot import DrillPlotData
from opendrs.pve_ha.simulator.process_pool import simulate_failures
from opendrs.pve_ha.simulator.run import TimeObserver
from opendrs.pve_ha.status_files import CrsSettings, DatacenterSettings

NOT_SURVIVED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureOptions:
    """Options of a simulated failure.

    Attributes:
        assume_ha: All guests are treated as HA-managed.
        scheduler: Scheduler mode of the HA manager.
        config: Configuration file; None for the default one.
    """

    assume_ha: bool
    scheduler: str
    config: Path | None


@dataclass(frozen=True, slots=True)
class DrillCluster:
    """Cluster of a simulated failure.

    Attributes:
        snapshot: The cluster.
        limits: Limits of the operator.
        options: Options of the simulation.
    """

    snapshot: Snapshot
    limits: Limits
    options: FailureOptions

    def failure_simulation(self, observer: TimeObserver) -> NodeFailureSimulation:
        """Return the simulation of failures, after its start phase."""
        return NodeFailureSimulation(
            self.snapshot,
            limits=self.limits,
            assume_ha=self.options.assume_ha,
            datacenter=DatacenterSettings(CrsSettings(mode=self.options.scheduler)),
            observer=observer,
        )


def _observe_cluster(source: str, options: FailureOptions) -> DrillCluster:
    settings = load_settings(options.config)
    snapshot = observe(open_source(source, settings))
    return DrillCluster(snapshot, settings.limits, options)


def simulate_failure(
    source: str,
    failed_nodes: Sequence[str],
    options: FailureOptions,
    output: DrillOutput,
) -> int:
    """Show the impact of simultaneous node failures; return the exit status.

    Raises:
        UnknownNodeError: A node does not exist.
    """
    cluster = _observe_cluster(source, options)
    nodes = [
        require_failed_node(name, cluster.snapshot)
        for name in dict.fromkeys(failed_nodes)
    ]
    with drill_progress("drill") as create_observer:
        observer = create_observer("")
        impact = cluster.failure_simulation(observer).simulate(nodes, observer)
    title = f"failure of {', '.join(nodes)}"
    output.write(DrillPlotData(title, impact.drill, impact.history, impact.setup.names))
    if output.output_format == JSON:
        print_json(failure_impact_document(impact))
    elif output.output_format == LOG:
        print_log(impact.drill)
    else:
        print_failure_impact(console(), impact, all_guests=output.guests)
    return 0 if impact.survived else NOT_SURVIVED


def simulate_each_failure(
    source: str, options: FailureOptions, output: DrillOutput
) -> int:
    """Show the impact of the failure of each node; return the exit status."""
    cluster = _observe_cluster(source, options)
    nodes = [
        name for name, node in sorted(cluster.snapshot.nodes.items()) if node.online
    ]
    with drill_progress("drill: start phase") as create_observer:
        simulation = cluster.failure_simulation(create_observer(""))
    with (
        simulate_failures(simulation, nodes) as results,
        count_progress(len(nodes)) as show_progress,
    ):
        impacts = []
        for node in nodes:
            show_progress(f"drill: failure of {node}")
            impacts.append(next(results))
    survived = bool(impacts) and all(impact.survived for impact in impacts)
    if output.output_format == JSON:
        print_json(
            {
                "survives_any_node": survived,
                "failures": [failure_impact_document(one) for one in impacts],
            }
        )
    elif output.output_format == LOG:
        for impact in impacts:
            print_log(impact.drill)
    else:
        print_failure_impacts(console(), impacts)
    return 0 if survived else NOT_SURVIVED


def require_failed_node(name: str, snapshot: Snapshot) -> NodeId:
    """Return the node *name*.

    Raises:
        UnknownNodeError: It does not exist.
    """
    if name not in snapshot.nodes:
        guess = suggestion(name, snapshot.nodes)
        raise UnknownNodeError(f"unknown node {repr_value(name)}{guess}")
    return NodeId(name)
