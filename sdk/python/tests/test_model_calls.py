"""Functions that ask language models: what is asked, once, and what is wrong with that which cannot be."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from protocol_server import ProtocolServer
from pydantic import BaseModel

from rejoin import AsyncCallContext, CallContext, Journal, ModelAnswer, RecordedStep, Said, StepChangedError, StepFailedError, tool
from rejoin.worker.steps import Suspend
from test_worker import serving

pytestmark = pytest.mark.anyio


class Verdict(BaseModel):
    """What a model decides."""

    fraud: bool


SCHEMA = {"type": "object", "properties": {"fraud": {"type": "boolean"}}, "required": ["fraud"]}
ANSWER = {
    "runId": "run",
    "model": "openai:gpt-6-luna",
    "text": '{"fraud":false}',
    "output": {"fraud": False},
    "usage": {"inputTokens": 30, "outputTokens": 5, "costUsd": 0.25},
}


def waits_for(call: CallContext, *args: Any, **options: Any) -> dict[str, Any]:
    """What a function waits for that asks this."""
    with pytest.raises(Suspend) as suspended:
        call.model(*args, **options)
    [step] = suspended.value.steps
    return {"name": step.name, **{name: value for name, value in step.what.items() if value is not None}}


def recorded(kind: str = "model", **fields: Any) -> CallContext:
    step = RecordedStep.model_validate({"number": 1, "name": "model", "kind": kind, "status": "completed", "output": ANSWER, **fields})
    return CallContext(journal=Journal([step]))


def test_a_model_is_asked_a_text_or_what_was_said_before() -> None:
    assert waits_for(CallContext(), "Hello") == {"name": "model", "kind": "model", "messages": [{"role": "user", "text": "Hello"}]}
    history = [Said(role="user", text="Hi"), {"role": "assistant", "text": "Hello"}, {"role": "user", "content": "Is it fraud?"}]
    asks = waits_for(
        CallContext(),
        history,
        system="You know fraud.",
        model="gpt-6-luna",
        output_schema=SCHEMA,
        max_tokens=50,
        temperature=0,
        name="judge",
    )
    assert asks == {
        "name": "judge",
        "kind": "model",
        "messages": [
            {"role": "user", "text": "Hi"},
            {"role": "assistant", "text": "Hello"},
            {"role": "user", "text": "Is it fraud?"},
        ],
        "system": "You know fraud.",
        "model": "gpt-6-luna",
        "outputSchema": SCHEMA,
        "maxTokens": 50,
        "temperature": 0,
    }
    assert waits_for(CallContext(), "Judge.", output_schema=Verdict)["outputSchema"]["properties"]["fraud"]["type"] == "boolean"
    # As the API stores it.
    assert waits_for(CallContext(), "a\0")["messages"][0]["text"] == "a\N{REPLACEMENT CHARACTER}"


def test_a_recorded_answer_is_returned_without_asking_again() -> None:
    answer = recorded().model("Is it fraud?", output_schema=Verdict)
    assert (answer.text, answer.output, answer.model, answer.run_id) == ('{"fraud":false}', {"fraud": False}, "openai:gpt-6-luna", "run")
    assert (answer.usage.input_tokens, answer.usage.output_tokens, answer.usage.cost_usd) == (30, 5, 0.25)
    assert answer.parse(Verdict) == Verdict(fraud=False)
    assert ModelAnswer(text="Hi", run_id="run").output is None


def test_a_model_that_has_not_answered_raises_the_reason() -> None:
    with pytest.raises(StepFailedError, match="token_budget"):
        recorded(status="error", output=None, error="the model has not answered (token_budget): it is used up").model("Hello")


def test_another_step_in_the_place_of_a_model_call_is_an_error() -> None:
    with pytest.raises(StepChangedError, match=r"\(agent\).*\(model\)"):
        recorded("agent").model("Hello")
    with pytest.raises(StepChangedError, match="judge"):
        recorded().model("Hello", name="judge")


@pytest.mark.parametrize(
    ("prompt", "options", "error", "what"),
    [
        ("", {}, ValueError, "message 1 has no text"),
        ([], {}, ValueError, "1 to 1000 messages, not 0"),
        (["Hello"], {}, TypeError, "write {'role': 'user'"),
        ([{"role": "system", "text": "Be kind."}], {}, ValueError, "system="),
        ([{"role": "tool", "text": "7"}], {}, ValueError, "'tool'; write user or assistant"),
        ([{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}], {}, ValueError, "last message"),
        ([{"role": "user", "content": [{"type": "text"}]}], {}, ValueError, "message 1 has no text"),
        ("Hello", {"model": " "}, ValueError, "leave model= out"),
        ("Hello", {"max_tokens": 0}, ValueError, "choose 1 or more"),
        ("Hello", {"temperature": 2.5}, ValueError, "choose 0 to 2"),
        ("Hello", {"output_schema": {"type": "array"}}, ValueError, "of an object"),
        ("Hello", {"output_schema": "a text"}, TypeError, "neither a pydantic model"),
        ("Hello", {"system": "x" * 262_144}, ValueError, "the limit is 262144"),
        ("Hello", {"name": "x" * 201}, ValueError, "1 to 200 characters"),
    ],
)
def test_what_a_model_can_t_be_asked_raises(prompt: Any, options: dict[str, Any], error: type[Exception], what: str) -> None:
    with pytest.raises(error) as raised:
        CallContext().model(prompt, **options)
    assert what in str(raised.value)


def test_a_step_asks_no_model() -> None:
    call = CallContext()
    with pytest.raises(StepFailedError, match="outside of steps"):
        call.step("judge", lambda: call.model("Hello"))


async def test_a_function_goes_on_with_the_answer_of_a_model(api: ProtocolServer) -> None:
    asked: list[int] = []

    @tool(durable=True)
    def judge(order: str, call: CallContext) -> list[Any]:
        """Judges an order."""
        asked.append(call.attempt)
        answer = call.model(f"Is {order} fraud?", output_schema=Verdict)
        call.sleep(1)
        return [answer.parse(Verdict).fraud, answer.usage.output_tokens]

    @tool(durable=True)
    async def judge_soon(order: str, call: AsyncCallContext) -> list[Any]:
        """Judges an order, with async def."""
        await asyncio.sleep(0)
        asked.append(call.attempt)
        answer = await call.model(f"Is {order} fraud?", output_schema=Verdict)
        await call.sleep(1)
        return [answer.parse(Verdict).fraud, answer.usage.output_tokens]

    async with serving(api, judge, judge_soon):
        for name in ("judge", "judge_soon"):
            call = api.offer(name, order="A-7")
            [wait] = await api.suspended(call)
            assert (wait["kind"], wait["messages"]) == ("model", [{"role": "user", "text": "Is A-7 fraud?"}])
            api.happen(call, ANSWER)
            await api.suspended(call)
            api.happen(call, None)
            assert (await api.ended(call)).output == [False, 5]
    assert asked == [1, 2, 3, 1, 2, 3]
    assert not api.violations
