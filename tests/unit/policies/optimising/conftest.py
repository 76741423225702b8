from __future__ import annotations

import pytest

from opendrs.policies.optimising.searches import SearchKind, chosen_search


@pytest.fixture(autouse=True, scope="session")
def compiled_search() -> None:
    """Load the compiled search, which many tests here call without a policy."""
    chosen_search(SearchKind.COMPILED)
