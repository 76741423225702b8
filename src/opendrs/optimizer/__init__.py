"""Solver library for placement problems. It imports neither snapshots nor rules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
