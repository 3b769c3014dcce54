"""Logs for tests, and a second, simple way to fold them, to compare with: it drops void events first, and takes snapshots as the server
does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rejoin import Transcript, TurnState, parse_event

REPOSITORY = Path(__file__).parents[3]
Json = dict[str, Any]
Log = list[tuple[int, Json]]

# A run of a real server whose worker was killed in the middle of its answer.
RECORDED: Log = [(seq, event) for seq, event in json.loads((REPOSITORY / "web/packages/client/test/recorded.json").read_text())]
RECORDED_RUN: str = RECORDED[0][1]["runId"]

SUB: Json = {"agent": "bea", "parentRunId": "r", "source": "sub_agent"}


def numbered(events: list[Json]) -> Log:
    """The events of one log."""
    return list(enumerate(events, 1))


def message(content: str, run_id: str = "r", role: str = "user") -> Json:
    """A stored message, as an event."""
    stored = {"id": f"{role} {content}", "role": role, "content": content, "createdAt": "2026-01-01T00:00:00Z"}
    return {"type": "message", "runId": run_id, "message": stored}


def token(text: str, run_id: str = "r", **more: Any) -> Json:
    return {"type": "token", "runId": run_id, "token": text, **more}


def meta(run_id: str = "r", attempt: int = 1) -> Json:
    return {"type": "meta", "runId": run_id, "agent": "ada", "model": "m", "citations": [], "attempt": attempt}


def call(call_id: str, run_id: str = "r", status: str = "completed", **more: Any) -> Json:
    return {"type": "mcp_tool", "runId": run_id, "callId": call_id, "tool": "look", "status": status, **more}


def reset(discard_after: int, run_id: str = "r", attempt: int = 2) -> Json:
    return {"type": "reset", "runId": run_id, "discardAfter": discard_after, "attempt": attempt, "reason": "lost"}


def done(status: str = "completed", run_id: str = "r") -> Json:
    return {"type": "done", "runId": run_id, "status": status}


def question(question_id: str, run_id: str = "r", **more: Any) -> Json:
    asked = {"questionId": question_id, "question": f"{question_id}?", "options": [], "interactionType": "text"}
    return {"type": "question", "runId": run_id, **asked, **more}


# A small log with all that matters to a reader: characters of several bytes, a reset, an end.
SMALL: Log = numbered(
    [
        message("Tell me."),
        meta(),
        token("Ä€😀 "),
        token("void 😀"),
        reset(3),
        token("new\n"),
        {"type": "not_invented_yet", "runId": "r", "value": [1]},
        token("end"),
        message("Ä€😀 new\nend", role="assistant"),
        {"type": "done", "runId": "r", "status": "completed", "usage": {"inputTokens": 1, "totalTokens": 3, "steps": 1}},
    ]
)


def fold(log: Log, into: Transcript | None = None) -> Transcript:
    """Folds a log."""
    transcript = into or Transcript()
    for seq, event in log:
        assert transcript.apply(parse_event(event, seq)), f"event {seq}"
    return transcript


def join_at(log: Log, cut: int, into: Transcript | None = None) -> Transcript:
    """Joins by a snapshot after `cut` events and goes on, as a connection does."""
    transcript = into or Transcript()
    transcript.apply(parse_event(snapshot(log[:cut]), log[cut - 1][0] if cut else 0))
    for at in range(cut, len(log)):
        seq, event = log[at]
        if not transcript.apply(parse_event(event, seq)):
            transcript.apply(parse_event(snapshot(log[: at + 1]), seq))
    return transcript


def only(transcript: Transcript) -> TurnState:
    """The only turn."""
    assert len(transcript.turns) == 1
    return transcript.turns[0]


def kept(log: Log) -> Log:
    """The log without the events that its resets void, and without the resets."""
    left: Log = []
    for seq, event in log:
        if event["type"] == "reset":
            after, run_id = event["discardAfter"], event["runId"]
            left = [one for one in left if one[0] <= after or one[1].get("runId") != run_id or one[1]["type"] == "message"]
        else:
            left.append((seq, event))
    return left


def text_of(log: Log, run_id: str = "r") -> str:
    """The text that a run's tokens make."""
    return "".join(event["token"] for _, event in kept(log) if event["type"] == "token" and event["runId"] == run_id)


def units(text: str) -> int:
    """The length in UTF-16 units."""
    return len(text.encode("utf-16-le")) // 2


def snapshot(log: Log) -> Json:
    """What the server answers to `from=snapshot` after these events."""
    ended = {event["runId"]: event["status"] for _, event in log if event["type"] == "done"}
    messages: list[Json] = []
    open_runs: list[str] = []
    for seq, event in log:
        if event["type"] == "message":
            stored, run_id = event["message"], event["runId"]
            if stored["role"] == "assistant":
                messages.append({**stored, "seq": seq, "retrievalContext": {"agent_run_id": run_id}, "runId": None})
            else:
                answered = run_id not in [known.get("runId") for known in messages]
                state = {"runId": run_id, "runState": ended.get(run_id, "running")} if answered else {}
                messages.append({**stored, "seq": seq, **state})
            if run_id not in open_runs:
                open_runs.append(run_id)
    through = log[-1][0] if log else 0
    root = next((run_id for run_id in open_runs if run_id not in ended), None)
    return {"type": "snapshot", "through": through, "messages": messages, "turn": root and _turn(log, root)}


def _turn(log: Log, root: str) -> Json:
    turn: Json = {"runId": root, "text": "", "reasoning": "", "toolCalls": [], "agents": [], "questions": []}
    for _, event in kept(log):
        run_id, kind = event.get("runId"), event["type"]
        agent = next((agent for agent in turn["agents"] if agent["runId"] == run_id), None)
        if run_id != root and "parentRunId" not in event:
            continue
        filled = agent or turn
        if kind == "meta" and run_id == root:
            turn["meta"] = event
        elif kind == "token":
            filled["text"] += event["token"]
        elif kind == "reasoning" and agent is None:
            turn["reasoning"] += event["text"]
        elif kind == "question":
            turn["questions"].append(event)
        elif kind == "question_answered":
            turn["questions"] = [one for one in turn["questions"] if one["questionId"] != event["questionId"]]
        elif kind == "sub_agent" and agent is not None:
            agent["status"] = event["status"]
        elif kind == "sub_agent":
            parent = next((agent for agent in turn["agents"] if agent["runId"] == event["parentRunId"]), turn)
            fields = {name: event.get(name) for name in ("runId", "parentRunId", "agent", "status", "task")}
            turn["agents"].append({**fields, "text": "", "toolCalls": [], "afterText": units(parent["text"])})
        elif kind == "mcp_tool":
            known = next((one for one in filled["toolCalls"] if one["callId"] == event["callId"]), None)
            fields = {name: event.get(name) for name in ("callId", "tool", "status", "input", "result", "error")}
            if known is None:
                filled["toolCalls"].append({**fields, "afterText": units(filled["text"])})
            else:
                known.update({name: fields[name] for name in ("status", "result", "error")})
    return turn
