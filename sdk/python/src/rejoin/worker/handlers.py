"""Runs the functions of tools: those with `def` each in a thread, those with `async def` in one event loop, in another thread.

The threads are daemons: a function that never ends does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeAlias

from ..errors import CallCancelledError, RetryCall, ToolFailure
from .arguments import ArgumentsError
from .context import AsyncCallContext, CallContext
from .log import log
from .outcomes import Failed, Interrupted, Outcome, Suspended, of_exception, of_result
from .steps import Suspend
from .tools import Tool

Done: TypeAlias = Callable[[Outcome], None]
"""Gets the outcome, in any thread."""

Cancel: TypeAlias = Callable[[], None]
"""Stops a function, from any thread. Functions with `def` stop when they look at their context."""

_BEGIN_LIMIT_S = 10.0


class Handlers:
    """The threads of the functions."""

    def __init__(self) -> None:
        self._loop: _LoopThread | None = None

    def start(self, tool: Tool[..., Any], given: dict[str, Any], context: CallContext | AsyncCallContext, done: Done) -> Cancel:
        """Calls a function with these arguments."""
        if isinstance(context, AsyncCallContext):
            if self._loop is None:
                self._loop = _LoopThread()
            return self._loop.start(_call_async(tool, given, context), done)
        threading.Thread(target=lambda: done(_call(tool, given, context)), name=f"rejoin tool {tool.name}", daemon=True).start()
        return _nothing

    def close(self) -> None:
        """Cancels what is left, and does not wait for it."""
        if self._loop is not None:
            self._loop.close()


def _nothing() -> None:
    """The context has it already."""


def _call(tool: Tool[..., Any], given: dict[str, Any], context: CallContext) -> Outcome:
    try:
        return _ended(of_result(tool.function(**tool.arguments.read(given, context))), context)
    except BaseException as error:  # the outcome is the error, whatever it is
        return _ended(_failed(tool, error, isinstance(error, CallCancelledError) and context.cancelled), context)


async def _call_async(tool: Tool[..., Any], given: dict[str, Any], context: AsyncCallContext) -> Outcome:
    try:
        return _ended(of_result(await tool.function(**tool.arguments.read(given, context))), context)
    except BaseException as error:  # also the task's cancellation
        return _ended(_failed(tool, error, isinstance(error, (asyncio.CancelledError, CallCancelledError))), context)


def _ended(outcome: Outcome, context: CallContext | AsyncCallContext) -> Outcome:
    """Returns how a function has ended: one that waits has ended so, also if its code has caught the exception."""
    suspension = context.journal.suspension
    return outcome if suspension is None or isinstance(outcome, Interrupted) else Suspended(suspension.steps)


def _failed(tool: Tool[..., Any], error: BaseException, interrupted: bool) -> Outcome:
    if interrupted:
        return Interrupted()
    if isinstance(error, Suspend):
        return Suspended(error.steps)
    if isinstance(error, ArgumentsError):
        return Failed(str(error))
    outcome = of_exception(error)
    if isinstance(error, (ToolFailure, RetryCall)):
        log.info("tool %s has failed: %s", tool.name, outcome.error)
    else:
        log.warning("tool %s has failed: %s", tool.name, outcome.error, exc_info=error)
    return outcome


class _LoopThread:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._begun = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._run()), name="rejoin tools", daemon=True).start()
        self._begun.wait(_BEGIN_LIMIT_S)

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        self._tasks: set[asyncio.Task[Outcome]] = set()
        self._begun.set()
        await self._end.wait()

    def start(self, call: Coroutine[Any, Any, Outcome], done: Done) -> Cancel:
        """Runs a coroutine as a task."""
        begun: list[asyncio.Task[Outcome]] = []

        def begin() -> None:
            task = self._loop.create_task(call)
            # The loop itself keeps no task alive.
            self._tasks.add(task)
            task.add_done_callback(ended)
            begun.append(task)

        def ended(task: asyncio.Task[Outcome]) -> None:
            self._tasks.discard(task)
            done(Interrupted() if task.cancelled() else task.result())

        def cancel() -> None:
            for task in begun:
                task.cancel()

        def cancel_soon() -> None:
            # A loop that is closed has cancelled everything.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(cancel)

        self._loop.call_soon_threadsafe(begin)
        return cancel_soon

    def close(self) -> None:
        """Cancels all tasks, and ends the loop."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._end.set)
