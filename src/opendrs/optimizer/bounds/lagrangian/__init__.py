"""Lower bound by Lagrangian relaxation, node by node."""
