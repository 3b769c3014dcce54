"""An API in this process: it serves a log as the real one does, and does to its responses what networks do."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import httpx

from logs import Json, Log, snapshot
from rejoin import AsyncClient, Client, Limits

KEY = "rejoin_secret_key"
# No test waits for a pause.
QUICK = Limits(pause_min_s=0.0, pause_max_s=0.0)


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A response's body in pieces, for both clients. With `breaks`, the connection is lost at its end."""

    def __init__(self, pieces: Iterable[bytes], breaks: bool = False) -> None:
        self._pieces = list(pieces)
        self._breaks = breaks

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        if self._breaks:
            raise httpx.ReadError("connection reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self:
            yield piece


def frame(seq: int | None, event: Json) -> bytes:
    """A frame as the server writes it."""
    head = "" if seq is None else f"id: {seq}\n"
    return f"{head}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()


def stream(*pieces: bytes, breaks: bool = False, epoch: str | None = None) -> httpx.Response:
    """A response with these bytes of a stream."""
    headers = {"content-type": "text/event-stream"} | ({} if epoch is None else {"x-log-epoch": epoch})
    return httpx.Response(200, headers=headers, stream=Body(pieces, breaks))


def problem(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    """A response that is not a success."""
    return httpx.Response(status, json={"status": status, "code": code, "title": code, "detail": f"{code}.", **more}, headers=headers)


def of_log(log: Log, request: httpx.Request, *, oldest: int = 1, through: int | None = None) -> httpx.Response:
    """The response to a request for the events of a run's log, of which those before `oldest` are no longer stored."""
    log = [one for one in log if through is None or one[0] <= through]
    last = log[-1][0]
    query, cursor = request.url.params, request.headers.get("last-event-id")
    opening = [b"retry: 0\n\n"]
    after = int(cursor) if cursor is not None else int(query.get("after", 0))
    if query.get("from") == "snapshot" and cursor is None:
        return stream(*opening, frame(last, snapshot(log)))
    if after > last or after < oldest - 1:
        gap = frame(None, {"type": "gap", "after": after, "oldest": oldest})
        return stream(*opening, gap, frame(last, snapshot(log)))
    if after == last and log[-1][1]["type"] == "done":
        return httpx.Response(204)
    return stream(*opening, *(frame(seq, event) for seq, event in log if seq > after))


Handler: TypeAlias = Callable[[httpx.Request], httpx.Response]


class ScriptedApi:
    """Answers requests in their order: by the replies, then by `otherwise`."""

    def __init__(self, replies: Sequence[httpx.Response | Exception | Handler] = (), otherwise: Handler | None = None) -> None:
        self.replies: list[httpx.Response | Exception | Handler] = list(replies)
        self.otherwise = otherwise
        self.requests: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0) if self.replies else self.otherwise
        assert reply is not None, f"unexpected: {request.method} {request.url}"
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, httpx.Response) else reply(request)

    @property
    def paths(self) -> list[str]:
        """What was requested."""
        return [f"{request.method} {request.url.raw_path.decode()}" for request in self.requests]

    def client(self, limits: Limits = QUICK, **options: Any) -> Client:
        """A synchronous client of it."""
        return Client("http://api.test/", KEY, limits=limits, transport=httpx.MockTransport(self), **options)

    def async_client(self, limits: Limits = QUICK, **options: Any) -> AsyncClient:
        """An asynchronous client of it."""
        return AsyncClient("http://api.test/", KEY, limits=limits, transport=httpx.MockTransport(self), **options)


def body_of(request: httpx.Request) -> Any:
    """The JSON of a request."""
    return json.loads(request.content)
