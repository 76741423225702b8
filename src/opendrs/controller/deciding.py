"""Who decides in a cycle, and who is told what becomes of it."""

from __future__ import annotations

from typing import Any, Protocol

from opendrs.controller.cycle import Judgement, judge
from opendrs.model import Snapshot
from opendrs.policies import Decision, Policy
from opendrs.ports import Store


class Decider(Protocol):
    """Decides in each cycle. Every method may raise `StoreError`."""

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that decides."""

    def settle(self) -> None:
        """Bring to an end what is open, now that nothing runs any more."""

    def judge(self, snapshot: Snapshot) -> Judgement[Any]:
        """Return what to do about *snapshot*."""

    def begin(self, snapshot: Snapshot, decision: Decision[Any], run: str) -> None:
        """Take note that *decision* is about to be carried out as *run*."""


class PolicyAlone:
    """A policy that goes by what is seen, and by its own memory.

    Args:
        policy: The policy.
        store: Where its memory is kept.
    """

    def __init__(self, policy: Policy[Any], store: Store) -> None:
        self._policy = policy
        self._store = store

    @property
    def policy(self) -> Policy[Any]:
        """Return the policy that decides."""
        return self._policy

    def settle(self) -> None:
        """Do nothing: nobody waits for an answer."""

    def judge(self, snapshot: Snapshot) -> Judgement[Any]:
        """Return what to do about *snapshot*."""
        return judge(snapshot, self._policy, self._store)

    def begin(self, snapshot: Snapshot, decision: Decision[Any], run: str) -> None:
        """Do nothing, as above."""
