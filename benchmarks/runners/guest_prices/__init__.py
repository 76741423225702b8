"""Lagrangian bound with a price for each guest; an experiment."""
