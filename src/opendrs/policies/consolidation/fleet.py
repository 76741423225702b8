"""Hosts and guests as columns: what a decision of consolidation is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from opendrs.policies.consolidation.histories import Floats, Integers, Truths

DIGITS = 9  # so that between equals the name decides rather than rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The hosts, in the order of their names.

    Attributes:
        cpu: CPU each has; shape (hosts,).
        own: CPU each used outside the guests of the crowd, the newest sample
            last; shape (hosts, samples).
        room: Memory that is free, by what is in use and by what is promised;
            shape (hosts, 2).
        most: The same where nothing is in use.
        known: Which of them run and were measured, so that they may give and
            receive; shape (hosts,).
        wakeable: Which of them may be woken.
        stuck: Which of them cannot be emptied, because somebody has to stay.
        watts: One row of eleven values per power curve.
        curve: Which of them each host has; shape (hosts,).
        thrift: Watts that each takes at full load, for its CPU; shape (hosts,).
    """

    cpu: Floats
    own: Floats
    room: Floats
    most: Floats
    known: Truths
    wakeable: Truths
    stuck: Truths
    watts: Floats
    curve: Integers
    thrift: Floats = field(init=False)

    def __post_init__(self) -> None:
        """Derive what follows from the rest."""
        thrift = np.round(self.watts[self.curve, -1] / self.cpu, DIGITS)
        object.__setattr__(self, "thrift", thrift)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """The guests, in the order of their names; what moves as one is one of them.

    Attributes:
        host: Where each is; shape (guests,).
        samples: CPU each used, the newest sample last and zeros before the first;
            shape (guests, samples).
        lengths: How many of them count; shape (guests,).
        most: CPU each can use at most; shape (guests,).
        memory: What moving each has to transfer.
        need: Room each asks for, as in `Fleet.room`; shape (guests, 2).
        movable: Whether each may be moved now.
    """

    host: Integers
    samples: Floats
    lengths: Integers
    most: Floats
    memory: Floats
    need: Floats
    movable: Truths


@dataclass(frozen=True, slots=True)
class Told:
    """What each host says of itself, where it is not judged from here.

    Attributes:
        overloaded: Which hosts find themselves overloaded; shape (hosts,).
        underloaded: Which find that they could be emptied; shape (hosts,).
        leaving: Who should leave each overloaded host, the first first.
    """

    overloaded: Truths
    underloaded: Truths
    leaving: Mapping[int, Sequence[int]]


class Places(Protocol):
    """Which hosts rules and hardware leave to a guest, as all stand by now."""

    def open_to(self, guest: int) -> Truths:
        """Return which hosts *guest* may go to, whatever room they have."""

    def moved(self, guest: int, target: int) -> None:
        """Take note that *guest* is on *target* now."""
