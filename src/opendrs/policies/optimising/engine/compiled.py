"""Functions compiled to machine code, once for a machine where that can be kept.

None of them may allocate: counting references to a hundred arrays at each call took
nine tenths of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from types import FunctionType, MappingProxyType
from typing import Any, ParamSpec, TypeVar

from numba import njit

# Of an option of Numba that its types do not tell of.
UNCOUNTED = MappingProxyType[str, Any]({"_nrt": False})

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def compiled(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled when it is first called, for callers that are not.

    The code is kept beside the module, or in the user's cache directory where that
    cannot be written; where neither can be, each process compiles for itself. While it
    runs, other threads of Python go on. What is
    kept bears the fingerprint of all it was made of: Numba itself would only notice
    that the file of *function* changed.
    """
    function.__qualname__ += "_" + fingerprint(function)
    try:
        return njit(cache=True, nogil=True, **UNCOUNTED)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # no place to keep it
        return njit(nogil=True, **UNCOUNTED)(function)  # type: ignore[no-any-return]


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled for compiled functions to call."""
    return njit(**UNCOUNTED)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled as part of the compiled functions that call it.

    A call hands over each field of tables and state by itself, some hundred words:
    more than most of these functions do.
    """
    return njit(forceinline=True, **UNCOUNTED)(function)  # type: ignore[no-any-return]


def vectorised(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* inlined, its sums in whatever order the machine adds fastest.

    On a node with 12 resources that takes a fifth of the time. No value may be NaN.
    """
    return njit(  # type: ignore[no-any-return]
        forceinline=True, fastmath={"reassoc", "nsz", "nnan", "contract"}, **UNCOUNTED
    )(function)


def fingerprint(function: Callable[..., object]) -> str:
    """Return a text that differs when *function*, or what it uses, differs.

    What it uses must stand above it, or be imported.
    """
    digest = sha256()
    seen: set[str] = set()
    waiting: list[object] = [function]
    while waiting:
        each = waiting.pop()
        each = getattr(each, "py_func", each)
        if not isinstance(each, FunctionType):
            digest.update(repr(each).encode() if _is_plain(each) else b"")
            continue
        code = each.__code__
        name = f"{each.__module__}.{each.__name__}"
        if name not in seen:
            seen.add(name)
            digest.update(repr((name, code.co_code, code.co_consts)).encode())
            digest.update(repr((code.co_names, each.__annotations__)).encode())
            waiting.extend(each.__globals__.get(used) for used in code.co_names)
    return digest.hexdigest()[:12]


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | bool | None)
