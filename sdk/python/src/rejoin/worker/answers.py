"""The answer that a function of an agent writes while it works: sent in pieces, one after the other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from .outcomes import storable

PIECE_MAX = 20_000
"""Maximum length of a piece, in characters."""
PENDING_MAX = 100_000
"""How much text may wait to be sent, in characters, until the function waits, too."""


@dataclass(frozen=True)
class Piece:
    """Text that readers get at once."""

    step: int
    number: int
    """Order within the step, from 1."""
    text: str


class Answer:
    """What the steps of one execution write. While a piece is sent, the text that follows is collected. Thread-safe."""

    def __init__(self, send: Callable[[Piece], Future[None]] | None) -> None:
        self._send = send
        self._lock = threading.RLock()
        self._running: list[int] = []
        self._writing: int | None = None
        self._numbers: dict[int, int] = {}
        self._pending = ""
        self._is_sending = False
        self._failure: BaseException | None = None
        self._idle: list[Future[None]] = []
        self._written = ""

    @property
    def written(self) -> str:
        """What was written in this execution."""
        return self._written

    def step_begins(self, number: int) -> None:
        """A step begins."""
        with self._lock:
            self._running.append(number)

    def step_ends(self, number: int, *, keep: bool) -> Future[None]:
        """A step has ended. Done when all that it has written is sent; with `keep=False`, what was not sent yet is dropped."""
        with self._lock:
            if number in self._running:
                self._running.remove(number)
            if self._writing != number:
                return _done()
            self._writing = None
            if keep:
                return self._when_idle()
            self._pending = ""
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
            if self._send is None:
                return _done()
            self._pending += more
            if not self._is_sending:
                self._send_next(self._send, self._writing)
            return self._when_idle() if len(self._pending) > PENDING_MAX else _done()

    def _send_next(self, send: Callable[[Piece], Future[None]], step: int) -> None:
        """Sends what waits. Under the lock."""
        piece, self._pending = self._pending[:PIECE_MAX], self._pending[PIECE_MAX:]
        if not piece:
            self._is_sending = False
            idle, self._idle = self._idle, []
            for waiting in idle:
                _settle(waiting, self._failure)
            return
        self._is_sending = True
        number = self._numbers[step] = self._numbers.get(step, 0) + 1
        sent = send(Piece(step, number, piece))

        def then(done: Future[None]) -> None:
            with self._lock:
                self._failure = self._failure or done.exception()
                if self._failure is not None:
                    self._pending = ""
                self._send_next(send, step)

        # Called at once if the piece could not be sent.
        sent.add_done_callback(then)

    def _drop_failure(self, dropped: Future[None]) -> None:
        """What was not sent does not matter: the step takes its text back."""
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
