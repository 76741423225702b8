"""What came of a grid: the mean of each candidate over loads and seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from opendrs.sim.consolidation.front import on_front
from opendrs.sim.consolidation.sweep.grid import Trial
from opendrs.sim.consolidation.sweep.results import METRICS, Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A policy with its settings, and what else was chosen.

    Attributes:
        label: What people call it.
        name: The name of its policy.
        runs: Over how many loads and seeds it was tried.
        means: Mean of each metric over them; None where one is not known.
        best: Whether it is on the front.
    """

    label: str
    name: str
    runs: int
    means: Mapping[str, float | None]
    best: bool = False


def candidates(
    trials: Sequence[Trial], rows: Sequence[Row], front: tuple[str, str]
) -> list[Candidate]:
    """Return what was tried, by the first metric of the front.

    Args:
        trials: The runs of a grid.
        rows: What came of each.
        front: Two metrics of which less is better.
    """
    groups: dict[str, list[tuple[Trial, Row]]] = {}
    for trial, row in zip(trials, rows, strict=True):
        groups.setdefault(trial.label, []).append((trial, row))
    means = {
        label: _means([row for _, row in group]) for label, group in groups.items()
    }
    first, second = ([_or_nan(means[each][name]) for each in groups] for name in front)
    best = on_front(first, second)
    found = [
        Candidate(
            label=label,
            name=group[0][0].contender.name,
            runs=len(group),
            means=means[label],
            best=bool(best[number]),
        )
        for number, (label, group) in enumerate(groups.items())
    ]
    order = dict(zip(groups, first, strict=True))
    return sorted(
        found, key=lambda each: (math.isnan(order[each.label]), order[each.label])
    )


def _means(rows: Sequence[Row]) -> dict[str, float | None]:
    return {name: _mean([row.get(name) for row in rows]) for name in METRICS}


def _mean(values: Sequence[object]) -> float | None:
    known = [float(each) for each in values if isinstance(each, int | float)]
    return fmean(known) if len(known) == len(values) and known else None


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
