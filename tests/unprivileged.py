"""Files seen by a user without any right, where tests are run by root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

NOBODY = 65534

by_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user"
)


@contextmanager
def open_directory() -> Iterator[Path]:
    """Make a directory that every user can look into, and only the maker writes to."""
    place = Path(tempfile.mkdtemp(prefix="opendrs-test-"))
    place.chmod(0o755)
    try:
        yield place
    finally:
        shutil.rmtree(place)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Have the rights of nobody inside the `with` statement."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
