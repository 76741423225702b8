"""A cluster and its feasible moves as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClusterArrays:
    """A cluster and the moves that are allowed in it, as arrays.

    A unit is what moves as one: a guest, or guests that stay together. N nodes,
    U units, C classes of units that may go to the same nodes; resources are
    cpu (cores) and memory (bytes), in this order. Nodes and units are in the
    order in which names decide between equals. Scoring reads the arrays and
    never writes them; a search that makes moves writes them in its own.

    Attributes:
        capacity: What each node has; shape (N, 2).
        usage: What of it counts as taken; shape (N, 2).
        demand: What each unit takes along; shape (U, 2).
        node_of: The node each unit is on; shape (U,).
        class_of: The class of each unit; shape (U,).
        allowed: The nodes each class may go to; shape (C, N).
        available: What each node can still take in, in measured memory and in
            promised memory (bytes); shape (N, 2).
        required: What each unit asks of both; shape (U, 2).
    """

    capacity: Floats
    usage: Floats
    demand: Floats
    node_of: Indices
    class_of: Indices
    allowed: Mask
    available: Floats
    required: Floats
