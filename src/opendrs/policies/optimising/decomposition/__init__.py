"""How even the nodes can become at best when few units are moved.

A Lagrangian relaxation that takes the cluster apart into its nodes. What all nodes have
to agree on gets prices: what the budgets count, each arrival (as many units arrive as
leave), and load (as much arrives as leaves). At given prices each node decides for
itself who leaves it and what arrives, and what all of them come to is a bound, whatever
the prices are; those are looked for at which it is highest.

Who leaves is looked at set by set, so that whole units leave; of the smallest units of
a node only how much they can take with them at most. What arrives is n units of any
kind, mixed: n times the convex hull of what units take. Rules, the room of nodes and
which nodes are open to whom are passed over.

Source:
    Geoffrion, Lagrangean relaxation for integer programming (1974).
"""

from __future__ import annotations

import numpy as np

from opendrs.policies.optimising.decomposition.ground import PLANE, Ground
from opendrs.policies.optimising.decomposition.least import bound
from opendrs.policies.optimising.problem import Problem

SETS = 3000  # of units that may leave; ten times as many are a tenth nearer
OF_A_NODE = 16  # sets there are at least, on average
LOOKS = 40  # prices that are tried at most
ENOUGH = 1e-3  # of the bound: what ten of them must raise it by


def whole_bound(problem: Problem) -> float:
    """Return what no plan within the budgets has a distance below.

    The distance is the root of what the problem's evenness costs. It is 0, which says
    nothing, where more than two resources are to be even or a node has none of one.
    """
    even = problem.even_weight > 0
    if even.sum() > PLANE or not np.all(problem.capacity[:, even] > 0):
        return 0.0
    sets = max(SETS, OF_A_NODE * problem.nodes)
    found = bound(Ground.of(problem, sets), LOOKS, enough=ENOUGH)
    return float(found.cost**0.5)
