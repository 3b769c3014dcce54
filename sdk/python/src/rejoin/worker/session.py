"""One stay of a worker at the API: it registers, claims calls, sends heartbeats, and leaves in order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup

from ..errors import RejoinError
from . import requests
from .connection import Connection, is_final, is_unknown_worker
from .execution import Execution
from .handlers import Handlers
from .held_calls import HeldCalls, Stop
from .log import log
from .tools import Tool

# How long the response to a claim may take after the API has confirmed that the worker gets no further calls.
_LAST_CLAIM_S = 1.0
# How long functions may take to stop when the worker leaves.
_STOP_LIMIT_S = 2.0
_LEAVE_LIMIT_S = 3.0
# The smallest duration of a claim without calls: a server that does not wait is not asked again and again.
_CLAIM_MIN_S = 0.25


class StopSignal(Protocol):
    """`anyio.Event` or `asyncio.Event`."""

    async def wait(self) -> Any:
        """Waits until the worker should stop."""


class Session:
    """One stay of a worker at the API."""

    def __init__(self, connection: Connection, tools: Mapping[tuple[str, str], Tool[..., Any]], slots: int, drain_timeout_s: float) -> None:
        self._connection = connection
        self._tools = tools
        self._drain_timeout_s = drain_timeout_s
        self._held = HeldCalls(slots)
        self._handlers = Handlers()
        self._execution: Execution | None = None
        self._error: RejoinError | None = None
        self._ending = anyio.Event()
        self._beat_now = anyio.Event()
        self._drain_confirmed = anyio.Event()
        self._claims_ended = anyio.Event()
        self._claiming = anyio.CancelScope()

    async def run(self, stop: StopSignal | None) -> None:
        """Serves until `stop`, or until the API refuses the worker: raises its error."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._live, tasks)
                if stop is not None:
                    tasks.start_soon(self._until, stop)
                await self._ending.wait()
                if self._execution is not None and self._error is None:
                    await self._drain(self._execution)
                if self._execution is not None:
                    self._execution.close()
                tasks.cancel_scope.cancel()
        finally:
            if self._execution is not None:
                self._execution.close()
            self._handlers.close()
            with anyio.CancelScope(shield=True):
                await self._connection.leave(_LEAVE_LIMIT_S)
        if self._error is not None:
            raise self._error

    async def _until(self, stop: StopSignal) -> None:
        await stop.wait()
        self._ending.set()

    async def _live(self, tasks: TaskGroup) -> None:
        try:
            await self._connection.register()
        except RejoinError as error:
            self._fail(error)
            return
        self._execution = Execution(self._connection, self._tools, self._held, self._handlers, tasks)
        tasks.start_soon(self._heartbeats, self._execution)
        tasks.start_soon(self._claims, self._execution)

    def _fail(self, error: RejoinError) -> None:
        self._error = error
        self._ending.set()

    async def _refused(self, error: RejoinError, registration: requests.Registration) -> bool:
        """Registers again if the API does not know the worker. Returns whether the worker has to end."""
        try:
            if is_unknown_worker(error):
                log.warning("the API has lost this registration; registering again")
                await self._connection.register(registration)
                self._beat()
            elif is_final(error):
                raise error
        except RejoinError as final:
            self._fail(final)
            return True
        return False

    def _beat(self) -> None:
        self._beat_now.set()

    async def _heartbeats(self, execution: Execution) -> None:
        pauses = self._connection.pauses()
        while True:
            self._beat_now = anyio.Event()
            began_s = time.monotonic()
            registration, sent, draining = self._connection.registration, self._held.to_renew(), execution.draining
            attempts = [(held.call.id, held.call.attempt) for held in sent]
            call = requests.heartbeat(self._connection.queue, registration.worker_id, attempts, draining)
            try:
                answer = await self._connection.run(call, registration.lease_s / 2)
            except RejoinError as error:
                if await self._refused(error, registration):
                    return
                if not is_unknown_worker(error):
                    await self._connection.wait(pauses, error, registration.heartbeat_s)
                continue
            pauses.reset()
            for held, why in self._held.renewed(sent, answer, began_s + registration.lease_s):
                execution.stop(held, why)
            execution.renew(began_s + registration.lease_s)
            if draining:
                self._drain_confirmed.set()
            with anyio.move_on_after(began_s + registration.heartbeat_s - time.monotonic()):
                await self._beat_now.wait()

    async def _claims(self, execution: Execution) -> None:
        try:
            with self._claiming:
                await self._claim(execution)
        finally:
            self._claims_ended.set()

    async def _claim(self, execution: Execution) -> None:
        pauses = self._connection.pauses()
        while not execution.draining:
            await execution.until(lambda: self._held.free > 0)
            if execution.draining:
                return
            registration, began_s = self._connection.registration, time.monotonic()
            call = requests.claim(
                self._connection.queue,
                registration.worker_id,
                self._held.free,
                registration.claim_wait_max_s,
                self._connection.limits.answer_s,
            )
            try:
                claimed = await self._connection.run(call)
            except RejoinError as error:
                if await self._refused(error, registration):
                    return
                if not is_unknown_worker(error):
                    await self._connection.wait(pauses, error)
                continue
            pauses.reset()
            for one in claimed.calls:
                execution.accept(one, registration.worker_id, time.monotonic())
            if not claimed.calls:
                await anyio.sleep(max(0.0, began_s + _CLAIM_MIN_S - time.monotonic()))

    async def _drain(self, execution: Execution) -> None:
        """Ends the calls that are here, and takes no others."""
        execution.draining = True
        self._beat()
        log.info("the worker stops; calls that are to end: %d", len(self._held))
        with anyio.move_on_after(self._drain_timeout_s) as in_time:
            # A claim that is cut off might have calls in its response, which would be lost.
            with anyio.move_on_after(self._connection.registration.heartbeat_s):
                await self._drain_confirmed.wait()
                with anyio.move_on_after(_LAST_CLAIM_S):
                    await self._claims_ended.wait()
            self._claiming.cancel()
            await execution.until(lambda: len(self._held) == 0)
        if in_time.cancelled_caught:
            log.warning("calls that have not ended within %g s are left: %s", self._drain_timeout_s, ", ".join(map(str, self._held.all())))
            for held in self._held.all():
                execution.stop(held, Stop.LEAVING)
            with anyio.move_on_after(_STOP_LIMIT_S):
                await execution.until(lambda: len(self._held) == 0)
