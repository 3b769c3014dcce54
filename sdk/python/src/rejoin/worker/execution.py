"""One call, from its claim to its recorded result.

Invariants:
- A function begins only while the worker's registration is known to be alive.
- A result is sent until the API has confirmed or refused it. What is sent twice, or too late, the API recognizes by the attempt.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
from anyio.abc import TaskGroup

from ..calls import Call
from ..errors import APIError, CallCancelledError, RejoinError, ResponseError
from . import requests
from .answers import Piece
from .connection import Connection, is_final
from .context import AsyncCallContext, CallContext
from .handlers import Cancel, Handlers
from .held_calls import HeldCall, HeldCalls, Stop
from .log import log
from .outcomes import Completed, Failed, Interrupted, Outcome, Suspended, text
from .records import Records
from .requests import ClaimedCall
from .steps import Ended, Journal, RecordedStep
from .tools import Tool

T = TypeVar("T")

# How long a result waits for a message about progress that was sent before it.
_PROGRESS_LIMIT_S = 2.0


class Execution:
    """Executes calls."""

    def __init__(
        self, connection: Connection, tools: Mapping[tuple[str, str], Tool[..., Any]], held: HeldCalls, handlers: Handlers, tasks: TaskGroup
    ) -> None:
        self._connection = connection
        self._tools = tools
        self._held = held
        self._handlers = handlers
        self._tasks = tasks
        self._records = Records(connection, tasks)
        self._loop = asyncio.get_running_loop()
        self._cancels: dict[HeldCall, Cancel] = {}
        self._messages: dict[HeldCall, list[str]] = {}
        self._changed = anyio.Event()
        self._closed = False
        self._alive_until_s = time.monotonic() + connection.registration.lease_s
        self.draining = False
        """Whether further calls are handed back."""

    def accept(self, call: ClaimedCall, worker_id: str, claimed_at_s: float) -> None:
        """Begins to execute a call."""
        held = self._held.add(call, worker_id, claimed_at_s + self._connection.registration.lease_s)
        if held is None:
            return
        for older in self._held.older(held):
            self.stop(older, Stop.LOST)
        self._tasks.start_soon(self._execute, held)

    def stop(self, held: HeldCall, why: Stop) -> None:
        """Stops a call's function."""
        cancel = self._cancels.get(held)
        if held.ask_to_stop(why) and cancel is not None:
            log.warning("%s is stopped: %s", held, why.value)
            cancel()
        self._notify()

    def renew(self, until_s: float) -> None:
        """The API has confirmed that it knows this worker: calls that it has handed out until now are valid until then."""
        self._alive_until_s = until_s
        self._notify()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for a condition about the calls."""
        while not condition():
            await self._changed.wait()

    def close(self) -> None:
        """Stops all functions. What their threads send later, nothing waits for."""
        self._closed = True
        for held in self._held.all():
            self.stop(held, Stop.LEAVING)

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _execute(self, held: HeldCall) -> None:
        try:
            await self._record(held, await self._outcome(held))
        finally:
            self._held.remove(held)
            self._notify()

    async def _outcome(self, held: HeldCall) -> Outcome:
        call = held.call
        tool = self._tools.get((call.tool, call.version))
        if tool is None:
            return Failed(f"This worker does not have version {call.version} of the tool {call.tool}.", retry=True)
        if self.draining:
            return Failed("The worker was stopping when it got the call.", retry=True)
        # A process that was paused may read the response to a claim when the lease of its calls has ended.
        await self.until(lambda: held.stop is not None or time.monotonic() < self._alive_until_s)
        if held.stop is not None:
            return Interrupted()
        try:
            journal = Journal(await self._recorded_steps(held))
        except CallCancelledError:
            return Interrupted()
        except RejoinError as error:
            return Failed(text(f"The steps of this call could not be read: {error}"), retry=True)
        ended = anyio.Event()
        outcomes: list[Outcome] = []

        def done(outcome: Outcome) -> None:
            outcomes.append(outcome)
            self.soon(ended.set)

        kind = AsyncCallContext if tool.arguments.is_async else CallContext
        context = kind(
            id=call.id,
            attempt=call.attempt,
            idempotency_key=call.idempotency_key,
            run_id=call.run_id,
            conversation_id=call.conversation_id,
            tool=call.tool,
            version=call.version,
            timeout_s=call.timeout_s,
            checkpoint=call.checkpoint,
            cancellation=held.cancellation,
            link=_Link(self, held),
            journal=journal,
        )
        self._cancels[held] = self._handlers.start(tool, call.input, context, done)
        try:
            with anyio.move_on_after(call.timeout_s) as in_time:
                await ended.wait()
            if in_time.cancelled_caught:
                self.stop(held, Stop.TIMED_OUT)
                await ended.wait()
        finally:
            del self._cancels[held]
        return outcomes[0]

    async def _record(self, held: HeldCall, outcome: Outcome) -> None:
        """Sends the result."""
        with anyio.move_on_after(_PROGRESS_LIMIT_S):
            await self.until(lambda: held not in self._messages)
        result = held.to_record(outcome)
        if isinstance(result, (Completed, Suspended)):
            result = await self._record_one(held, result)
        if isinstance(result, Failed):
            await self._record_one(held, result)

    async def _record_one(self, held: HeldCall, result: Completed | Failed | Suspended) -> Failed | None:
        """Sends a result. If the API refuses it, returns what to send instead."""
        call = requests.result(self._connection.queue, held.worker_id, held.call.id, held.call.attempt, result)
        # After a heartbeat that named the call as cancelled or lost, this is expected.
        level = logging.WARNING if held.stop is None else logging.INFO
        try:
            await self._send_surely(held, call)
        except CallCancelledError as error:
            log.log(level, "a result is not sent again: %s", error)
        except RejoinError as error:
            return _after_refusal(held, result, error)
        return None

    async def _recorded_steps(self, held: HeldCall) -> list[RecordedStep]:
        """Returns the steps that earlier executions of a call have recorded."""
        found: list[RecordedStep] = []
        while len(found) < held.call.steps:
            after = found[-1].number if found else 0
            page = await self._send_surely(held, requests.steps(self._connection.queue, held.call.id, after))
            if not page.items:
                raise ResponseError(f"the call has {held.call.steps} steps, and only {len(found)} are listed")
            found += page.items
        return found

    async def _send_surely(self, held: HeldCall, request: Call[T]) -> T:
        """Sends a request about a call until it is confirmed. Returns the response.

        Raises `CallCancelledError` if the call was lost, and the error if the API refuses the request, or is away for too long.
        """
        limit_s = time.monotonic() + self._connection.limits.retry_s
        pauses = self._connection.pauses()
        while True:
            if held.stop is Stop.LOST:
                raise CallCancelledError(f"{held} has ended, or another attempt has it")
            try:
                return await self._records.send(request)
            except RejoinError as error:
                if isinstance(error, APIError) and error.code == "stale_attempt":
                    self.stop(held, Stop.LOST)
                    raise CallCancelledError(f"{held} was lost: {error}") from error
                # The lease is renewed while only this request fails. Later than that, the API decides whether the result comes too late.
                if is_final(error) or time.monotonic() > max(limit_s, held.lease_until_s):
                    raise
                await self._connection.wait(pauses, error)

    def soon(self, function: Callable[..., None], *args: Any) -> bool:
        """Calls this in the worker's event loop, from any thread. Returns false if that has ended."""
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:
            return False
        return True

    def report(self, held: HeldCall, message: str) -> None:
        """Sends a message about progress. It replaces one that was not sent yet."""
        if self._closed or held.stop is Stop.LOST or held not in self._cancels:
            return
        waiting = self._messages.get(held)
        self._messages[held] = [message]
        if waiting is None:
            self._tasks.start_soon(self._report, held)

    async def _report(self, held: HeldCall) -> None:
        try:
            while self._messages[held]:
                message = self._messages[held].pop()
                call = requests.progress(self._connection.queue, held.worker_id, held.call.id, held.call.attempt, text(message))
                try:
                    await self._connection.run(call, self._connection.registration.lease_s)
                except RejoinError as error:
                    log.info("%s: a message was not sent: %s", held, error)
                    if isinstance(error, APIError) and error.code == "stale_attempt":
                        self.stop(held, Stop.LOST)
        finally:
            del self._messages[held]
            self._notify()

    def store(self, held: HeldCall, value: Any, stored: Future[None]) -> None:
        """Stores a checkpoint."""
        request = requests.checkpoint(self._connection.queue, held.worker_id, held.call.id, held.call.attempt, value)
        self._begin_store(held, request, stored)

    def record(self, held: HeldCall, step: Ended, stored: Future[None]) -> None:
        """Records a step."""
        request = requests.step(self._connection.queue, held.worker_id, held.call.id, held.call.attempt, step)
        self._begin_store(held, request, stored)

    def write(self, held: HeldCall, piece: Piece, written: Future[None]) -> None:
        """Publishes a piece of the answer, or an event."""
        request = requests.write(self._connection.queue, held.worker_id, held.call.id, held.call.attempt, piece)
        self._begin_store(held, request, written)

    def _begin_store(self, held: HeldCall, request: Call[Any], stored: Future[None]) -> None:
        if not stored.set_running_or_notify_cancel():
            return
        if self._closed or held.stop is Stop.LOST or held not in self._cancels:
            stored.set_exception(CallCancelledError(f"{held} has ended"))
        else:
            self._tasks.start_soon(self._store, held, request, stored)

    async def _store(self, held: HeldCall, request: Call[Any], stored: Future[None]) -> None:
        try:
            await self._send_surely(held, request)
        except RejoinError as error:
            stored.set_exception(error)
        except BaseException:
            stored.set_exception(CallCancelledError("the worker ends"))
            raise
        else:
            stored.set_result(None)


