"""`@tool`: a function becomes a tool of agents, and remains a function."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Generic, Literal, ParamSpec, TypeAlias, TypeVar, overload

from .arguments import Arguments

P = ParamSpec("P")
R = TypeVar("R")

WhenAbsent: TypeAlias = Literal["wait", "hide"]

TIMEOUT_MAX_S = 86_400
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_VERSION = re.compile(r"[A-Za-z0-9_.-]{1,32}")


class Tool(Generic[P, R]):
    """A function that agents can call. Called by a program, it is that function. Made by `@tool`."""

    name: str
    """The name by which agents know it."""
    version: str
    """Calls go to workers that have this version."""
    description: str
    """What it does, for the model."""
    input_schema: dict[str, Any]
    """JSON Schema of its arguments."""
    output_schema: dict[str, Any] | None
    """JSON Schema of its output. None: any JSON."""
    read_only: bool
    """It changes nothing, so a call may be repeated after a lost worker."""
    idempotent: bool
    """A repeated call has no further effect, so it may be repeated after a lost worker."""
    durable: bool
    """All its effects are in steps, so it begins again after a lost worker, and gets their recorded results."""
    confirm: bool
    """A user confirms each call."""
    timeout_s: int
    """Maximum duration of one attempt, in seconds."""
    when_absent: WhenAbsent
    """Without a live worker, calls wait (`wait`), or the tool is not offered (`hide`)."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        version: str = "1",
        description: str | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        durable: bool = False,
        confirm: bool = False,
        timeout_s: int = 60,
        when_absent: WhenAbsent = "wait",
        output_schema: bool = False,
    ) -> None:
        self.function: Callable[P, R] = function
        if not inspect.isroutine(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"@tool expects a function with `def` or `async def` that returns its result, not {function!r}")
        name = function.__name__ if name is None else name
        description = inspect.cleandoc(function.__doc__ or "") if description is None else description
        if not _NAME.fullmatch(name):
            raise ValueError(f"tool {name!r}: a name has 1 to 64 letters, digits, `_` and `-`; pass name=")
        if not _VERSION.fullmatch(version):
            raise ValueError(f"tool {name}: the version {version!r} does not have 1 to 32 letters, digits, `_`, `-` and `.`")
        if not description:
            raise ValueError(f"tool {name}: models choose a tool by its description; write a docstring, or pass description=")
        if not 1 <= timeout_s <= TIMEOUT_MAX_S:
            raise ValueError(f"tool {name}: timeout_s is {timeout_s}; choose 1 to {TIMEOUT_MAX_S} seconds")
        self.arguments = Arguments(function, name)
        self.name = name
        self.version = version
        self.description = description
        self.input_schema = self.arguments.schema
        self.output_schema = self.arguments.output_schema() if output_schema else None
        self.read_only = read_only
        self.idempotent = idempotent
        self.durable = durable
        self.confirm = confirm
        self.timeout_s = timeout_s
        self.when_absent = when_absent
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, version={self.version!r})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    version: str = "1",
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    durable: bool = False,
    confirm: bool = False,
    timeout_s: int = 60,
    when_absent: WhenAbsent = "wait",
    output_schema: bool = False,
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a tool of a function, as `@tool` or `@tool(…)`.

    The types of its parameters become the JSON Schema of the arguments (`Annotated[int, Field(description="…", ge=1)]` describes one), its
    docstring the description. Functions with `def` run in threads, functions with `async def` in one event loop, which is not the worker's.
    A parameter of type `CallContext` (`AsyncCallContext` with `async def`) gets the context of the call, and is not an argument.

    The result becomes JSON: dictionaries, lists, numbers, texts, dates, dataclasses, pydantic models.

    - `name`: default is the function's.
    - `version`: 1 to 32 letters, digits, `_`, `-` and `.`. Change it with the signature, to serve both versions during a rollout.
    - `description`: default is the docstring.
    - `read_only`, `idempotent`: a call may be repeated after a lost worker. Without them, such a call ends as `outcome_unknown`.
    - `durable`: all effects are in steps of the context (`step`, `sleep`, `ask_user`, `spawn`, …), so the function begins again after a
      lost worker, and gets their recorded results. It must ask for the same steps each time.
    - `confirm`: a user confirms each call.
    - `timeout_s`: maximum duration of one attempt, in seconds; at most 86,400.
    - `when_absent`: without a live worker, calls wait for one (`wait`), or the tool is not offered (`hide`).
    - `output_schema`: announces the JSON Schema of the result's type, and an output that does not match is an error of the call.

    Raises `TypeError` or `ValueError`, with what to change, if the function can't be a tool.
    """
    if function is not None:
        return Tool(function)
    return functools.partial(Tool, **options)
