"""Functions become tools: their schemas, their arguments, and what is wrong with those that cannot."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

import rejoin
from rejoin import AsyncCallContext, CallCancelledError, CallContext, RetryCall, Tool, ToolFailure, tool
from rejoin.worker.arguments import ArgumentsError
from rejoin.worker.outcomes import CHECKPOINT_MAX_BYTES, OUTPUT_MAX_BYTES, TEXT_MAX, Completed, Failed, of_exception, of_result
from rejoin.worker.requests import definition


class Order(BaseModel):
    """An order."""

    number: str
    lines: list[int] = []


@dataclass
class Refund:
    """A refund."""

    order: str
    day: date


@tool
def refund(order: str, amount: Annotated[float, Field(description="In euros.", gt=0)], reason: Literal["late", "broken"] = "late") -> str:
    """Refunds an order.

    Only orders of the last year.
    """
    return f"{order}: {amount} ({reason})"


@tool(name="look-up", version="2.0", description="Looks up.", read_only=True, confirm=True, timeout_s=5, when_absent="hide")
async def look_up(order: Order, call: AsyncCallContext, schema: dict[str, int] | None = None) -> int:
    return len(order.lines) + call.attempt + len(schema or {})


def test_a_function_has_a_schema_and_defaults() -> None:
    assert definition(refund) == {
        "name": "refund",
        "version": "1",
        "description": "Refunds an order.\n\nOnly orders of the last year.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "order": {"type": "string"},
                "amount": {"type": "number", "description": "In euros.", "exclusiveMinimum": 0},
                "reason": {"type": "string", "enum": ["late", "broken"], "default": "late"},
            },
            "required": ["order", "amount"],
            "additionalProperties": False,
        },
        "outputSchema": None,
        "readOnly": False,
        "idempotent": False,
        "confirm": False,
        "timeoutS": 60,
        "whenAbsent": "wait",
    }


def test_options_models_and_the_context() -> None:
    announced = definition(look_up)
    schema = announced.pop("inputSchema")
    assert announced == {
        "name": "look-up",
        "version": "2.0",
        "description": "Looks up.",
        "outputSchema": None,
        "readOnly": True,
        "idempotent": False,
        "confirm": True,
        "timeoutS": 5,
        "whenAbsent": "hide",
    }
    assert list(schema["properties"]) == ["order", "schema"]
    assert schema["required"] == ["order"]
    assert schema["$defs"]["Order"]["description"] == "An order."
    call = AsyncCallContext()
    assert look_up.arguments.read({"order": {"number": "A-7", "lines": [1]}}, call) == {
        "order": Order(number="A-7", lines=[1]),
        "call": call,
    }


def test_a_tool_remains_a_function() -> None:
    assert refund("A-7", 2.5) == "A-7: 2.5 (late)"
    assert refund.__doc__ == refund.function.__doc__
    assert list(inspect.signature(refund).parameters) == ["order", "amount", "reason"]
    assert repr(refund) == "Tool('refund', version='1')"


@pytest.mark.anyio
async def test_an_asynchronous_tool_remains_one() -> None:
    assert await look_up(Order(number="A-7"), AsyncCallContext(attempt=3), {"a": 1}) == 4


def test_json_becomes_the_types_of_the_parameters() -> None:
    @tool(description="…")
    def on(day: date, kind: bytes = b"x", copy: tuple[int, ...] = ()) -> None:
        """The names of parameters may be those of methods of models."""

    assert on.arguments.read({"day": "2026-11-26", "copy": [1, 2]}, CallContext()) == {"day": date(2026, 11, 26), "copy": (1, 2)}


def test_arguments_that_do_not_match_are_explained_to_the_model() -> None:
    with pytest.raises(ArgumentsError) as caught:
        refund.arguments.read({"amount": 0, "colour": "red"}, CallContext())
    assert str(caught.value) == (
        "The arguments do not match the schema of refund: order: Field required; amount: Input should be greater than 0; "
        "colour: Extra inputs are not permitted"
    )


def test_the_schema_of_the_output_is_announced_on_request() -> None:
    @tool(output_schema=True)
    def made(order: str) -> Refund:
        """Makes one."""
        return Refund(order, date(2026, 11, 26))

    schema = definition(made)["outputSchema"]
    assert (schema["type"], list(schema["properties"])) == ("object", ["order", "day"])
    assert of_result(made("A-7")) == Completed({"order": "A-7", "day": "2026-11-26"})


def variable(*orders: str) -> None:
    """Refunds orders."""


def named(**orders: str) -> None:
    """Refunds orders."""


def positional(order: str, /) -> None:
    """Refunds an order."""


def untyped(order) -> None:  # type: ignore[no-untyped-def]
    """Refunds an order."""


def default_field(order: str = Field("A-7")) -> None:
    """Refunds an order."""


def unknown_type(order: Nothing) -> None:  # type: ignore[name-defined]  # noqa: F821
    """Refunds an order."""


def no_schema(order: Callable[[], int]) -> None:
    """Refunds an order."""


def no_model(order: ScriptedThing) -> None:
    """Refunds an order."""


class ScriptedThing:
    """Nothing that JSON has."""


async def wrong_context(call: CallContext) -> None:
    """Refunds an order."""


def two_contexts(a: CallContext, b: CallContext) -> None:
    """Refunds an order."""


def generator() -> Any:
    """Refunds an order."""
    yield 1


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (variable, "excludes *orders; use `orders: list[TYPE]`"),
        (named, "excludes **orders; use `orders: dict[str, TYPE]`"),
        (positional, "the positional-only parameter order; remove the `/`"),
        (untyped, "parameter order has no type; write `order: str`"),
        (default_field, "write `order: Annotated[TYPE, Field(…)] = DEFAULT`"),
        (unknown_type, "Nothing is not known where the function is defined"),
        (no_schema, "a parameter's type has no JSON Schema"),
        (no_model, "a parameter's type has no JSON Schema"),
        (wrong_context, "the context of a function with `async def` is a AsyncCallContext"),
        (two_contexts, "a and b are both the context"),
        (generator, "that returns its result"),
        (Refund, "@tool expects a function"),
    ],
)
def test_a_signature_that_cannot_be_a_tool_is_refused_with_advice(function: Any, advice: str) -> None:
    with pytest.raises(TypeError) as caught:
        tool(function)
    assert advice in str(caught.value)


def nameless(order: str) -> None:
    pass


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({}, "write a docstring, or pass description="),
        ({"name": "re fund"}, "pass name="),
        ({"description": "d", "version": "1/2"}, "the version '1/2'"),
        ({"description": "d", "timeout_s": 0}, "choose 1 to 86400 seconds"),
    ],
)
def test_options_that_the_protocol_excludes_are_refused(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(ValueError, match="tool") as caught:
        tool(**options)(nameless)
    assert advice in str(caught.value)


def test_an_output_schema_needs_a_type() -> None:
    with pytest.raises(TypeError, match="write `-> TYPE`"):
        tool(output_schema=True)(variable_free)


def variable_free() -> None:
    """Does nothing."""


def test_results_become_json() -> None:
    assert of_result(Order(number="A-7")) == Completed({"number": "A-7", "lines": []})
    assert of_result({"days": {date(2026, 1, 2)}, "none": math.nan}) == Completed({"days": ["2026-01-02"], "none": None})
    assert of_result(None) == Completed(None)
    large = of_result("x" * OUTPUT_MAX_BYTES)
    assert large == Failed("The tool has completed, but its output has 1000002 bytes, and the limit is 1000000.")
    not_json = of_result(object())
    assert isinstance(not_json, Failed)
    assert not_json.error.startswith("The tool has completed, but its output is not JSON")


def test_exceptions_become_texts_for_the_model() -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert of_exception(ToolFailure("There is no order.")) == Failed("There is no order.")
    assert of_exception(RetryCall("busy")) == Failed("busy", retry=True)
    assert of_exception(KeyError("order")) == Failed("KeyError: 'order'")
    assert of_exception(ValueError()) == Failed("ValueError")
    assert of_exception(SilentError()) == Failed("SilentError")
    assert of_exception(ValueError("a\0\ud800")) == Failed("ValueError: a\N{REPLACEMENT CHARACTER}?")
    assert len(of_exception(ValueError("x" * TEXT_MAX * 2)).error) == TEXT_MAX


def test_a_context_without_a_worker_is_for_unit_tests() -> None:
    call = CallContext(attempt=2)
    call.progress("half")
    call.save_checkpoint({"done": (1, 2)})
    assert (call.checkpoint, call.cancelled, call.wait_cancelled(0)) == ({"done": [1, 2]}, False, False)
    with pytest.raises(ValueError, match=f"the limit is {CHECKPOINT_MAX_BYTES}"):
        call.save_checkpoint("x" * CHECKPOINT_MAX_BYTES)
    with pytest.raises(ValueError, match="is not JSON"):
        call.save_checkpoint(object())
    call.cancellation.set()
    assert call.wait_cancelled()
    with pytest.raises(CallCancelledError):
        call.progress("more")
    with pytest.raises(CallCancelledError):
        call.save_checkpoint(1)


def test_a_worker_checks_its_arguments() -> None:
    options: dict[str, Any] = {"url": "http://api.test", "api_key": "k"}
    assert repr(rejoin.Worker([refund, look_up], **options)) == "Worker('http://api.test', queue='default', tools=[refund, look-up])"
    cases: list[tuple[Any, dict[str, Any], type[Exception]]] = [
        ([], {}, ValueError),
        ([refund.function], {}, TypeError),
        ([refund, tool(version="2", name="refund")(refund.function)], {}, ValueError),
        ([refund], {"queue": "a/b"}, ValueError),
        ([refund], {"slots": 0}, ValueError),
        ([refund], {"slots": 1001}, ValueError),
    ]
    for tools, more, error in cases:
        with pytest.raises(error):
            rejoin.Worker(tools, **options, **more)
    with pytest.raises(rejoin.ConfigurationError):
        rejoin.Worker([refund], url="http://api.test")
    assert isinstance(refund, Tool)
