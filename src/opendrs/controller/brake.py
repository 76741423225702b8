"""How the operator stops what is being executed."""

from __future__ import annotations


class Brake:
    """Pulled once, no new step starts; pulled twice, running ones are aborted.

    It may be pulled from a signal handler: all that happens is an addition.
    """

    def __init__(self) -> None:
        self._pulls = 0

    def pull(self) -> None:
        """Stop; or, if stopping already, abort."""
        self._pulls += 1

    @property
    def stopping(self) -> bool:
        """Return whether no new step is to start."""
        return self._pulls > 0

    @property
    def aborting(self) -> bool:
        """Return whether running steps are to be aborted as well."""
        return self._pulls > 1
