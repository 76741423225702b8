"""Lagrangian bound over the migrations of single guests, as an experiment."""
