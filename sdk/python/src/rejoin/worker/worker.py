"""The worker: a process that serves tools."""

from __future__ import annotations

import os
import re
import signal
import socket
from collections.abc import Iterable
from typing import Any

import anyio

from .._async.http import AsyncHttp
from ..calls import Id
from ..errors import RejoinError
from ..limits import Limits
from ..settings import ApiKey, resolve
from .agents import Agent, AgentFunction, AnyAgent
from .connection import Announcement, Connection
from .log import log
from .session import Session, StopSignal
from .tools import Tool

# A heartbeat names all calls.
SLOTS_MAX = 1000
_QUEUE = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class Worker:
    """Serves tools and agents to a workspace, until it is stopped.

    Functions run off the event loop of the protocol, so a function that blocks does not stop heartbeats: those with `def` each in a thread,
    all those with `async def` in one event loop, in another thread, so they can share what belongs to a loop, such as a pool of
    connections, if they open it themselves.

    - `tools`: functions with `@tool` or `@agent`, and agents with a prompt (`Agent`), whose tools are served, too.
    - `queue`: groups workers, such as `default` or `gpu`.
    - `slots`: how many calls run at the same time; at most 1,000.
    - `name`, `version`: of this program, for lists of workers. Default of the name: the machine and the process.
    - `url`, `api_key`, `project_id`, `limits`: as those of `AsyncClient`. The key needs the scope `worker`.
    - `drain_timeout_s`: how long calls may take to end when the worker stops.

    Raises `ConfigurationError` if no key is known, and `TypeError` or `ValueError` if something else is wrong with the arguments.
    """

    def __init__(
        self,
        tools: Iterable[Tool[..., Any] | AnyAgent],
        *,
        queue: str = "default",
        slots: int = 10,
        name: str | None = None,
        version: str = "",
        url: str | None = None,
        api_key: ApiKey | None = None,
        project_id: Id | None = None,
        limits: Limits | None = None,
        drain_timeout_s: float = 25.0,
    ) -> None:
        given = list(tools)
        agents = _distinct([one for one in given if isinstance(one, (Agent, AgentFunction))])
        self._tools = _by_name(_served(given), agents)
        if not _QUEUE.fullmatch(queue):
            raise ValueError(f"the queue {queue!r} does not have 1 to 64 letters, digits, `_`, `-` and `.`")
        if not 1 <= slots <= SLOTS_MAX:
            raise ValueError(f"slots is {slots}; choose 1 to {SLOTS_MAX}, and start more processes for more")
        self._announcement = Announcement(
            queue, name or f"{socket.gethostname()}-{os.getpid()}", version, slots, self._tools.values(), agents
        )
        self._settings = resolve(url, api_key, None if project_id is None else str(project_id))
        self._limits = limits or Limits()
        self._drain_timeout_s = drain_timeout_s

    def __repr__(self) -> str:
        names = ", ".join(name for name, _ in self._tools)
        return f"Worker({self._settings.url!r}, queue={self._announcement.queue!r}, tools=[{names}])"

    async def serve(self, stop: StopSignal | None = None) -> None:
        """Serves until `stop`, an `asyncio.Event` or `anyio.Event`, is set; then it ends its calls, and leaves.

        It waits for an API that is away, and registers again if the API has lost it. Cancelled, it stops its functions and leaves at once.

        Raises `APIError` if the API refuses the worker: `PermissionDeniedError` without the scope, `ConflictError` if another worker serves
        the same version of a tool differently.
        """
        http = AsyncHttp(self._settings, self._limits)
        try:
            await Session(Connection(http, self._announcement), self._tools, self._announcement.slots, self._drain_timeout_s).run(stop)
        finally:
            with anyio.CancelScope(shield=True):
                await http.aclose()

    def run(self) -> None:
        """Serves until SIGTERM or SIGINT; then it ends its calls, and leaves. A second signal ends the process at once.

        For the main thread. Raises as `serve` does.
        """
        anyio.run(self._run)

    async def _run(self) -> None:
        stop = anyio.Event()
        refusal: RejoinError | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_watch_signals, stop)
            try:
                await self.serve(stop)
            except RejoinError as error:
                # Raised here, it would be in a group of exceptions.
                refusal = error
            tasks.cancel_scope.cancel()
        if refusal is not None:
            raise refusal


async def _watch_signals(stop: anyio.Event) -> None:
    try:
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async for number in signals:
                if stop.is_set():
                    signal.signal(number, signal.SIG_DFL)
                    signal.raise_signal(number)
                log.warning("%s: the worker ends its calls, and stops; a second signal stops it at once", signal.Signals(number).name)
                stop.set()
    except NotImplementedError:
        # Windows: Ctrl-C ends the process at once.
        return


def _distinct(agents: list[AnyAgent]) -> list[AnyAgent]:
    names = [one.name for one in agents]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"there are two agents named {name}; give one of them another name")
    return agents


def _served(given: Iterable[Tool[..., Any] | AnyAgent]) -> list[Tool[..., Any]]:
    """Returns the tools of a list with those of its agents: what an agent with a prompt may call is served once."""
    tools: list[Tool[..., Any]] = []
    called: list[Tool[..., Any]] = []
    for one in given:
        if isinstance(one, Agent):
            called += [tool for tool in one.tools if isinstance(tool, Tool)]
        else:
            tools.append(one.tool if isinstance(one, AgentFunction) else one)
    for tool in called:
        if all(tool is not other for other in tools):
            tools.append(tool)
    return tools


def _by_name(tools: Iterable[Tool[..., Any]], agents: Iterable[AnyAgent]) -> dict[tuple[str, str], Tool[..., Any]]:
    found: dict[tuple[str, str], Tool[..., Any]] = {}
    for one in tools:
        # Callers without a type checker.
        if not isinstance(one, Tool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"{one!r} is neither a tool nor an agent; write @tool or @agent above the function")
        if any(one.name == name for name, _ in found):
            raise ValueError(f"there are two tools named {one.name}; a second version needs another worker")
        found[one.name, one.version] = one
    if not found:
        names = ", ".join(one.name for one in agents)
        bring = f", and its agents ({names}) bring none" if names else ""
        raise ValueError(f"a worker serves at least one tool{bring}; pass a function with @tool to it, or in tools= of an agent")
    return found
