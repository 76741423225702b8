"""Load of a cluster before and after a plan: its highest loads and its imbalance."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from opendrs.cli.console import TextTable, add_row, create_table
from opendrs.cli.formatting import UNKNOWN, format_percent
from opendrs.metrics import ImbalanceMetric, LoadModel, node_loads
from opendrs.model import NodeId, Snapshot
from opendrs.policies.load_metrics import load_metrics
from opendrs.rules import ViolationChange, count_strict, split_drains


@dataclass(frozen=True, slots=True)
class PeakLoad:
    """The highest load of a resource among the online nodes.

    Attributes:
        node: The node; of equal ones the first by name.
        load: The used fraction of its capacity.
    """

    node: NodeId
    load: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLoad:
    """The measured load of a cluster; None if no online node is measured.

    Attributes:
        cpu: The node with the highest CPU load.
        memory: The node with the highest memory load.
        imbalance: The coefficient of variation of the mean of both loads.
    """

    cpu: PeakLoad | None
    memory: PeakLoad | None
    imbalance: float | None


def cluster_load(snapshot: Snapshot) -> ClusterLoad:
    """Return the measured load of *snapshot*."""
    loads = node_loads(snapshot, LoadModel.DYNAMIC)
    if not loads:
        return ClusterLoad(cpu=None, memory=None, imbalance=None)
    return ClusterLoad(
        cpu=_peak_load({name: load.cpu for name, load in loads.items()}),
        memory=_peak_load({name: load.memory for name, load in loads.items()}),
        imbalance=load_metrics(loads, ImbalanceMetric.CV)["imbalance"],
    )


def _peak_load(loads: dict[NodeId, float]) -> PeakLoad:
    node = min(loads, key=lambda name: (-loads[name], name))
    return PeakLoad(node, loads[node])


def print_change(
    screen: Console, before: ClusterLoad, after: ClusterLoad, rules: ViolationChange
) -> None:
    """Print the highest loads, imbalance and violated rules, before and after."""
    listing = create_table("metric", "before", "on node", "after", "on node")
    _add_peak_row(listing, "highest CPU load", before.cpu, after.cpu)
    _add_peak_row(listing, "highest memory load", before.memory, after.memory)
    imbalance = [_ratio_text(load.imbalance) for load in (before, after)]
    add_row(listing, "imbalance (CV)", imbalance[0], "", imbalance[1], "")
    split = [split_drains(each) for each in (rules.before, rules.after)]
    violated = [str(count_strict(others)) for others, _ in split]
    add_row(listing, "violated strict rules", violated[0], "", violated[1], "")
    drained = [len(drains) for _, drains in split]
    if any(drained):
        before_text, after_text = map(str, drained)
        add_row(listing, "guests to drain", before_text, "", after_text, "")
    screen.print(listing)


def _add_peak_row(
    listing: TextTable, name: str, before: PeakLoad | None, after: PeakLoad | None
) -> None:
    cells: list[str] = []
    for peak in (before, after):
        cells += (
            [UNKNOWN, ""]
            if peak is None
            else [format_percent(peak.load).strip(), peak.node]
        )
    add_row(listing, name, *cells)


def _ratio_text(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.3f}"
