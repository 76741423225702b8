"""Functions compiled to machine code; unlike those of the package they may allocate."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

from opendrs.policies.optimising.engine.compiled import fingerprint

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled when it is first called, for callers that are not.

    The code is kept beside the module until something that it is made of changes.
    """
    function.__qualname__ += "_" + fingerprint(function)
    return njit(cache=True, nogil=True)(function)


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled for compiled functions to call."""
    return njit(nogil=True)(function)
