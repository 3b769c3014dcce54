"""Agents with a prompt: what is announced, which tools are served, and what is wrong with those that cannot be."""

from __future__ import annotations

from typing import Any

import pytest
from protocol_server import ProtocolServer
from pydantic import BaseModel, RootModel

import rejoin
from rejoin import Agent, PermissionDeniedError, agent, tool
from rejoin.worker.requests import agent_definition
from test_worker import serving


class Answer(BaseModel):
    """An answer."""

    order: str
    why: str = "late"


class Orders(RootModel[list[str]]):
    """Not an object."""


@tool
def refund(order: str) -> str:
    """Refunds an order."""
    return f"refunded {order}"


@tool
def find(order: str) -> None:
    """Finds an order."""


@agent
def greeter(message: str) -> str:
    """Greets."""
    return f"Hello, {message}"


clerk = Agent(
    name="clerk",
    description="\nRefunds orders.\nIn detail.",
    prompt="Look up an order before you refund it.",
    tools=[find, "refund", refund],
)
USUAL: dict[str, Any] = {"name": "usual", "description": "…", "prompt": "Answer."}


def test_an_agent_has_a_prompt_and_the_names_of_its_tools_each_once() -> None:
    assert agent_definition(clerk) == {
        "name": "clerk",
        "description": "Refunds orders.",
        "systemPrompt": "Look up an order before you refund it.",
        "tools": ["find", "refund"],
    }
    assert repr(clerk) == "Agent('clerk')"


def test_an_agent_has_a_model_an_output_and_a_limit_if_they_are_given() -> None:
    announced = agent_definition(Agent(**USUAL, model="openai:gpt-6-sol", output=Answer, max_steps=5))
    assert (announced["model"], announced["tools"], announced["maxSteps"]) == ("openai:gpt-6-sol", [], 5)
    assert announced["outputSchema"] == Answer.model_json_schema()
    schema = {"type": "object", "properties": {}}
    assert agent_definition(Agent(**USUAL, output=schema))["outputSchema"] == schema


@pytest.mark.parametrize(
    ("wrong", "error", "advice"),
    [
        ({"name": " "}, ValueError, "a name has 1 to 200 characters"),
        ({"name": "x" * 201}, ValueError, "a name has 1 to 200 characters"),
        ({"description": " "}, ValueError, "people and agents choose an agent by its description"),
        ({"prompt": " "}, ValueError, "a prompt has 1 to 200000 characters, not 0"),
        ({"prompt": "x" * 200_001}, ValueError, "a prompt has 1 to 200000 characters, not 200001"),
        ({"tools": "refund"}, TypeError, "write tools=['refund']"),
        ({"tools": refund}, TypeError, "write tools=[refund]"),
        ({"tools": [refund.function]}, TypeError, "write @tool above the function"),
        ({"tools": [""]}, ValueError, "the name of a tool is empty"),
        ({"model": ""}, ValueError, "the name of the model is empty"),
        ({"output": str}, TypeError, "neither a pydantic model nor a JSON Schema"),
        ({"output": Orders}, ValueError, "the output is an object"),
        ({"output": {"type": "array"}}, ValueError, "the output is an object"),
        ({"max_steps": 0}, ValueError, "choose 1 or more"),
    ],
)
def test_what_cannot_be_an_agent_is_refused_with_advice(wrong: dict[str, Any], error: type[Exception], advice: str) -> None:
    with pytest.raises(error) as caught:
        Agent(**{**USUAL, **wrong})
    assert advice in str(caught.value)


def test_a_worker_checks_its_agents() -> None:
    other = tool(name="refund")(find.function)
    cases: list[tuple[list[Any], str]] = [
        ([], "a worker serves at least one tool; pass a function with @tool to it"),
        ([Agent(**USUAL)], r"its agents \(usual\) bring none; pass a function with @tool to it, or in tools= of an agent"),
        ([other, clerk], "there are two tools named refund"),
        ([clerk, Agent(**{**USUAL, "name": "clerk"})], "there are two agents named clerk"),
        ([clerk, agent(name="clerk")(greeter.tool.function)], "there are two agents named clerk"),
    ]
    for given, advice in cases:
        with pytest.raises(ValueError, match=advice):
            rejoin.Worker(given, url="http://api.test", api_key="k")


@pytest.mark.anyio
async def test_a_worker_announces_an_agent_and_serves_its_tools(api: ProtocolServer) -> None:
    async with serving(api, refund, clerk, greeter, Agent(**USUAL, tools=[find])):
        assert (await api.ended(api.offer("refund", order="A-7"))).output == "refunded A-7"
        assert (await api.ended(api.offer("find", order="A-7"))).output is None
        assert (await api.ended(api.offer("greeter", message="Ann"))).output == "Hello, Ann"
    kind, registered = api.requests[0]
    assert (kind, [one["name"] for one in registered["tools"]]) == ("registrations", ["refund", "greeter", "find"])
    assert registered["agents"] == [
        agent_definition(clerk),
        {"name": "greeter", "description": "Greets.", "tool": "greeter"},
        {**agent_definition(Agent(**USUAL)), "tools": ["find"]},
    ]


@pytest.mark.anyio
async def test_a_tool_of_another_worker_needs_another_key(api: ProtocolServer) -> None:
    worker = rejoin.Worker([refund, Agent(**USUAL, tools=["search_*"])], url=api.url, api_key="rejoin_worker_key")
    with pytest.raises(PermissionDeniedError):
        await worker.serve()
    assert len(api.violations) == 1
    api.violations.clear()
