"""Results of a run over all instances: kept as they come, shown as a table."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import fmean

HEADER = (
    "| instance | machines | processes | initial | cost | best known | score % "
    "| CPU s |\n|---|---:|---:|---:|---:|---:|---:|---:|"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What was found for an instance.

    Attributes:
        instance: Its name.
        time: How many seconds were given.
        threads: How many threads searched.
        seed: Where their random numbers began.
        machines: How many machines there are.
        units: How many processes are to be placed.
        initial: The cost of the initial assignment.
        cost: The cost of the best one found.
        known: The best cost that is known.
        broken: How many constraints it breaks, by the judge.
        cpu: CPU seconds they had, of `time * threads` at most.
    """

    instance: str
    time: float
    threads: int
    seed: int
    machines: int
    units: int
    initial: int
    cost: int
    known: int
    broken: int
    cpu: float

    @property
    def score(self) -> float:
        """How far the cost is above the best known, in percent of the initial."""
        return 100 * (self.cost - self.known) / self.initial

    def row(self) -> str:
        """Return the row of the table."""
        return (
            f"| {self.instance} | {self.machines} | {self.units} | {self.initial} "
            f"| {self.cost} | {self.known} | {self.score:.4f} | {self.cpu:.0f} |"
        )


class Results:
    """Results in a file of comma-separated values, of which each is written at once.

    Args:
        path: The file; None keeps nothing.

    Raises:
        ValueError: The file holds something else.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found = list(_read(path)) if path is not None and path.exists() else []

    def of(
        self, instance: str, *, time: float, threads: int, seed: int
    ) -> Result | None:
        """Return what was found for *instance* on these conditions, if anything."""
        wanted = instance, time, threads, seed
        for each in self._found:
            if (each.instance, each.time, each.threads, each.seed) == wanted:
                return each
        return None

    def add(self, result: Result) -> None:
        """Keep *result*."""
        self._found.append(result)
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self._path.exists()
        with self._path.open("a", newline="") as lines:
            writer = csv.DictWriter(lines, [each.name for each in fields(Result)])
            if fresh:
                writer.writeheader()
            writer.writerow(asdict(result))


def _read(path: Path) -> Iterator[Result]:
    with path.open(newline="") as lines:
        for number, row in enumerate(csv.DictReader(lines), start=2):
            try:
                yield Result(
                    instance=row["instance"],
                    time=float(row["time"]),
                    cpu=float(row["cpu"]),
                    threads=int(row["threads"]),
                    seed=int(row["seed"]),
                    machines=int(row["machines"]),
                    units=int(row["units"]),
                    initial=int(row["initial"]),
                    cost=int(row["cost"]),
                    known=int(row["known"]),
                    broken=int(row["broken"]),
                )
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(
                    f"{path}: line {number} is no result of this program: {error}"
                ) from error


def summary(results: Iterable[Result]) -> str:
    """Return the mean score of each family, and how many are not valid."""
    scores: dict[str, list[float]] = {}
    wrong = 0
    for each in results:
        scores.setdefault(each.instance[0], []).append(each.score)
        wrong += each.broken > 0
    means = [
        f"mean of {family}: {fmean(of):.4f} %" for family, of in sorted(scores.items())
    ]
    return "\n".join([*means, f"not valid: {wrong}"])
