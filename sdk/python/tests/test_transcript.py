"""What is shown equals what is stored."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from logs import (
    RECORDED,
    RECORDED_RUN,
    SUB,
    Json,
    call,
    done,
    fold,
    join_at,
    kept,
    message,
    meta,
    numbered,
    only,
    question,
    reset,
    snapshot,
    text_of,
    token,
)
from rejoin import Message, Transcript, TurnState, parse_event
from rejoin.turn_state import AgentPart, HandoffPart, ReceivedPart, TextPart, ToolCall


def shape(turn: TurnState) -> Any:
    """All of a turn but its attempt, to compare."""
    parts: list[Any] = []
    for part in turn.parts:
        match part:
            case TextPart():
                parts.append((part.type, part.text))
            case ToolCall():
                parts.append((part.call_id, part.tool, part.status, part.input, part.result))
            case AgentPart():
                parts.append(shape(part.turn))
            case ReceivedPart():
                parts.append(part.message.content)
            case HandoffPart():
                parts.append((part.from_agent, part.to_agent))
    questions = sorted((question.question_id, question.status, question.answer) for question in turn.questions)
    errors = [error.code for error in turn.errors]
    return turn.id, turn.status, turn.agent, turn.model, turn.usage, turn.output, turn.summary, questions, errors, parts


def test_a_recorded_run_with_a_lost_worker_has_every_word_once() -> None:
    transcript = Transcript()
    for at, (seq, event) in enumerate(RECORDED, 1):
        transcript.apply(parse_event(event, seq))
        assert only(transcript).text == text_of(RECORDED[:at], RECORDED_RUN)
    turn = only(transcript)
    assert turn.message is not None
    assert turn.text == turn.message.content
    assert (turn.status, turn.attempt, len(turn.resets), len(turn.tool_calls)) == ("completed", 2, 1, 2)
    assert [type(item).__name__ for item in transcript.items] == ["Message", "TurnState"]
    assert transcript.cursor == RECORDED[-1][0]


def test_a_reader_that_joins_a_recorded_run_by_a_snapshot_ends_with_the_same_text() -> None:
    for cut in range(len(RECORDED) + 1):
        # The message and its `done` are one transaction: no snapshot has one without the other.
        if cut == len(RECORDED) - 1:
            continue
        turn = only(join_at(RECORDED, cut))
        assert turn.message is not None
        assert (turn.text, turn.status) == (turn.message.content, "completed"), f"joined at {cut}"


def test_a_snapshot_over_what_is_known_leaves_nothing_twice() -> None:
    chance = random.Random(1)
    for _ in range(60):
        cut = chance.choice([*range(len(RECORDED) - 1), len(RECORDED)])
        transcript = join_at(RECORDED, cut, fold(RECORDED[: chance.randint(0, cut)]))
        turn = only(transcript)
        assert turn.message is not None
        assert (turn.text, turn.status) == (turn.message.content, "completed")
        assert len(transcript.items) == len(transcript.messages) == 2


def test_a_reset_undoes_exactly_the_events_that_it_names() -> None:
    usage = {"type": "usage", "runId": "r", "inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    log = numbered(
        [
            message("q"),
            meta(),
            token("One. "),
            {**usage, "steps": 1},
            call("a", status="started", input={}),
            token("void"),
            {"type": "reasoning", "runId": "r", "text": "void"},
            call("a", result=1, durationMs=3),
            call("b", status="started"),
            {"type": "limit", "runId": "r", "limit": "void", "message": "void"},
            {"type": "handoff", "runId": "r", "from": "ada", "to": "void"},
            message("Hurry."),
            {**usage, "steps": 2},
            reset(5),
        ]
    )
    turn = only(fold(log))
    assert (turn.text, turn.reasoning, turn.agent, turn.limits, turn.status, turn.attempt) == ("One. ", "", "ada", [], "running", 2)
    assert turn.usage is not None
    assert turn.usage.steps == 1
    assert [(one.call_id, one.status, one.result) for one in turn.tool_calls] == [("a", "started", None)]
    # The user's message is not discarded.
    assert [type(part) for part in turn.parts] == [TextPart, ToolCall, ReceivedPart]


def _random_log(chance: random.Random) -> list[tuple[int, Json]]:
    events: list[Json] = [message("q"), meta()]
    safe, attempt = 2, 1
    for _ in range(chance.randint(0, 60)):
        count, call_id = len(events), f"c{chance.randint(0, 3)}"
        child: Json = {"runId": f"s{chance.randint(0, 1)}", **SUB}
        usage = {"inputTokens": count, "outputTokens": 1, "totalTokens": 2, "steps": count}
        possible: list[Json] = [
            token(f"t{count} "),
            token(f"t{count} "),
            {"type": "reasoning", "runId": "r", "text": f"r{count}"},
            call(call_id, status="started", input=count),
            call(call_id, result=count),
            {"type": "usage", "runId": "r", **usage},
            question(call_id),
            {"type": "question_answered", "runId": "r", "questionId": call_id, "status": "answered", "answer": count},
            {"type": "error", "runId": "r", "error": "e", "code": str(count), "retryable": True},
            {"type": "agent_state", "runId": "r", "state": "thinking"},
            {"type": "handoff", "runId": "r", "from": "ada", "to": f"a{count}"},
            {"type": "output", "runId": "r", "output": {"count": count}},
            {"type": "sub_agent", "status": "started", "task": "t", **child},
            token(f"s{count}", child["runId"], **SUB),
            message(f"m{count}"),
            reset(safe, attempt=(attempt := attempt + 1)),
        ]
        events.append(chance.choice(possible))
        # The current step ends now and then, and begins again with each reset.
        if chance.randint(0, 7) == 0 or events[-1]["type"] == "reset":
            safe = len(events)
    return numbered(events)


def test_after_resets_a_turn_is_what_it_would_be_without_the_void_events() -> None:
    for seed in range(200):
        log = _random_log(random.Random(seed))
        assert shape(only(fold(log))) == shape(only(fold(kept(log)))), f"seed {seed}"


def test_a_reset_of_what_a_snapshot_holds_asks_for_a_new_one() -> None:
    log = numbered([message("q"), meta(), token("a "), token("void")])
    transcript = Transcript()
    transcript.apply(parse_event(snapshot(log), 4))
    assert not transcript.apply(parse_event(reset(3), 5))
    transcript.apply(parse_event(snapshot([*log, (5, reset(3))]), 5))
    assert only(fold([(6, token("b"))], transcript)).text == "a b"


def test_a_reset_after_a_snapshot_keeps_what_the_snapshot_holds() -> None:
    log = numbered([message("q"), meta(), token("a "), call("x"), {"type": "sub_agent", "runId": "s", "status": "started", **SUB}])
    transcript = Transcript()
    transcript.apply(parse_event(snapshot(log), 5))
    fold([(6, token("void")), (7, reset(5)), (8, token("b"))], transcript)
    turn = only(transcript)
    assert (turn.text, [one.call_id for one in turn.tool_calls], [agent.run_id for agent in turn.agents]) == ("a b", ["x"], ["s"])


def test_sub_agents_are_turns_within_the_turn_also_for_late_readers() -> None:
    deep: Json = {"agent": "cyd", "parentRunId": "s", "source": "sub_agent"}
    log = numbered(
        [
            message("q"),
            meta(),
            token("Mine. "),
            {"type": "sub_agent", "runId": "s", "status": "started", "task": "dig", **SUB},
            {"type": "agent_state", "runId": "r", "state": "waiting_on_agents"},
            token("Theirs.", "s", **SUB),
            call("a", "s", **SUB),
            {"type": "sub_agent", "runId": "t", "status": "started", "task": "deeper", **deep},
            token("Deep.", "t", **deep),
            {"type": "sub_agent", "runId": "t", "status": "failed", "error": "broken", "code": "x", **deep},
            {"type": "sub_agent", "runId": "s", "status": "completed", "summary": "found", **SUB},
            {"type": "agent_state", "runId": "r", "state": "thinking"},
            token("Again."),
            done(),
        ]
    )
    for cut in (0, 6, 9):
        turn = only(join_at(log, cut))
        assert (turn.status, turn.text) == ("completed", "Mine. Again.")
        (agent,) = turn.agents
        assert (agent.run_id, agent.agent, agent.task, agent.status, agent.text) == ("s", "bea", "dig", "completed", "Theirs.")
        assert (agent.summary, [one.call_id for one in agent.tool_calls]) == ("found", ["a"])
        assert [(deeper.run_id, deeper.text, deeper.status, deeper.errors[0].error) for deeper in agent.agents] == [
            ("t", "Deep.", "failed", "broken")
        ]


def test_questions_are_open_until_they_are_answered() -> None:
    started: Json = {"type": "sub_agent", "runId": "s", "status": "started", **SUB}
    waits: Json = {"type": "agent_state", "runId": "r", "state": "waiting_on_user"}
    log = numbered([message("q"), meta(), started, question("one"), question("two", "s", **SUB), waits])
    answered: Json = {"type": "question_answered", "questionId": "one", "status": "answered", "answer": "yes", "runId": "r"}
    for cut in (0, len(log)):
        transcript = join_at(log, cut)
        assert sorted(question.question_id for question in transcript.questions) == ["one", "two"]
        assert only(transcript).status == "waiting"
        fold([(7, answered)], transcript)
        assert [question.question_id for question in transcript.questions] == ["two"]
        assert next(one for one in only(transcript).questions if one.question_id == "one").answer == "yes"


def test_messages_that_wait_are_turns_that_are_queued() -> None:
    log = numbered([message("one", "a"), meta("a"), message("two", "b"), token("A", "a")])
    transcript = fold(log)

    def shown() -> list[str]:
        return [item.content if isinstance(item, Message) else f"{item.run_id} {item.status}" for item in transcript.items]

    assert shown() == ["one", "a running", "two", "b queued"]
    assert transcript.active is not None
    assert transcript.active.run_id == "a"
    fold([(5, message("A", "a", "assistant")), (6, done(run_id="a"))], transcript)
    assert transcript.active.run_id == "b"
    fold([(7, done("cancelled", "b"))], transcript)
    assert shown() == ["one", "a completed", "two", "b cancelled"]
    assert transcript.active is None


def test_a_resumed_run_opens_a_new_turn_of_the_same_run() -> None:
    first = [message("q"), meta(), token("a"), message("a", role="assistant"), done("paused")]
    log = numbered([*first, message("go on"), meta(), token("b"), message("b", role="assistant"), done()])
    transcript = fold(log)
    assert [(turn.id, turn.status, turn.text) for turn in transcript.turns] == [("r", "paused", "a"), ("r#2", "completed", "b")]
    newest = transcript.turn("r")
    assert newest is transcript.turns[1]
    # A later reader sees the same.
    assert [turn.text for turn in join_at(log, len(log)).turns] == ["a", "b"]


def test_a_snapshot_has_turns_that_left_no_message_and_those_that_wait() -> None:
    def asked(name: str, run_id: str, state: str) -> Json:
        return {"id": name, "role": "user", "content": name, "createdAt": "2026-01-01T00:00:00Z", "runId": run_id, "runState": state}

    answer = {"id": "a", "role": "assistant", "content": "Half of", "createdAt": "2026-01-01T00:00:00Z"}
    messages = [
        asked("q1", "r1", "failed"),
        asked("q2", "r2", "cancelled"),
        {**answer, "retrievalContext": {"agent_run_id": "r2"}},
        asked("q3", "r3", "running"),
        asked("q4", "r4", "queued"),
    ]
    turn = {"runId": "r3", "meta": meta("r3"), "text": "Now", "toolCalls": []}
    transcript = Transcript()
    transcript.apply(parse_event({"type": "snapshot", "through": 9, "messages": messages, "turn": turn}, 9))
    shown = [item.content if isinstance(item, Message) else f"{item.run_id} {item.status} {item.text}" for item in transcript.items]
    assert shown == ["q1", "r1 failed ", "q2", "r2 cancelled Half of", "q3", "r3 running Now", "q4", "r4 queued "]
    assert [(turn.message_id, turn.partial) for turn in transcript.turns] == [("q1", True), ("q2", True), ("q3", False), ("q4", False)]


def test_a_snapshot_lays_text_calls_and_sub_agents_out_as_they_happened() -> None:
    log = numbered(
        [
            message("q"),
            meta(),
            call("a"),
            token("One 🦀. "),
            call("b"),
            token("Two. "),
            {"type": "sub_agent", "runId": "s", "status": "started", "task": "t", **SUB},
            token("Theirs.", "s", **SUB),
            call("c", "s", **SUB),
            token("More.", "s", **SUB),
            token("Then. "),
            call("d"),
            token("Three."),
        ]
    )
    wanted = shape(only(fold(log)))[-1]
    for cut in range(1, len(log) + 1):
        # Text that a snapshot has cut in two is one part again.
        assert shape(only(join_at(log, cut)))[-1] == wanted, f"joined at {cut}"


def test_an_unknown_event_changes_nothing() -> None:
    transcript = fold(numbered([message("q"), meta(), token("a")]))
    before = shape(only(transcript))
    fold([(4, {"type": "not_invented", "runId": "r", "plan": {}})], transcript)
    assert shape(only(transcript)) == before
    assert transcript.cursor == 4


def test_a_frame_about_the_connection_changes_nothing() -> None:
    transcript = Transcript()
    assert transcript.apply(parse_event({"type": "caught_up", "through": 7}))
    assert (transcript.cursor, transcript.items) == (0, [])


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_a_turn_that_a_reader_lost_sight_of_is_known_by_the_next_snapshot(status: str) -> None:
    log = numbered([message("q"), meta(), token("half"), message("half and more", role="assistant"), done(status)])
    transcript = fold(log[:3])
    transcript.apply(parse_event(snapshot(log), 5))
    turn = only(transcript)
    assert (turn.status, turn.text, turn.partial) == (status, "half and more", True)


def test_folding_takes_time_that_grows_with_the_length_of_the_log_only() -> None:
    event = parse_event(token("word and word "), 3)

    def measure(count: int) -> float:
        transcript = fold(numbered([message("q"), meta()]))
        began = time.perf_counter()
        for _ in range(count):
            transcript.apply(event)
        fold([(4, reset(2))], transcript)
        assert only(transcript).text == ""
        return time.perf_counter() - began

    few, many = (min(measure(count) for _ in range(3)) for count in (1000, 16_000))
    assert many < max(few, 0.003) * 100
