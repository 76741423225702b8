"""Text form of amounts, times, loads and actions."""

from __future__ import annotations

from rich.text import Text

from opendrs.cli.console import TextCell, printable, supports_unicode
from opendrs.model import Action, PowerOff, PowerOn, path_of, pluralize

UNKNOWN = "?"

# Fractions of the capacity from which a bar is yellow and red.
HIGH_LOAD, CRITICAL_LOAD = 0.7, 0.9

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_PREFIXES = ("", "k", "M", "G", "T", "P", "E")


def format_bytes(size: float | None) -> str:
    """Return *size* in bytes as in `7.5 GiB`; `?` for None."""
    if size is None:
        return UNKNOWN
    value, unit = float(size), 0
    while value >= 1023.95 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[0]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def format_amount(amount: float | None) -> str:
    """Return *amount* with three digits and a decimal prefix, as in `12.5M`.

    It is `?` for None.
    """
    if amount is None:
        return UNKNOWN
    value, prefix = float(amount), 0
    while value >= 999.5 and prefix < len(_PREFIXES) - 1:
        value, prefix = value / 1000, prefix + 1
    return f"{value:.3g}{_PREFIXES[prefix]}"


def format_cores(count: float | None) -> str:
    """Return a number of cores with three significant digits; `?` for None."""
    return (
        UNKNOWN if count is None else f"{count:.3g}" if count < 1000 else f"{count:.0f}"
    )


def format_core_count(count: float) -> str:
    """Return a number of cores with its noun, as in `1 core` or `2.5 cores`."""
    return f"{format_cores(count)} {pluralize(1 if count == 1 else 2, 'core')}"


def format_used_cores(count: float | None) -> str:
    """Return measured cores with two decimals, as in `0.06`; `?` for None."""
    return UNKNOWN if count is None else f"{count:.2f}"


def format_duration(time: float | None) -> str:
    """Return *time* in seconds as in `250 ms`, `12 s`, `3 min 5 s`, `4 h 52 min`."""
    if time is None:
        return UNKNOWN
    if time < 1:
        return f"{time * 1000:.0f} ms"
    minutes, rest = divmod(round(time), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def format_percent(part: float | None) -> str:
    """Return the fraction *part* in percent, padded to four characters."""
    if part is None:
        return f"{UNKNOWN:>4}"
    return f"{min(part, 9.99):4.0%}"


def used_fraction(used: float | None, total: float | None) -> float | None:
    """Return the fraction of *total* that is used; None if unknown."""
    return None if used is None or total is None or total <= 0 else used / total


def load_bar(part: float | None, width: int = 8, prefix: str = "") -> TextCell:
    """Return a bar that is filled to *part*, followed by the percentage.

    Args:
        part: The fraction; None if unknown.
        width: Width of the bar in characters.
        prefix: Text before the bar.
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
    """Return the arrow between two values; ASCII if standard output is not Unicode."""
    return "→" if supports_unicode() else "->"


def describe_action(action: Action) -> str:
    """Return *action* as text, such as `vm1 n1 → n2` or `power on n3`."""
    if isinstance(action, PowerOn):
        return f"power on {printable(action.node)}"
    if isinstance(action, PowerOff):
        return f"power off {printable(action.node)}"
    guest, source, target = path_of(action)
    return f"{printable(guest)} {printable(source)} {arrow()} {printable(target)}"
