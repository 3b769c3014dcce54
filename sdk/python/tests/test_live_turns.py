"""Turns on a real server: they are streamed, interrupted, cancelled and asked about, and what is shown equals what is stored."""

from __future__ import annotations

import threading
from uuid import uuid4

import pytest
from pydantic import BaseModel

from cutting_proxy import CuttingProxy
from live_server import EAGER, LiveServer
from rejoin import AsyncClient, Client, ConflictError, Message, RunError, Turn
from rejoin.events import QuestionEvent, TokenEvent
from scripted_model import Reply, ScriptedModel

# About the length of the response with the events of a short answer.
STREAM_BYTES = 2500
CUT_BYTES = 1800
# Between two words of the model, so that an answer has many events.
PACE_S = 0.01
WORDS = " ".join(f"wörd{number}" for number in range(100))


def marker() -> str:
    """A text that is in no other test's message."""
    return uuid4().hex


def stored_answer(client: Client, turn: Turn) -> Message:
    """The answer as the server has stored it."""
    assert turn.conversation_id is not None
    answers = [message for message in client.messages(turn.conversation_id) if message.role == "assistant"]
    return answers[-1]


def until_words(turn: Turn, words: int) -> None:
    """Reads until so many words are there."""
    for _ in turn:
        if turn.state.text.count(" ") >= words:
            return
    raise AssertionError("the turn has ended")


def test_a_turn_is_streamed_and_its_text_is_the_stored_answer(client: Client, model: ScriptedModel) -> None:
    asked = marker()
    model.script(asked, Reply(WORDS))
    turn = client.send(f"Say it. {asked}")
    events = list(turn)
    numbers = [event.seq for event in events if event.seq is not None]
    assert numbers == sorted(set(numbers))
    assert [event.type for event in events if event.seq is not None][:2] == ["message", "meta"]
    assert events[-1].type == "done"
    assert "".join(event.token for event in events if isinstance(event, TokenEvent)) == WORDS
    result = turn.result()
    assert (result.status, result.text, turn.text(), turn.state.text) == ("completed", WORDS, WORDS, WORDS)
    stored = stored_answer(client, turn)
    assert result.message is not None
    assert (stored.content, stored.id) == (WORDS, result.message.id)
    assert result.usage.total_tokens > 0
    # It is also read by its run, by its conversation's snapshot, and by one who asks for the run.
    replayed = client.follow_run(turn.run_id)
    assert [event.seq for event in replayed if event.seq is not None] == numbers
    state = replayed.transcript.turn(turn.run_id)
    assert state is not None
    assert state.text == WORDS
    assert turn.conversation_id is not None
    snapshot = client.snapshot(turn.conversation_id)
    assert (snapshot.through, [message.content for message in snapshot.messages][1:]) == (numbers[-1], [WORDS])
    assert client.snapshot_run(turn.run_id).messages[-1].content == WORDS
    run = client.run(turn.run_id)
    assert (run.state, run.summary, run.done_seq) == ("completed", WORDS, numbers[-1])


def test_a_stream_that_is_cut_anywhere_is_continued(server: LiveServer, client: Client, model: ScriptedModel, proxy: CuttingProxy) -> None:
    asked = marker()
    model.script(asked, Reply("Öne twö three"))
    turn = client.send(f"Say it. {asked}")
    turn.text()
    wanted = [event for event in client.follow_run(turn.run_id) if event.seq is not None]
    with server.client(proxy.url) as through:
        for cut in range(0, STREAM_BYTES, 41):
            before = proxy.streams
            proxy.cut_streams_after = [cut]
            follower = through.follow_run(turn.run_id)
            assert [event for event in follower if event.seq is not None] == wanted, f"cut after {cut} bytes"
            assert follower.transcript.turns[0].text == "Öne twö three"
            assert proxy.streams - before >= 2


def test_a_stream_that_is_cut_again_and_again_loses_nothing(server: LiveServer, model: ScriptedModel, proxy: CuttingProxy) -> None:
    asked, gate = marker(), threading.Event()
    model.script(asked, Reply(WORDS, gate=gate, words_before_gate=30, pace_s=PACE_S))
    with server.client(proxy.url) as client:
        turn = client.send(f"Say it. {asked}", agent=server.agent())
        # Enough for the head of a response and its longest frame, the stored answer.
        proxy.cut_every_stream_after = CUT_BYTES
        numbers: list[int] = []
        for event in turn:
            numbers += [event.seq] if event.seq is not None else []
            if turn.state.text.count(" ") >= 30:
                gate.set()
        assert numbers == list(range(1, numbers[-1] + 1))
        assert proxy.streams >= 3
        assert turn.text() == WORDS == stored_answer(client, turn).content


def test_a_worker_that_is_killed_in_the_middle_costs_no_word_and_repeats_none(
    server: LiveServer, client: Client, model: ScriptedModel
) -> None:
    asked, never = marker(), threading.Event()
    model.script(asked, Reply(WORDS, gate=never, words_before_gate=30), Reply(WORDS.upper()))
    turn = client.send(f"Say it. {asked}")
    until_words(turn, 10)
    server.kill_workers()
    result = turn.result()
    never.set()
    assert (result.status, result.text) == ("completed", WORDS.upper())
    assert (turn.state.text, turn.state.attempt, len(turn.state.resets)) == (WORDS.upper(), 2, 1)
    assert stored_answer(client, turn).content == WORDS.upper()


