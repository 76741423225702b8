"""Functions compiled to machine code.

None of them may allocate: counting references to a hundred arrays at each call took
nine tenths of the time. Parts do not get what Python would need to call them: that took
a third of the time of compiling. Nor are most of them forced into their callers; the
compiler does so where it pays.

Nothing is kept on disk here. `opendrs.controller.compiled_code` does that.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from types import FunctionType, MappingProxyType
from typing import Any, Generic, ParamSpec, TypeVar, cast

from numba import njit
from numpy import integer

from opendrs.policies.optimising.engine.packed import packed, type_of

# Options that the types of Numba do not name.
BARE = MappingProxyType[str, Any]({"_nrt": False, "no_cfunc_wrapper": True})
INNER = MappingProxyType[str, Any]({**BARE, "no_cpython_wrapper": True})

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class CompiledFunction(Generic[Parameters, Result]):
    """A function that is compiled when it is first called, for any caller.

    Named tuples are handed over as packs, so that it is compiled for one signature
    only. While it runs, other threads of Python go on.

    Attributes:
        name: The name of the function.
        py_func: The function as Python runs it.
        dispatcher: The function as Numba calls it.
        fingerprint: A text that differs when the function, or what it uses, differs.
    """

    def __init__(self, function: Callable[Parameters, Result]) -> None:
        self.name = function.__name__
        self.py_func = function
        self.dispatcher: Any = njit(nogil=True, **BARE)(function)
        self.fingerprint = fingerprint(function)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call the function; arguments have no keywords."""
        return cast("Result", self.dispatcher(*map(packed, args), **kwargs))

    def compile_for(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        """Compile the function for such arguments, without calling it."""
        del kwargs
        self.dispatcher.compile(tuple(map(type_of, args)))


def compiled(
    function: Callable[Parameters, Result],
) -> CompiledFunction[Parameters, Result]:
    """Return *function* for callers that are not compiled."""
    return CompiledFunction(function)


def part(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* compiled for compiled functions to call."""
    return njit(**INNER)(function)  # type: ignore[no-any-return]


def vectorised(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return *function* as a part, its sums in whatever order the machine adds fastest.

    On a node with 12 resources that takes a fifth of the time. No value may be NaN.
    It is forced into its callers: where nobody joins or leaves, half of it is nothing.
    """
    return njit(  # type: ignore[no-any-return]
        forceinline=True, fastmath={"reassoc", "nsz", "nnan", "contract"}, **INNER
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
    return isinstance(value, int | integer | float | str | bool | None)