class _Link:
    """The way of a context to the worker."""

    def __init__(self, execution: Execution, held: HeldCall) -> None:
        self._execution = execution
        self._held = held

    def progress(self, message: str) -> None:
        self._execution.soon(self._execution.report, self._held, message)

    def store(self, checkpoint: Any) -> Future[None]:
        return self._stored(self._execution.store, checkpoint)

    def record(self, step: Ended) -> Future[None]:
        return self._stored(self._execution.record, step)

    def write(self, piece: Piece) -> Future[None]:
        return self._stored(self._execution.write, piece)

    def _stored(self, store: Callable[[HeldCall, Any, Future[None]], None], value: Any) -> Future[None]:
        stored: Future[None] = Future()
        if not self._execution.soon(store, self._held, value, stored):
            stored.set_exception(CallCancelledError("the worker has ended"))
        return stored


def _after_refusal(held: HeldCall, result: Completed | Failed | Suspended, error: RejoinError) -> Failed | None:
    """Returns what to record instead of a result that the API has not recorded. None: nothing."""
    if isinstance(error, APIError) and error.status in (400, 409, 413, 415, 422):
        if isinstance(result, Completed):
            log.error("%s: the API refuses its output: %s", held, error)
            return Failed(text(f"The tool has completed, but its output was refused: {error.detail}"))
        if isinstance(result, Suspended):
            log.error("%s: the API refuses what it waits for: %s", held, error)
            return Failed(text(f"The tool can't wait for {', '.join(step.name for step in result.steps)}: {error.detail}"))
    log.error("%s: its result can't be recorded: %s", held, error)
    return None
