"""Answers that agents write while they work: readers get each piece once, in order, and nothing of a step that has failed."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future

import pytest
from protocol_records import Offered
from protocol_server import ProtocolServer

from rejoin import AsyncCallContext, CallContext, StepFailedError, agent, tool
from rejoin.worker.answers import PIECE_MAX, Answer, Piece
from test_worker import serving

pytestmark = pytest.mark.anyio


def text_of(call: Offered) -> str:
    return "".join(call.texts[key] for key in sorted(call.texts))


def test_text_is_collected_while_a_piece_is_sent() -> None:
    sent: list[tuple[Piece, Future[None]]] = []

    def send(piece: Piece) -> Future[None]:
        sent.append((piece, Future()))
        return sent[-1][1]

    answer = Answer(send)
    answer.step_begins(3)
    for word in ("a", "b", "c"):
        assert answer.write(word).done()
    assert [piece for piece, _ in sent] == [Piece(3, 1, "a")]
    sent[0][1].set_result(None)
    assert sent[1][0] == Piece(3, 2, "bc")
    # Too much to be collected: the function waits.
    waits = answer.write("x" * 5 * PIECE_MAX + "y")
    ends = answer.step_ends(3, keep=True)
    assert not waits.done()
    for index in range(1, 8):
        assert not ends.done()
        sent[index][1].set_result(None)
    assert waits.done()
    assert ends.done()
    assert [len(piece.text) for piece, _ in sent] == [1, 2, *[PIECE_MAX] * 5, 1]


def test_text_belongs_to_a_step() -> None:
    call = CallContext()
    with pytest.raises(RuntimeError, match="within a step"):
        call.write("Hello")
    call.step("greet", lambda: call.write("Hello"))
    assert call.written == "Hello"


async def test_text_of_parallel_steps_has_no_order() -> None:
    call = AsyncCallContext()

    async def write() -> None:
        await asyncio.sleep(0)
        await call.write("Hello")

    with pytest.raises(StepFailedError, match="several steps"):
        await asyncio.gather(call.step("one", write), call.step("two", write))


async def test_an_answer_is_written_while_its_function_works(api: ProtocolServer) -> None:
    gate = threading.Event()

    @agent
    async def clerk(message: str, call: AsyncCallContext) -> None:
        """Answers."""

        async def reply() -> None:
            for word in ("One ", "two \ud800", "three"):
                await call.write(word)
            await asyncio.to_thread(gate.wait, 60)
            await call.write(".")

        async def fails() -> None:
            await call.write("Never mind")
            raise ValueError(message)

        await call.step("reply", reply, idempotent=True)
        with pytest.raises(StepFailedError):
            await call.step("fails", fails)
        await call.sleep(1)
        await call.step("end", lambda: call.write(" End."))

    async with serving(api, clerk):
        api.faults["text"] = deque([0, 503, 0])
        call = api.offer("clerk", message="Hello")
        await api.until(lambda: text_of(call).endswith("three"))
        gate.set()
        await api.suspended(call)
        api.happen(call, None)
        assert (await api.ended(call)).output is None
    assert text_of(call) == "One two ?three. End."
    assert call.taken_back == ["Never mind"]


async def test_a_function_with_def_writes_too(api: ProtocolServer) -> None:
    @agent
    def clerk(message: str, call: CallContext) -> str:
        """Answers."""

        def reply() -> None:
            for number in range(200):
                call.write(f"{number} ")

        call.step("reply", reply)
        return call.written

    async with serving(api, clerk):
        call = api.offer("clerk", message="Hello")
        output = (await api.ended(call)).output
    assert text_of(call) == output
    assert api.count("text") <= 200


async def test_a_tool_that_is_no_agent_writes_nothing(api: ProtocolServer) -> None:
    @tool
    def echo(text: str, call: CallContext) -> str:
        """Returns the text."""
        with pytest.raises(StepFailedError, match="no_answer") as failed:
            call.step("write", lambda: call.write(text))
        return type(failed.value.__cause__).__name__

    async with serving(api, echo):
        assert (await api.ended(api.offer("echo", text="Hello"))).output == "ConflictError"
