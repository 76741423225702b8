"""Policies with and without a forecast, over recorded load, side by side.

    .venv/bin/python benchmarks/runners/forecast.py              # make bench-forecast
    .venv/bin/python benchmarks/runners/forecast.py --records google --seeds 2

The first table has the mean absolute error of the forecast of the next hours, of the
last sample, and of the mean of a day, in percent of the limits of the guests, and the
part of the actual loads within the bound. The second one has the migrations and the
contention of `opendrs backtest`, by the last sample and with `forecast_horizon`: sums
over all seeds. Its row `known means` is a placement by the mean loads of the whole
record, which shows how much contention a perfect forecast of means would leave.

Records:

- planetlab: CPU of the PlanetLab nodes that are in at least seven of the eight days,
  one day after the other. A day without a node has its load of the day before. The
  memory of a guest is constant.
- google: the series of `google2011-vms/`. A guest has the memory of one series on each
  day, and the CPU of another series on each day, as in `backtest.py`.

Guests have 1 to 8 cores, CPU is scaled to a mean load of the nodes, and the first
placement is random. All draws are seeded. Samples are five minutes apart and decisions
30: most of the load that follows a decision was not seen by it. The data are beside the
project or below OPENDRS_SHARED.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt

from opendrs.metrics import forecast_loads
from opendrs.model import (
    DEFAULT_LIMITS,
    GIB,
    Guest,
    GuestId,
    GuestKind,
    GuestState,
    Mobility,
    Node,
    NodeId,
    NodeState,
    Resources,
    Snapshot,
    Usage,
)
from opendrs.policies import Balance, Policy
from opendrs.policies.optimize import Optimize
from opendrs.simulation.backtest import (
    BacktestSettings,
    LoadRecord,
    RowKind,
    run_backtest,
)
from opendrs.simulation.traces import read_google2011, read_planetlab_day

BESIDE = Path(__file__).parents[3] / "shared"
DATA = Path(os.environ.get("OPENDRS_SHARED", BESIDE)) / "data"
START = datetime(2026, 10, 1, tzinfo=UTC)
SAMPLE, PER_HOUR, PER_DAY = 300, 12, 288  # seconds; samples
MIN_DAYS = 7  # of a PlanetLab node that is used
NODE = Resources(32.0, 256 * GIB)
MEMORY_LOAD = 0.5  # mean memory load of the nodes
CORES = np.array([1.0, 2.0, 4.0, 8.0])
KNOWN = "known means"

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """CPU and memory as fractions of limits; shape (guests, samples)."""

    cpu: Floats
    memory: Floats


def planetlab() -> Series:
    """Return the PlanetLab nodes of most days, one day after the other."""
    days = [read_planetlab_day(each) for each in sorted((DATA / "planetlab").iterdir())]
    loads = [dict(zip(day.names, day.percent / 100, strict=True)) for day in days]
    seen = Counter(name for day in loads for name in day)
    rows = []
    for name in sorted(name for name, count in seen.items() if count >= MIN_DAYS):
        known = [day.get(name) for day in loads]
        first = next(each for each in known if each is not None)
        row: list[Floats] = []
        for load in known:
            row.append(load if load is not None else (row[-1] if row else first))
        rows.append(np.concatenate(row))
    cpu = np.array(rows)
    return Series(cpu, np.full_like(cpu, MEMORY_LOAD))


def google(days: int = 8, guests: int = 200, seed: int = 1) -> Series:
    """Return drawn series of the Google trace, one day after the other."""
    rng = np.random.default_rng(seed)
    trace = read_google2011(DATA / "google2011-vms" / "GCD_VMs.tar.gz")
    if trace.memory is None:
        raise SystemExit("google2011-vms: no memory series")
    cpu, memory = trace.cpu[:, :PER_DAY], trace.memory[:, :PER_DAY]
    drawn = rng.integers(len(cpu), size=(days, guests))
    same = rng.integers(len(cpu), size=guests)
    return Series(
        np.concatenate([cpu[each] for each in drawn], axis=1),
        np.concatenate([memory[same]] * days, axis=1),
    )


RECORDS = {"planetlab": planetlab, "google": google}


def print_errors(name: str, series: Series, hours: int) -> None:
    """Print the errors of the forecast of CPU and memory, in percent of the limit."""
    for resource in ("cpu", "memory"):
        values = 100 * getattr(series, resource)
        if np.ptp(values, axis=1).max() == 0:
            continue
        hourly = values.reshape(len(values), -1, PER_HOUR)
        mean, last = hourly.mean(axis=2).T, hourly[:, :, -1].T
        errors, covered = [], []
        for now in range(24, len(mean) - hours + 1, 5):  # all hours of the day
            forecast = forecast_loads(mean[:now], last[:now], hours)
            actual = mean[now : now + hours].mean(axis=0)
            found = forecast.expected, last[now - 1], mean[now - 24 : now].mean(axis=0)
            errors.append([np.abs(each - actual).mean() for each in found])
            covered.append((actual <= forecast.upper + 1e-9).mean())
        ours, naive, day = np.mean(errors, axis=0)
        print(
            f"| {name}, {resource} | {hours} h | {ours:.2f} | {naive:.2f} | {day:.2f} "
            f"| {ours / naive:.2f} | {np.mean(covered):.0%} |"
        )


def snapshots(
    series: Series, arguments: argparse.Namespace, load: float, seed: int
) -> Iterator[Snapshot]:
    """Yield a snapshot for each sample."""
    nodes, guests, days = arguments.nodes, arguments.guests, arguments.days
    rng = np.random.default_rng(seed)
    chosen = rng.permutation(len(series.cpu))[:guests]
    cpu, memory = series.cpu[chosen], series.memory[chosen]
    cpu, memory = cpu[:, : days * PER_DAY], memory[:, : days * PER_DAY]
    cores = CORES[rng.integers(len(CORES), size=guests)]
    node_of = rng.integers(nodes, size=guests)
    scale = load * nodes * NODE.cpu / float((cpu.mean(axis=1) * cores).sum())
    sizes = (
        cores
        * MEMORY_LOAD
        * nodes
        * NODE.memory
        / float((memory.mean(axis=1) * cores).sum())
    )
    for sample in range(cpu.shape[1]):
        used_cpu = cpu[:, sample] * cores * scale
        used_memory = memory[:, sample] * sizes
        yield Snapshot(
            taken_at=START + timedelta(seconds=SAMPLE * sample),
            nodes={
                NodeId(f"n{i:02d}"): Node(
                    id=NodeId(f"n{i:02d}"),
                    capacity=NODE,
                    state=NodeState.ONLINE,
                    usage=Usage(
                        float(used_cpu[node_of == i].sum()),
                        int(used_memory[node_of == i].sum()),
                    ),
                )
                for i in range(nodes)
            },
            guests={
                GuestId(f"g{i:03d}"): Guest(
                    id=GuestId(f"g{i:03d}"),
                    node=NodeId(f"n{node_of[i]:02d}"),
                    kind=GuestKind.VM,
                    state=GuestState.RUNNING,
                    mobility=Mobility.LIVE,
                    usage=Usage(float(used_cpu[i]), int(used_memory[i])),
                )
                for i in range(guests)
            },
        )


def policies(arguments: argparse.Namespace) -> dict[str, Policy[None]]:
    """Return the policies without and with a forecast, with each threshold."""
    known = {"balance": Balance, "optimize": Optimize}
    return {
        f"{name} {threshold:g}{suffix}": known[name](
            threshold=threshold, forecast_horizon=seconds
        )
        for name in arguments.policies
        for threshold in arguments.thresholds
        for suffix, seconds in (("", 0.0), (", forecast", 3600.0 * arguments.hours))
    }


@dataclass
class Sums:
    """Sums over the seeds of one policy."""

    migrations: int = 0
    gib: float = 0.0
    contention: float = 0.0
    cpu_seconds: float = 0.0


def backtests(
    series: Series, arguments: argparse.Namespace, load: float
) -> dict[str, Sums]:
    """Return the sums over all seeds of each policy, and of the first placement."""
    sums: defaultdict[str, Sums] = defaultdict(Sums)
    for seed in range(1, arguments.seeds + 1):
        taken = [*snapshots(series, arguments, load, seed)]
        settings = BacktestSettings(
            policies=policies(arguments),
            limits=DEFAULT_LIMITS,
            every=60 * arguments.minutes,
            with_best=False,
        )
        for row in run_backtest(LoadRecord(taken, "record"), settings):
            if row.kind is RowKind.RECORDED:
                continue
            total = sums[row.name]
            total.migrations += row.migrations
            total.gib += row.gib or 0
            total.contention += row.metrics.contention_minutes or 0
            total.cpu_seconds += row.cpu_seconds
        sums[KNOWN].contention += contention_by_means(taken)
    return sums


def contention_by_means(taken: Sequence[Snapshot]) -> float:
    """Return the contention minutes if guests are placed by their mean CPU load.

    The means are those of the whole record, which no policy knows in advance. The
    largest guest comes first, each on the node with the lowest load.
    """
    names = [*taken[0].guests]
    cpu = np.array([[each.guests[x].usage.cpu for x in names] for each in taken])
    mean = cpu.mean(axis=0)
    node_of = np.zeros(len(names), np.intp)
    loads = np.zeros(len(taken[0].nodes))
    for guest in np.argsort(-mean):
        node_of[guest] = loads.argmin()
        loads[node_of[guest]] += mean[guest]
    minutes = 0.0
    for node in range(len(loads)):
        there = node_of == node
        overloaded = cpu[:, there].sum(axis=1) > NODE.cpu
        minutes += float(overloaded.sum() * there.sum()) * SAMPLE / 60
    return minutes


def print_backtest(name: str, arguments: argparse.Namespace) -> None:
    """Print migrations and contention of each policy over the record *name*."""
    series = RECORDS[name]()
    for load in arguments.loads:
        for policy, total in backtests(series, arguments, load).items():
            print(
                f"| {name}, {load:g} | {policy} | {total.migrations} "
                f"| {total.gib:.0f} | {total.contention:.0f} "
                f"| {total.cpu_seconds:.0f} |",
                flush=True,
            )


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--records", nargs="+", choices=RECORDS, default=[*RECORDS])
    parser.add_argument(
        "--policies", nargs="*", default=["balance"], choices=["balance", "optimize"]
    )
    parser.add_argument("--loads", nargs="+", type=float, default=[0.6, 0.7, 0.75])
    parser.add_argument(
        "--thresholds", nargs="+", type=float, default=[0.1, 0.07, 0.05]
    )
    parser.add_argument("--nodes", type=int, default=4)
    parser.add_argument("--guests", type=int, default=60)
    parser.add_argument("--days", type=int, default=2)
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument("--hours", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=6)
    arguments = parser.parse_args()
    print(
        "| series | horizon | forecast | last sample | mean of a day | ratio | bound |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name in arguments.records:
        print_errors(name, RECORDS[name](), arguments.hours)
    if not arguments.policies:
        return
    print("\n| record, load | policy | migrations | GiB | contention minutes | CPU s |")
    print("|---|---|---:|---:|---:|---:|")
    for name in arguments.records:
        print_backtest(name, arguments)


if __name__ == "__main__":
    main()
