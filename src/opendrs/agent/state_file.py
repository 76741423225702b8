"""The state that an agent keeps over a restart: its samples and its last request."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict

from opendrs.api.schema import RequestBody
from opendrs.errors import StoreError
from opendrs.escapes import escape_line
from opendrs.policies.consolidation.memory import ConsolidationMemory
from opendrs.ports import Store

STORE_KEY = "agent"
MAX_GAP = 3  # intervals without a sample, after which histories begin anew


class AgentState(BaseModel):
    """What is written down after each sample.

    Attributes:
        node: Whose it is.
        sampled_at: When the newest sample was taken.
        sequence: The number of the request that it led to.
        memory: What the policy remembers.
        request: That request; None when there was nothing to say.
        delivered: Whether the controller has answered it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    sampled_at: AwareDatetime
    sequence: int
    memory: ConsolidationMemory
    request: RequestBody | None = None
    delivered: bool = False


class AgentStateFile:
    """The page that an agent has written last, in its store.

    Args:
        store: Where it is.
        node: Whose it is.
    """

    def __init__(self, store: Store, node: str) -> None:
        self._store = store
        self._node = node

    def load(self) -> AgentState | None:
        """Return what was written last, or None.

        Raises:
            StoreError: It cannot be read, or is not that of this node's agent.
        """
        saved = self._store.load(STORE_KEY)
        if saved is None:
            return None
        try:
            state = AgentState.model_validate_json(str(saved["state"]))
        except (KeyError, ValueError) as error:
            raise StoreError(
                "what the agent has written down cannot be read; move its record away "
                "and it begins anew"
            ) from error
        if state.node != self._node:
            raise StoreError(
                f"this is the record of the agent of {escape_line(state.node[:80])}, "
                f"not of {self._node}"
            )
        return state

    def save(self, state: AgentState) -> None:
        """Write *state* in place of the one before.

        Raises:
            StoreError: It cannot be kept.
        """
        self._store.save(STORE_KEY, {"state": state.model_dump_json()})


def is_continuous(state: AgentState, now: datetime, interval: float) -> bool:
    """Return whether the samples of *state* go on without too large a gap."""
    gap = now - state.sampled_at
    return timedelta(0) <= gap <= timedelta(seconds=MAX_GAP * interval)
