"""The registration of a worker, and its requests to the API."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import anyio

from .._async.http import AsyncHttp
from ..calls import Call
from ..errors import APIError, NotFoundError, RejoinError, ResponseError, UnreachableError
from ..limits import Limits
from ..retries import Pauses
from . import requests
from .agents import AnyAgent
from .log import log
from .requests import Registration
from .tools import Tool

T = TypeVar("T")

# Beyond the time that a response may take, for its transfer.
_TRANSFER_S = 5.0


@dataclass(frozen=True)
class Announcement:
    """What a worker registers with."""

    queue: str
    name: str
    version: str
    slots: int
    tools: Iterable[Tool[..., Any]]
    agents: Sequence[AnyAgent] = ()


def is_final(error: RejoinError) -> bool:
    """Whether the API itself has refused, so that the same request will not succeed later. Those of a proxy pass with its restart."""
    return isinstance(error, APIError) and not error.temporary and error.code != "http_error"


def is_unknown_worker(error: RejoinError) -> bool:
    """Whether the API does not know the registration."""
    return isinstance(error, APIError) and error.status == 404 and error.code == "worker_unknown"


class Connection:
    """A worker's connection to the API. Requests raise `RejoinError`."""

    def __init__(self, http: AsyncHttp, announcement: Announcement) -> None:
        self._http = http
        self._announcement = announcement
        self._registration: Registration | None = None
        self._registering = anyio.Lock()
        self._away_since_s: float | None = None

    @property
    def limits(self) -> Limits:
        """Timeouts and retries."""
        return self._http.limits

    @property
    def queue(self) -> str:
        """The worker's queue."""
        return self._announcement.queue

    @property
    def is_registered(self) -> bool:
        """Whether there is a registration."""
        return self._registration is not None

    @property
    def registration(self) -> Registration:
        """The current registration."""
        if self._registration is None:
            raise RuntimeError("the worker is not registered yet")
        return self._registration

    def pauses(self) -> Pauses:
        """Returns the pauses between the attempts of one request. They leave time for another attempt within a lease."""
        longest_s = self.limits.pause_max_s
        if self._registration is not None:
            longest_s = min(longest_s, self._registration.heartbeat_s)
        return Pauses(replace(self.limits, pause_max_s=longest_s))

    async def register(self, unknown: Registration | None = None) -> None:
        """Registers, and waits for the API as long as it is away. `unknown`: the registration to replace, unless that has happened."""
        async with self._registering:
            if self._registration is not unknown:
                return
            ours = self._announcement
            call = requests.register(ours.queue, ours.name, ours.version, ours.slots, ours.tools, ours.agents)
            pauses = self.pauses()
            while True:
                try:
                    self._registration = await self.run(call)
                    break
                except RejoinError as error:
                    # A worker that has never been registered may have the URL of something else.
                    if is_final(error) or (unknown is None and not error.temporary):
                        raise
                    await self.wait(pauses, error)
        log.info("worker %s serves queue %s as %s", ours.name, ours.queue, self._registration.worker_id)

    async def run(self, call: Call[T], limit_s: float | None = None) -> T:
        """Sends a request once. `limit_s`: for all of it."""
        if limit_s is None:
            limit_s = (self.limits.answer_s if call.silence_s is None else call.silence_s) + _TRANSFER_S
        try:
            with anyio.fail_after(limit_s):
                response = await self._http.run(call)
        except TimeoutError as error:
            raise UnreachableError(f"the API at {self._http.settings.url} has not responded within {limit_s:g} s") from error
        if self._away_since_s is not None:
            log.warning("the API is back after %.1f s", time.monotonic() - self._away_since_s)
            self._away_since_s = None
        return response

    async def wait(self, pauses: Pauses, error: RejoinError, longest_s: float | None = None) -> None:
        """Waits before the next attempt after this error."""
        if self._away_since_s is None and (error.temporary or isinstance(error, ResponseError)):
            self._away_since_s = time.monotonic()
            log.warning("%s; trying again", error)
        asked_s = (error.retry_after or 0.0) if isinstance(error, APIError) else 0.0
        pause_s = pauses.next_s(min(asked_s, self.limits.retry_after_max_s))
        await anyio.sleep(pause_s if longest_s is None else min(pause_s, longest_s))

    async def leave(self, limit_s: float) -> None:
        """Ends the registration, if the API can be reached. Otherwise its lease expires."""
        if self._registration is None:
            return
        try:
            await self.run(requests.leave(self.queue, self._registration.worker_id), limit_s)
        except NotFoundError:
            log.info("the API has removed the registration before")
        except RejoinError as error:
            log.warning("the worker could not sign off; the API notices by itself within %g s: %s", self._registration.lease_s, error)
