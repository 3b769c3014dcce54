"""Calls of language models by durable functions: what is asked, and what has been answered. Pure, without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel, Field
from pydantic_core import PydanticSerializationError, to_json

from ..model import Model
from ..records import Usage
from .outcomes import storable
from .steps import STEP_MAX_BYTES

M = TypeVar("M", bound=BaseModel)

MESSAGES_MAX = 1000
TEMPERATURE_MAX = 2.0
ROLES = ("user", "assistant")


class Said(Model):
    """An earlier message of a conversation."""

    role: str
    """`user` or `assistant`."""
    text: str


Prompt: TypeAlias = str | Iterable[Said | Mapping[str, Any]]
"""What a model is asked: a text, or messages with `role` (`user` or `assistant`) and `text`, the newest last."""


class ModelAnswer(Model):
    """What a language model has answered."""

    text: str
    """The answer. With an output schema, it is JSON."""
    output: dict[str, Any] | None = None
    """The answer as data, if `output_schema` was given."""
    model: str | None = None
    """The model that was asked, as `provider:model`."""
    usage: Usage = Field(default_factory=Usage)
    """Tokens and dollars."""
    run_id: str
    """The run that has answered: its history has the whole call."""

    def parse(self, model: type[M]) -> M:
        """Returns `output` as an instance of a pydantic model.

        Raises `pydantic.ValidationError` if it does not fit, or there is none.
        """
        return model.model_validate(self.output)


def model_call(
    prompt: Prompt,
    system: str | None,
    model: str | None,
    output_schema: type[BaseModel] | Mapping[str, Any] | None,
    max_tokens: int | None,
    temperature: float | None,
) -> dict[str, Any]:
    """Asks a language model. Raises `TypeError` or `ValueError`, with what to change, if it can't be asked this."""
    if model is not None and not model.strip():
        raise ValueError("the name of the model is empty; write one, or leave model= out")
    if max_tokens is not None and (isinstance(max_tokens, bool) or max_tokens < 1):
        raise ValueError(f"max_tokens is {max_tokens}; choose 1 or more")
    if temperature is not None and not 0 <= temperature <= TEMPERATURE_MAX:
        raise ValueError(f"temperature is {temperature}; choose 0 to {TEMPERATURE_MAX:g}")
    call = {
        "kind": "model",
        "messages": _messages(prompt),
        "system": None if system is None else storable(system),
        "model": model,
        "outputSchema": _schema_of(output_schema),
        "maxTokens": max_tokens,
        "temperature": temperature,
    }
    try:
        size = len(to_json(call))
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"the call of the model is not JSON: {error}") from error
    if size > STEP_MAX_BYTES:
        raise ValueError(f"the call of the model has {size} bytes, and the limit is {STEP_MAX_BYTES}; leave some of it out")
    return call


def _messages(prompt: Prompt) -> list[dict[str, str]]:
    messages: Iterable[Said | Mapping[str, Any]] = [{"role": "user", "text": prompt}] if isinstance(prompt, str) else prompt
    said = [_said(number, message) for number, message in enumerate(messages, start=1)]
    if not 1 <= len(said) <= MESSAGES_MAX:
        raise ValueError(f"a model is asked with 1 to {MESSAGES_MAX} messages, not {len(said)}")
    if said[-1]["role"] != "user":
        raise ValueError("the last message has the role assistant; a model answers one with the role user")
    return said


def _said(number: int, message: Said | Mapping[str, Any]) -> dict[str, str]:
    role: Any
    text: Any
    # Callers without a type checker, and messages as other libraries have them.
    if isinstance(message, Said):
        role, text = message.role, message.text
    elif isinstance(message, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        role, text = message.get("role"), message.get("text", message.get("content"))
    else:
        raise TypeError(f"message {number} is {message!r}; write {{'role': 'user', 'text': '…'}}")
    if role == "system":
        raise ValueError(f"message {number} has the role system; pass its text as system=")
    if role not in ROLES:
        raise ValueError(f"message {number} has the role {role!r}; write user or assistant")
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"message {number} has no text")
    return {"role": str(role), "text": storable(text)}


def _schema_of(output: type[BaseModel] | Mapping[str, Any] | None) -> dict[str, Any] | None:
    if output is None:
        return None
    # Callers without a type checker.
    if isinstance(output, type) and issubclass(output, BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        schema = output.model_json_schema()
    elif isinstance(output, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        schema = dict(output)
    else:
        raise TypeError(f"output_schema={output!r} is neither a pydantic model nor a JSON Schema")
    if schema.get("type") != "object":
        raise ValueError("output_schema is that of an object; pass a pydantic model with fields, or a JSON Schema with `type: object`")
    return schema
