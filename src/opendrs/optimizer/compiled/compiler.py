"""Compilation with Numba; named tuples of arrays are passed as one address.

Compiled functions do not allocate: counting references to a hundred arrays at each call
took nine tenths of the time. Inner functions have no Python wrapper, which took a third
of the compile time. Most of them are not forced inline; the compiler inlines where it
pays.

Numba passes a tuple of arrays field by field: some 500 words for `ProblemArrays` and
`SolutionState`, which each function unpacks and packs again. With one address instead,
compilation takes a quarter of the time and half of the memory, and a call that is not
inlined costs next to nothing. A pack is a row of words, field by field: the address and
the shape of an array, or the value of a number.

Nothing is cached on disk here; `opendrs.controller.compiled_code` does that.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from struct import pack, unpack
from types import FunctionType, MappingProxyType
from typing import (
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    TypeVar,
    cast,
    get_args,
    get_type_hints,
)

import numpy as np
from llvmlite import ir
from numba import njit, typeof
from numba.core import cgutils, types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)
from numba.np.arrayobj import make_array
from numba.np.numpy_support import as_dtype, from_dtype
from numpy import integer

# The type stubs of Numba lack these options.
ENTRY_OPTIONS = MappingProxyType[str, Any]({"_nrt": False, "no_cfunc_wrapper": True})

INNER_OPTIONS = MappingProxyType[str, Any](
    {**ENTRY_OPTIONS, "no_cpython_wrapper": True}
)

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class CompiledFunction(Generic[Parameters, Result]):
    """An entry point that is compiled on its first call.

    Named tuples are passed as packs, so there is one signature. The GIL is released
    while the function runs.

    Attributes:
        name: Name of the function.
        py_func: The Python function.
        dispatcher: The Numba dispatcher.
        fingerprint: Text that differs if the function, or anything it uses, differs.
    """

    def __init__(self, function: Callable[Parameters, Result]) -> None:
        self.name = function.__name__
        self.py_func = function
        self.dispatcher: Any = njit(nogil=True, **ENTRY_OPTIONS)(function)
        self.fingerprint = fingerprint(function)

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        """Call the function; arguments are positional."""
        return cast("Result", self.dispatcher(*map(pack_arrays, args), **kwargs))

    def compile_for(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> None:
        """Compile the function for the types of *args* without calling it."""
        del kwargs
        self.dispatcher.compile(tuple(map(numba_type, args)))


def compiled(
    function: Callable[Parameters, Result],
) -> CompiledFunction[Parameters, Result]:
    """Return *function* as an entry point for Python callers."""
    return CompiledFunction(function)


def compiled_inner(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return *function* compiled for calls from compiled functions only."""
    return njit(**INNER_OPTIONS)(function)  # type: ignore[no-any-return]


def compiled_fast_math(
    function: Callable[Parameters, Result],
) -> Callable[Parameters, Result]:
    """Return *function* as an inner function with reordered sums, forced inline.

    With 12 resources this takes a fifth of the time. No value may be NaN. Inlining
    removes half of the code where the arriving or departing group is the constant NONE.
    """
    return njit(  # type: ignore[no-any-return]
        forceinline=True,
        fastmath={"reassoc", "nsz", "nnan", "contract"},
        **INNER_OPTIONS,
    )(function)


