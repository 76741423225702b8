"""Distributed resource scheduler for clusters of virtual machines."""

__version__ = "0.1.0"
