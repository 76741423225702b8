"""Check of the heartbeats of a guest: one instance, without interruption."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def heartbeat_error(beats: Sequence[int], moves: int) -> str | None:
    """Return why a guest did not run once and without interruption; None if it did.

    Its beats are counted from 1. At each move one of them may be repeated: QEMU
    before 9.0 loses the newest writes of a guest that it emulates when it moves, now
    and then (explained in its commit 03bfc2188f), so that the guest continues with an
    earlier count. Seen in one of 130 slow moves, right after a beat. A guest on
    two hosts at once would repeat each beat.

    Args:
        beats: What it has counted, in the order in which it was said.
        moves: How often it was moved, or was to be.
    """
    if not beats:
        return "it has never beaten"
    if list(beats) != sorted(beats) or beats[0] != 1:
        return "it was started anew, or ran twice"
    if any(after - before > 1 for before, after in pairwise(beats)):
        return "beats are lost"
    repeated = [before for before, after in pairwise(beats) if before == after]
    if any(after - before <= 1 for before, after in pairwise(repeated)):
        return f"it ran twice: {repeated} are repeated"
    if len(repeated) > moves:
        return f"{repeated} are repeated, in {moves} moves"
    return None
