"""If a host died now: what would restart where, and would it fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opendrs.cli.drill_loss_tables import loss_document, print_each, print_loss
from opendrs.cli.drill_output import (
    JSON,
    LOG,
    Output,
    print_log,
    progress,
    progress_over,
)
from opendrs.cli.screen import console, print_json
from opendrs.cli.sources import load_settings, observe, open_source
from opendrs.errors import UnknownNodeError
from opendrs.ha.documents import Datacenter, Scheduling
from opendrs.model import Limits, NodeId, Snapshot
from opendrs.platforms.file import shown, suggestion
from opendrs.sim.drill.losing import LossSimulation
from opendrs.sim.drill.picture import Play
from opendrs.sim.drill.processes import simulated_losses
from opendrs.sim.drill.running import Watcher

NOT_SURVIVED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOptions:
    """How a loss is judged.

    Attributes:
        everyone: Whether every guest is taken to be HA-managed.
        scheduler: How the HA manager chooses nodes.
        config: The configuration file; None for the default one.
    """

    everyone: bool
    scheduler: str
    config: Path | None


@dataclass(frozen=True, slots=True)
class _Cluster:
    """What is lost from."""

    snapshot: Snapshot
    limits: Limits
    options: LossOptions

    def losses(self, watcher: Watcher) -> LossSimulation:
        """Return the simulation of losses of its nodes, up to the loss."""
        return LossSimulation(
            self.snapshot,
            limits=self.limits,
            everyone=self.options.everyone,
            datacenter=Datacenter(Scheduling(mode=self.options.scheduler)),
            watcher=watcher,
        )


def _observed(source: str, options: LossOptions) -> _Cluster:
    settings = load_settings(options.config)
    snapshot = observe(open_source(source, settings))
    return _Cluster(snapshot, settings.limits, options)


def lose_these(
    source: str, failing: Sequence[str], options: LossOptions, output: Output
) -> int:
    """Show what follows when some hosts die at once; return the exit status.

    Raises:
        UnknownNodeError: There is no such host.
    """
    cluster = _observed(source, options)
    nodes = [_node(name, cluster.snapshot) for name in dict.fromkeys(failing)]
    with progress("drill") as watcher_of:
        watcher = watcher_of("")
        loss = cluster.losses(watcher).loss_of(nodes, watcher)
    title = f"{', '.join(nodes)} lost"
    output.write(Play(title, loss.drill, loss.history, loss.stage.names))
    if output.form == JSON:
        print_json(loss_document(loss))
    elif output.form == LOG:
        print_log(loss.drill)
    else:
        print_loss(console(), loss, everyone=output.guests)
    return 0 if loss.survived else NOT_SURVIVED


def lose_each(source: str, options: LossOptions, output: Output) -> int:
    """Show what follows when each host dies in turn; return the exit status."""
    cluster = _observed(source, options)
    nodes = [
        name for name, node in sorted(cluster.snapshot.nodes.items()) if node.online
    ]
    with progress("drill: before the losses") as watcher_of:
        simulation = cluster.losses(watcher_of(""))
    with (
        simulated_losses(simulation, nodes) as found,
        progress_over(len(nodes)) as show,
    ):
        losses = []
        for node in nodes:
            show(f"drill: loss of {node}")
            losses.append(next(found))
    survived = bool(losses) and all(loss.survived for loss in losses)
    if output.form == JSON:
        print_json(
            {"survives_any": survived, "losses": [loss_document(one) for one in losses]}
        )
    elif output.form == LOG:
        for loss in losses:
            print_log(loss.drill)
    else:
        print_each(console(), losses)
    return 0 if survived else NOT_SURVIVED


def _node(name: str, snapshot: Snapshot) -> NodeId:
    if name not in snapshot.nodes:
        guess = suggestion(name, snapshot.nodes)
        raise UnknownNodeError(f"there is no node {shown(name)}{guess}")
    return NodeId(name)
