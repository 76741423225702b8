"""Lower bounds of the imbalance that any plan can reach."""
