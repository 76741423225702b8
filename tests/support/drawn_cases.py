"""The numbers of drawn cases: usually few, and more in `make explore`."""

from __future__ import annotations

import os


def seeds(usual: int, explored: int) -> range:
    """Return the seeds of drawn cases.

    Args:
        usual: Their number in each run.
        explored: Their number in `make explore`, which sets OPENDRS_EXPLORE.
    """
    return range(explored if "OPENDRS_EXPLORE" in os.environ else usual)
