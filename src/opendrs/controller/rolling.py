"""Rolling maintenance: one node after the other, as the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from opendrs.errors import StoreError
from opendrs.model import NodeId, require_type
from opendrs.ports import Store

ROLLING_KEY = "operator/rolling"


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
        hook: Command and arguments; the name of the node is added.
        phase: What is to be done next with the first node.
        failure: Why it has stopped; empty if it has not.
    """

    nodes: tuple[NodeId, ...]
    done: tuple[NodeId, ...] = ()
    hook: tuple[str, ...]
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
            "hook": list(self.hook),
            "phase": self.phase.value,
            "failure": self.failure,
        }


def rolling_update(store: Store) -> RollingUpdate | None:
    """Return the rolling maintenance in progress; None if there is none.

    Raises:
        StoreError: The store cannot be read.
    """
    entry: Mapping[str, Any] | None = store.load(ROLLING_KEY)
    if entry is None:
        return None
    try:
        require_type(str, (*entry["nodes"], *entry["done"], *entry["hook"]))
        require_type(str, [entry["failure"]])
        return RollingUpdate(
            nodes=tuple(map(NodeId, entry["nodes"])),
            done=tuple(map(NodeId, entry["done"])),
            hook=tuple(entry["hook"]),
            phase=RollingPhase(entry["phase"]),
            failure=entry["failure"],
        )
    except (LookupError, TypeError, ValueError) as error:
        raise StoreError(
            f'store: entry "{ROLLING_KEY}" cannot be decoded: {error!r}'
        ) from error
