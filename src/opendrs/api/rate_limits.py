"""Rate limit of requests: a token bucket for each client."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

RATE, BURST = 100.0, 500.0  # requests of an address, a token or a node
MAX_CLIENTS = 10_000  # that are remembered


class RateLimiter:
    """Token buckets by client. Used by the thread of the event loop.

    Args:
        rate: Requests per second in the long run.
        burst: Requests at once.
        monotonic: Returns seconds that never decrease.

    Source:
        Token bucket as in RFC 2697, with one rate.
    """

    def __init__(
        self, rate: float, burst: float, monotonic: Callable[[], float]
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_time(self, client: str, cost: float = 1.0) -> float:
        """Take *cost* from the bucket of *client*; return 0 if it had that much.

        Otherwise nothing is taken, and the result is the seconds until it has.
        """
        now = self._monotonic()
        level, at = self._buckets.pop(client, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        missing = cost - level
        if missing <= 0:
            level -= cost
        self._buckets[client] = level, now
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return max(0.0, missing / self._rate)

    def take(self, client: str, cost: float) -> None:
        """Take *cost* from the bucket of *client*, at most what it has."""
        level, at = self._buckets.get(client, (self._burst, self._monotonic()))
        self._buckets[client] = max(0.0, level - cost), at


def request_limiter(monotonic: Callable[[], float]) -> RateLimiter:
    """Return a limiter of the requests of addresses, tokens or nodes.

    Args:
        monotonic: Returns seconds that never decrease.
    """
    return RateLimiter(RATE, BURST, monotonic)
