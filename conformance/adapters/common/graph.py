"""An agent for LangGraph's protocol: a node that calls the model, and a node for its tool. In the environment: MODEL_URL, EFFECT_URL."""

import os

import httpx
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
async def record(call: str) -> str:
    """Records an effect that can't be undone."""
    async with httpx.AsyncClient(timeout=None) as client:
        response = await client.post(os.environ["EFFECT_URL"], json={"call": call})
        return response.text


model = ChatOpenAI(model="scripted", base_url=os.environ["MODEL_URL"], api_key="scripted", streaming=True).bind_tools([record])


async def agent(state: MessagesState) -> dict:
    return {"messages": [await model.ainvoke(state["messages"])]}


builder = StateGraph(MessagesState).add_node("agent", agent).add_node("tools", ToolNode([record]))
graph = builder.add_edge(START, "agent").add_conditional_edges("agent", tools_condition).add_edge("tools", "agent").compile()
