# Made by tools/sync_client.py from _async/http.py: do not edit.
"""Sends requests, and turns failures into exceptions. Thin: what to send, and when again, is decided by `calls` and `retries`."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, TypeVar

import httpx

from .. import errors
from ..calls import Call
from ..limits import Limits
from ..retries import Retry
from ..settings import Settings
from ..version import USER_AGENT
from .os import sleep

T = TypeVar("T")


class Http:
    """The connections to one API."""

    def __init__(self, settings: Settings, limits: Limits, transport: httpx.BaseTransport | None = None) -> None:
        self.settings = settings
        self.limits = limits
        # Whether the API has ever responded.
        self._met = False
        self._client = httpx.Client(
            base_url=settings.url,
            headers={"user-agent": USER_AGENT, "accept": "application/json"},
            limits=httpx.Limits(max_connections=limits.connections, max_keepalive_connections=20),
            timeout=self._timeout(limits.answer_s),
            # No proxy for servers on this machine.
            trust_env=transport is None and not settings.is_local,
            transport=transport,
        )

    @property
    def outage_s(self) -> float:
        """How long a stream waits for the API: shortly, if it has never responded."""
        return self.limits.outage_s if self._met else min(self.limits.outage_s, self.limits.first_contact_s)

    def run(self, call: Call[T], content: Any = None) -> T:
        """Sends a request once, and returns its result."""
        usual_s = self.limits.transfer_s if call.is_transfer else self.limits.answer_s
        timeout = self._timeout(usual_s if call.silence_s is None else call.silence_s)
        headers = {**call.headers, **self.settings.headers()}
        try:
            response = self._client.request(
                call.method,
                call.path,
                params=call.params(),
                headers=headers,
                json=call.json,
                content=content or call.content,
                timeout=timeout,
            )
        except httpx.TransportError as error:
            raise self.unreachable(error) from error
        self._met = True
        if not response.is_success:
            raise errors.error_of(response.status_code, response.headers, response.content)
        return call.read(response.content)

    def run_surely(self, call: Call[T]) -> T:
        """Sends a request that may be repeated, until its result is known or the time for retries is used up."""
        retry = Retry(self.limits)
        while True:
            try:
                return self.run(call)
            except errors.RejoinError as error:
                pause_s = retry.pause_s(error, self.limits.retry_s if self._met else self.limits.first_contact_s)
            sleep(pause_s)

    @contextmanager
    def stream(self, call: Call[None], silence_s: float) -> Generator[httpx.Response, None, None]:
        """Opens a stream. The block gets its response, whatever its status, and may raise `httpx.TransportError`."""
        headers = {**call.headers, **self.settings.headers()}
        timeout = self._timeout(silence_s)
        with self._client.stream(call.method, call.path, params=call.params(), headers=headers, timeout=timeout) as response:
            self._met = True
            yield response

    def close(self) -> None:
        """Closes all connections."""
        self._client.close()

    def _timeout(self, silence_s: float) -> httpx.Timeout:
        return httpx.Timeout(silence_s, connect=self.limits.connect_s)

    def unreachable(self, error: httpx.TransportError) -> errors.UnreachableError:
        """Returns the exception for a request without a response."""
        why = str(error) or type(error).__name__
        return errors.UnreachableError(
            f"cannot reach the API at {self.settings.url}: {why} (is it running? `rejoin dev` starts one; `rejoin doctor` checks the setup)"
        )
