"""Portfolio of searches: repeatedly, the better half continues.

The result of a search is determined while it is hot, by the placement of the few large
groups; the rest is much the same for all. So it pays to start many searches, as long as
there are enough moves per group.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, pairwise, product
from statistics import fmean

from opendrs.controller.compiled_code import require_compiled_code
from opendrs.optimizer import AnnealingSearch, Indices, Problem
from runners.reassignment.swap_partners import similar_groups

PORTION = 0.5  # seconds between two readings of the clock
FIRST = 200_000  # moves that measure the speed
PORTIONS = 50  # least number of portions between two selections
ENOUGH = 60_000  # moves per group needed to start more searches than threads
MOST = 16  # most searches
# Progress at which one of two searches is selected, and progress between two
# selections.
LAST, APART = 0.5, 0.06
# Progress before a selection during which costs are averaged: they fluctuate.
AVERAGED = 0.03
# Half of the searches have the default drift home, half a small one. A drift helps if
# transient resources are scarce, and hinders otherwise.
DRIFTS = (None, 1.0)
# Of both kinds, half of the searches prefer swaps of groups with similar demand. That
# helps if there are many resources, and hinders otherwise.
PARTNERED = (False, True)


def solve(problem: Problem, *, seconds: float, seed: int, threads: int) -> Indices:
    """Return the best assignment found in *seconds*, without loading compiled code."""
    require_compiled_code(print)
    AnnealingSearch(problem).run(1, 1.0)
    end = time.monotonic() + seconds
    pace = _pace(problem)
    moves = threads * pace * (end - time.monotonic()) / max(problem.group_count, 1)
    count = min(threads, MOST)
    while 2 * count <= MOST and moves / sum(work(2 * count)) >= ENOUGH:
        count *= 2
    length = moves * problem.group_count / sum(work(count))
    temperature = _initial_temperature(problem, length)
    partners = similar_groups(problem) if count > len(DRIFTS) else None
    searches = [
        AnnealingSearch(
            problem,
            seed=seed * MOST + k,
            temperature=temperature,
            drift=drift,
            swap_partners=partners if partnered else None,
        )
        for k, (partnered, drift) in zip(
            range(count), cycle(product(PARTNERED, DRIFTS)), strict=False
        )
    ]
    best = searches[0].best
    for number, until in enumerate(selection_points(count)):
        now = time.monotonic()
        left = work(count)[number:]
        stop = now + (end - now) * left[0] / sum(left)
        costs = _run_all(searches, until=until, stop=stop, pace=pace, threads=threads)
        best = min([best, *(each.best for each in searches)], key=lambda s: s.cost)
        order = sorted(range(len(searches)), key=costs.__getitem__)
        searches = [searches[k] for k in order[: max(1, len(order) // 2)]]
    return best.assignment


def selection_points(count: int) -> list[float]:
    """Return the progress at each selection of the better half.

    The last number is the end of the search, 1.
    """
    halvings = count.bit_length() - 1
    return [LAST - APART * k for k in reversed(range(halvings))] + [1.0]


def work(count: int) -> list[float]:
    """Return the work between two selections, in whole searches."""
    ends = [0.0, *selection_points(count)]
    return [(count >> k) * (b - a) for k, (a, b) in enumerate(pairwise(ends))]


def _pace(problem: Problem) -> float:
    """Return the moves per second of one thread."""
    search = AnnealingSearch(problem)
    begin = time.monotonic()
    search.run(FIRST, 0.0)
    return FIRST / max(time.monotonic() - begin, 1e-6)


def _initial_temperature(problem: Problem, moves: float) -> float:
    """Return the initial temperature for searches of *moves* moves each.

    Only searches of the same temperature can be compared. By themselves, they derive it
    from random moves, and it differs by a fifth.
    """
    search = AnnealingSearch(problem)
    search.run(1, min(1.0, 1.0 / max(moves, 1.0)))
    return search.temperature


def _run_all(
    searches: Sequence[AnnealingSearch],
    *,
    until: float,
    stop: float,
    pace: float,
    threads: int,
) -> list[float]:
    """Run all searches to the progress *until*; return their costs, see `_run`."""
    turns = -(-len(searches) // threads)
    seconds = (stop - time.monotonic()) / turns
    shared = max(1, threads // len(searches))

    def run(search: AnnealingSearch) -> float:
        return _run(search, until=until, seconds=seconds, pace=pace, threads=shared)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(run, searches))


def _run(
    search: AnnealingSearch, *, until: float, seconds: float, pace: float, threads: int
) -> float:
    """Run *search* to the progress *until* in *seconds*.

    Returns:
        Mean cost in the end, with penalties.
    """
    begin = time.monotonic()
    stop, start = begin + seconds, search.progress
    costs = []
    while (now := time.monotonic()) < stop:
        portion = min(PORTION, seconds / PORTIONS, stop - now)
        moves = max(1000, int(pace * portion))
        gone = (now + portion - begin) / seconds
        search.run(moves, start + (until - start) * min(gone, 1.0), threads)
        pace = moves / max(time.monotonic() - now, 1e-6)
        if search.progress >= until - AVERAGED:
            costs.append(search.current_cost)
    return fmean(costs) if costs else search.current_cost
