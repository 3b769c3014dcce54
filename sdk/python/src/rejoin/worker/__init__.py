"""Tools in Python, for the agents of Rejoin: the worker protocol (docs/reference/worker-protocol.md), with a decorator for functions.

# Layout

Pure, without I/O:

- `arguments`   a function's signature becomes the JSON Schema of its arguments, and JSON becomes arguments
- `tools`       `@tool`; `agents`: `@agent` and `Agent`
- `context`     what a function can know and do about its call
- `steps`       steps of durable functions, recorded once; `model_calls`: those that ask language models
- `answers`     what functions publish while they work
- `outcomes`    how a call has ended: results and exceptions become JSON
- `requests`    the requests of the protocol, and what they return
- `held_calls`  the calls that this worker has, their leases, and why they are stopped

With I/O:

- `handlers`    runs functions, off the event loop of the protocol
- `connection`  the registration, and requests to the API
- `execution`   one call, from its claim to its recorded result
- `session`     heartbeats, claims, and an orderly end
- `worker`      `Worker`

Invariant: user code runs in no thread that sends heartbeats, so a function that blocks does not lose the calls of the others.
"""

from .agents import Agent, AgentFunction, agent
from .context import AsyncCallContext, CallContext
from .model_calls import ModelAnswer, Prompt, Said
from .steps import AgentResult, Journal, RecordedStep
from .tools import Tool, tool
from .worker import Worker

__all__ = [
    "Agent",
    "AgentFunction",
    "AgentResult",
    "AsyncCallContext",
    "CallContext",
    "Journal",
    "ModelAnswer",
    "Prompt",
    "RecordedStep",
    "Said",
    "Tool",
    "Worker",
    "agent",
    "tool",
]
