"""A LangGraph graph that executes the turns of an agent.

Each answer of the model is a step of the turn, and so is each effect of a tool. A process that is lost neither repeats nor loses any of
them: the graph runs again from its start, and gets what was recorded.
"""

import asyncio
from pathlib import Path
from typing import Any

from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    HumanMessage,
    SystemMessage,
    message_chunk_to_message,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.messages.ai import add_ai_message_chunks
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, tools_condition
from langgraph.runtime import Runtime

from rejoin import AsyncCallContext, Said, Worker, agent

PROMPT = "You refund orders. If you can't know whether a refund took effect, say so, and do not repeat it."


def pay(order: str) -> str:
    """Pays an order back. A real one asks the bank."""
    with Path("refunds.txt").open("a") as refunds:
        refunds.write(f"{order}\n")
    return f"Order {order} was refunded."


@tool
async def refund(order: str, runtime: ToolRuntime[Any, Any]) -> str:
    """Refunds an order."""
    # Recorded before it begins and when it has ended: it is never repeated.
    return str(await runtime.context.step(f"refund {order}", lambda: asyncio.to_thread(pay, order)))


# One call of a tool at a time: the steps of a turn have an order.
model = ChatOpenAI(model="gpt-6-luna", use_responses_api=True).bind_tools([refund], parallel_tool_calls=False)


async def ask_model(state: MessagesState, runtime: Runtime[AsyncCallContext]) -> dict[str, Any]:
    """The node of the model. Its text is written to the log of the run as it arrives."""
    call = runtime.context

    async def answer() -> dict[str, Any]:
        chunks: list[Any] = []
        async for chunk in model.astream([SystemMessage(PROMPT), *state["messages"]]):
            await call.write(str(chunk.text))
            chunks.append(chunk)
        whole = add_ai_message_chunks(*chunks)
        if whole.tool_calls and whole.text:
            await call.write("\n\n")
        return message_to_dict(message_chunk_to_message(whole))

    # If the process is lost in this step, what it has written is taken back, and written again.
    return {"messages": messages_from_dict([await call.step("model", answer, idempotent=True)])}


def failure(error: Exception) -> str:
    """What the model reads if a tool fails: also that a refund may have taken effect."""
    return str(error)


graph = StateGraph(MessagesState, context_schema=AsyncCallContext)
graph.add_node("model", ask_model)
graph.add_node("tools", ToolNode([refund], handle_tool_errors=failure))
graph.add_edge(START, "model")
graph.add_conditional_edges("model", tools_condition)
graph.add_edge("tools", "model")
compiled = graph.compile()


@agent
async def langgraph_clerk(message: str, history: list[Said], call: AsyncCallContext) -> None:
    """Refunds orders, by LangGraph."""
    said: list[AnyMessage] = [HumanMessage(one.text) if one.role == "user" else AIMessage(one.text) for one in history]
    # No result: the answer is what the steps have written.
    await compiled.ainvoke({"messages": [*said, HumanMessage(message)]}, context=call)


if __name__ == "__main__":
    Worker([langgraph_clerk]).run()
