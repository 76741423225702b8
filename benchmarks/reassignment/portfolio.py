"""Several processes search the same problem, and exchange the best they found.

Every second one does not draw units home: that helps where transient resources are
what is short, and hinders where they are not.
"""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from opendrs.policies.optimising.engine import Search, Solution
from opendrs.policies.optimising.groups import Indices
from opendrs.policies.optimising.problem import Problem

PORTION = 0.2  # seconds between two looks at the clock
FIRST = 500_000  # moves until the pace is known
# When they meet, as parts of the time: late, as who searches better has often found
# nothing feasible before.
ROUNDS = (0.85,)


@dataclass(frozen=True, slots=True)
class Task:
    """What one process is to do.

    Attributes:
        problem: What is to be solved.
        seed: Where its random numbers begin.
        end: When it is to be ready, by the monotonic clock.
        drift: How much units are drawn home; None leaves it to the search.
    """

    problem: Problem
    seed: int
    end: float
    drift: float | None


def solve(problem: Problem, *, end: float, seed: int, processes: int) -> Indices:
    """Return the best assignment found until *end*, of the monotonic clock."""
    context = multiprocessing.get_context("spawn")
    peers = []
    for number in range(processes):
        ours, theirs = context.Pipe()
        task = Task(problem, seed + number, end, 0.0 if number % 2 else None)
        process = context.Process(target=work, args=(task, theirs), daemon=True)
        process.start()
        theirs.close()
        peers.append((process, ours))
    best: Solution | None = None
    for _ in (*ROUNDS, 1.0):
        for _, connection in peers:
            found: Solution = connection.recv()
            if best is None or found.cost < best.cost:
                best = found
        for _, connection in peers:
            connection.send(best)
    for process, _ in peers:
        process.join()
    assert best is not None  # noqa: S101 - there is a process
    return best.assignment


def work(task: Task, connection: Connection) -> None:
    """Search until the end, and exchange the best at each meeting."""
    search = Search(task.problem, seed=task.seed, drift=task.drift)
    begin = time.monotonic()
    pace = FIRST / PORTION
    for meeting in (*ROUNDS, 1.0):
        until = begin + meeting * (task.end - begin)
        while (now := time.monotonic()) < until:
            portion = min(PORTION, until - now)
            moves = max(1000, int(pace * portion))
            gone = (now + portion - begin) / (task.end - begin)
            search.run(moves, min(1.0, gone))
            pace = moves / max(time.monotonic() - now, 1e-6)
        connection.send(search.best)
        search.adopt(connection.recv().assignment)
