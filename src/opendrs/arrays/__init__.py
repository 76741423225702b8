"""Cluster and move groups as arrays, their assignment, and the best single move."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
