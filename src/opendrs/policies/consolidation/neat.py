"""Conventions of OpenStack Neat's own files."""

from __future__ import annotations

import re


def host_names(text: str) -> list[str]:
    """Return the hosts that a `compute_hosts` entry names.

    Everything separates but letters, digits, `-` and `_`: a dot does too, so
    that no name is fully qualified.
    """
    return re.findall(r"[A-Za-z0-9_-]+", text)
