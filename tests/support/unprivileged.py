"""Files seen by an unprivileged user, where tests are run by root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

UNPRIVILEGED_UID = 65534

requires_root = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can become another user"
)


@contextmanager
def public_directory() -> Iterator[Path]:
    """Make a directory that every user can look into, and only the maker writes to."""
    directory = Path(tempfile.mkdtemp(prefix="opendrs-test-"))
    directory.chmod(0o755)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


@contextmanager
def unprivileged() -> Iterator[None]:
    """Drop all privileges inside the `with` statement."""
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(UNPRIVILEGED_UID)
    os.seteuid(UNPRIVILEGED_UID)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)
