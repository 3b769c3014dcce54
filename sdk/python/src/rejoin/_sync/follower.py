# Made by tools/sync_client.py from _async/follower.py: do not edit.
"""Follows a log over the network: connects a `LogReader`."""

from __future__ import annotations

from collections.abc import Iterator

import httpx

from ..errors import UnreachableError, error_of
from ..events import Event
from ..log_reader import LogReader
from ..transcript import Transcript
from .http import Http
from .os import sleep


class Follower:
    """The events of a log, each once and in order, through lost connections, restarted servers and killed workers.

    Iterate it: `for event in follower`. The connection is opened by the iteration and closed with it. A later iteration continues
    where the previous one was left; only one at a time is possible. `transcript` is the state after the events that were received, which
    may be a few more than those that were returned.
    """

    def __init__(self, http: Http, reader: LogReader) -> None:
        self._http = http
        self._reader = reader
        self._iteration = 0

    @property
    def transcript(self) -> Transcript:
        """The messages and turns so far."""
        return self._reader.transcript

    @property
    def cursor(self) -> int | None:
        """The number of the last event that was returned. Store it, and pass it as `after` to continue in another process."""
        return self._reader.cursor

    def __iter__(self) -> Iterator[Event]:
        """Returns the events, reconnecting as often as needed.

        Raises `APIError` if the server refuses permanently, and `UnreachableError` after `Limits.outage_s` without a response.
        """
        return self._events(None)

    def _events(self, timeout_s: float | None) -> Iterator[Event]:
        reader = self._reader
        reader.begin(timeout_s)
        # The newest iteration takes over from one that was left and is not closed yet.
        self._iteration += 1
        mine = self._iteration
        while True:
            while (event := reader.next_event()) is not None:
                yield event
                if mine != self._iteration:
                    return
            if reader.over:
                return
            pause_s: float | None = None
            lost: UnreachableError | None = None
            try:
                with self._http.stream(reader.request(), reader.silence_s()) as response:
                    if not response.is_success:
                        refusal = error_of(response.status_code, response.headers, response.read())
                        pause_s = reader.refused(refusal, self._http.outage_s)
                    elif reader.connected(response.status_code, response.headers):
                        for data in response.iter_raw():
                            if mine != self._iteration:
                                return
                            reader.receive(data)
                            while (event := reader.next_event()) is not None:
                                yield event
                                if mine != self._iteration:
                                    return
                            if reader.unusable or reader.over:
                                break
            except httpx.TransportError as error:
                lost = self._http.unreachable(error)
            if reader.over:
                continue
            if pause_s is None:
                pause_s = reader.lost(lost, self._http.outage_s)
            if pause_s > 0:
                sleep(pause_s)
