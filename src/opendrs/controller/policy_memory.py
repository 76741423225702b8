"""The memory of a policy, as the store keeps it."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from opendrs.config import Diagnostic, pydantic_diagnostics
from opendrs.errors import StoreError
from opendrs.policies import Policy
from opendrs.ports import Store

MemoryT = TypeVar("MemoryT")
_FIELD = "memory"


def load_memory(policy: Policy[MemoryT], store: Store) -> MemoryT:
    """Return what *policy* remembers, or its first memory where there is none.

    Raises:
        StoreError: The record cannot be read, or holds something of another kind
            than the policy says it remembers.
    """
    name = _store_key(policy)
    saved = store.load(name)
    if saved is None:
        return policy.initial_memory()
    diagnostic = _check_memory(policy, saved)
    if diagnostic is not None:
        raise StoreError(
            f'the record holds something else as "{name}" than that policy '
            f"remembers: {diagnostic}"
        )
    memory: MemoryT = saved[_FIELD]  # type: ignore[assignment]  # as it was saved
    return memory


def save_memory(policy: Policy[MemoryT], memory: MemoryT, store: Store) -> None:
    """Keep what *policy* wants to remember, if it is anything.

    Raises:
        StoreError: It cannot be kept.
    """
    if memory is not None:
        store.save(_store_key(policy), {_FIELD: memory})


def _store_key(policy: Policy[Any]) -> str:
    return f"memory of {policy.name}"


def _check_memory(policy: Policy[Any], saved: object) -> Diagnostic | None:
    """Return what is wrong with what was *saved*, if anything can be seen to be."""
    if not isinstance(saved, dict) or _FIELD not in saved:
        return Diagnostic((_FIELD,), "is missing")
    adapter = _memory_adapter(type(policy))
    if adapter is None:
        return None
    try:
        adapter.validate_json(json.dumps(saved[_FIELD]), strict=True)
    except ValidationError as error:
        return next(pydantic_diagnostics(error, (_FIELD,)))
    return None


@lru_cache(maxsize=16)
def _memory_adapter(policy: type[Policy[Any]]) -> TypeAdapter[object] | None:
    """Return the form of what such a policy remembers, if it says so."""
    try:
        hints = get_type_hints(policy.initial_memory)
        return TypeAdapter(hints["return"])
    except (
        KeyError,
        NameError,
        TypeError,
        PydanticSchemaGenerationError,
        PydanticUserError,
    ):
        return None  # what others bring need not say it in words known here
