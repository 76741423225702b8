"""Parts of compiled functions, as Python can call them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar

from opendrs.policies.optimising.engine.compiled import compiled

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@cache
def called(part: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *part* compiled for callers that are not."""
    return compiled(part.py_func)  # type: ignore[attr-defined] # as Numba has it
