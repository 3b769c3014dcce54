"""A graph of one node, which calls the model. In the environment: MODEL_URL."""

import os

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph

model = ChatOpenAI(model="scripted", base_url=os.environ["MODEL_URL"], api_key="scripted", streaming=True)


async def answer(state: MessagesState) -> dict:
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer").add_edge("answer", END).compile()
