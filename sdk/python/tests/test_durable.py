"""Durable functions: steps happen once, waits hand the call back, and the function begins again with what is recorded."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import pytest
from protocol_server import ProtocolServer

from rejoin import (
    AgentResult,
    AsyncCallContext,
    CallContext,
    Journal,
    RecordedStep,
    Said,
    StepChangedError,
    StepFailedError,
    StepOutcomeUnknownError,
    agent,
    tool,
)
from rejoin.worker.steps import Suspend
from test_worker import serving

pytestmark = pytest.mark.anyio


def recorded(number: int, name: str, kind: str = "function", output: Any = None, status: str = "completed") -> RecordedStep:
    return RecordedStep(number=number, name=name, kind=kind, status=status, output=output, error="no" if status == "error" else None)


def test_steps_of_an_earlier_execution_return_what_is_recorded() -> None:
    journal = Journal([recorded(1, "look up", output={"price": 2}), recorded(2, "sure", "question", {"answer": "yes"})])
    call = CallContext(journal=journal)
    assert call.step("look up", lambda: pytest.fail("it is called again")) == {"price": 2}
    assert call.ask_user("sure") == "yes"
    assert call.step("pay", lambda: ("euros", 2)) == ["euros", 2]
    with pytest.raises(Suspend) as suspended:
        call.map("auditor", ["A", "B"])
    assert [(step.number, step.what["task"]) for step in suspended.value.steps] == [(4, "A"), (5, "B")]


@pytest.mark.parametrize(
    ("step", "error"),
    [
        (recorded(1, "pay", status="begun"), StepOutcomeUnknownError),
        (recorded(1, "pay", status="error"), StepFailedError),
        (recorded(1, "refund"), StepChangedError),
        (recorded(1, "pay", kind="sleep"), StepChangedError),
    ],
)
def test_what_can_t_go_on_raises(step: RecordedStep, error: type[Exception]) -> None:
    with pytest.raises(error, match="pay|no"):
        CallContext(journal=Journal([step])).step("pay", lambda: None)


def test_an_idempotent_step_that_had_begun_is_repeated() -> None:
    call = CallContext(journal=Journal([recorded(1, "pay", status="begun")]))
    assert call.step("pay", lambda: "paid", idempotent=True) == "paid"


def test_a_wait_in_a_step_is_an_error_of_the_step() -> None:
    call = CallContext()
    with pytest.raises(StepFailedError, match="outside of steps"):
        call.step("pay", lambda: call.ask_user("Sure?"))


def test_a_sleep_until_a_time_in_the_past_is_a_step_too() -> None:
    with pytest.raises(Suspend) as suspended:
        CallContext().sleep(-1)
    assert suspended.value.steps[0].what == {"kind": "sleep", "seconds": 0}


def test_a_signal_that_did_not_come_in_time_raises() -> None:
    with pytest.raises(TimeoutError, match="paid"):
        CallContext(journal=Journal([recorded(1, "paid", "event")])).wait_for_event("paid", 1)


async def test_a_function_waits_and_goes_on_without_repeating_its_steps(api: ProtocolServer) -> None:
    effects: list[str] = []

    @tool(durable=True)
    def order(item: str, call: CallContext) -> dict[str, Any]:
        """Orders."""

        def look_up() -> float:
            effects.append(f"price of {item}")
            return 12.5

        price = call.step("price", look_up)
        call.sleep(3600)
        answer = call.ask_user("Buy it?", ["yes", "no"])
        audits = call.map("auditor", ["A", "B"])
        paid = call.wait_for_event("paid", timeout_s=60)
        call.step("ship", lambda: effects.append("ship"))
        return {"price": price, "answer": answer, "audits": [audit.summary for audit in audits], "paid": paid}

    @tool(durable=True)
    async def order_soon(item: str, call: AsyncCallContext) -> dict[str, Any]:
        """Orders, with async def."""

        async def look_up() -> float:
            await asyncio.sleep(0)
            effects.append(f"price of {item}")
            return 12.5

        async def ship() -> None:
            effects.append("ship")

        price = await call.step("price", look_up)
        await call.sleep(3600)
        answer = await call.ask_user("Buy it?", ["yes", "no"])
        audits = [await call.spawn("auditor", "A"), await call.spawn("auditor", "B")]
        paid = await call.wait_for_event("paid", timeout_s=60)
        await call.step("ship", ship)
        return {"price": price, "answer": answer, "audits": [audit.summary for audit in audits], "paid": paid}

    def result(summary: str) -> dict[str, Any]:
        return {"runId": "run", "agent": "auditor", "status": "completed", "summary": summary, "steps": 1, "error": None}

    async with serving(api, order, order_soon, slots=1):
        for name in ("order", "order_soon"):
            effects.clear()
            call = api.offer(name, item="pen")
            assert await api.suspended(call) == [{"kind": "sleep", "seconds": 3600}]
            api.happen(call, None)
            [question] = await api.suspended(call)
            assert (question["question"], question["options"][0]) == ("Buy it?", {"label": "yes", "value": "yes"})
            # It takes no slot: another call is executed meanwhile.
            other = api.offer(name, item="ink")
            await api.suspended(other)
            api.cancel(other)
            effects.remove("price of ink")
            api.happen(call, {"answer": "yes"})
            if name == "order":
                assert [wait["task"] for wait in await api.suspended(call)] == ["A", "B"]
                api.happen(call, result("A is fine"), result("B is not"))
            else:
                await api.suspended(call)
                api.happen(call, result("A is fine"))
                await api.suspended(call)
                api.happen(call, result("B is not"))
            assert await api.suspended(call) == [{"kind": "event", "event": "paid", "timeoutS": 60}]
            api.happen(call, {"data": {"by": "card"}})
            assert (await api.ended(call)).output == {
                "price": 12.5,
                "answer": "yes",
                "audits": ["A is fine", "B is not"],
                "paid": {"by": "card"},
            }
            assert effects == ["price of pen", "ship"]
    assert not api.violations
    [registered] = [body for kind, body in api.requests if kind == "registrations"]
    assert all(one["idempotent"] for one in registered["tools"])


async def test_a_step_that_fails_is_recorded_and_raised_again(api: ProtocolServer) -> None:
    tries: list[int] = []

    @tool(durable=True)
    def pay(call: CallContext) -> str:
        """Pays."""

        def refuse() -> None:
            tries.append(call.attempt)
            raise ValueError("the bank is closed")

        try:
            call.step("pay", refuse)
        except StepFailedError as error:
            call.sleep(1)
            return str(error)
        return "paid"

    async with serving(api, pay):
        call = api.offer("pay")
        await api.suspended(call)
        api.happen(call, None)
        await api.ended(call)
    assert (call.output, tries) == ("ValueError: the bank is closed", [1])


async def test_what_the_api_refuses_to_wait_for_is_an_error_for_the_model(api: ProtocolServer) -> None:
    @tool(durable=True)
    def ask(call: CallContext) -> str:
        """Asks."""
        return str(call.ask_user("Sure?"))

    async with serving(api, ask):
        api.faults["suspension"] = deque([400])
        call = await api.ended(api.offer("ask"))
    assert call.status == "error"
    assert "can't wait for Sure?" in (call.error or "")


async def test_a_function_that_catches_everything_waits_all_the_same(api: ProtocolServer) -> None:
    @tool(durable=True)
    def stubborn(call: CallContext) -> str:
        """Catches what leaves it."""

        def tried(question: str) -> str:
            try:
                return str(call.ask_user(question))
            except BaseException:
                return "nothing"

        return f"{tried('First?')}, {tried('Second?')}"

    async with serving(api, stubborn):
        call = api.offer("stubborn")
        for answer in ("one", "two"):
            assert len(await api.suspended(call)) == 1
            api.happen(call, {"answer": answer})
        assert (await api.ended(call)).output == "one, two"


async def test_lost_responses_change_nothing(api: ProtocolServer) -> None:
    effects: list[str] = []

    @tool(durable=True)
    def work(call: CallContext) -> str:
        """Works."""
        call.step("first", lambda: effects.append("first"))
        call.sleep(1)
        call.step("second", lambda: effects.append("second"))
        return "done"

    async with serving(api, work):
        api.faults |= {"steps": deque([0, 503, 0]), "suspension": deque([0, 503])}
        call = api.offer("work")
        await api.suspended(call)
        api.happen(call, None)
        await api.ended(call)
    assert effects == ["first", "second"]


def test_an_agent_s_result_has_names_of_python() -> None:
    read = AgentResult.model_validate({"runId": "a", "status": "failed", "error": "no", "steps": 2, "summary": None, "agent": "b"})
    assert (read.run_id, read.status, read.error) == ("a", "failed", "no")


async def test_a_function_is_an_agent(api: ProtocolServer) -> None:
    @agent(name="Billing clerk")
    def clerk(message: str, history: list[Said], call: CallContext) -> str:
        """Answers questions about bills.

        In detail.
        """
        said = [one.text for one in history]
        return f"{message}, after {said} in {call.run_id}"

    async with serving(api, clerk, order_nothing):
        call = api.offer("clerk", message="And B-8?", history=[{"role": "user", "text": "Refund A-7"}])
        assert (await api.ended(call)).output == "And B-8?, after ['Refund A-7'] in run"
    [registered] = [body for kind, body in api.requests if kind == "registrations"]
    assert registered["agents"] == [{"name": "Billing clerk", "description": "Answers questions about bills.", "tool": "clerk"}]
    assert clerk("Hello", [], CallContext()) == "Hello, after [] in None"


@tool
def order_nothing() -> None:
    """Does nothing."""


def test_a_function_that_can_t_be_an_agent_is_refused() -> None:
    with pytest.raises(TypeError, match="message"):

        @agent
        def silent() -> str:
            """Says nothing."""
            return ""

    with pytest.raises(TypeError, match="not order"):

        @agent
        def clerk(message: str, order: str) -> str:
            """Answers."""
            return message + order
