"""Steps and outputs of many calls, which the worker records together."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

import pytest
from protocol_records import Offered
from protocol_server import ProtocolServer

from rejoin import AsyncCallContext, tool
from test_worker import serving

pytestmark = pytest.mark.anyio

CALLS = 40
STEPS = 3


def _nothing(_: list[Offered]) -> None:
    """Changes nothing."""


async def all_calls(api: ProtocolServer, between: Callable[[list[Offered]], None] = _nothing) -> list[Offered]:
    """Has calls that take their steps once all of them are running. Returns them when those that the worker has have ended."""
    begun = threading.Event()

    @tool(durable=True)
    async def stepper(nth: int, call: AsyncCallContext) -> int:
        """Takes steps."""
        await asyncio.to_thread(begun.wait)
        for step in range(1, STEPS + 1):

            async def product(step: int = step) -> int:
                return nth * step

            await call.step(f"step {step}", product, idempotent=True)
        return nth

    calls = [api.offer("stepper", nth=nth) for nth in range(CALLS)]
    async with serving(api, stepper, slots=CALLS):
        await api.until(lambda: all(call.status == "running" for call in calls))
        between(calls)
        begun.set()
        for call in calls:
            if call.worker_id != "another":
                await api.ended(call)
    return calls


def check_all(calls: list[Offered]) -> None:
    """All steps and outputs were recorded, once."""
    for call in calls:
        nth = call.input["nth"]
        assert (call.status, call.output, call.attempt) == ("completed", nth, 1)
        assert [step["output"] for step in call.steps.values()] == [nth, 2 * nth, 3 * nth]


async def test_steps_and_outputs_of_many_calls_are_few_requests(api: ProtocolServer) -> None:
    api.records_max = 100
    check_all(await all_calls(api))
    sizes = [len(body["records"]) for kind, body in api.requests if kind == "records"]
    # The server counts the records of a request as requests, too.
    alone = api.count("steps") + api.count("completion") - sum(sizes)
    assert max(sizes) > 1
    assert alone + len(sizes) < CALLS * (STEPS + 1) / 4


async def test_no_request_has_more_records_than_the_api_takes(api: ProtocolServer) -> None:
    api.records_max = 7
    check_all(await all_calls(api))
    assert max(len(body["records"]) for kind, body in api.requests if kind == "records") == 7


async def test_an_older_api_gets_each_record_alone(api: ProtocolServer) -> None:
    check_all(await all_calls(api))
    assert (api.count("records"), api.count("steps"), api.count("completion")) == (0, CALLS * STEPS, CALLS)


async def test_records_that_are_refused_together_and_whose_responses_are_lost_are_sent_again(api: ProtocolServer) -> None:
    api.records_max = 100
    api.faults = {"records": deque([404, 0, 503, 0])}
    check_all(await all_calls(api))
    assert not api.faults["records"]


async def test_one_record_that_is_refused_leaves_the_others_recorded(api: ProtocolServer) -> None:
    api.records_max = 100
    # Another worker has it; this one finds out when it records a step.
    lost, *others = await all_calls(api, lambda calls: api.take(calls[0]))
    assert (lost.status, lost.steps) == ("running", {})
    check_all(others)


async def test_a_large_output_is_sent_alone(api: ProtocolServer) -> None:
    api.records_max = 100

    @tool
    async def large() -> str:
        """Returns much."""
        return "x" * 100_000

    async with serving(api, large, slots=5):
        for call in [api.offer("large") for _ in range(5)]:
            assert len((await api.ended(call)).output) == 100_000
    assert (api.count("records"), api.count("completion")) == (0, 5)
