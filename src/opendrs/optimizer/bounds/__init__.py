"""Lower bounds of the imbalance: nearest point of a polytope, Lagrangian dual."""
