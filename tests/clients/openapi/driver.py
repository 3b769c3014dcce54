"""A conversation by the client that `openapi-python-client` has generated as `generated`. Its argument: {url, key, message}. Prints
{text, messages, conversations} as JSON."""

import json
import sys

from generated import AuthenticatedClient, models
from generated.api.chat import chat_post_message
from generated.api.conversations import conversations_list, conversations_list_messages

task = json.loads(sys.argv[1])
client = AuthenticatedClient(base_url=task["url"], token=task["key"], raise_on_unexpected_status=True)

accepted = chat_post_message.sync(
    client=client.with_headers({"Accept": "application/json"}),
    body=models.ChatRequest(message=task["message"]),
)
assert isinstance(accepted, models.Accepted), accepted

# The generator has no reader of streams, but the events' types.
text = ""
with client.get_httpx_client().stream("GET", f"/api/runs/{accepted.run_id}/events") as response:
    for line in response.iter_lines():
        if line.startswith("data: "):
            data = json.loads(line.removeprefix("data: "))
            if data["type"] == "token":
                text += models.TokenEvent.from_dict(data).token
            if data["type"] == "done":
                assert models.DoneEvent.from_dict(data).final_message_id, data
                break

read = conversations_list_messages.sync(id=accepted.conversation_id, client=client)
assert isinstance(read, models.MessagePage), read
listed = conversations_list.sync(client=client)
assert isinstance(listed, models.ConversationPage), listed
print(
    json.dumps(
        {
            "text": text,
            "messages": [[message.role, message.content] for message in read.items],
            "conversations": [conversation.id == accepted.conversation_id for conversation in listed.items],
        }
    )
)
