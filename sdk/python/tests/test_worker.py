"""Workers serve calls: their results, failures, slots, messages and checkpoints. The API is a strict one, on a real socket."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from protocol_server import KEY, ProtocolServer

from rejoin import (
    Agent,
    AgentFunction,
    AsyncCallContext,
    CallCancelledError,
    CallContext,
    ConflictError,
    Limits,
    PermissionDeniedError,
    RetryCall,
    Tool,
    ToolFailure,
    Worker,
    tool,
)

pytestmark = pytest.mark.anyio
QUICK = Limits(pause_min_s=0.02, pause_max_s=0.1)
LIMIT_S = 60.0


@asynccontextmanager
async def serving(api: ProtocolServer, *tools: Tool[..., Any] | AgentFunction[..., Any] | Agent, **options: Any) -> AsyncIterator[None]:
    """A worker serves in the block, and leaves at its end."""
    worker = Worker(tools, url=api.url, api_key=KEY, limits=QUICK, **options)
    stop = asyncio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.serve, stop)
        with anyio.fail_after(LIMIT_S):
            yield
        stop.set()


@tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@tool
async def greet(name: str, call: AsyncCallContext) -> dict[str, Any]:
    """Greets."""
    await asyncio.sleep(0)
    return {"text": f"Hello, {name}", "key": call.idempotency_key, "attempt": call.attempt, "run": call.run_id}


async def test_functions_of_both_kinds_are_called_and_their_results_recorded(api: ProtocolServer) -> None:
    async with serving(api, add, greet, name="billing", version="1.4.0", slots=3):
        calls = [api.offer("add", a=number, b=1) for number in range(10)]
        greeting = await api.ended(api.offer("greet", name="Ann"))
        assert [(await api.ended(call)).output for call in calls] == list(range(1, 11))
        assert greeting.output == {"text": "Hello, Ann", "key": f"key-{greeting.id}", "attempt": 1, "run": "run"}
    kind, registered = api.requests[0]
    assert (kind, registered["name"], registered["version"], registered["language"], registered["slots"]) == (
        "registrations",
        "billing",
        "1.4.0",
        "python",
        3,
    )
    # It has left.
    assert (api.workers, api.requests[-1][0]) == ({}, "DELETE registrations")


async def test_no_more_calls_run_than_there_are_slots(api: ProtocolServer) -> None:
    running, most = 0, 0

    @tool
    async def busy(number: int) -> int:
        """Is busy."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        return number

    calls = [api.offer("busy", number=number) for number in range(7)]
    async with serving(api, busy, slots=2):
        assert [(await api.ended(call)).output for call in calls] == list(range(7))
    assert most == 2


async def test_a_claim_waits_for_calls(api: ProtocolServer) -> None:
    api.claim_wait_max_s = 20
    async with serving(api, add):
        await api.until(lambda: api.count("claims") and api.count("heartbeats") > 3)
        began = time.monotonic()
        call = await api.ended(api.offer("add", a=1, b=2))
        assert call.output == 3
        # Neither at the end of the claim nor by asking again and again.
        assert time.monotonic() - began < 10
        assert api.count("claims") <= 2


async def test_failures_are_texts_for_the_model(api: ProtocolServer, caplog: pytest.LogCaptureFixture) -> None:
    @tool
    def fail(how: str) -> Any:
        """Fails."""
        if how == "text":
            raise ToolFailure("There is no order A-7.")
        if how == "exit":
            raise SystemExit(3)
        if how == "object":
            return object()
        if how == "large":
            return "x" * 2_000_000
        raise ValueError(how)

    @tool
    async def fail_async(how: str) -> Any:
        """Fails."""
        if how == "cancelled":
            raise asyncio.CancelledError
        fail(how)

    wanted = {
        ("fail", "text"): "There is no order A-7.",
        ("fail", "other"): "ValueError: other",
        ("fail", "exit"): "SystemExit: 3",
        ("fail", "object"): "The tool has completed, but its output is not JSON: Unable to serialize unknown type: <class 'object'>",
        ("fail", "large"): "The tool has completed, but its output has 2000002 bytes, and the limit is 1000000.",
        ("fail_async", "text"): "There is no order A-7.",
        ("fail_async", "other"): "ValueError: other",
        ("fail_async", "exit"): "SystemExit: 3",
        ("fail_async", "cancelled"): "The tool was cancelled by its own code. It may have had an effect.",
    }
    async with serving(api, fail, fail_async):
        calls = {(name, how): api.offer(name, how=how) for name, how in wanted}
        assert {key: (await api.ended(call)).error for key, call in calls.items()} == wanted
        bad = await api.ended(api.offer("fail", hw="text"))
    assert bad.error == "The arguments do not match the schema of fail: how: Field required; hw: Extra inputs are not permitted"
    assert {call.attempt for call in calls.values()} == {1}
    # Tracebacks are in the log, and only there.
    assert "in fail" in caplog.text


