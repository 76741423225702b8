"""Fixtures for the tests of `optimize`."""

from __future__ import annotations

import pytest

from opendrs.optimizer.bounds import whole_groups
from opendrs.policies.optimize import small_cluster


@pytest.fixture
def without_exhaustive_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search in small clusters as in large ones."""
    monkeypatch.setattr(small_cluster, "MAX_PLACEMENTS", 0)
    monkeypatch.setattr(whole_groups, "MAX_PLACEMENTS", 0)
