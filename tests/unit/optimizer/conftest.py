from __future__ import annotations

import pytest

from opendrs.optimizer import SearchKind, select_search


@pytest.fixture(autouse=True, scope="session")
def compiled_search() -> None:
    """Load the compiled search, which many tests here call without a policy."""
    select_search(SearchKind.COMPILED)
