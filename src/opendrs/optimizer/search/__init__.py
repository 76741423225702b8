"""Search methods: local search, annealing, Lagrangian search."""
