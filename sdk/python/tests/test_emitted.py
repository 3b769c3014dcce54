"""Events that functions emit while they work: each once, in order with the text, and none of an agent's step that has failed."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from typing import Any
from unittest.mock import Mock

import pytest
from protocol_records import Offered
from protocol_server import ProtocolServer

from rejoin import AsyncCallContext, CallContext, StepFailedError, agent, parse_event, tool
from rejoin.events import CustomEvent
from rejoin.worker.answers import EVENT_MAX_BYTES, PENDING_MAX, PIECE_MAX, Answer, Emitted, Piece
from test_worker import serving

pytestmark = pytest.mark.anyio


def events_of(call: Offered) -> list[Any]:
    """What readers have of the call, in order: texts, and names and data of events."""
    return [call.events.get(key, text) for key, text in call.texts.items()]


def test_an_event_stands_between_the_texts_before_and_after_it() -> None:
    sent: list[tuple[Piece, Future[None]]] = []

    def send(piece: Piece) -> Future[None]:
        sent.append((piece, Future()))
        return sent[-1][1]

    answer = Answer(send)
    answer.step_begins(2)
    event = Emitted("progress", {"done": 1})
    assert answer.write("a").done()
    for word in ("b", "c"):
        answer.write(word)
    assert answer.emit(event, 10).done()
    answer.write("d")
    answer.write("e")
    # Too much that waits: the function does, too.
    waits = answer.emit(event, PENDING_MAX)
    assert not waits.done()
    ends = answer.step_ends(2, keep=True)
    for index in range(5):
        assert not ends.done()
        sent[index][1].set_result(None)
    assert waits.done()
    assert ends.done()
    assert [piece for piece, _ in sent] == [
        Piece(2, 1, "a"),
        Piece(2, 2, "bc"),
        Piece(2, 3, event=event),
        Piece(2, 4, "de"),
        Piece(2, 5, event=event),
    ]


def test_an_event_outside_of_steps_is_published_when_emit_returns() -> None:
    sent: list[tuple[Piece, Future[None]]] = []

    def send(piece: Piece) -> Future[None]:
        sent.append((piece, Future()))
        return sent[-1][1]

    answer = Answer(send)
    first = answer.emit(Emitted("begun"), 4)
    assert not first.done()
    sent[0][1].set_result(None)
    assert first.done()
    second = answer.emit(Emitted("ended"), 4)
    sent[1][1].set_exception(ValueError("refused"))
    with pytest.raises(ValueError, match="refused"):
        second.result()
    with pytest.raises(ValueError, match="refused"):
        answer.emit(Emitted("again"), 4)
    assert [(piece.step, piece.number) for piece, _ in sent] == [(0, 1), (0, 2)]


def test_what_a_step_that_fails_has_not_sent_is_dropped() -> None:
    sent: list[Future[None]] = []

    def send(_: Piece) -> Future[None]:
        sent.append(Future())
        return sent[-1]

    answer = Answer(send)
    answer.step_begins(1)
    for _ in range(3):
        answer.emit(Emitted("progress"), PIECE_MAX)
    ended = answer.step_ends(1, keep=False)
    sent[0].set_result(None)
    assert ended.done()
    assert len(sent) == 1


def test_a_bad_event_is_refused() -> None:
    call = CallContext()
    for name in ("", "a b", "größe", "x" * 65, "line\n"):
        with pytest.raises(ValueError, match="the name of an event"):
            call.emit(name)
    with pytest.raises(ValueError, match="not JSON"):
        call.emit("progress", object())
    with pytest.raises(ValueError, match="store it elsewhere"):
        call.emit("progress", "x" * EVENT_MAX_BYTES)
    call.emit("a.b_c:d-1")
    call.step("work", lambda: call.emit("progress", {"done": (1, 2)}))
    assert call.emitted == [("a.b_c:d-1", None), ("progress", {"done": [1, 2]})]


async def test_events_of_parallel_steps_have_no_order() -> None:
    call = AsyncCallContext()

    async def emit() -> None:
        await asyncio.sleep(0)
        await call.emit("progress")

    with pytest.raises(StepFailedError, match="several steps"):
        await asyncio.gather(call.step("one", emit), call.step("two", emit))


async def test_an_agent_emits_events_in_order_with_its_text(api: ProtocolServer) -> None:
    @agent
    async def clerk(message: str, call: AsyncCallContext) -> None:
        """Answers."""
        await call.emit("begun", {"message": message})

        async def reply() -> None:
            await call.write("One ")
            await call.emit("progress", {"done": 1})
            await call.write("two")

        async def fails() -> None:
            await call.emit("progress", {"done": 99})
            raise ValueError("no")

        await call.step("reply", reply, idempotent=True)
        with pytest.raises(StepFailedError):
            await call.step("fails", fails)
        await call.sleep(1)
        await call.emit("ended")

    async with serving(api, clerk):
        api.faults["text"] = deque([0, 503, 0])
        call = api.offer("clerk", message="Hello")
        await api.suspended(call)
        api.happen(call, None)
        assert (await api.ended(call)).output is None
    assert events_of(call) == [
        {"name": "begun", "data": {"message": "Hello"}},
        "One ",
        {"name": "progress", "data": {"done": 1}},
        "two",
        {"name": "ended", "data": None},
    ]


async def test_a_tool_emits_events_once_though_it_begins_again(api: ProtocolServer) -> None:
    @tool(durable=True)
    def count(to: int, call: CallContext) -> int:
        """Counts."""
        call.emit("begun", to)

        def add() -> int:
            for done in range(to):
                call.emit("progress", done)
            return to

        counted = int(call.step("add", add, idempotent=True))
        call.sleep(1)
        call.emit("ended", counted)
        return counted

    async with serving(api, count):
        call = api.offer("count", to=3)
        await api.suspended(call)
        api.happen(call, None)
        assert (await api.ended(call)).output == 3
    assert [event["data"] for event in events_of(call)] == [3, 0, 1, 2, 3]


def test_a_call_without_a_run_emits_nothing() -> None:
    link = Mock()
    call = CallContext(run_id=None, link=link)
    call.emit("progress", 1)
    link.write.assert_not_called()


def test_a_reader_gets_the_event_as_a_model() -> None:
    event = parse_event({"type": "custom", "runId": "r", "name": "progress", "data": [1], "callId": "c"}, 3)
    assert isinstance(event, CustomEvent)
    assert (event.name, event.data, event.call_id) == ("progress", [1], "c")
