"""Amounts, times, loads, actions and reasons as text."""

from __future__ import annotations

from rich.text import Text

from opendrs.cli.console import TextCell, printable, supports_unicode
from opendrs.model import Action, PowerOff, PowerOn
from opendrs.policies import DecisionReason

UNKNOWN = "?"

HIGH_LOAD, CRITICAL_LOAD = (
    0.7,
    0.9,
)  # parts of a capacity from which a bar changes its colour

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_bytes(size: float | None) -> str:
    """Return a number of bytes as in `7.5 GiB`."""
    if size is None:
        return UNKNOWN
    value, unit = float(size), 0
    while value >= 1023.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[0]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def format_cores(count: float | None) -> str:
    """Return a number of cores, with as many digits as matter."""
    return (
        UNKNOWN if count is None else f"{count:.3g}" if count < 1000 else f"{count:.0f}"
    )


def format_duration(time: float | None) -> str:
    """Return a time as in `250 ms`, `12 s`, `3 min 5 s` or `4 h 52 min`."""
    if time is None:
        return UNKNOWN
    if time < 1:
        return f"{time * 1000:.0f} ms"
    minutes, rest = divmod(round(time), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def format_percent(part: float | None) -> str:
    """Return a fraction in percent, as wide as `100%`."""
    if part is None:
        return f"{UNKNOWN:>4}"
    return f"{min(part, 9.99):4.0%}"


def used_fraction(used: float | None, total: float | None) -> float | None:
    """Return what part of *total* is in use; None when that is not known."""
    return None if used is None or total is None or total <= 0 else used / total


def load_bar(part: float | None, width: int = 8, prefix: str = "") -> TextCell:
    """Return a bar that is filled to *part*, and the figure after it.

    Args:
        part: The part; None when it is not known.
        width: The characters of the bar.
        prefix: What is drawn before the bar.
    """
    plain = format_percent(part).strip()
    full, rest = ("█", "░") if supports_unicode() else ("#", ".")
    if part is None:
        return TextCell(Text(f"{prefix}{' ' * width} {format_percent(None)}"), plain)
    filled = min(width, round(part * width))
    styled = Text(prefix)
    styled.append(full * filled, style=_load_style(part))
    styled.append(rest * (width - filled), style="dim")
    return TextCell(styled.append(f" {format_percent(part)}"), plain)


def _load_style(part: float) -> str:
    return (
        "red" if part >= CRITICAL_LOAD else "yellow" if part >= HIGH_LOAD else "green"
    )


def arrow() -> str:
    """Return the sign between before and after."""
    return "→" if supports_unicode() else "->"


def describe_action(action: Action) -> str:
    """Return *action* in words."""
    if isinstance(action, PowerOn):
        return f"wake {printable(action.node)}"
    if isinstance(action, PowerOff):
        return f"put {printable(action.node)} to sleep"
    path = f"{printable(action.source)} {arrow()} {printable(action.target)}"
    return f"{printable(action.guest)} {path}"


_TEXTS = {
    DecisionReason.NO_CANDIDATE: "no feasible move",
    DecisionReason.ALREADY_CONSOLIDATED: "already consolidated",
}


def reason_text(reason: DecisionReason) -> str:
    """Return *reason* in words."""
    return _TEXTS.get(reason, reason.value)
