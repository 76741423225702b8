"""Imbalance metrics of a cluster, labels of metrics, and explanations of a move."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import islice
from typing import Protocol, runtime_checkable

from opendrs.arrays import (
    BestMove,
    Floats,
    MoveGroup,
    SelectionState,
    best_by_imbalance,
    best_by_topsis,
)
from opendrs.metrics import ImbalanceMetric, LoadModel, NodeLoad, demand, imbalance
from opendrs.model import GIB, NodeId, format_list

MAX_INFEASIBLE_NODES = 3  # infeasible nodes in one explanation
LoadByNode = Mapping[NodeId, NodeLoad]
IMBALANCES = ("imbalance", "cpu_imbalance", "memory_imbalance")
COUNT, PERCENT, TENTHS, RATIO = ".0f", ".1%", ".1f", ".3f"
_METRICS: Mapping[str, tuple[str, str]] = {
    "imbalance": ("imbalance", RATIO),
    "rms_imbalance": ("imbalance (RMS deviation from the balanced load)", RATIO),
    "cpu_imbalance": ("imbalance of CPU load", RATIO),
    "memory_imbalance": ("imbalance of memory load", RATIO),
    "highest_cpu": ("highest CPU load", PERCENT),
    "highest_memory": ("highest memory load", PERCENT),
    "broken_rules": ("violated strict rules", COUNT),
    "overfull_gib": ("memory above what nodes may hold (GiB)", TENTHS),
    "overfull_storage_gib": ("in use above thresholds of storages (GiB)", TENTHS),
    "waiting_cores": ("unmet CPU demand (cores)", TENTHS),
    "waiting_gib": ("unmet memory demand (GiB)", TENTHS),
    "used_nodes": ("nodes with guests", COUNT),
    "difference": ("difference of the scores", PERCENT),
    "highest_score": ("highest score of a node", PERCENT),
    "lowest_score": ("lowest score of a node", PERCENT),
    "active_hosts": ("nodes with guests", COUNT),
    "hosts_on": ("nodes powered on", COUNT),
    "overload_time_fraction": ("expected time in overload", PERCENT),
    "power_watts": ("power (W, estimated)", COUNT),
    "waiting_guests": ("guests stalled for CPU", COUNT),
    "crowded_guests": ("guests on nodes short of memory", COUNT),
    "highest_cpu_pressure": ("highest CPU pressure of a guest", PERCENT),
}


class SelectionMethod(StrEnum):
    """Method that selects the best move.

    Source:
        Proxmox VE 9, ha-auto-rebalance-method.
    """

    EXHAUSTIVE = "exhaustive"
    TOPSIS = "topsis"


def best_move(
    state: SelectionState,
    method: SelectionMethod,
    metric: ImbalanceMetric,
    cost: Floats | None = None,
) -> BestMove | None:
    """Return the best move by *method*, or None if none is allowed.

    Args:
        state: The cluster.
        method: Selection method.
        metric: Imbalance metric.
        cost: Cost of migrating each group, which decides among equals; shape (G,). None
            for the order of names alone.
    """
    if method is SelectionMethod.TOPSIS:
        return best_by_topsis(state.arrays, metric, cost)
    return best_by_imbalance(state.arrays, metric, cost)


def load_imbalance(loads: LoadByNode, metric: ImbalanceMetric) -> float:
    """Return the imbalance of the mean load: of CPU, memory and further loads."""
    return imbalance([load.mean for load in loads.values()], metric)


def imbalance_text(value: float, metric: ImbalanceMetric) -> str:
    """Return the imbalance *value* with its metric, such as `imbalance (CV) 0.120`."""
    return f"imbalance ({metric.label}) {value:.3f}"


@runtime_checkable
class MeasuresImbalance(Protocol):
    """Policy with a setting for the metric of its imbalances."""

    @property
    def imbalance_metric(self) -> ImbalanceMetric:
        """Return the metric."""


def imbalance_metric_of(policy: object) -> ImbalanceMetric:
    """Return the metric of the imbalances of *policy*: CV without such a setting."""
    if isinstance(policy, MeasuresImbalance):
        return policy.imbalance_metric
    return ImbalanceMetric.CV


def load_metrics(loads: LoadByNode, metric: ImbalanceMetric) -> dict[str, float]:
    """Return the metrics of a cluster by name.

    `imbalance` is that of the mean load of a node, the next two are those of CPU and of
    memory. The highest loads are fractions of the capacity of a node. Both are there
    for each further load as well, of the nodes where it is known.
    """
    cpu = [load.cpu for load in loads.values()]
    memory = [load.memory for load in loads.values()]
    return {
        "imbalance": load_imbalance(loads, metric),
        "cpu_imbalance": imbalance(cpu, metric),
        "memory_imbalance": imbalance(memory, metric),
        "highest_cpu": max(cpu, default=0.0),
        "highest_memory": max(memory, default=0.0),
        **_further_metrics(loads, metric),
    }


def _further_metrics(loads: LoadByNode, metric: ImbalanceMetric) -> dict[str, float]:
    fractions: defaultdict[str, list[float]] = defaultdict(list)
    for load in loads.values():
        for each in load.further:
            fractions[each.name].append(each.fraction)
    return {
        name: value
        for load, found in fractions.items()
        for name, value in (
            (f"{load}_imbalance", imbalance(found, metric)),
            (f"highest_{load}", max(found)),
        )
    }


def explain_move(
    state: SelectionState,
    best: BestMove,
    before: float,
    load_model: LoadModel,
    metric: ImbalanceMetric,
) -> str:
    """Return why *best* is the next move on *state*.

    The text has the demand of the group, the loads of both nodes, the change of the
    imbalance, and the better nodes that are infeasible.
    """
    group, target = state.group(best), state.target(best)
    source = group[0].node
    loads = state.current_loads()
    change = f"{imbalance_text(before, metric)} → {best.imbalance:.3f}"
    source_load, target_load = (
        f"mean load {loads[source].mean:.0%}",
        f"{loads[target].mean:.0%}",
    )
    amount = _format_demand(group, load_model)
    sentences = [
        (
            f"moves {amount} from {source} ({source_load}) to {target} "
            f"({target_load}): {change}"
        )
    ]
    if len(group) > 1:
        names = format_list([guest.id for guest in group], separator=" and ")
        sentences.append(f"{names} migrate as one because of affinity")
    sentences += describe_infeasible_nodes(
        islice(state.better_infeasible_nodes(best, metric), MAX_INFEASIBLE_NODES)
    )
    return "; ".join(sentences)


def _format_demand(group: MoveGroup, load_model: LoadModel) -> str:
    parts = [
        guest_demand
        for guest in group
        if (guest_demand := demand(guest, load_model)) is not None
    ]
    cpu = sum(part.cpu for part in parts)
    memory = sum(part.memory for part in parts) / GIB
    return f"{cpu:.2f} cores and {memory:.2f} GiB"


def describe_infeasible_nodes(
    infeasible: Iterable[tuple[str, str]], advantage: str = "better"
) -> Iterator[str]:
    """Yield one sentence for each reason, with its infeasible nodes.

    Args:
        infeasible: Nodes, the best first, each with the reason why it is infeasible.
        advantage: Adjective for these nodes, compared with the selected one.
    """
    nodes_by_detail: dict[str, list[str]] = {}
    for node, detail in infeasible:
        nodes_by_detail.setdefault(detail, []).append(node)
    for detail, nodes in nodes_by_detail.items():
        subject, verb = ("target", "is") if len(nodes) == 1 else ("targets", "are")
        names = format_list(nodes, separator=" and ")
        yield f"{advantage} {subject} {names} {verb} infeasible: {detail}"


def metric_label(name: str) -> str:
    """Return what the metric *name* of a decision measures, with its unit."""
    return _METRICS[name][0] if name in _METRICS else name.replace("_", " ")


def metric_text(name: str, value: float) -> str:
    """Return a *value* of the metric *name* in its usual precision."""
    return format(value, _METRICS[name][1] if name in _METRICS else RATIO)
