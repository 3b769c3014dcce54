"""What a function publishes while it works: the answer of its agent, and its own events. Sent in pieces, one after the other."""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from .outcomes import storable

PIECE_MAX = 20_000
"""Maximum length of a piece of text, in characters."""
PENDING_MAX = 100_000
"""How much may wait to be sent, in characters, until the function waits, too."""
EVENT_MAX_BYTES = 256 * 1024
"""Maximum size of the data of an event, in bytes of JSON."""
OUTSIDE = 0
"""The number of the step of events that are emitted outside of steps."""

_NAME = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")


@dataclass(frozen=True)
class Emitted:
    """An event that a function has emitted."""

    name: str
    data: Any = None
    """JSON."""


@dataclass(frozen=True)
class Piece:
    """Text, or an event, that readers get at once."""

    step: int
    number: int
    """Order within the step, from 1."""
    text: str = ""
    event: Emitted | None = None


@dataclass
class _Pending:
    """What waits to be sent: text, which grows, or an event."""

    step: int
    text: str = ""
    event: Emitted | None = None
    event_size: int = 0

    @property
    def size(self) -> int:
        """In characters."""
        return len(self.text) + self.event_size


def event_of(name: str, data: Any) -> tuple[Emitted, int]:
    """Returns an event, and the size of its data in bytes of JSON. Raises `ValueError`."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"the name of an event has 1 to 64 letters, digits, _, ., : and -, and is not {name!r}")
    try:
        encoded = to_json(data, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"the data of the event {name!r} is not JSON: {error}") from error
    if len(encoded) > EVENT_MAX_BYTES:
        raise ValueError(f"the data of the event {name!r} has {len(encoded)} bytes, and the limit is {EVENT_MAX_BYTES}; store it elsewhere")
    return Emitted(name, from_json(encoded)), len(encoded)


class Answer:
    """What one execution publishes. While a piece is sent, the text that follows is collected. Thread-safe."""

    def __init__(self, send: Callable[[Piece], Future[None]] | None, *, has_run: bool = True) -> None:
        self._send = send
        self._has_run = has_run
        self._lock = threading.RLock()
        self._running: list[int] = []
        self._writing: int | None = None
        self._numbers: dict[int, int] = {}
        self._pending: deque[_Pending] = deque()
        self._pending_size = 0
        self._is_sending = False
        self._failure: BaseException | None = None
        self._idle: list[Future[None]] = []
        self._written = ""
        self._emitted: list[Emitted] = []

    @property
    def written(self) -> str:
        """The text that was written in this execution."""
        return self._written

    @property
    def emitted(self) -> list[Emitted]:
        """The events that were emitted in this execution, if it sends nothing."""
        return list(self._emitted)

    def step_begins(self, number: int) -> None:
        """A step begins."""
        with self._lock:
            self._running.append(number)

    def step_ends(self, number: int, *, keep: bool) -> Future[None]:
        """A step has ended. Done when all that it has published is sent; with `keep=False`, what was not sent yet is dropped."""
        with self._lock:
            if number in self._running:
                self._running.remove(number)
            if self._writing != number:
                return _done()
            self._writing = None
            if keep:
                return self._when_idle()
            self._pending = deque(one for one in self._pending if one.step != number)
            self._pending_size = sum(one.size for one in self._pending)
            dropped = _begun()
            self._when_idle().add_done_callback(lambda _: self._drop_failure(dropped))
            return dropped

    def write(self, more: str) -> Future[None]:
        """Writes text. Done when it is time for more.

        Raises `RuntimeError` outside of a step, or beside another one, and what has become of earlier pieces.
        """
        more = storable(more)
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if len(self._running) != 1:
                raise RuntimeError(
                    "text is written within a step, `call.step(name, function)`: what a step has written stays, or is taken back, with it"
                    if not self._running
                    else "text can't be written while several steps run"
                )
            self._writing = self._running[0]
            self._written += more
            last = self._pending[-1] if self._pending else None
            if last is not None and last.step == self._writing and last.event is None:
                last.text += more
            elif more:
                self._pending.append(_Pending(self._writing, more))
            self._pending_size += len(more)
            return self._sent()

    def emit(self, event: Emitted, size: int) -> Future[None]:
        """Emits an event. Done when it is time for more; outside of a step, when the event is published. Without a run, it has no readers.

        Raises `RuntimeError` while several steps run, and what has become of earlier pieces.
        """
        with self._lock:
            if self._failure is not None:
                raise self._failure
            if len(self._running) > 1:
                raise RuntimeError("events can't be emitted while several steps run")
            if self._send is None:
                self._emitted.append(event)
            if not self._has_run:
                return _done()
            step = self._running[0] if self._running else OUTSIDE
            self._pending.append(_Pending(step, event=event, event_size=size))
            self._pending_size += size
            if step == OUTSIDE:
                self._sent()
                return self._when_idle()
            self._writing = step
            return self._sent()

    def _sent(self) -> Future[None]:
        """Sends what waits, if nothing is on its way. Done when it is time for more. Under the lock."""
        if self._send is None:
            self._drop_pending()
            return _done()
        if not self._is_sending:
            self._send_next(self._send)
        return self._when_idle() if self._pending_size > PENDING_MAX else _done()

    def _send_next(self, send: Callable[[Piece], Future[None]]) -> None:
        """Sends what waits. Under the lock."""
        piece = self._next()
        if piece is None:
            self._is_sending = False
            idle, self._idle = self._idle, []
            for waiting in idle:
                _settle(waiting, self._failure)
            return
        self._is_sending = True
        sent = send(piece)

        def then(done: Future[None]) -> None:
            with self._lock:
                self._failure = self._failure or done.exception()
                if self._failure is not None:
                    self._drop_pending()
                self._send_next(send)

        # Called at once if the piece could not be sent.
        sent.add_done_callback(then)

    def _next(self) -> Piece | None:
        """Takes the next piece of what waits. Under the lock."""
        if not self._pending:
            return None
        first = self._pending[0]
        number = self._numbers[first.step] = self._numbers.get(first.step, 0) + 1
        piece = Piece(first.step, number, first.text[:PIECE_MAX], first.event)
        first.text = first.text[PIECE_MAX:]
        if not first.text:
            self._pending.popleft()
        self._pending_size -= len(piece.text) + first.event_size
        return piece

    def _drop_pending(self) -> None:
        self._pending.clear()
        self._pending_size = 0

    def _drop_failure(self, dropped: Future[None]) -> None:
        """What was not sent does not matter: the step takes back what it has published."""
        with self._lock:
            self._failure = None
        dropped.set_result(None)

    def _when_idle(self) -> Future[None]:
        idle = _begun()
        if self._is_sending:
            self._idle.append(idle)
        else:
            _settle(idle, self._failure)
        return idle


def _begun() -> Future[None]:
    """Returns a future that its reader can't cancel."""
    begun: Future[None] = Future()
    begun.set_running_or_notify_cancel()
    return begun


def _done() -> Future[None]:
    done = _begun()
    done.set_result(None)
    return done


def _settle(future: Future[None], failure: BaseException | None) -> None:
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
