"""Defines an agent with these tools, once, and asks it. Run: python ask.py "Where is my order A-7?"."""

import sys

from rejoin import Client, ConflictError

AGENT = {
    "name": "{name}",
    "description": "Answers questions about orders, and refunds them.",
    "systemPrompt": "Answer questions about orders. Look up an order before you answer.",
    "model": {"name": "default"},
    "tools": ["order_status", "refund"],
    "flowType": "single",
}

client = Client()
project = client.request("GET", "/api/me")["projectId"]
try:
    client.request("POST", f"/api/admin/projects/{project}/agent-definitions", json=AGENT)
except ConflictError:
    # It is there already.
    pass
turn = client.send(" ".join(sys.argv[1:]) or "Where is my order A-7?", agent="{name}")
for event in turn:
    if event.type == "question":
        client.answer(event.question_id, input(f"{event.question} "))
print(turn.text())
