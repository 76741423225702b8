"""Lower bounds of the imbalance: polytope, Lagrangian dual, all placements."""
