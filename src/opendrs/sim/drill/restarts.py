"""Guests that start on no other node when theirs is lost."""

from __future__ import annotations

import re

from opendrs.model import Guest, Mobility

LOCAL_STORAGE = re.compile(r"\blocal\b|\bnot on shared storage\b", re.IGNORECASE)


def restart_blocker(guest: Guest) -> str | None:
    """Return why *guest* cannot start on another node once its own is lost.

    A guest that moves only stopped can start elsewhere, unless its disk would have to
    be copied from the lost node: the snapshot contains that only as a sentence.

    Returns:
        The reason, as the snapshot gives it; None when it can start elsewhere.
    """
    if guest.mobility is Mobility.NEVER:
        return guest.obstacle or "the snapshot says that it never moves"
    local = guest.obstacle is not None and LOCAL_STORAGE.search(guest.obstacle)
    return guest.obstacle if guest.mobility is Mobility.STOPPED and local else None