async def test_a_call_that_asks_for_it_is_handed_out_again(api: ProtocolServer) -> None:
    @tool
    def flaky(times: int, call: CallContext) -> int:
        """Succeeds after some attempts."""
        if call.attempt <= times:
            raise RetryCall("The till is closed.")
        return call.attempt

    async with serving(api, flaky):
        call, never = api.offer("flaky", times=2), api.offer("flaky", times=9)
        assert (await api.ended(call)).output == 3
        assert ((await api.ended(never)).error, never.attempt) == ("The till is closed.", 5)


async def test_messages_and_checkpoints(api: ProtocolServer) -> None:
    @tool
    def copy(call: CallContext) -> Any:
        """Copies, and fails once in the middle."""
        if call.attempt == 1:
            call.progress("half")
            call.save_checkpoint({"done": [1]})
            raise RetryCall("again")
        return call.checkpoint

    @tool
    async def copy_async(call: AsyncCallContext) -> Any:
        """Copies, and fails once in the middle."""
        if call.attempt == 1:
            call.progress("half\0")
            await call.save_checkpoint({"done": [2]})
            call.progress("last")
            raise RetryCall("again")
        return call.checkpoint

    async with serving(api, copy, copy_async):
        one, two = api.offer("copy"), api.offer("copy_async")
        assert ((await api.ended(one)).output, one.messages) == ({"done": [1]}, ["half"])
        assert ((await api.ended(two)).output, two.messages) == ({"done": [2]}, ["half\N{REPLACEMENT CHARACTER}", "last"])


async def test_of_fast_messages_the_newest_are_sent(api: ProtocolServer) -> None:
    @tool
    def chatty(call: CallContext) -> None:
        """Counts."""
        for number in range(500):
            call.progress(str(number))

    async with serving(api, chatty):
        call = await api.ended(api.offer("chatty"))
    assert call.messages[-1] == "499"
    assert len(call.messages) < 500


@tool
async def wait(call: AsyncCallContext) -> str:
    """Waits without end."""
    begun.append(call.id)
    try:
        await asyncio.sleep(LIMIT_S * 2)
    finally:
        stopped.append(call.cancelled)
    return "done"


@tool
def wait_in_thread(call: CallContext) -> str:
    """Waits without end."""
    begun.append(call.id)
    stopped.append(call.wait_cancelled(LIMIT_S * 2))
    call.progress("raises")
    return "done"


@tool
def ignore(call: CallContext) -> str:
    """Completes although it should stop."""
    begun.append(call.id)
    stopped.append(call.wait_cancelled(LIMIT_S * 2))
    return "done"


begun: list[str] = []
stopped: list[bool] = []


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("wait", "The call was cancelled."),
        ("wait_in_thread", "The call was cancelled."),
        ("ignore", "The call was cancelled, but had completed."),
    ],
)
async def test_cancelling_a_run_stops_the_function(api: ProtocolServer, name: str, error: str) -> None:
    stopped.clear()
    async with serving(api, wait, wait_in_thread, ignore):
        call = api.offer(name)
        await api.until(lambda: call.id in begun)
        api.cancel(call)
        assert (await api.ended(call)).error == error
    assert stopped == [True]


@pytest.mark.parametrize("name", ["wait", "wait_in_thread"])
async def test_the_time_of_an_attempt_is_limited(api: ProtocolServer, name: str) -> None:
    stopped.clear()
    async with serving(api, wait, wait_in_thread):
        call = await api.ended(api.offer(name, timeout_s=1))
    assert call.error == "The tool did not end within 1 s and was stopped. It may have had an effect."
    assert stopped == [True]