def test_a_run_is_cancelled_in_the_middle(client: Client, model: ScriptedModel) -> None:
    asked, gate = marker(), threading.Event()
    model.script(asked, Reply(WORDS, gate=gate, words_before_gate=30))
    turn = client.send(f"Say it. {asked}")
    until_words(turn, 10)
    with pytest.raises(ConflictError):
        client.send("Another.", conversation_id=turn.conversation_id, on_busy="reject")
    client.cancel(turn.run_id)
    with pytest.raises(RunError) as caught:
        turn.text()
    gate.set()
    assert (caught.value.code, caught.value.result.status) == ("cancelled", "cancelled")
    assert caught.value.result.text == turn.state.text == stored_answer(client, turn).content
    assert client.cancel(turn.run_id).state == "cancelled"


def test_a_question_is_asked_and_answered(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    asked = marker()
    options = [{"label": "Red", "value": "red"}, {"label": "Blue", "value": "blue"}]
    ask = ("ask_user", {"question": "Which colour?", "options": options, "interaction_type": "buttons"})
    model.script(asked, Reply(tools=[ask]), Reply("Blue it is."))
    turn = client.send(f"Ask me. {asked}", agent=server.agent("ask_user"))
    question = next(event for event in turn if isinstance(event, QuestionEvent))
    assert (question.question, [option.value for option in question.options]) == ("Which colour?", ["red", "blue"])
    assert [one.question_id for one in turn.state.open_questions] == [question.question_id]
    assert question.question_id in [one.id for one in client.questions()]
    assert client.question(question.question_id).status == "pending"
    # A late reader sees it as well.
    assert turn.conversation_id is not None
    snapshot = client.snapshot(turn.conversation_id)
    assert snapshot.turn is not None
    assert [one.question_id for one in snapshot.turn.questions] == [question.question_id]
    assert client.answer(question.question_id, "blue").status == "answered"
    assert turn.text() == "Blue it is."
    assert [(one.status, one.answer) for one in turn.state.questions] == [("answered", "blue")]
    with pytest.raises(ConflictError):
        client.answer(question.question_id, "red")


def test_the_next_message_answers_a_question(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    asked = marker()
    model.script(
        asked, Reply(tools=[("ask_user", {"question": "Your name?", "options": [], "interaction_type": "text"})]), Reply("Hello, Ann.")
    )
    turn = client.send(f"Ask me. {asked}", agent=server.agent("ask_user"))
    next(event for event in turn if isinstance(event, QuestionEvent))
    answering = client.send("Ann", conversation_id=turn.conversation_id)
    assert answering.run_id == turn.run_id
    assert answering.text() == turn.text() == "Hello, Ann."


def test_an_answer_has_the_shape_that_was_requested(client: Client, model: ScriptedModel) -> None:
    class Capital(BaseModel):
        city: str
        people: int

    asked = marker()
    model.script(asked, Reply('{"city": "Oslo", "people": 700000}'))
    result = client.send(f"Capital of Norway? {asked}", output_schema=Capital).result()
    assert result.status == "completed", result.error
    assert result.parse(Capital) == Capital(city="Oslo", people=700000)


def test_a_message_whose_response_is_lost_is_stored_once(server: LiveServer, model: ScriptedModel, proxy: CuttingProxy) -> None:
    asked = marker()
    model.script(asked, Reply("Once."), Reply("Twice."))
    with server.client(proxy.url) as client:
        proxy.swallow_next_response = True
        turn = client.send(f"Say it. {asked}")
        assert not proxy.swallow_next_response
        assert turn.text() == "Once."
        assert turn.conversation_id is not None
        found = list(client.messages(turn.conversation_id))
        assert [message.role for message in found] == ["user", "assistant"]
        assert found[0].id == turn.message_id
        assert len(list(client.conversations(text=asked))) == 1
        # The same call in another process: the same run.
        again = client.send(f"Say it. {asked}", client_turn_id=turn.client_turn_id)
        assert (again.run_id, again.message_id, again.text()) == (turn.run_id, turn.message_id, "Once.")


def test_a_cursor_ahead_of_the_log_is_replaced_by_a_snapshot(client: Client, model: ScriptedModel) -> None:
    asked = marker()
    model.script(asked, Reply(WORDS))
    turn = client.send(f"Say it. {asked}")
    turn.text()
    follower = client.follow_run(turn.run_id, after=99_999)
    assert [event.type for event in follower][:2] == ["gap", "snapshot"]
    assert [state.text for state in follower.transcript.turns] == [WORDS]


@pytest.mark.anyio
async def test_the_asynchronous_client_does_the_same_through_cuts(server: LiveServer, model: ScriptedModel, proxy: CuttingProxy) -> None:
    asked = marker()
    model.script(asked, Reply(WORDS, pace_s=PACE_S))
    async with AsyncClient(proxy.url, server.api_key, limits=EAGER) as client:
        turn = await client.send(f"Say it. {asked}", agent=server.agent())
        proxy.cut_every_stream_after = CUT_BYTES
        numbers = [event.seq async for event in turn if event.seq is not None]
        assert numbers == list(range(1, numbers[-1] + 1))
        assert await turn.text() == WORDS
        assert proxy.streams >= 3
        assert turn.conversation_id is not None
        assert [message.content async for message in client.messages(turn.conversation_id)][1] == WORDS
        proxy.cut_every_stream_after = None
        # Leaving an iteration closes its connection; the next one continues.
        model.script(asked, Reply(WORDS))
        second = await client.send(f"Again. {asked}", conversation_id=turn.conversation_id)
        async for event in second:
            if event.type == "token":
                break
        assert await second.text() == WORDS
