"""Agents of other frameworks, unmodified, execute turns.

Their text is in the log as it arrives, and `kill -9` neither repeats nor loses anything.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from programs import ALL, Example, Programs
from responses_model import ResponsesModel

from rejoin import Client, Turn
from rejoin.events import QuestionEvent, TokenEvent
from scripted_model import Reply

LIMIT_S = 60.0
ANSWER = "Your order was shipped on Monday, by boat."
REFUNDED = "Order A-7 was refunded, as you asked."
UNKNOWN = "I can't know whether it was refunded."

each = pytest.mark.parametrize("example", ALL, ids=[one.agent for one in ALL])


def stored(client: Client, turn: Turn) -> str:
    """The answer as a conversation has it later."""
    said = [one.content for one in client.messages(turn.conversation_id) if one.role == "assistant"]
    assert len(said) == 1
    return said[0]


def asked(client: Client, model: ResponsesModel, example: Example, order: str, *answers: Reply) -> tuple[Turn, str]:
    """A turn in which the model calls the tool, and then answers; with its marker."""
    marker = uuid4().hex
    model.script(marker, Reply("One moment.", tools=[("refund", {"order": order})]), *answers)
    return client.send(f"Refund order {order}. {marker}", agent=example.agent), marker


@each
def test_the_words_of_a_framework_are_in_the_log_as_they_arrive(
    example: Example, programs: Programs, client: Client, model: ResponsesModel
) -> None:
    first, second = uuid4().hex, uuid4().hex
    gate = threading.Event()
    model.script(first, Reply(ANSWER, gate=gate, words_before_gate=2))
    turn = client.send(f"Where is my order? {first}", agent=example.agent)
    # The model goes on when the first words have been read.
    for _ in turn:
        if turn.state.text == "Your order ":
            break
    gate.set()
    assert turn.text(timeout_s=LIMIT_S) == ANSWER
    tokens = [event.token for event in client.follow_run(turn.run_id) if isinstance(event, TokenEvent)]
    assert len(tokens) > 1
    assert ("".join(tokens), turn.state.text, stored(client, turn)) == (ANSWER, ANSWER, ANSWER)
    # The framework gets what was said before.
    model.script(second, Reply("By boat."))
    again = client.send(f"How? {second}", conversation_id=turn.conversation_id)
    assert again.text(timeout_s=LIMIT_S) == "By boat."
    [request] = model.requests(second)
    assert request.index(first) < request.index(ANSWER) < request.index(second)


def test_a_killed_process_neither_repeats_nor_loses_a_word_or_a_refund(programs: Programs, client: Client, model: ResponsesModel) -> None:
    # Of each program, one turn is in the middle of its answer, and another one in the middle of its refund.
    gate = threading.Event()
    answering = {example: asked(client, model, example, "A-7", Reply(REFUNDED, gate=gate, words_before_gate=3)) for example in ALL}
    for turn, _ in answering.values():
        for _ in turn:
            if turn.state.text == "One moment.\n\nOrder A-7 was ":
                break
    files = {example: programs.folder(example) / "refunds.txt" for example in ALL}
    assert [file.read_text() for file in files.values()] == ["A-7\n"] * len(ALL)
    # The bank does not answer: its file is a full pipe.
    pipes = [full_pipe(file) for file in files.values()]
    paying = {example: asked(client, model, example, "B-8") for example in ALL}
    for example, file in files.items():
        programs.wait_in(example, file)
    programs.kill(ALL)
    gate.set()
    for pipe, file in zip(pipes, files.values(), strict=True):
        os.close(pipe)
        file.unlink()
    for turns, reply in ((answering, REFUNDED), (paying, UNKNOWN)):
        for _, marker in turns.values():
            model.script(marker, Reply(reply))
    programs.start(ALL)
    for example in ALL:
        turn, marker = answering[example]
        whole = f"One moment.\n\n{REFUNDED}"
        assert turn.text(timeout_s=LIMIT_S) == whole, example.file
        assert (turn.state.text, stored(client, turn), len(turn.state.resets)) == (whole, whole, 1), example.file
        # The answer that was cut is asked for again, the first one is not. The tool's recorded result is there each time.
        learned = ["Order A-7 was refunded." in request for request in model.requests(marker)]
        assert learned == [False, True, True], example.file

        turn, marker = paying[example]
        whole = f"One moment.\n\n{UNKNOWN}"
        assert turn.text(timeout_s=LIMIT_S) == whole, example.file
        assert (turn.state.text, stored(client, turn)) == (whole, whole), example.file
        assert ["may have taken effect" in request for request in model.requests(marker)] == [False, True], example.file
        # Neither refund was repeated.
        assert not files[example].exists(), example.file


def asking(example: Example) -> Example:
    """An example whose tool asks the user first."""
    if example.file.endswith(".ts"):
        ask = "(await call.askUser(`Refund ${order}?`, { options: ['yes', 'no'] })) === 'no' ? 'Kept.' : "
        edit = ("execute: ({ order }) => ", f"execute: async ({{ order }}) => {ask}")
    else:
        call = {"langgraph_clerk": "runtime.context", "openai_agents_clerk": "context.context", "pydantic_ai_clerk": "context.deps"}[
            example.agent
        ]
        step = f"await {call}.step("
        edit = (step, f'"Kept." if await {call}.ask_user(f"Refund {{order}}?", ["yes", "no"]) == "no" else {step}')
    return replace(example, edits=(edit,))


def test_a_tool_of_a_framework_asks_the_user(programs: Programs, client: Client, model: ResponsesModel) -> None:
    programs.kill(ALL)
    programs.start(map(asking, ALL))
    turns = {example: asked(client, model, example, "C-9", Reply(REFUNDED)) for example in ALL}
    for turn, _ in turns.values():
        question = next(event for event in turn if isinstance(event, QuestionEvent))
        assert question.question == "Refund C-9?"
        client.answer(question.question_id, "yes")
    for example, (turn, marker) in turns.items():
        assert turn.text(timeout_s=LIMIT_S) == f"One moment.\n\n{REFUNDED}", example.file
        assert (programs.folder(example) / "refunds.txt").read_text() == "C-9\n", example.file
        # The model is asked once before the question and once after it.
        assert len(model.requests(marker)) == 2, example.file


def full_pipe(path: Path) -> int:
    """Makes a named pipe of a path, to which nothing can be written. Returns its descriptor."""
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    try:
        while True:
            os.write(pipe, b"x" * 4096)
    except BlockingIOError:
        return pipe
