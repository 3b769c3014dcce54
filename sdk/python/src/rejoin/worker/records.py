"""Steps and outputs of different calls on their way to the API.

While requests are on their way, further records gather, and the next request takes them together: so a worker with many calls sends few
requests. A record that is alone is sent as a request of its call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar, cast

import anyio
from anyio.abc import TaskGroup

from ..calls import Call
from ..errors import APIError, RejoinError, ResponseError, problem_error
from . import requests
from .connection import Connection
from .requests import Recorded, Recording

T = TypeVar("T")

# Maximum number of requests on their way. With two, the API works on one while the next is made.
_REQUESTS_MAX: Final = 2
# Maximum size of a record that is sent with others, and of all that are sent together, in bytes of JSON.
_RECORD_MAX_BYTES: Final = 64 * 1024
_TOGETHER_MAX_BYTES: Final = 1024 * 1024


@dataclass
class _Waiting:
    request: Recording
    json: bytes
    _done: anyio.Event = field(default_factory=anyio.Event)
    _outcome: Recorded | RejoinError | None = None

    def end(self, outcome: Recorded | RejoinError) -> None:
        self._outcome = outcome
        self._done.set()

    async def ended(self) -> Recorded:
        while self._outcome is None:
            await self._done.wait()
        if isinstance(self._outcome, RejoinError):
            raise self._outcome
        return self._outcome


class Records:
    """The records of a worker. To be used in its event loop."""

    def __init__(self, connection: Connection, tasks: TaskGroup) -> None:
        self._connection = connection
        self._tasks = tasks
        self._waiting: list[_Waiting] = []
        self._on_their_way = 0

    async def send(self, request: Call[T]) -> T:
        """Sends a request about a call once."""
        if isinstance(request, Recording):
            return cast("T", await self._send_record(request))
        return await self._run(request)

    async def _send_record(self, request: Recording) -> Recorded:
        if self._connection.registration.records_max < 2:
            return await self._run(request)
        encoded = json.dumps(request.record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        if len(encoded) > _RECORD_MAX_BYTES:
            return await self._run(request)
        waiting = _Waiting(request, encoded)
        self._waiting.append(waiting)
        self._send_soon()
        return await waiting.ended()

    async def _run(self, request: Call[T]) -> T:
        return await self._connection.run(request, self._connection.registration.lease_s)

    def _send_soon(self) -> None:
        """Sends in the next turn of the event loop: functions whose steps were confirmed together record the next ones together."""
        if self._waiting and self._on_their_way < _REQUESTS_MAX:
            self._on_their_way += 1
            self._tasks.start_soon(self._send_next)

    async def _send_next(self) -> None:
        try:
            taken = self._take()
            if len(taken) == 1:
                await self._send_alone(taken[0])
            elif taken:
                await self._send_together(taken)
        finally:
            self._on_their_way -= 1
        self._send_soon()

    def _take(self) -> list[_Waiting]:
        """Takes the records of the next request: in their order, those of one registration."""
        count, size = 0, 0
        for one in self._waiting:
            size += len(one.json)
            is_other = one.request.worker_id != self._waiting[0].request.worker_id
            if count > 0 and (is_other or count >= self._connection.registration.records_max or size > _TOGETHER_MAX_BYTES):
                break
            count += 1
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return taken

    async def _send_alone(self, one: _Waiting) -> None:
        try:
            recorded = await self._run(one.request)
        except RejoinError as error:
            one.end(error)
        else:
            one.end(recorded)

    async def _send_together(self, sent: Sequence[_Waiting]) -> None:
        first = sent[0].request
        request = requests.records(first.queue, first.worker_id, [one.json for one in sent])
        try:
            answers = (await self._run(request)).records
            if len(answers) != len(sent):
                raise ResponseError(f"{len(sent)} records were sent, and {len(answers)} were answered")
        except (APIError, ResponseError):
            # What the API refuses as a whole, such as one of another version, it may take one by one.
            async with anyio.create_task_group() as tasks:
                for one in sent:
                    tasks.start_soon(self._send_alone, one)
            return
        except RejoinError as error:
            for one in sent:
                one.end(error)
            return
        for one, answer in zip(sent, answers, strict=True):
            one.end(Recorded(status=answer.status) if answer.problem is None else problem_error(answer.problem))
