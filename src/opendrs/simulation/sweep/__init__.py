"""Sweeps: every combination of settings, in processes or on a Dask cluster."""
