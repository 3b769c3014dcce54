"""An agent of the OpenAI Agents SDK that executes the turns of an agent.

Each answer of the model is a step of the turn, and so is each effect of a tool. A process that is lost neither repeats nor loses any of
them: the agent runs again from its start, and gets what was recorded.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from agents import Agent, Model, ModelResponse, ModelSettings, OpenAIProvider, RunConfig, RunContextWrapper, Runner, Usage, function_tool
from agents.items import TResponseStreamEvent
from openai.types.responses import Response

from rejoin import AsyncCallContext, Said, Worker, agent

PROMPT = "You refund orders. If you can't know whether a refund took effect, say so, and do not repeat it."


class RecordedModel(Model):
    """A model whose answers are steps. Their text is written to the log of the run as it arrives."""

    def __init__(self, model: Model, call: AsyncCallContext) -> None:
        self.model = model
        self.call = call

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        """Returns the answer of the model, or the recorded one."""

        async def answer() -> dict[str, Any]:
            whole: Response | None = None
            async for event in self.model.stream_response(*args, **options):
                if event.type == "response.output_text.delta":
                    await self.call.write(event.delta)
                elif event.type == "response.completed":
                    whole = event.response
            if whole is None:
                raise RuntimeError("the model has not completed its answer")
            if whole.output_text and any(item.type == "function_call" for item in whole.output):
                await self.call.write("\n\n")
            return whole.model_dump(mode="json", warnings=False)

        # If the process is lost in this step, what it has written is taken back, and written again.
        response = Response.model_validate(await self.call.step("model", answer, idempotent=True))
        return ModelResponse(output=response.output, usage=Usage(requests=1), response_id=response.id)

    def stream_response(self, *args: Any, **options: Any) -> AsyncIterator[TResponseStreamEvent]:
        """Not used: readers get the text from the log."""
        raise NotImplementedError


def pay(order: str) -> str:
    """Pays an order back. A real one asks the bank."""
    with Path("refunds.txt").open("a") as refunds:
        refunds.write(f"{order}\n")
    return f"Order {order} was refunded."


# If it fails, the model reads why: also that a refund may have taken effect.
@function_tool(failure_error_function=lambda _, error: str(error))
async def refund(context: RunContextWrapper[AsyncCallContext], order: str) -> str:
    """Refunds an order."""
    # Recorded before it begins and when it has ended: it is never repeated.
    return str(await context.context.step(f"refund {order}", lambda: asyncio.to_thread(pay, order)))


provider = OpenAIProvider()
# One call of a tool at a time: the steps of a turn have an order.
clerk = Agent[AsyncCallContext]("clerk", instructions=PROMPT, tools=[refund], model_settings=ModelSettings(parallel_tool_calls=False))


@agent
async def openai_agents_clerk(message: str, history: list[Said], call: AsyncCallContext) -> None:
    """Refunds orders, by the OpenAI Agents SDK."""
    said: list[Any] = [{"role": one.role, "content": one.text} for one in history]
    model = RecordedModel(provider.get_model("gpt-6-luna"), call)
    # No result is returned: the answer is what the steps have written.
    await Runner.run(clerk, [*said, {"role": "user", "content": message}], context=call, run_config=RunConfig(model=model))


if __name__ == "__main__":
    Worker([openai_agents_clerk]).run()
