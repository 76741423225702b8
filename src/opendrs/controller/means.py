"""What whoever carries out steps has at hand."""

from __future__ import annotations

from dataclasses import dataclass

from opendrs.controller.brake import Brake
from opendrs.controller.watcher import Watcher
from opendrs.model import Limits
from opendrs.ports import Clock, Platform, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """What whoever carries out steps has at hand.

    Attributes:
        platform: Where they are carried out.
        clock: The time.
        store: Where they are recorded.
        limits: What the operator allows.
        watcher: Who is told.
        brake: How the operator stops it.
        poll: Seconds between two looks.
    """

    platform: Platform
    clock: Clock
    store: Store
    limits: Limits
    watcher: Watcher
    brake: Brake
    poll: float = 1.0
