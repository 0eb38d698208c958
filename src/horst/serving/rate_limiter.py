"""How much a client may do per second."""

from time import monotonic


class RateLimiter:
    """At most `rate` per second on average, and at most `burst` at once; by default as much as in a second."""

    def __init__(self, rate: float, burst: float | None = None) -> None:
        self.rate, self.burst = rate, rate if burst is None else burst
        self._left, self._updated = self.burst, monotonic()

    def take(self) -> bool:
        """Take one, if there is one left."""
        self._refill()
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def spend(self, amount: float) -> float:
        """Take an amount in any case; the seconds to wait until there was enough."""
        self._refill()
        self._left -= amount
        return max(0.0, -self._left / self.rate)

    def _refill(self) -> None:
        now = monotonic()
        self._left = min(self.burst, self._left + (now - self._updated) * self.rate)
        self._updated = now
