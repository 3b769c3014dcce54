"""The client: messages, runs, questions, files and lists."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from uuid import uuid4

import httpx
from pydantic import BaseModel

from .. import calls
from ..calls import After, Attachment, Id, OnBusy, Query
from ..errors import NotFoundError, ResponseError
from ..events import SnapshotEvent
from ..limits import Limits
from ..log_reader import LogReader
from ..records import (
    Accepted,
    Cancelled,
    CatalogueModel,
    Conversation,
    File,
    ListedAgent,
    Message,
    Question,
    Run,
    Steered,
)
from ..settings import ApiKey, resolve
from .follower import AsyncFollower
from .http import AsyncHttp
from .os import chunks, size_bytes
from .pages import AsyncPages
from .turn import AsyncTurn


class AsyncClient:
    """A client of one Rejoin API.

    Without arguments, it reads REJOIN_URL, REJOIN_API_KEY and REJOIN_PROJECT_ID. On a machine with `rejoin dev`, it needs none of them.
    Only `send` retries. All methods may raise `APIError` (by status, such as `NotFoundError`), `UnreachableError` and `ResponseError`.
    Use it as a context manager, or close it with `aclose`.

    - `url`: the API's URL.
    - `api_key`: an API key or a token, or a function that returns one for each request.
    - `project_id`: selects one of the user's projects. Default: the key's own.
    - `limits`: timeouts, retries and sizes.
    - `transport`: replaces the network, for tests.

    Raises `ConfigurationError` if no key is known.
    """

    def __init__(
        self,
        url: str | None = None,
        api_key: ApiKey | None = None,
        project_id: Id | None = None,
        *,
        limits: Limits | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        settings = resolve(url, api_key, None if project_id is None else str(project_id))
        self._project_id = settings.project_id
        self._http = AsyncHttp(settings, limits or Limits(), transport)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections. Runs go on."""
        await self._http.aclose()

    @property
    def url(self) -> str:
        """The API's URL."""
        return self._http.settings.url

    @property
    def limits(self) -> Limits:
        """Timeouts, retries and sizes."""
        return self._http.limits

    async def send(
        self,
        message: str,
        *,
        conversation_id: Id | None = None,
        agent: Id | None = None,
        on_busy: OnBusy | None = None,
        output_schema: Mapping[str, Any] | type[BaseModel] | None = None,
        attachments: Iterable[Attachment] = (),
        client_turn_id: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> AsyncTurn:
        """Sends a message, and returns its turn as soon as the message is stored.

        It is stored once: after a lost response, and while the server is unreachable or busy, the message is sent again with its
        idempotency key, for at most `Limits.retry_s` seconds.

        - `conversation_id`: None starts a new conversation.
        - `agent`: name or id of the new conversation's agent. None: no agent, a plain chat. An existing conversation keeps its agent.
        - `on_busy`: what to do while a run of the conversation is active. `answer` (default): the message answers that run's open
          questions, and the returned turn is that run's; without open questions, it is queued. `enqueue`: it is queued. `reject`: raises
          `ConflictError`. `interrupt`: that run is cancelled.
        - `output_schema`: JSON Schema of an object, or a pydantic model. The answer is JSON that matches it: `result().output`.
        - `attachments`: files that were uploaded before, or their ids; at most 10.
        - `client_turn_id`: your own idempotency key, at most 255 characters; store it to be able to repeat the call after a restart of your
          program. The same key with another message raises `IdempotencyError`.
        - `extra`: further fields of the request, as on the wire.

        Raises `NotFoundError` if there is no such agent or conversation.
        """
        key = uuid4().hex if client_turn_id is None else client_turn_id
        call = calls.send(
            message,
            client_turn_id=key,
            conversation_id=conversation_id,
            agent_id=None if agent is None else await self._agent_id(agent),
            on_busy=on_busy,
            output_schema=output_schema,
            attachments=attachments,
            extra=extra,
        )
        return self._turn(await self._http.run_surely(call), key)

    def follow(self, conversation_id: Id, *, after: After = None) -> AsyncFollower:
        """Follows a conversation: all its runs, without end.

        `after`: None begins with a snapshot of the current state; a number, with the events after it (0: all); `now`, with what is new.
        """
        return AsyncFollower(self._http, LogReader(calls.path("conversations", conversation_id), after, self.limits))

    def follow_run(self, run_id: Id, *, after: After = 0) -> AsyncFollower:
        """Follows a run with its sub-agents, until it ends. `after`: as in `follow`; by default, all its events."""
        return AsyncFollower(self._http, LogReader(calls.path("runs", run_id), after, self.limits, run_id=str(run_id)))

    async def snapshot(self, conversation_id: Id) -> SnapshotEvent:
        """Returns the state of a conversation: its newest 200 messages, and the active turn so far.

        `follow(conversation_id, after=snapshot.through)` continues from there.
        """
        return await self._snapshot(LogReader(calls.path("conversations", conversation_id), None, self.limits))

    async def snapshot_run(self, run_id: Id) -> SnapshotEvent:
        """Returns the state of a run."""
        return await self._snapshot(LogReader(calls.path("runs", run_id), None, self.limits, run_id=str(run_id)))

    async def run(self, run_id: Id) -> Run:
        """Returns a run."""
        return await self._http.run(calls.run(run_id))

    async def cancel(self, run_id: Id) -> Cancelled:
        """Cancels a run and its descendants. Idempotent: a run that has ended is unchanged."""
        return await self._http.run(calls.cancel(run_id))

    async def steer(self, run_id: Id, message: str) -> Steered:
        """Sends a message to an active run, which reads it before its next step. Raises `ConflictError` if the run has ended."""
        return await self._http.run(calls.steer(run_id, message))

    async def signal(self, run_id: Id, name: str, data: Any = None) -> bool:
        """Sends an event to a run, for a tool that waits for it with `wait_for_event`. If none waits, it is kept for the next one.

        Returns whether a tool goes on with it. Raises `ConflictError` if the run has ended.
        """
        return await self._http.run(calls.signal(run_id, name, data))

    async def resume(self, run_id: Id, message: str | None = None) -> AsyncTurn:
        """Resumes a paused run, and returns its new turn. Raises `ConflictError` if it is not paused."""
        resumed = await self._http.run(calls.resume(run_id, message))
        run = await self._http.run(calls.run(run_id))
        accepted = Accepted(
            conversation_id=run.conversation_id or "", message_id=run.message_id or "", run_id=resumed.run_id, cursor=resumed.cursor
        )
        return self._turn(accepted, None)

    async def answer(self, question_id: Id, answer: Any, *, replacement: Any = None) -> Question:
        """Answers a question; when all questions of its step are answered, the run continues.

        `answer` is a text, an option's value, a list of values; for an approval `approve`, `edit` or `refuse`; for a call that the client
        executes, its output. `replacement`: with `edit`, the new arguments of the call.

        Raises `BadRequestError` if the answer does not fit, and `ConflictError` if the question is closed.
        """
        return await self._http.run(calls.answer(question_id, answer, replacement))

    async def question(self, question_id: Id) -> Question:
        """Returns a question."""
        return await self._http.run(calls.question(question_id))

    def questions(self, *, status: str | None = "pending", limit: int | None = None) -> AsyncPages[Question]:
        """Lists questions, oldest first. `status`: `pending`, `answered`, `expired`, `cancelled`; None: all. `limit`: items per page."""
        return AsyncPages(self._http, calls.questions(status, limit))

    async def conversation(self, conversation_id: Id) -> Conversation:
        """Returns a conversation."""
        return await self._http.run(calls.conversation(conversation_id))

    def conversations(self, *, text: str | None = None, limit: int | None = None) -> AsyncPages[Conversation]:
        """Lists the user's conversations, last used first. `text`: only those that contain it. `limit`: items per page."""
        return AsyncPages(self._http, calls.conversations(text, limit))

    def messages(self, conversation_id: Id, *, limit: int | None = None) -> AsyncPages[Message]:
        """Lists the messages of a conversation, oldest first. `limit`: items per page."""
        return AsyncPages(self._http, calls.messages(conversation_id, limit))

    async def upload(self, file: str | os.PathLike[str] | bytes, *, name: str | None = None, media_type: str | None = None) -> File:
        """Uploads a file: an image, a PDF, audio or text; from a path, or as bytes.

        A file that no message refers to is deleted after a day. `name`: default is the path's name. `media_type`: default is what the
        server detects in the content.

        Raises `FileRefusedError` if it is too large or of another type, and `BadRequestError` if it is empty or malformed.
        """
        if isinstance(file, bytes):
            return await self._http.run(calls.upload(name, media_type, len(file)), content=file)
        path = Path(file)
        call = calls.upload(name or path.name, media_type, await size_bytes(path))
        return await self._http.run(call, content=chunks(path))

    async def download(self, file_id: Id) -> bytes:
        """Returns the content of a file."""
        return await self._http.run(calls.download(file_id))

    async def file(self, file_id: Id) -> File:
        """Returns the description of a file."""
        return await self._http.run(calls.file(file_id))

    def files(self, *, limit: int | None = None) -> AsyncPages[File]:
        """Lists the user's files, newest first. `limit`: items per page."""
        return AsyncPages(self._http, calls.files(limit))

    async def delete_file(self, file_id: Id) -> None:
        """Deletes a file. Messages keep its name."""
        await self._http.run(calls.delete_file(file_id))

    async def models(
        self, text: str | None = None, *, provider: str | None = None, can: Iterable[str] = (), retired: bool = False
    ) -> list[CatalogueModel]:
        """Lists the models of the catalogue. `text`: a part of the name. `can`: required capabilities, such as `tools` and `images`."""
        return await self._http.run(calls.models(text, provider, can, retired))

    async def agents(self) -> list[ListedAgent]:
        """Lists the agents that can be chosen for a conversation, by name."""
        if self._project_id is None:
            self._project_id = (await self._http.run(calls.caller())).project_id
        return [agent async for agent in AsyncPages(self._http, calls.agents(self._project_id))]

    async def request(self, method: str, path: str, *, json: Any = None, query: Query | None = None) -> Any:
        """Sends any other request, such as `request("GET", "/api/me")`, and returns its JSON; None if the response is empty."""
        return await self._http.run(calls.any_request(method, path, json, query))

    async def _agent_id(self, agent: Id) -> Id:
        if calls.is_id(agent):
            return agent
        agents = await self.agents()
        found = next((known.id for known in agents if known.name == agent), None)
        if found is None:
            names = ", ".join(known.name for known in agents) or "none"
            raise NotFoundError(404, "agent_not_found", f"this project has no agent named {agent}; its agents: {names}")
        return found

    def _turn(self, accepted: Accepted, client_turn_id: str | None) -> AsyncTurn:
        path = calls.path("runs", accepted.run_id)
        reader = LogReader(path, accepted.cursor, self.limits, run_id=accepted.run_id, one_turn=True)
        return AsyncTurn(self._http, reader, accepted, client_turn_id)

    async def _snapshot(self, reader: LogReader) -> SnapshotEvent:
        async for event in AsyncFollower(self._http, reader):
            if isinstance(event, SnapshotEvent):
                return event
        raise ResponseError("the stream has ended without a snapshot")
