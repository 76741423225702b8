"""What happened, in words for the operator."""

from __future__ import annotations

from opendrs.errors import PlatformError
from opendrs.model import Action, Migration, PowerOff, PowerOn
from opendrs.ports import Platform, Progress

MIB = 1 << 20


def joined(*parts: str) -> str:
    """Return what there is to say, in one line."""
    return "; ".join(part for part in parts if part)


def too_slow(action: Action, patience: float, progress: Progress | None) -> str:
    """Return that *action* took longer than *patience* seconds, and why."""
    if not isinstance(action, Migration):
        return f"did not end within {patience:.0f} s"
    return f"did not converge within {patience:.0f} s{_speeds(progress)}"


def _speeds(progress: Progress | None) -> str:
    if progress is None:
        return ""
    written, sent = progress.dirty_rate, progress.bandwidth
    parts = [
        f"the guest writes {written / MIB:.0f} MiB/s" if written is not None else "",
        f"{sent / MIB:.0f} MiB/s are sent" if sent is not None else "",
    ]
    known = " and ".join(part for part in parts if part)
    return f": {known}" if known else ""


def whereabouts(platform: Platform, action: Action) -> str:
    """Return where the guest is now and whether it runs, if that can be seen."""
    if isinstance(action, PowerOn | PowerOff):
        return ""
    try:
        guest = platform.observe().guests.get(action.guest)
    except PlatformError:
        return f"where {action.guest} is now could not be seen"
    if guest is None:
        return f"{action.guest} is on no node that answers"
    return f"{guest.id} is on {guest.node} ({guest.state})"


def has_arrived(platform: Platform, action: Action) -> bool:
    """Return whether the cluster looks as if *action* was done.

    Raises:
        PlatformError: It cannot be seen.
    """
    snapshot = platform.observe()
    if isinstance(action, PowerOn | PowerOff):
        node = snapshot.nodes.get(action.node)
        return node is not None and node.online is isinstance(action, PowerOn)
    guest = snapshot.guests.get(action.guest)
    return guest is not None and (guest.node, guest.migrating_to) == (
        action.target,
        None,
    )
