"""Tools in Python on a real server: agents call them, and get the honest outcome if their process dies."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from live_server import LiveServer
from rejoin import Client, Turn
from rejoin.events import QuestionEvent
from rejoin.turn_state import ToolCall
from scripted_model import Reply, ScriptedModel
from test_live_turns import marker
from worker_program import worker_process

LIMIT_S = 60.0


@contextmanager
def program(server: LiveServer, client: Client) -> Iterator[subprocess.Popen[bytes]]:
    """A registered worker in another process."""
    with worker_process(server.url, server.api_key) as process:
        until(lambda: f"program-{process.pid}" in json.dumps(client.request("GET", "/api/workers")))
        yield process


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "never true"
        time.sleep(0.02)


def asked(server: LiveServer, client: Client, model: ScriptedModel, tool: str, **arguments: object) -> Turn:
    """An agent calls a tool, and then answers `Done.`."""
    text = marker()
    model.script(text, Reply(tools=[(tool, dict(arguments))]), Reply("Done."))
    return client.send(f"Call it. {text}", agent=server.agent(tool))


def call_of(turn: Turn) -> ToolCall:
    """The call of a turn that has ended."""
    assert turn.text(timeout_s=LIMIT_S) == "Done."
    [call] = turn.state.tool_calls
    return call


def test_an_agent_calls_a_tool_in_python(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    with program(server, client):
        call = call_of(asked(server, client, model, "echo", text="Grüße"))
    assert (call.tool, call.status, call.input, call.result) == ("echo", "completed", {"text": "Grüße"}, "Grüße")


def test_a_call_waits_for_a_worker(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    with program(server, client) as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_S) == 0
    turn = asked(server, client, model, "echo", text="later")
    with program(server, client):
        assert call_of(turn).result == "later"


def test_the_outcome_of_a_call_whose_process_was_killed_is_unknown(
    server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path
) -> None:
    with program(server, client) as first, program(server, client) as second:
        turn = asked(server, client, model, "hold", folder=str(tmp_path))
        until((tmp_path / "begun-1").exists)
        # It is not known which of them has it.
        first.kill()
        second.kill()
        with program(server, client):
            call = call_of(turn)
    assert (call.status, call.result) == ("error", None)
    assert "unknown" in (call.error or "")
    # The model decides what to do about it: the call was not repeated.
    assert [path.name for path in tmp_path.iterdir()] == ["begun-1"]


def test_an_idempotent_call_of_a_process_that_was_killed_is_repeated(
    server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path
) -> None:
    with program(server, client) as first:
        turn = asked(server, client, model, "hold_idempotent", folder=str(tmp_path))
        until((tmp_path / "begun-1").exists)
        first.kill()
        with program(server, client) as second:
            until((tmp_path / "begun-2").exists)
            (tmp_path / "end").touch()
            call = call_of(turn)
    assert (call.status, call.result) == ("completed", f"process {second.pid}")


def test_a_worker_that_stops_ends_its_calls(server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path) -> None:
    with program(server, client) as process:
        turn = asked(server, client, model, "hold", folder=str(tmp_path))
        until((tmp_path / "begun-1").exists)
        process.send_signal(signal.SIGTERM)
        (tmp_path / "end").touch()
        assert process.wait(LIMIT_S) == 0
        call = call_of(turn)
    assert (call.status, call.result) == ("completed", f"process {process.pid}")


def test_cancelling_a_run_stops_the_function(server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path) -> None:
    with program(server, client):
        turn = asked(server, client, model, "wait_cancelled", folder=str(tmp_path))
        until((tmp_path / "begun-1").exists)
        client.cancel(turn.run_id)
        until((tmp_path / "stopped").exists)
    assert turn.result(timeout_s=LIMIT_S).status == "cancelled"


def test_a_user_confirms_a_call(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    with program(server, client):
        turn = asked(server, client, model, "pay", amount=2.5)
        question = next(event for event in turn if isinstance(event, QuestionEvent))
        client.answer(question.question_id, "approve")
        call = call_of(turn)
    assert (call.status, call.result) == ("completed", "paid 2.5")


def test_a_durable_function_outlives_its_process(server: LiveServer, client: Client, model: ScriptedModel, tmp_path: Path) -> None:
    with program(server, client) as first:
        turn = asked(server, client, model, "order", folder=str(tmp_path))
        question = next(event for event in turn if isinstance(event, QuestionEvent))
        # Nothing is lost while it waits.
        first.kill()
        with program(server, client) as second:
            client.answer(question.question_id, "yes")
            auditor = server.agent()
            model.script("audit-marker", Reply("All is well."))
            client.signal(turn.run_id, "paid", {"by": auditor})
            until((tmp_path / "shipping-4").exists)
            second.kill()
            with program(server, client):
                (tmp_path / "end").touch()
                call = call_of(turn)
    assert (call.status, call.error) == ("completed", None)
    assert call.result == {"price": "price", "answer": "yes", "paid": {"by": auditor}, "shipped": "ship", "audit": "All is well."}
    # The step was idempotent, and its first execution had not come to its effect.
    assert (tmp_path / "effects").read_text().split() == ["price", "ship"]


def test_a_function_asks_a_model_with_the_keys_of_the_server(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    question = marker()
    model.script(question, Reply("It is not fraud."))
    with program(server, client):
        call = call_of(asked(server, client, model, "ask_model", question=question))
    assert call.result == {"text": "It is not fraud.", "model": "openai:scripted", "tokens": 10}
    assert model.prompts(question) == ["Answer in one sentence."]


def test_an_answer_of_an_agent_outlives_its_process(server: LiveServer, client: Client, tmp_path: Path) -> None:
    with program(server, client) as first:
        turn = client.send(f"Tell me a story in {tmp_path}", agent="narrator")
        for _ in turn:
            if turn.state.text == "Once in a ":
                break
        until((tmp_path / "telling-1").exists)
        first.kill()
        with program(server, client):
            (tmp_path / "end").touch()
            assert turn.text(timeout_s=LIMIT_S) == "Once in a forest."
    assert (turn.state.text, len(turn.state.resets)) == ("Once in a forest.", 1)


def test_an_agent_with_a_prompt_of_a_program_calls_its_tool(server: LiveServer, client: Client, model: ScriptedModel) -> None:
    text = marker()
    model.script(text, Reply(tools=[("echo", {"text": "Grüße"})]), Reply("Done."))
    with program(server, client):
        turn = client.send(f"Repeat it. {text}", agent="repeater")
        assert call_of(turn).result == "Grüße"
    # It stays when its program has ended.
    assert "repeater" in [one.name for one in client.agents()]
    assert any("Repeat by echo" in prompt for prompt in model.prompts(text))
