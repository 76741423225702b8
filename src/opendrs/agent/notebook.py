"""What an agent keeps over a restart: its samples, and the request it sent last."""

from __future__ import annotations

from datetime import datetime, timedelta

from pydantic import AwareDatetime, BaseModel, ConfigDict

from opendrs.controller.requests.wire import Request
from opendrs.errors import StoreError
from opendrs.escapes import escaped_line
from opendrs.policies.consolidation.memories import Memory
from opendrs.ports import Store

KEY = "agent"
LONGEST_GAP = 3  # intervals without a sample, after which histories begin anew


class Page(BaseModel):
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
    memory: Memory
    request: Request | None = None
    delivered: bool = False


class Notebook:
    """The page that an agent has written last, in its store.

    Args:
        store: Where it is.
        node: Whose it is.
    """

    def __init__(self, store: Store, node: str) -> None:
        self._store = store
        self._node = node

    def read(self) -> Page | None:
        """Return what was written last, or None.

        Raises:
            StoreError: It cannot be read, or is not that of this node's agent.
        """
        saved = self._store.load(KEY)
        if saved is None:
            return None
        try:
            page = Page.model_validate_json(str(saved["page"]))
        except (KeyError, ValueError) as error:
            raise StoreError(
                "what the agent has written down cannot be read; move its record away "
                "and it begins anew"
            ) from error
        if page.node != self._node:
            raise StoreError(
                f"this is the record of the agent of {escaped_line(page.node[:80])}, "
                f"not of {self._node}"
            )
        return page

    def write(self, page: Page) -> None:
        """Write *page* in place of the one before.

        Raises:
            StoreError: It cannot be kept.
        """
        self._store.save(KEY, {"page": page.model_dump_json()})


def still_holds(page: Page, now: datetime, interval: float) -> bool:
    """Return whether the samples of *page* go on without too large a gap."""
    gap = now - page.sampled_at
    return timedelta(0) <= gap <= timedelta(seconds=LONGEST_GAP * interval)
