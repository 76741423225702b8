"""Results of a run over all instances: stored one by one, shown as a table."""

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
    """Result for one instance.

    Attributes:
        instance: Name of the instance.
        time: Time limit in seconds.
        threads: Number of threads.
        seed: Seed of the random numbers.
        machines: Number of machines.
        units: Number of processes.
        initial: Cost of the initial assignment.
        cost: Cost of the best assignment found.
        known: Best known cost.
        broken: Number of constraints that it violates, by the checker.
        cpu: CPU seconds used, at most `time * threads`.
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
        """Excess over the best known cost, in percent of the initial cost."""
        return 100 * (self.cost - self.known) / self.initial

    def row(self) -> str:
        """Return the row of the table."""
        return (
            f"| {self.instance} | {self.machines} | {self.units} | {self.initial} "
            f"| {self.cost} | {self.known} | {self.score:.4f} | {self.cpu:.0f} |"
        )


class Results:
    """Results in a CSV file, to which each is appended at once.

    Args:
        path: File; None stores nothing.

    Raises:
        ValueError: The file has other content.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found = list(_read(path)) if path is not None and path.exists() else []

    def of(
        self, instance: str, *, time: float, threads: int, seed: int
    ) -> Result | None:
        """Return the result for *instance* with these settings, or None."""
        wanted = instance, time, threads, seed
        for each in self._found:
            if (each.instance, each.time, each.threads, each.seed) == wanted:
                return each
        return None

    def add(self, result: Result) -> None:
        """Store *result*."""
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
                    f"{path}: line {number}: not a result of this program: {error}"
                ) from error


def summary(results: Iterable[Result]) -> str:
    """Return the mean score of each family, and the number of invalid results."""
    scores: dict[str, list[float]] = {}
    wrong = 0
    for each in results:
        scores.setdefault(each.instance[0], []).append(each.score)
        wrong += each.broken > 0
    means = [
        f"mean of {family}: {fmean(of):.4f} %" for family, of in sorted(scores.items())
    ]
    return "\n".join([*means, f"invalid: {wrong}"])
