"""Moves that a local search evaluates all at once: shifts, swaps, replacements."""
