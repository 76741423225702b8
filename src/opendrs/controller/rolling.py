"""Rolling maintenance: one node after the other, as the store keeps it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from opendrs.errors import StoreError
from opendrs.model import NodeId, require_type
from opendrs.ports import Store

ROLLING_KEY = "operator/rolling"
_TEXTS = ("program", "hook_digest", "failure")


class RollingPhase(StrEnum):
    """Work that is to be done next on the first node. The values are stable."""

    DRAIN = "drain"
    """The node is emptied."""
    HOOK = "hook"
    """The command of the operator runs."""
    ONLINE = "online"
    """The node is to come online, with its measurements."""
    RETURN = "return"
    """The guests return to the node."""


_NEXT = {
    RollingPhase.DRAIN: RollingPhase.HOOK,
    RollingPhase.HOOK: RollingPhase.ONLINE,
    RollingPhase.ONLINE: RollingPhase.RETURN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RollingUpdate:
    """Rolling maintenance in progress.

    Attributes:
        nodes: The nodes that are not complete; the first one is in `phase`.
        done: The nodes that are complete.
        program: Program of the hook.
        hook_digest: `hook_digest` of the hook, whose arguments may contain secrets.
        phase: What is to be done next with the first node.
        failure: Why it has stopped; empty if it has not.
    """

    nodes: tuple[NodeId, ...]
    done: tuple[NodeId, ...] = ()
    program: str
    hook_digest: str
    phase: RollingPhase = RollingPhase.DRAIN
    failure: str = ""

    def advanced(self) -> RollingUpdate:
        """Return the state when the phase of the first node is complete."""
        following = _NEXT.get(self.phase)
        if following is not None:
            return replace(self, phase=following, failure="")
        first, *others = self.nodes
        return replace(
            self,
            nodes=tuple(others),
            done=(*self.done, first),
            phase=RollingPhase.DRAIN,
            failure="",
        )

    @property
    def entry(self) -> dict[str, object]:
        """Return the entry in the store."""
        return {
            "nodes": list(self.nodes),
            "done": list(self.done),
            "program": self.program,
            "hook_digest": self.hook_digest,
            "phase": self.phase.value,
            "failure": self.failure,
        }


def hook_digest(hook: Sequence[str]) -> str:
    """Return the SHA-256 of a hook: program and arguments."""
    return hashlib.sha256("\0".join(hook).encode()).hexdigest()


def rolling_update(store: Store) -> RollingUpdate | None:
    """Return the rolling maintenance in progress; None if there is none.

    Raises:
        StoreError: The store cannot be read.
    """
    entry: Mapping[str, Any] | None = store.load(ROLLING_KEY)
    if entry is None:
        return None
    try:
        require_type(str, (*entry["nodes"], *entry["done"]))
        require_type(str, [entry[name] for name in _TEXTS])
        return RollingUpdate(
            nodes=tuple(map(NodeId, entry["nodes"])),
            done=tuple(map(NodeId, entry["done"])),
            program=entry["program"],
            hook_digest=entry["hook_digest"],
            phase=RollingPhase(entry["phase"]),
            failure=entry["failure"],
        )
    except (LookupError, TypeError, ValueError) as error:
        raise StoreError(
            f'store: entry "{ROLLING_KEY}" cannot be decoded: {error!r}'
        ) from error
