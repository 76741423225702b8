"""The command line, called in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What came of a command: its exit status, and what it wrote."""

    status: int
    out: str
    err: str


Opendrs = Callable[..., Answer]
