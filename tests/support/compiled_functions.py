"""Functions compiled by Numba, callable from Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar

from opendrs.optimizer.compiled.compiler import compiled

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@cache
def callable_from_python(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return *function* compiled for callers that are not."""
    return compiled(function.py_func)  # type: ignore[attr-defined] # as Numba has it
