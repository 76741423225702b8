"""A lock that compiled functions of several threads share.

The threads of a search hold it for less than a microsecond and seldom want it at once,
so who waits looks again and again. None of them may be stopped while it holds the lock.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from numba.core import types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from opendrs.policies.optimising.engine.compiled import part
from opendrs.policies.optimising.groups import Indices


@intrinsic
def _exchange(_typing: Any, cell: Any, _value: Any) -> Any:  # noqa: ANN401 - Numba's own
    """Put a value into the first place of an array; return what was there; at once."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ANN401 - Numba's own
        view: Any = make_array
        array = view(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("xchg", array.data, arguments[1], "seq_cst")

    return types.int64(cell, types.int64), code


exchange = cast("Callable[[Indices, int], int]", _exchange)


@part
def take(lock: Indices) -> None:
    """Wait until nobody has the lock, and take it."""
    while exchange(lock, 1) != 0:
        pass


@part
def give_back(lock: Indices) -> None:
    """Let somebody else take the lock."""
    exchange(lock, 0)
