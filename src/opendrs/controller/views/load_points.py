"""Loads of a cluster over time, in a compact form that many cycles can be kept in."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from opendrs.controller.views.cluster_columns import reading_record
from opendrs.controller.views.figures import (
    ClusterFigures,
    cluster_figures,
    node_load,
)
from opendrs.metrics import ImbalanceMetric
from opendrs.model import format_timestamp
from opendrs.ports import CycleRecord

Plain = Mapping[str, Any]
Series = dict[str, list[Any]]
_DIGITS = 4  # of a load
_UNKNOWN = math.nan  # in an array; None in a document


@dataclass(frozen=True, slots=True)
class Loads:
    """CPU and memory of named nodes or guests; NaN if unknown.

    Attributes:
        positions: Index of each name; points with the same names share it.
        cpu: Load of nodes, busy cores of guests.
        memory: Load of nodes, bytes of guests.
    """

    positions: Mapping[str, int]
    cpu: array[float]
    memory: array[float]

    def of(self, name: str) -> tuple[float | None, float | None]:
        """Return CPU and memory of *name*; None if unknown or absent."""
        index = self.positions.get(name)
        if index is None:
            return None, None
        return _known(self.cpu[index]), _known(self.memory[index])


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """Loads of a cluster in one cycle.

    Attributes:
        at: Time of the decision.
        run: The cycle.
        figures: Figures of the cluster.
        nodes: Loads of the nodes, as fractions of their capacity.
        guests: Use of the guests, in cores and bytes.
    """

    at: datetime
    run: str
    figures: ClusterFigures
    nodes: Loads
    guests: Loads


def load_point(
    cycle: CycleRecord,
    former: LoadPoint | None = None,
    metric: ImbalanceMetric = ImbalanceMetric.CV,
) -> LoadPoint:
    """Return the loads of *cycle*.

    Args:
        cycle: The record of the cycle with its inputs.
        former: Another cycle, whose names are shared if they are the same.
        metric: Metric of the imbalance.

    Raises:
        StoreError: The record is damaged.
    """
    figures = cluster_figures(cycle, metric)
    with reading_record(cycle.run):
        document: Plain = cycle.document
        nodes, guests = document["snapshot"]["nodes"], document["snapshot"]["guests"]
        usages = [guest.get("usage", {}) for guest in guests.values()]
        return LoadPoint(
            at=cycle.decided_at,
            run=cycle.run,
            figures=figures,
            nodes=_loads(
                nodes,
                [node_load(node) for node in nodes.values()],
                None if former is None else former.nodes,
            ),
            guests=_loads(
                guests,
                [(usage.get("cpu"), usage.get("memory")) for usage in usages],
                None if former is None else former.guests,
            ),
        )


def _loads(
    names: Iterable[str],
    values: Sequence[tuple[float | None, float | None]],
    former: Loads | None,
) -> Loads:
    positions: Mapping[str, int] = {name: index for index, name in enumerate(names)}
    if former is not None and former.positions == positions:
        positions = former.positions
    cpu, memory = ([_stored(pair[i]) for pair in values] for i in (0, 1))
    return Loads(positions, array("f", cpu), array("f", memory))


def cluster_series(points: Iterable[LoadPoint]) -> Series:
    """Return the figures of the cluster over time, oldest first, as columns."""
    ordered = list(points)
    figures = [point.figures for point in ordered]
    return {
        "at": [format_timestamp(point.at) for point in ordered],
        "run": [point.run for point in ordered],
        "imbalance": [_rounded(each.imbalance) for each in figures],
        "worst_node": [each.worst_node for each in figures],
        "highest_cpu": [_rounded(each.highest_cpu) for each in figures],
        "highest_memory": [_rounded(each.highest_memory) for each in figures],
        "suffering": [each.suffering_guests for each in figures],
        "violated_rules": [each.violated_rules for each in figures],
        "online_nodes": [each.online_nodes for each in figures],
        "power": [_rounded(each.power) for each in figures],
    }


def node_series(points: Iterable[LoadPoint], name: str) -> Series:
    """Return the load of the node *name* over time, as fractions of its capacity."""
    return _series((point.at, *point.nodes.of(name)) for point in points)


def guest_series(points: Iterable[LoadPoint], name: str) -> Series:
    """Return the use of the guest *name* over time, in cores and bytes."""
    return _series((point.at, *point.guests.of(name)) for point in points)


def _series(rows: Iterator[tuple[datetime, float | None, float | None]]) -> Series:
    series: Series = {"at": [], "cpu": [], "memory": []}
    for at, cpu, memory in rows:
        series["at"].append(format_timestamp(at))
        series["cpu"].append(_rounded(cpu))
        series["memory"].append(_rounded(memory))
    return series


def _stored(value: float | None) -> float:
    return _UNKNOWN if value is None else value


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