async def test_a_function_that_blocks_does_not_stop_heartbeats() -> None:
    # Longer than the lease.
    api = ProtocolServer(lease_s=2, heartbeat_s=0.1)

    @tool
    async def block(seconds: float) -> int:
        """Blocks the event loop of all functions."""
        time.sleep(seconds)  # noqa: ASYNC251
        return threading.get_ident()

    @tool
    def block_in_thread(seconds: float) -> int:
        """Blocks a thread."""
        time.sleep(seconds)
        return threading.get_ident()

    async with serving(api, block, block_in_thread):
        calls = [api.offer(name, seconds=3) for name in ("block", "block_in_thread", "block_in_thread")]
        before = api.count("heartbeats")
        threads = [(await api.ended(call)).output for call in calls]
    assert len({*threads, threading.get_ident()}) == 4
    assert api.count("heartbeats") - before >= 10
    assert [(call.status, call.attempt) for call in calls] == [("completed", 1)] * 3
    api.away()
    assert api.violations == []


async def test_a_lost_call_is_stopped_and_nothing_is_sent(api: ProtocolServer) -> None:
    stopped.clear()
    async with serving(api, wait, wait_in_thread):
        calls = [api.offer("wait"), api.offer("wait_in_thread")]
        await api.until(lambda: all(call.id in begun for call in calls))
        for call in calls:
            api.take(call)
        await api.until(lambda: len(stopped) == 2)
        # Its slots are free again.
        await api.until(lambda: api.requests[-1] == ("heartbeats", {**api.requests[-1][1], "calls": []}))
    assert stopped == [True, True]
    assert [api.count(kind) for kind in ("completion", "failure", "progress")] == [0, 0, 0]


async def test_a_result_that_comes_too_late_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    # The result is faster than the next heartbeat.
    api = ProtocolServer(heartbeat_s=20)
    free, saved = threading.Event(), threading.Event()

    @tool
    def hold() -> str:
        """Waits."""
        free.wait(LIMIT_S)
        return "done"

    @tool
    def save(call: CallContext) -> None:
        """Waits, and stores."""
        free.wait(LIMIT_S)
        try:
            call.save_checkpoint(1)
        except CallCancelledError:
            saved.set()
            raise

    async with serving(api, hold, save):
        calls = [api.offer("hold"), api.offer("save")]
        await api.until(lambda: all(call.status == "running" for call in calls))
        for call in calls:
            api.take(call)
        free.set()
        await api.until(lambda: api.count("completion") and saved.is_set())
        await api.until(lambda: "a result is not sent again: hold" in caplog.text)
    assert ([call.status for call in calls], api.count("completion"), api.count("failure")) == (["running", "running"], 1, 0)
    assert calls[1].checkpoint is None
    api.away()
    assert api.violations == []


async def test_what_the_api_refuses_for_good_is_raised(api: ProtocolServer) -> None:
    @tool(name="add", description="Adds otherwise.")
    def other(a: int) -> int:
        return a

    async with serving(api, add):
        await api.until(lambda: api.workers)
        with pytest.raises(ConflictError, match="tool_conflict"):
            await Worker([other], url=api.url, api_key=KEY).serve()
    api.allowed = False
    with pytest.raises(PermissionDeniedError):
        await Worker([add], url=api.url, api_key=KEY).serve()


async def test_a_refusal_later_ends_the_worker(api: ProtocolServer) -> None:
    async def revoke() -> None:
        await api.until(lambda: api.count("claims"))
        api.allowed = False

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(revoke)
        with pytest.raises(PermissionDeniedError):
            await Worker([add], url=api.url, api_key=KEY).serve()


async def test_an_output_that_the_api_refuses_ends_the_call(api: ProtocolServer) -> None:
    api.faults["completion"] = deque([422])
    async with serving(api, add):
        call = await api.ended(api.offer("add", a=1, b=1))
    assert (call.error or "").startswith("The tool has completed, but its output was refused")


async def test_a_worker_that_is_cancelled_leaves_at_once(api: ProtocolServer) -> None:
    stopped.clear()
    call = api.offer("wait")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Worker([wait], url=api.url, api_key=KEY).serve)
        await api.until(lambda: call.id in begun)
        tasks.cancel_scope.cancel()
    await api.until(lambda: stopped)
    assert (call.status, api.workers, api.count("failure")) == ("outcome_unknown", {}, 0)
