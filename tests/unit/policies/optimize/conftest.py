"""Fixtures for the tests of `optimize`."""

from __future__ import annotations

import pytest

from opendrs.policies.optimize import small_cluster


@pytest.fixture
def without_exhaustive_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in small clusters as in large ones."""
    monkeypatch.setattr(small_cluster, "MAX_PLACEMENTS", 0)
