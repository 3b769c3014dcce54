"""A PydanticAI agent that executes the turns of an agent.

Each answer of the model is a step of the turn, and so is each effect of a tool. A process that is lost neither repeats nor loses any of
them: the agent runs again from its start, and gets what was recorded.
"""

import asyncio
from pathlib import Path
from typing import Any

from pydantic_ai import (
    Agent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    RunContext,
    TextPart,
    TextPartDelta,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from rejoin import AsyncCallContext, Said, StepFailedError, StepOutcomeUnknownError, Worker, agent

PROMPT = "You refund orders. If you can't know whether a refund took effect, say so, and do not repeat it."


class RecordedModel(WrapperModel):
    """A model whose answers are steps. Their text is written to the log of the run as it arrives."""

    def __init__(self, model: str, call: AsyncCallContext) -> None:
        super().__init__(model)
        self.call = call

    async def request(
        self, messages: list[ModelMessage], model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> ModelResponse:
        """Returns the answer of the model, or the recorded one."""

        async def answer() -> Any:
            async with self.wrapped.request_stream(messages, model_settings, model_request_parameters) as stream:
                async for event in stream:
                    match event:
                        case PartStartEvent(part=TextPart(content=text)) | PartDeltaEvent(delta=TextPartDelta(content_delta=text)):
                            await self.call.write(text)
            response = stream.get()
            if response.text and response.tool_calls:
                await self.call.write("\n\n")
            return ModelMessagesTypeAdapter.dump_python([response], mode="json")

        # If the process is lost in this step, what it has written is taken back, and written again.
        [response] = ModelMessagesTypeAdapter.validate_python(await self.call.step("model", answer, idempotent=True))
        assert isinstance(response, ModelResponse)
        return response


# One call of a tool at a time: the steps of a turn have an order.
clerk = Agent(deps_type=AsyncCallContext, instructions=PROMPT, model_settings=ModelSettings(parallel_tool_calls=False))


def pay(order: str) -> str:
    """Pays an order back. A real one asks the bank."""
    with Path("refunds.txt").open("a") as refunds:
        refunds.write(f"{order}\n")
    return f"Order {order} was refunded."


@clerk.tool
async def refund(context: RunContext[AsyncCallContext], order: str) -> str:
    """Refunds an order."""
    try:
        # Recorded before it begins and when it has ended: it is never repeated.
        return str(await context.deps.step(f"refund {order}", lambda: asyncio.to_thread(pay, order)))
    except (StepFailedError, StepOutcomeUnknownError) as error:
        # The model reads why: also that a refund may have taken effect.
        return str(error)


@agent
async def pydantic_ai_clerk(message: str, history: list[Said], call: AsyncCallContext) -> None:
    """Refunds orders, by PydanticAI."""
    said: list[ModelMessage] = [
        ModelRequest.user_text_prompt(one.text) if one.role == "user" else ModelResponse([TextPart(one.text)]) for one in history
    ]
    # No result is returned: the answer is what the steps have written.
    await clerk.run(message, message_history=said, model=RecordedModel("openai:gpt-6-luna", call), deps=call)


if __name__ == "__main__":
    Worker([pydantic_ai_clerk]).run()
