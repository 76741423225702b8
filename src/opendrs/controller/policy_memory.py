"""Memory of policies in the store."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, TypeVar, get_type_hints

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError

from opendrs.config import Diagnostic, DiagnosticCode, pydantic_diagnostics
from opendrs.errors import StoreError
from opendrs.policies import Policy
from opendrs.ports import Store

MemoryT = TypeVar("MemoryT")
_FIELD = "memory"


def load_memory(policy: Policy[MemoryT], store: Store, schedule: str = "") -> MemoryT:
    """Return the saved memory of *policy*, or its initial memory if none is saved.

    Args:
        policy: The policy.
        store: The store.
        schedule: Name of the entry of the schedule that the policy decides for; each
            entry has its own memory. Empty if there is none.

    Raises:
        StoreError: The store cannot be read, or the saved value does not have the
            type that the policy declares for its memory.
    """
    name = _store_key(policy, schedule)
    saved = store.load(name)
    if saved is None:
        return policy.initial_memory()
    diagnostic = _check_memory(policy, saved)
    if diagnostic is not None:
        raise StoreError(f'store: entry "{name}" does not fit the policy: {diagnostic}')
    memory: MemoryT = saved[_FIELD]  # type: ignore[assignment]  # just checked
    return memory


def save_memory(
    policy: Policy[MemoryT], memory: MemoryT, store: Store, schedule: str = ""
) -> None:
    """Save *memory* for the next cycle of *schedule*, unless it is None.

    Raises:
        StoreError: The store cannot be written.
    """
    if memory is not None:
        store.save(_store_key(policy, schedule), {_FIELD: memory})


def _store_key(policy: Policy[Any], schedule: str) -> str:
    """Return the key; an entry with the name of its policy shares that of `apply`."""
    key = f"memory of {policy.name}"
    is_own = schedule not in ("", policy.name)
    return f"{key}, schedule {schedule}" if is_own else key


def _check_memory(policy: Policy[Any], saved: object) -> Diagnostic | None:
    """Return the first error in *saved*; None if it is valid or cannot be checked."""
    if not isinstance(saved, dict) or _FIELD not in saved:
        return Diagnostic((_FIELD,), "is missing", code=DiagnosticCode.MISSING_KEY)
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
    """Return a validator for the declared memory type, or None without one."""
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
        return None  # an external policy may declare a type unknown to pydantic
