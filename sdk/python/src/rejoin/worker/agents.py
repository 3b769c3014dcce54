"""`@agent`: a function becomes an agent, which executes the turns of conversations."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, overload

from ..model import Model
from .tools import P, R, Tool, WhenAbsent

_TEXT_MAX = 200


class Said(Model):
    """An earlier message of a conversation."""

    role: str
    """`user` or `assistant`."""
    text: str


class AgentFunction(Generic[P, R]):
    """A function that users and other agents talk to. Called by a program, it is that function. Made by `@agent`."""

    name: str
    """The name by which it is chosen."""
    description: str
    """What it does, for people and for agents that start it."""
    tool: Tool[P, R]
    """The tool that executes its turns."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        version: str = "1",
        durable: bool = True,
        timeout_s: int = 3600,
        when_absent: WhenAbsent = "wait",
    ) -> None:
        self.tool = Tool(function, description=description, version=version, durable=durable, timeout_s=timeout_s, when_absent=when_absent)
        self.name = self.tool.name if name is None else name
        self.description = self.tool.description.split("\n", 1)[0][:_TEXT_MAX]
        if not self.name.strip() or len(self.name) > _TEXT_MAX:
            raise ValueError(f"agent {self.name!r}: a name has 1 to {_TEXT_MAX} characters")
        properties: dict[str, Any] = self.tool.input_schema.get("properties", {})
        unknown = sorted(set(properties) - {"message", "history"})
        if "message" not in properties or unknown:
            rejected = f", not {', '.join(unknown)}" if unknown else ""
            raise TypeError(
                f"agent {self.name}: its function has the parameters `message: str` and, if needed, `history: list[Said]` "
                f"and the context{rejected}"
            )
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"AgentFunction({self.name!r})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function."""
        return self.tool(*args, **kwargs)


@overload
def agent(function: Callable[P, R], /) -> AgentFunction[P, R]: ...


@overload
def agent(
    *,
    name: str | None = None,
    description: str | None = None,
    version: str = "1",
    durable: bool = True,
    timeout_s: int = 3600,
    when_absent: WhenAbsent = "wait",
) -> Callable[[Callable[P, R]], AgentFunction[P, R]]: ...


def agent(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes an agent of a function, as `@agent` or `@agent(…)`: it gets the user's message, and its result is the answer.

    Its parameters are `message: str`, `history: list[Said]` if it needs what was said before, and a context as that of a tool. No model of
    Rejoin is asked: the function calls one itself, or starts agents with `call.spawn`.

    - `name`: by which it is chosen; default is the function's.
    - `description`: default is the docstring; its first line is shown.
    - `durable`: it begins again after a lost worker; its effects must be in steps (`call.step`). Without it, such a turn fails.
    - `timeout_s`: maximum duration of one attempt, in seconds.
    - `version`, `when_absent`: as those of `@tool`.

    Raises `TypeError` or `ValueError`, with what to change, if the function can't be an agent.
    """
    if function is not None:
        return AgentFunction(function)
    return functools.partial(AgentFunction, **options)
