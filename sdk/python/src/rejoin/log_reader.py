"""Follows one log, without I/O: decides what to request next, takes bytes in, and keeps the transcript. Followers connect it to a network.

Invariants: every event is returned once, in order; a connection that closes before the end of the log is replaced by one that continues at
the cursor; a cursor that the server can't serve (retention has passed it, or the database was restored) is replaced by a snapshot.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from .calls import After, Call, nothing
from .errors import APIError, RejoinError, ResponseError, RunTimeoutError, UnreachableError
from .events import (
    CaughtUpEvent,
    DoneEvent,
    Event,
    GoawayEvent,
    OpenEvent,
    RewoundEvent,
    SnapshotEvent,
    SubAgentEvent,
    UnknownEvent,
    parse_event,
)
from .limits import Limits
from .retries import Pauses
from .sse import Frame, SseParser
from .transcript import Transcript

# Events without which a transcript would be wrong: one that can't be read makes its connection unusable.
_NEEDED = ("message", "token", "reset", "done", "snapshot", "rewound")


class LogReader:
    """The state of a follower: its cursor, its transcript, and the events that were received and not yet returned."""

    def __init__(
        self,
        path: str,
        after: After,
        limits: Limits,
        *,
        run_id: str | None = None,
        one_turn: bool = False,
        clock: Callable[[], float] = time.monotonic,
        fraction: Callable[[], float] | None = None,
    ) -> None:
        """`path` is the log's. None for `after` begins with a snapshot. `one_turn` ends with the first `done` of the run."""
        self.transcript = Transcript()
        self.over = False
        """Whether the log has ended, and all its events were received."""
        self.unusable = False
        """Whether this connection must be closed and replaced."""
        self._path = path
        # Of one run: its events have gaps between their numbers, and an end.
        self._run_id = run_id
        self._one_turn = one_turn
        self._limits = limits
        self._clock = clock
        # The last event that was received, and the last one that was returned.
        self._cursor = after if isinstance(after, int) else None
        self._returned = self._cursor
        # The epoch of the database in which the events up to the cursor were received, as the server names it.
        self._epoch: str | None = None
        self._start: dict[str, str] = {} if isinstance(after, int) else {"after": "now"} if after == "now" else {"from": "snapshot"}
        self._parser = SseParser(limits.line_max_bytes)
        self._received: deque[Event] = deque()
        self._pauses = Pauses(limits, fraction)
        self._retry_s = 0.0
        self._heard_at = clock()
        self._deadline: float | None = None
        # How often it has started with a snapshot since the last event after one.
        self._rejoins = 0
        self._bad_frames = 0
        # The server may request no pause: what was received last needs no more than the word that the run is over.
        self._at_once = False

    @property
    def cursor(self) -> int | None:
        """The number of the last event that was returned. None: none was yet, and the log is read from a snapshot or from now on."""
        return self._returned

    def begin(self, timeout_s: float | None = None) -> None:
        """Reading begins, or continues after a pause of the program. It must end within `timeout_s`; None: no limit."""
        self._heard_at = self._clock()
        self._deadline = None if timeout_s is None else self._clock() + timeout_s

    def next_event(self) -> Event | None:
        """Returns the next event that was received. None: there is none at the moment."""
        if not self._received:
            return None
        event = self._received.popleft()
        if event.seq is not None:
            self._returned = event.seq
        elif isinstance(event, CaughtUpEvent) and self._returned is None:
            self._returned = event.through
        return event

    def request(self) -> Call[None]:
        """Returns the request for the next connection."""
        headers = {"accept": "text/event-stream"}
        query: dict[str, Any] = {"on_gap": "event"}
        if self._cursor is None:
            query |= self._start
        else:
            headers["last-event-id"] = str(self._cursor)
            if self._epoch is not None:
                query["epoch"] = self._epoch
        self.unusable = False
        self._at_once = False
        self._parser = SseParser(self._limits.line_max_bytes)
        return Call("GET", f"{self._path}/events", nothing, query, headers=headers)

    def silence_s(self) -> float:
        """Returns after how many seconds without a byte the next connection is dead."""
        if self._deadline is None:
            return self._limits.silence_s
        return max(0.0, min(self._limits.silence_s, self._deadline - self._clock()))

    def connected(self, status: int, headers: Mapping[str, str]) -> bool:
        """A request was successful, with these headers of the response. False: it is not a stream."""
        self.over = status == 204
        # Otherwise a proxy has answered.
        is_stream = not self.over and headers.get("content-type", "").startswith("text/event-stream")
        if is_stream:
            self._epoch = headers.get("x-log-epoch", self._epoch)
        return is_stream

    def receive(self, data: bytes) -> None:
        """Takes bytes of the current connection in. Raises `RunTimeoutError`, and `ResponseError` if several connections were unusable."""
        self._heard_at = self._clock()
        try:
            frames = self._parser.push(data)
            for frame in frames:
                self._take(frame)
                if self.unusable or self.over:
                    break
        except (ValueError, ResponseError):
            self._bad_frame()
        self._retry_s = self._parser.retry_s or self._retry_s
        if not self.over:
            self._check_deadline()

    def refused(self, error: APIError, limit_s: float) -> float:
        """The server has refused the request. Returns the pause before the next one, in seconds.

        Raises the error if it is permanent, or if the last byte of a stream came more than `limit_s` seconds ago.
        """
        asked_s = 0.0
        if error.status == 410 or (error.code in ("cursor_ahead", "cursor_rewound") and self._cursor is not None):
            # The server knows no `on_gap`.
            if error.status != 410:
                self.transcript.clear()
            self._rejoin()
        elif error.temporary:
            asked_s = min(error.retry_after or 0.0, self._limits.retry_after_max_s)
        else:
            raise error
        return self._pause_s(error, limit_s, asked_s)

    def lost(self, error: RejoinError | None, limit_s: float) -> float:
        """The connection has ended, or could not be made. Returns the pause before the next one, in seconds.

        Raises the error, or `UnreachableError`, if the last byte came more than `limit_s` seconds ago.
        """
        return self._pause_s(error, limit_s)

    def _pause_s(self, error: RejoinError | None, limit_s: float, asked_s: float = 0.0) -> float:
        self._check_deadline()
        if self._clock() - self._heard_at > limit_s:
            raise error or UnreachableError(f"no events for {limit_s:g} s; nothing is lost: read on later, after event {self._cursor}")
        pause_s = 0.0 if self._at_once else self._pauses.next_s(asked_s, self._retry_s)
        return pause_s if self._deadline is None else max(0.0, min(pause_s, self._deadline - self._clock()))

    def _check_deadline(self) -> None:
        if self._deadline is not None and self._clock() >= self._deadline:
            raise RunTimeoutError("the run has not ended in time; it continues: wait again, or cancel it")

    def _take(self, frame: Frame) -> None:
        data: Any = json.loads(frame.data)
        seq = int(frame.id) if frame.id is not None and frame.id.isascii() and frame.id.isdigit() else None
        event = parse_event(data, seq)
        if isinstance(event, UnknownEvent) and event.name in _NEEDED:
            raise ResponseError(f"the event {seq} of type {event.name} is not as this version knows it")
        # Whatever is understood is a sign of health.
        self._pauses.reset()
        match event:
            case GoawayEvent():
                self.unusable = True
            case OpenEvent():
                pass
            case RewoundEvent():
                self.transcript.clear()
                self._cursor = None
                self._start = {"from": "snapshot"}
                self._received.append(event)
            case CaughtUpEvent() if self._cursor is None:
                # It began with what is new: from here on, nothing is missed.
                self._cursor = event.through
                self._received.append(event)
            case _ if seq is not None and not self._log(seq, event):
                pass
            case _:
                self._received.append(event)

    def _log(self, seq: int, event: Event) -> bool:
        """Takes in an event of the log. False: it is not returned."""
        cursor = self._cursor
        if isinstance(event, SnapshotEvent):
            if cursor is not None and seq < cursor:
                # The database was restored to an earlier state: the events after it have never been.
                self.transcript.clear()
        elif cursor is not None:
            if seq <= cursor:
                return False
            # The numbers of a conversation have no gaps.
            if self._run_id is None and seq > cursor + 1:
                self._rejoin()
                return False
        if not self.transcript.apply(event):
            # It discards a part of what a snapshot contains: the next snapshot is without it.
            self._rejoin()
            return False
        self._cursor = seq
        self._bad_frames = 0
        if not isinstance(event, SnapshotEvent):
            self._rejoins = 0
        # The run may be over: then the next response is 204.
        self._at_once = self._run_id is not None and _ended(event) == self._run_id
        self.over = self._at_once and self._one_turn
        return True

    def _rejoin(self) -> None:
        """Continues with a snapshot: at once, unless the last one did not help."""
        self._rejoins += 1
        self._cursor = None
        self._start = {"from": "snapshot"}
        self.unusable = True
        self._at_once = self._rejoins == 1

    def _bad_frame(self) -> None:
        self.unusable = True
        self._bad_frames += 1
        if self._bad_frames >= self._limits.unusable_frames:
            raise ResponseError("the server's streams can't be read: is the URL that of a Rejoin API, and does a proxy change responses?")


def _ended(event: Event) -> str | None:
    """Returns the run that has ended with this event."""
    if isinstance(event, DoneEvent) or (isinstance(event, SubAgentEvent) and event.status != "started"):
        return event.run_id
    return None
