"""How a function has ended, as what the API records: results and exceptions become JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic_core import PydanticSerializationError, from_json, to_json

from ..errors import RetryCall, ToolFailure

if TYPE_CHECKING:
    from .steps import Wait

OUTPUT_MAX_BYTES = 1_000_000
CHECKPOINT_MAX_BYTES = 256 * 1024
# A traceback in a message would fill the context of the model.
TEXT_MAX = 16_000


@dataclass(frozen=True)
class Completed:
    """The function has returned."""

    output: Any
    """Its result, as JSON."""


@dataclass(frozen=True)
class Failed:
    """The call ends as an error."""

    error: str
    """What the model reads."""
    retry: bool = False
    """Nothing has happened, and the call is to be handed out again."""


@dataclass(frozen=True)
class Interrupted:
    """The function was stopped. What it has done is not known."""


@dataclass(frozen=True)
class Suspended:
    """The function waits for these steps, and begins again when they have ended."""

    steps: Sequence[Wait]


Outcome: TypeAlias = Completed | Failed | Interrupted | Suspended


def of_result(result: Any) -> Completed | Failed:
    """Returns the outcome of a function that has returned this."""
    try:
        encoded = to_json(result, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        return Failed(text(f"The tool has completed, but its output is not JSON: {error}"))
    if len(encoded) > OUTPUT_MAX_BYTES:
        return Failed(f"The tool has completed, but its output has {len(encoded)} bytes, and the limit is {OUTPUT_MAX_BYTES}.")
    return Completed(from_json(encoded))


def of_exception(error: BaseException) -> Failed:
    """Returns the outcome of a function that has raised this."""
    if isinstance(error, (ToolFailure, RetryCall)):
        return Failed(text(str(error) or type(error).__name__), retry=isinstance(error, RetryCall))
    try:
        message = str(error)
    except Exception:  # the message is made by user code
        message = ""
    return Failed(text(f"{type(error).__name__}: {message}" if message else type(error).__name__))


def checkpoint_json(value: Any) -> Any:
    """Returns a checkpoint as JSON. Raises `ValueError`."""
    try:
        encoded = to_json(value, inf_nan_mode="null")
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ValueError(f"the checkpoint is not JSON: {error}") from error
    if len(encoded) > CHECKPOINT_MAX_BYTES:
        raise ValueError(f"the checkpoint has {len(encoded)} bytes, and the limit is {CHECKPOINT_MAX_BYTES}")
    return from_json(encoded)


def storable(message: str) -> str:
    """Returns a text that the API can store: valid Unicode without NUL."""
    return message.encode("utf-8", "replace").decode("utf-8").replace("\0", "\N{REPLACEMENT CHARACTER}")


def text(message: str) -> str:
    """Returns a text that the API can store, of limited length."""
    message = storable(message)
    return message if len(message) <= TEXT_MAX else f"{message[: TEXT_MAX - 1]}…"
