"""State of a host agent that is kept over restarts: samples and the last request."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict

from opendrs.config.api_schema import RequestBody
from opendrs.errors import StoreError
from opendrs.escapes import escape_line
from opendrs.policies.consolidation.memory import ConsolidationMemory
from opendrs.ports import Store

STORE_KEY = "agent"
MAX_GAP = 3  # intervals without a sample; after a longer gap histories start again


class AgentState(BaseModel):
    """State that is saved after each sample.

    Attributes:
        node: Node of the agent.
        sampled_at: Time of the newest sample.
        sequence: Sequence of the request for this sample.
        memory: Memory of the policy.
        request: The request; None if no request could be built.
        delivered: True if the controller has accepted the request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    node: str
    sampled_at: AwareDatetime
    sequence: int
    memory: ConsolidationMemory
    request: RequestBody | None = None
    delivered: bool = False


class AgentStateFile:
    """The last state of an agent in its store.

    Args:
        store: Contains the state.
        node: Node of the agent.
    """

    def __init__(self, store: Store, node: str) -> None:
        self._store = store
        self._node = node

    def load(self) -> AgentState | None:
        """Return the last state, or None.

        Raises:
            StoreError: The state cannot be read, or belongs to another node.
        """
        saved = self._store.load(STORE_KEY)
        if saved is None:
            return None
        try:
            state = AgentState.model_validate_json(str(saved["state"]))
        except (KeyError, ValueError) as error:
            raise StoreError(
                "store: state of the agent cannot be decoded; remove the store to "
                "start without samples"
            ) from error
        if state.node != self._node:
            raise StoreError(
                f"store: expected the state of the agent of {self._node}, got that of "
                f"{escape_line(state.node[:80])}"
            )
        return state

    def save(self, state: AgentState) -> None:
        """Replace the saved state by *state*.

        Raises:
            StoreError: The store cannot be written.
        """
        self._store.save(STORE_KEY, {"state": state.model_dump_json()})


def is_continuous(state: AgentState, now: datetime, interval: float) -> bool:
    """Return True if the gap since the samples of *state* is at most `MAX_GAP`."""
    gap = now - state.sampled_at
    return timedelta(0) <= gap <= timedelta(seconds=MAX_GAP * interval)
