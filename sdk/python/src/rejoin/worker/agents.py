"""Agents, which execute the turns of conversations: `@agent` makes one of a function, `Agent` is one of a language model."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeAlias, overload

from pydantic import BaseModel

from .tools import P, R, Tool, WhenAbsent

# Maximum length of a name and a description, in characters.
_TEXT_MAX = 200
PROMPT_MAX_CHARS = 200_000


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
        self.name = _checked_name(self.tool.name if name is None else name)
        self.description = _shown(self.tool.description)
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


class Agent:
    """An agent of a language model: a prompt, and the tools that it may call.

    A worker announces it, and serves those of its tools that are functions. It stays in the list of agents when no worker is there.
    A worker that announces it with another prompt, or other options, changes it.

    - `name`: by which it is chosen: 1 to 200 characters.
    - `description`: what it does, for people and for agents that start it. Its first line is shown.
    - `prompt`: what the model has to do, and how; at most 200,000 characters.
    - `tools`: tools of the worker, as functions with `@tool` or by their names. With a key that has the scope `admin`: also the names of
      other tools, with globs, such as `search_*`.
    - `model`: `provider:model`, or a well-known name. Default: that of plain conversations.
    - `output`: a pydantic model or the JSON Schema of an object, which its answers match. Default: any text.
    - `max_steps`: maximum number of the model's calls in a turn.

    Raises `TypeError` or `ValueError`, with what to change, if something is wrong with the arguments.
    """

    name: str
    """The name by which it is chosen."""
    description: str
    """What it does, for people and for agents that start it."""
    prompt: str
    """What the model has to do."""
    tools: tuple[Tool[..., Any] | str, ...]
    """The tools that it may call, some of them by their names."""
    model: str | None
    """None: the model of plain conversations."""
    output_schema: dict[str, Any] | None
    """JSON Schema of its answers. None: any text."""
    max_steps: int | None
    """Maximum number of the model's calls in a turn."""

    def __init__(
        self,
        *,
        name: str,
        description: str,
        prompt: str,
        tools: Iterable[Tool[..., Any] | str] = (),
        model: str | None = None,
        output: type[BaseModel] | Mapping[str, Any] | None = None,
        max_steps: int | None = None,
    ) -> None:
        self.name = _checked_name(name)
        if not description.strip():
            raise ValueError(f"agent {name}: people and agents choose an agent by its description; write one")
        self.description = _shown(description.strip())
        if not prompt.strip() or len(prompt) > PROMPT_MAX_CHARS:
            raise ValueError(f"agent {name}: a prompt has 1 to {PROMPT_MAX_CHARS} characters, not {len(prompt.strip())}")
        self.prompt = prompt
        self.tools = _checked_tools(tools, name)
        if model is not None and not model.strip():
            raise ValueError(f"agent {name}: the name of the model is empty; write one, or leave model= out")
        self.model = model
        self.output_schema = _schema_of(output, name)
        if max_steps is not None and (isinstance(max_steps, bool) or max_steps < 1):
            raise ValueError(f"agent {name}: max_steps is {max_steps}; choose 1 or more")
        self.max_steps = max_steps

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"

    @property
    def tool_names(self) -> list[str]:
        """The names of its tools, each once."""
        return list(dict.fromkeys(one if isinstance(one, str) else one.name for one in self.tools))


AnyAgent: TypeAlias = AgentFunction[..., Any] | Agent


def _checked_name(name: str) -> str:
    if not name.strip() or len(name) > _TEXT_MAX:
        raise ValueError(f"agent {name!r}: a name has 1 to {_TEXT_MAX} characters")
    return name


def _shown(description: str) -> str:
    return description.split("\n", 1)[0][:_TEXT_MAX]


def _checked_tools(tools: Iterable[Tool[..., Any] | str], agent: str) -> tuple[Tool[..., Any] | str, ...]:
    # Callers without a type checker.
    if isinstance(tools, Tool):
        raise TypeError(f"agent {agent}: tools is a list; write tools=[{tools.name}]")
    if isinstance(tools, str):
        raise TypeError(f"agent {agent}: tools is a list; write tools=[{tools!r}]")
    checked = tuple(tools)
    for one in checked:
        if not isinstance(one, (str, Tool)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"agent {agent}: {one!r} is neither a tool nor the name of one; write @tool above the function")
        if isinstance(one, str) and not one.strip():
            raise ValueError(f"agent {agent}: the name of a tool is empty")
    return checked


def _schema_of(output: type[BaseModel] | Mapping[str, Any] | None, agent: str) -> dict[str, Any] | None:
    if output is None:
        return None
    # Callers without a type checker.
    if isinstance(output, type) and issubclass(output, BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
        schema = output.model_json_schema()
    elif isinstance(output, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        schema = dict(output)
    else:
        raise TypeError(f"agent {agent}: output={output!r} is neither a pydantic model nor a JSON Schema")
    if schema.get("type") != "object":
        raise ValueError(f"agent {agent}: the output is an object; pass a pydantic model with fields, or a JSON Schema with `type: object`")
    return schema


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

    Its parameters are `message: str`, `history: list[Said]` if it needs what was said before, and a context as that of a tool. The
    function asks models with `call.model`, calls one itself, or starts agents with `call.spawn`.

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
