"""Cluster and its feasible moves as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ClusterArrays:
    """Cluster and its feasible moves as arrays.

    There are N nodes, G move groups and C placement classes: move groups with the same
    allowed nodes. Resources are CPU (cores) and memory (bytes), in this order. Nodes
    and groups are in the order of names, which resolves ties. Scoring only reads the
    arrays; a search writes to arrays of its own.

    Attributes:
        capacity: Capacity of each node; shape (N, 2).
        usage: Used resources of each node; shape (N, 2).
        demand: Resources that move with each group; shape (G, 2).
        node_of: Node of each group; shape (G,).
        class_of: Placement class of each group; shape (G,).
        allowed: Allowed nodes of each class; shape (C, N).
        available: Available memory of each node, measured and committed, in bytes;
            shape (N, 2).
        required: Memory that each group requires of both; shape (G, 2).
    """

    capacity: Floats
    usage: Floats
    demand: Floats
    node_of: Indices
    class_of: Indices
    allowed: Mask
    available: Floats
    required: Floats
