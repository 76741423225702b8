"""Since when a process waits for the switching of a node, and until when."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.model import NodeId
from opendrs.platforms.power.effort import Effort

LATE = 1_800.0  # seconds for which a node that was asked to go to sleep may still do so


@dataclass(slots=True)
class Wait:
    """The wait for one switch.

    Attributes:
        since: When it began, in seconds.
        effort: What this process has asked for; None when another process did, or
            nobody.
        given_up: Whether nobody waits any more.
    """

    since: float
    effort: Effort | None = None
    given_up: bool = False

    @property
    def busy(self) -> bool:
        """Return whether the driver has not answered yet."""
        return self.effort is not None and self.effort.under_way

    def give_up(self) -> None:
        """Wait no longer, and ask the driver no more if it was not asked yet."""
        self.given_up = True
        if self.effort is not None:
            self.effort.give_up()

    def failure(self, node: NodeId, patience: float, now: float) -> str | None:
        """Return why the wait is over for what is not confirmed; None if it is not."""
        complaint = None if self.effort is None else self.effort.complaint
        if complaint is not None:
            return complaint
        if self.given_up:
            return "no longer waited for"
        if now - self.since >= patience:
            return f"{node} did not follow within {patience:g} s"
        return None