def fingerprint(function: Callable[..., object]) -> str:
    """Return a text that differs if *function*, or anything it uses, differs.

    Everything it uses must be defined before it, or imported.
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


Value = TypeVar("Value")
WORD = ir.IntType(64)
FLOAT = types.float64
NUMBERS = {bool: types.boolean, int: types.int64, float: FLOAT}


class ArrayPackType(types.Type):
    """Numba type of packs with given fields: numbers, and arrays in C order.

    Attributes:
        field_types: Type of each field.
        offsets: First word of each field.
    """

    def __init__(self, name: str, field_types: dict[str, Any]) -> None:
        digest = sha256(repr(field_types).encode()).hexdigest()[:8]
        super().__init__(name=f"{name}_{digest}")
        self.field_types = field_types
        self.offsets: dict[str, int] = {}
        offset = 0
        for field, kind in field_types.items():
            self.offsets[field] = offset
            offset += 1 + getattr(kind, "ndim", 0)


class ArrayPack:
    """Fields of a named tuple, as compiled functions read and write them.

    All tuples of a class have the same type, so each function is compiled once. The
    type follows from the annotations and from the dimensions of the first tuple.

    Raises:
        TypeError: A field has another type, or an array is not in C order.
    """

    types: ClassVar[dict[type, ArrayPackType]] = {}

    def __init__(self, values: tuple[Any, ...]) -> None:
        named: Any = values
        kind = type(values)
        if kind not in self.types:
            hints = get_type_hints(kind)
            kinds = {
                field: _field_type(hints[field], np.ndim(value))
                for field, value in zip(named._fields, values, strict=True)
            }
            self.types[kind] = ArrayPackType(kind.__name__, kinds)
        self.type = self.types[kind]
        self.values = values  # keeps the arrays alive
        words: list[int] = []
        for value, expected in zip(values, self.type.field_types.values(), strict=True):
            words += _words(value, expected)
        self.words = np.array(words, dtype=np.int64)
        self.address = int(self.words.ctypes.data)


def _field_type(hint: Any, dimensions: int) -> Any:  # noqa: ANN401 - Numba's own
    """Return the Numba type of a field with this annotation."""
    if hint in NUMBERS:
        return NUMBERS[hint]
    (scalar,) = get_args(get_args(hint)[1])
    return types.Array(from_dtype(np.dtype(scalar)), dimensions, "C")


def _words(value: Any, kind: Any) -> list[int]:  # noqa: ANN401 - array or number
    if not isinstance(kind, types.Array):
        return list(unpack("q", pack("d", value))) if kind == FLOAT else [int(value)]
    if not (
        value.flags.c_contiguous
        and value.ndim == kind.ndim
        and value.dtype == as_dtype(kind.dtype)
    ):
        raise TypeError(f"array: expected {kind}, got {typeof(value)}")
    return [value.ctypes.data, *value.shape]


def pack_arrays(value: Value) -> Value:
    """Return a named tuple as a pack, and other values unchanged.

    Packing `ProblemArrays` and `SolutionState` takes half a millisecond; callers of
    many short calls do it once. For the type checker a pack has the type of the tuple.
    """
    return cast("Value", ArrayPack(value)) if isinstance(value, tuple) else value


def numba_type(value: object) -> Any:  # noqa: ANN401 - Numba's own
    """Return the type of *value* for compiled functions."""
    return typeof(pack_arrays(value))


@typeof_impl.register(ArrayPack)
def _type_of(value: ArrayPack, _context: object) -> ArrayPackType:
    return value.type


@register_model(ArrayPackType)
class _ArrayPackModel(models.PrimitiveModel):
    def __init__(self, manager: object, kind: ArrayPackType) -> None:
        super().__init__(manager, kind, WORD.as_pointer())


@unbox(ArrayPackType)
def _unbox(_kind: ArrayPackType, value: Any, context: Any) -> Any:  # noqa: ANN401 - Numba's own
    address = context.pyapi.object_getattr_string(value, "address")
    number = context.pyapi.long_as_ulonglong(address)
    context.pyapi.decref(address)
    return NativeValue(context.builder.inttoptr(number, WORD.as_pointer()))


@infer_getattr
class _ArrayPackAttributes(AttributeTemplate):
    key = ArrayPackType

    def generic_resolve(self, kind: ArrayPackType, name: str) -> Any:  # type: ignore[override]  # noqa: ANN401
        return kind.field_types.get(name)


@lower_getattr_generic(ArrayPackType)
def _load_field(
    context: Any,  # noqa: ANN401 - Numba's own, as all here
    builder: Any,  # noqa: ANN401
    kind: ArrayPackType,
    value: Any,  # noqa: ANN401
    name: str,
) -> Any:  # noqa: ANN401
    """Load a field; the words of a pack are constant while a function runs."""
    offset, field = kind.offsets[name], kind.field_types[name]
    constant = builder.module.add_metadata([])

    def word(index: int) -> Any:  # noqa: ANN401
        address = ir.Constant(ir.IntType(32), offset + index)
        loaded = builder.load(builder.gep(value, [address]))
        loaded.set_metadata("invariant.load", constant)
        return loaded

    if isinstance(field, types.Array):
        return _array_view(context, builder, field, word)
    if field == FLOAT:
        return builder.bitcast(word(0), ir.DoubleType())
    if field == types.boolean:
        return builder.icmp_unsigned("!=", word(0), ir.Constant(WORD, 0))
    return word(0)


def _array_view(context: Any, builder: Any, field: Any, word: Any) -> Any:  # noqa: ANN401
    view: Any = make_array
    array = view(field)(context, builder)
    item = context.get_abi_sizeof(context.get_data_type(field.dtype))
    shape = [word(1 + axis) for axis in range(field.ndim)]
    strides, count = [ir.Constant(WORD, item)], shape[-1]
    for axis in reversed(range(field.ndim - 1)):
        strides.insert(0, builder.mul(shape[axis + 1], strides[0]))
        count = builder.mul(count, shape[axis])
    array.data = builder.inttoptr(word(0), array.data.type)
    array.shape = cgutils.pack_array(builder, shape)
    array.strides = cgutils.pack_array(builder, strides)
    array.itemsize = ir.Constant(WORD, item)
    array.nitems = count
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()  # noqa: SLF001 - as Numba itself does
