"""A search for small clusters, which needs no compiled code.

To load the compiler takes longer than to look at all moves of ten nodes. So here all
shifts of a unit, and all swaps of two, are looked at at once, and the best is made,
until none is left that gains.
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.engine import Solution, cost, loads
from opendrs.policies.optimising.groups import Floats, Indices, Mask
from opendrs.policies.optimising.problem import Problem
from opendrs.policies.optimising.valuation import node_cost

SMALL = 4000  # nodes times units up to which this is quicker
PAIRS = 160_000  # swaps that are looked at at once, at most
STEP = 1000  # a step takes as long as so many moves, however few it looks at
KICK = 3  # units that are moved by chance at once
LEAST = 1e-9  # of the cost at first: what gains less is rounding
SLACK = 1e-12  # relative; sums of the same amounts in another order differ by less


def is_small(problem: Problem) -> bool:
    """Return whether *problem* is small, and of the kind that is searched here."""
    return (
        problem.nodes * problem.units <= SMALL
        and problem.units**2 <= PAIRS
        and not problem.transient.any()
        and not problem.balances
        and not problem.use_cost.any()
        and problem.pair_cost is None
        and not problem.group_move_weight
        and not problem.groups.spread.any()
        and not len(problem.groups.needs.items)
    )


class Descent:
    """Make the best shift or swap, and the best after it, until none gains.

    Then a few units are moved by chance, and it is tried from there: Lourenco, Martin
    and Stuetzle, Iterated local search (2003). Like `Search`, the same problem, start,
    seed and calls give the same.

    Args:
        problem: What is to be solved; `is_small`.
        start: A feasible assignment to begin with.
        seed: Where the random numbers begin.
    """

    def __init__(self, problem: Problem, start: Indices, seed: int = 0) -> None:
        self.problem = problem
        self.iterations = 0
        self._board = _Board(problem, start.copy())
        self._dice = np.random.default_rng(seed)
        self._least = LEAST * abs(cost(problem, problem.origin)) + 1e-15
        self._best = Solution(start.copy(), cost(problem, start))

    @property
    def best(self) -> Solution:
        """The least costly assignment so far."""
        return self._best

    def settle(self) -> Solution:
        """Go on until no move gains."""
        while self._step():
            pass
        self._keep()
        return self._best

    def run(self, iterations: int, progress: float) -> Solution:
        """Look at about *iterations* moves, and return the best solution so far."""
        del progress  # there is nothing to cool
        problem, looked = self.problem, 0
        while looked < iterations:
            looked += max(STEP, problem.units * (problem.nodes + problem.units))
            if not self._step():
                self._keep()
                if not self._kick():
                    break
        self._keep()
        self.iterations += looked
        return self._best

    def _step(self) -> bool:
        """Make the best move; return whether there is one."""
        gain, unit, target = self._board.best_shift()
        if gain > self._least:
            self._board.shift(unit, target)
            return True
        gain, unit, other = self._board.best_swap()
        if gain > self._least:
            self._board.swap(unit, other)
            return True
        return False

    def _keep(self) -> None:
        """Take what stands over as the best, if it is."""
        found = self._board.node_of
        price = cost(self.problem, found)
        if price < self._best.cost:
            self._best = Solution(found.copy(), price)

    def _kick(self) -> bool:
        """Move some units of the best by chance; return whether any may be moved."""
        self._board = _Board(self.problem, self._best.assignment.copy())
        for _ in range(KICK):
            possible = np.argwhere(self._board.may_shift())
            if not len(possible):
                return False
            unit, target = possible[self._dice.integers(len(possible))].tolist()
            self._board.shift(unit, target)
        return True


class _Board:
    """Where units are, and what each move would gain.

    Attributes:
        node_of: The node of each unit; shape (G,).
    """

    def __init__(self, problem: Problem, node_of: Indices) -> None:
        self.node_of = node_of
        self._problem = problem
        self._limit = problem.capacity + SLACK * np.abs(problem.capacity)
        self._budgets = problem.budgets + SLACK * np.abs(problem.budgets)
        self._units = np.arange(problem.units)
        nodes = np.arange(problem.nodes)
        self._home = problem.origin[:, None] == nodes
        self._standing = problem.move_cost[:, None] * ~self._home
        if problem.place_cost is not None:
            self._standing = self._standing + problem.place_cost[problem.class_of]
        groups = problem.groups
        self._member = np.zeros((problem.units, len(groups)))
        owner = np.repeat(np.arange(len(groups)), np.diff(groups.members.start))
        self._member[groups.members.items, owner] = 1.0
        self._strict = self._member * groups.strict
        self._weighted = self._member * groups.apart_weight
        self._sum_up()

    def shift(self, unit: int, target: int) -> None:
        """Move *unit* to *target*."""
        self.node_of[unit] = target
        self._sum_up()

    def swap(self, unit: int, other: int) -> None:
        """Let *unit* and *other* change places."""
        self.node_of[[unit, other]] = self.node_of[[other, unit]]
        self._sum_up()

    def best_shift(self) -> tuple[float, int, int]:
        """Return the gain of the best shift, its unit, and where to."""
        problem, here = self._problem, self.node_of
        there = self._load + problem.demand[:, None, :]
        joining = self._cost_at(there) - self._cost
        leaving = self._left - self._cost[here]
        delta = joining + leaving[:, None] + self._standing
        delta -= self._standing[self._units, here][:, None]
        delta += self._weighted @ (self._count > 0)
        alone = (self._count > 1).T[here]
        delta -= (self._weighted * alone).sum(axis=1)[:, None]
        delta[~self.may_shift()] = np.inf
        place = int(delta.argmin()) if delta.size else 0
        unit, target = divmod(place, problem.nodes)
        return (-float(delta.flat[place]), unit, target) if delta.size else (0.0, 0, 0)

    def best_swap(self) -> tuple[float, int, int]:
        """Return the gain of the best swap, and its two units."""
        problem, here = self._problem, self.node_of
        # Row g, column h: what the node of g bears once h is there in its place.
        base = self._load[here] - problem.demand
        there = base[:, None, :] + problem.demand[None, :, :]
        after = self._cost_of(there, here)
        joining = after - self._cost[here][:, None]
        standing = self._standing[:, here]  # of g, where h is
        moved = standing - self._standing[self._units, here][:, None]
        delta = joining + joining.T + moved + moved.T
        delta += self._sharing_of_swaps()
        delta[~self._may_swap(there)] = np.inf
        place = int(delta.argmin()) if delta.size else 0
        unit, other = divmod(place, problem.units) if delta.size else (0, 0)
        return (-float(delta.flat[place]), unit, other) if delta.size else (0.0, 0, 0)

    def _sum_up(self) -> None:
        problem, here = self._problem, self.node_of
        self._load = loads(problem, here)
        nodes = np.arange(problem.nodes)
        self._cost = node_cost(problem, self._load, nodes)
        self._left = node_cost(problem, self._load[here] - problem.demand, here)
        on = (here[:, None] == nodes).astype(float)
        away = here != problem.origin
        self._count = self._member.T @ on
        self._strangers = self._member.T @ (on * away[:, None])
        self._received = (on * away[:, None]).sum(axis=0)
        self._away = away
        spent: Floats = problem.measures[:, away].sum(axis=1)
        self._spent = spent

    def _cost_at(self, load: Floats) -> Floats:
        """Return what each node costs with each load; shapes (G, N, R) and (G, N)."""
        nodes = np.broadcast_to(np.arange(self._problem.nodes), load.shape[:2])
        return self._flat_cost(load, nodes)

    def _cost_of(self, load: Floats, here: Indices) -> Floats:
        """Return what the node of each row costs with each load; (G, G, R), (G, G)."""
        return self._flat_cost(load, np.broadcast_to(here[:, None], load.shape[:2]))

    def _flat_cost(self, load: Floats, nodes: Indices) -> Floats:
        flat = load.reshape(-1, load.shape[2])
        return node_cost(self._problem, flat, nodes.ravel()).reshape(nodes.shape)

    def may_shift(self) -> Mask:
        """Return which unit may go to which node; shape (G, N)."""
        problem, here = self._problem, self.node_of
        there = self._load + problem.demand[:, None, :]
        fits = (there <= self._limit).all(axis=2)
        # Who comes home to where nobody else has come may find it as it was.
        fits |= self._home & (self._received == 0)
        may: Mask = fits & (problem.allowed[problem.class_of] | self._home)
        may &= (self._strict @ np.where(self._count > 0, 1.0, 0.0) == 0) | (
            self._home & (self._strict @ self._strangers == 0)
        )
        may[self._units, here] = False
        now = self._away.astype(float)
        for measure, spent, most in zip(
            problem.measures, self._spent, self._budgets, strict=True
        ):
            more = (~self._home - now[:, None]) * measure[:, None]
            may &= (more <= 0) | (spent + more <= most)
        return may

    def _may_swap(self, there: Floats) -> Mask:
        problem, here = self._problem, self.node_of
        # Row g, column h: whether h may be where g is, once g is not.
        fits = (there <= self._limit[here][:, None, :]).all(axis=2)
        open_to = problem.allowed[problem.class_of] | self._home
        may: Mask = fits & open_to[:, here].T
        shared = self._strict @ self._member.T  # strict groups that both are in
        others = (self._strict @ self._count)[:, here].T  # of h, where g is
        may &= others - shared <= 0
        may &= may.T
        may &= here[:, None] != here[None, :]
        back = self._home[:, here]  # g would be at home where h is
        now = self._away.astype(float)
        for measure, spent, most in zip(
            problem.measures, self._spent, self._budgets, strict=True
        ):
            change = (~back - now[:, None]) * measure[:, None]
            more = change + change.T
            may &= (more <= 0) | (spent + more <= most)
        return may

    def _sharing_of_swaps(self) -> Floats:
        """Return how the cost of sharing nodes changes with each swap; shape (G, G)."""
        here = self.node_of
        both = self._weighted @ self._member.T  # units of one group just change places
        joins = np.zeros((len(here), len(here)))
        leaves = np.zeros(len(here))
        for group in np.flatnonzero(self._problem.groups.apart_weight):
            count, weights = self._count[group], self._weighted[:, group]
            member = self._member[:, group]
            joins += weights[:, None] * ((count[here] - member)[None, :] > 0)
            leaves += weights * (count[here] > 1)
        alone = joins - leaves[:, None]
        total: Floats = alone + alone.T
        if both.any():
            total += self._of_one_group()
        return total

    def _of_one_group(self) -> Floats:
        """Return what is to be added for two of one group, who just change places."""
        here = self.node_of
        more = np.zeros((len(here), len(here)))
        for group in np.flatnonzero(self._problem.groups.apart_weight):
            weights, count = self._weighted[:, group], self._count[group]
            member = np.flatnonzero(self._member[:, group])
            joins = weights[member, None] * (count[here[member]] - 1 > 0)[None, :]
            leaves = weights[member] * (count[here[member]] > 1)
            alone = joins - leaves[:, None]
            more[np.ix_(member, member)] -= alone + alone.T
        return more
