"""When a request is sent again, and after which pause. Pure: the clock and the random numbers are arguments.

Pauses have full jitter, so that clients that lost the same server do not all return at once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from .errors import APIError, RejoinError
from .limits import Limits

_DOUBLINGS = 16


class Pauses:
    """The pauses between the attempts of one request or stream."""

    def __init__(self, limits: Limits, fraction: Callable[[], float] | None = None) -> None:
        self._limits = limits
        self._fraction = fraction or random.random
        self._attempt = 0

    def reset(self) -> None:
        """The last attempt was successful."""
        self._attempt = 0

    def next_s(self, at_least_s: float = 0.0, window_s: float = 0.0) -> float:
        """Returns the next pause in seconds. `at_least_s` is the server's `Retry-After`; `window_s`, its `retry:`, widens small pauses."""
        window: float = self._limits.pause_min_s * 2.0 ** min(self._attempt, _DOUBLINGS)
        self._attempt += 1
        window = min(self._limits.pause_max_s, max(window, window_s))
        return max(at_least_s, self._fraction() * window)


class Retry:
    """The attempts of one request."""

    def __init__(self, limits: Limits, clock: Callable[[], float] = time.monotonic) -> None:
        self._pauses = Pauses(limits)
        self._limits = limits
        self._clock = clock
        self._began = clock()

    def pause_s(self, error: RejoinError, limit_s: float) -> float:
        """Returns the pause before the next attempt, in seconds.

        Raises the error if there is no further attempt: it is permanent, or that attempt would begin `limit_s` seconds after the first.
        """
        if not error.temporary:
            raise error
        asked = error.retry_after or 0.0 if isinstance(error, APIError) else 0.0
        if asked > self._limits.retry_after_max_s:
            raise error
        pause = self._pauses.next_s(asked)
        if self._clock() + pause > self._began + limit_s:
            raise error
        return pause
