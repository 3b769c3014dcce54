"""Talks to the stand-in of model providers by the providers' own clients. What they make of its answers is checked here; any mismatch is
an exception. The test that runs this has scripted the turns."""

import json
import os

import anthropic
import botocore.config
import botocore.session
import ollama
import openai
from google import genai
from google.oauth2.credentials import Credentials
from google.genai import types
from pydantic import BaseModel

SCHEMA = {
    "type": "object",
    "properties": {"q": {"type": "string"}},
    "required": ["q"],
    "additionalProperties": False,
}
GPT = "gpt-6-luna"
CLAUDE = "claude-haiku-5-5"
OLD_CLAUDE = "claude-haiku-4-5"
GEMINI = "gemini-3.8-flash"
BEDROCK_CLAUDE = "us.anthropic.claude-haiku-4-5-20251001-v1:0"


class Package(BaseModel):
    name: str
    size: int


def chat():
    client = openai.OpenAI(max_retries=0)
    stream = client.chat.completions.create(
        model=GPT,
        messages=[{"role": "user", "content": "chat text"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    text, usage = "", None
    for chunk in stream:
        usage = chunk.usage or usage
        text += "".join(choice.delta.content or "" for choice in chunk.choices)
    assert text == "one two three", text
    assert usage.completion_tokens_details.reasoning_tokens > 0, usage

    # Without reasoning: with it, tools belong to the other API.
    tools = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA, "strict": True}}]
    messages = [{"role": "user", "content": "chat tool"}]
    options = {"model": GPT, "tools": tools, "reasoning_effort": "none"}
    with client.chat.completions.stream(messages=messages, **options) as events:
        for _ in events:
            pass
        message = events.get_final_completion().choices[0].message
    call = message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("search", {"q": "libssl3"}), call
    messages += [
        {"role": "assistant", "tool_calls": [{"id": call.id, "type": "function",
         "function": {"name": call.function.name, "arguments": call.function.arguments}}]},
        {"role": "tool", "tool_call_id": call.id, "content": "{}"},
    ]
    answer = client.chat.completions.create(messages=messages, **options)
    assert answer.choices[0].message.content == "It is there.", answer
    answer = client.chat.completions.parse(
        model=GPT, messages=[{"role": "user", "content": "chat object"}], response_format=Package
    )
    assert answer.choices[0].message.parsed == Package(name="libssl3", size=3), answer


def responses():
    client = openai.OpenAI(max_retries=0)
    with client.responses.stream(model=GPT, input="responses text", reasoning={"summary": "auto"}) as events:
        types_seen = [event.type for event in events]
        answer = events.get_final_response()
    assert answer.output_text == "one two three", answer
    assert answer.output[0].summary[0].text == "Counting.", answer
    assert types_seen[-1] == "response.completed", types_seen

    tools = [{"type": "function", "name": "search", "parameters": SCHEMA, "strict": True}]
    options = {"model": GPT, "tools": tools, "store": False, "include": ["reasoning.encrypted_content"]}
    conversation = [{"role": "user", "content": "responses tool"}]
    with client.responses.stream(input=conversation, **options) as events:
        for _ in events:
            pass
        answer = events.get_final_response()
    conversation += [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in answer.output]
    call = answer.output[-1]
    assert answer.output[0].encrypted_content and json.loads(call.arguments) == {"q": "libssl3"}, answer
    conversation.append({"type": "function_call_output", "call_id": call.call_id, "output": "{}"})
    answer = client.responses.create(input=conversation, **options)
    assert answer.output_text == "It is there.", answer
    answer = client.responses.parse(model=GPT, input="responses object", text_format=Package)
    assert answer.output_parsed == Package(name="libssl3", size=3), answer


def messages():
    client = anthropic.Anthropic(max_retries=0)
    with client.messages.stream(
        model=CLAUDE,
        max_tokens=1000,
        messages=[{"role": "user", "content": "messages text"}],
        thinking={"type": "adaptive", "display": "summarized"},
        output_config={"effort": "low"},
    ) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == "one two three", text
    assert final.content[0].thinking == "Counting." and final.content[0].signature, final
    assert final.usage.output_tokens > 0 and final.stop_reason == "end_turn", final

    options = {
        "model": OLD_CLAUDE,
        "max_tokens": 2000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "search", "description": "Searches.", "input_schema": SCHEMA}],
    }
    conversation = [{"role": "user", "content": "messages tool"}]
    with client.messages.stream(messages=conversation, **options) as stream:
        final = stream.get_final_message()
    call = final.content[-1]
    assert final.stop_reason == "tool_use" and call.input == {"q": "libssl3"}, final
    conversation += [
        {"role": "assistant", "content": final.content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "{}"}]},
    ]
    final = client.messages.create(messages=conversation, **options)
    assert final.content[-1].text == "It is there.", final
    final = client.messages.parse(
        model=CLAUDE,
        max_tokens=1000,
        messages=[{"role": "user", "content": "messages object"}],
        output_format=Package,
    )
    assert final.parsed_output == Package(name="libssl3", size=3), final


def gemini():
    client = genai.Client()
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_level="low")
    chunks = client.models.generate_content_stream(
        model=GEMINI, contents="gemini text", config=types.GenerateContentConfig(thinking_config=thinking)
    )
    text, thoughts, usage = "", "", None
    for chunk in chunks:
        usage = chunk.usage_metadata or usage
        for part in chunk.candidates[0].content.parts:
            if part.thought:
                thoughts += part.text or ""
            else:
                text += part.text or ""
    assert (text, thoughts) == ("one two three", "Counting."), (text, thoughts)
    assert usage.thoughts_token_count > 0, usage

    search = types.FunctionDeclaration(name="search", parameters_json_schema=SCHEMA)
    config = types.GenerateContentConfig(tools=[types.Tool(function_declarations=[search])])
    contents = [types.Content(role="user", parts=[types.Part(text="gemini tool")])]
    answer = client.models.generate_content(model=GEMINI, contents=contents, config=config)
    call = answer.function_calls[0]
    assert call.args == {"q": "libssl3"} and answer.candidates[0].content.parts[0].thought_signature, answer
    result = types.FunctionResponse(id=call.id, name=call.name, response={"result": "{}"})
    contents += [answer.candidates[0].content, types.Content(role="user", parts=[types.Part(function_response=result)])]
    answer = client.models.generate_content(model=GEMINI, contents=contents, config=config)
    assert answer.text == "It is there.", answer
    answer = client.models.generate_content(
        model=GEMINI,
        contents="gemini object",
        config=types.GenerateContentConfig(response_mime_type="application/json", response_schema=Package),
    )
    assert answer.parsed == Package(name="libssl3", size=3), answer


def azure():
    client = openai.OpenAI(
        base_url=os.environ["AZURE_URL"] + "/openai/v1/", api_key=os.environ["AZURE_KEY"], max_retries=0
    )
    with client.responses.stream(model=GPT, input="azure text", reasoning={"summary": "auto"}) as events:
        for _ in events:
            pass
        answer = events.get_final_response()
    assert answer.output_text == "one two three" and answer.output[0].summary[0].text == "Counting.", answer


def openrouter():
    client = openai.OpenAI(base_url=os.environ["OPENROUTER_URL"], api_key=os.environ["OPENROUTER_KEY"], max_retries=0)
    tools = [{"type": "function", "function": {"name": "search", "parameters": SCHEMA}}]
    options = {"model": "anthropic/claude-haiku-4.5", "tools": tools, "extra_body": {"reasoning": {"effort": "low"}}}
    conversation = [{"role": "user", "content": "openrouter tool"}]
    message = client.chat.completions.create(messages=conversation, **options).choices[0].message
    call = message.tool_calls[0]
    assert json.loads(call.function.arguments) == {"q": "libssl3"} and message.reasoning_details, message
    conversation += [
        message.model_dump(exclude_none=True, include={"role", "content", "tool_calls", "reasoning_details"}),
        {"role": "tool", "tool_call_id": call.id, "content": "{}"},
    ]
    answer = client.chat.completions.create(messages=conversation, **options)
    assert answer.choices[0].message.content == "It is there.", answer


def vertex():
    place = {"project": os.environ["VERTEX_PROJECT"], "location": "europe-west4"}
    client = genai.Client(
        vertexai=True,
        credentials=Credentials(token=os.environ["VERTEX_TOKEN"]),
        http_options=types.HttpOptions(base_url=os.environ["VERTEX_URL"], api_version="v1"),
        **place,
    )
    chunks = client.models.generate_content_stream(
        model=GEMINI,
        contents="vertex text",
        config=types.GenerateContentConfig(thinking_config=types.ThinkingConfig(include_thoughts=True)),
    )
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    text = "".join(part.text or "" for part in parts if not part.thought)
    assert text == "one two three", parts


def bedrock():
    client = botocore.session.get_session().create_client(
        "bedrock-runtime",
        region_name="us-east-1",
        endpoint_url=os.environ["BEDROCK_URL"],
        config=botocore.config.Config(signature_version=botocore.UNSIGNED),
    )
    # By itself, botocore sends the key over HTTPS only.
    bearer = "Bearer " + os.environ["BEDROCK_KEY"]
    client.meta.events.register(
        "before-send.bedrock-runtime.*", lambda request, **_: request.headers.__setitem__("Authorization", bearer)
    )
    conversation = [{"role": "user", "content": [{"text": "bedrock tool"}]}]
    options = {
        "modelId": BEDROCK_CLAUDE,
        "toolConfig": {"tools": [{"toolSpec": {"name": "search", "inputSchema": {"json": SCHEMA}}}]},
        "additionalModelRequestFields": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        "inferenceConfig": {"maxTokens": 2000},
    }
    # botocore checks lengths and checksums of the frames, and the members of each event.
    blocks, stop = {}, None
    for event in client.converse_stream(messages=conversation, **options)["stream"]:
        if "contentBlockStart" in event:
            blocks[event["contentBlockStart"]["contentBlockIndex"]] = {"toolUse": {"input": ""}} | {
                key: dict(value, input="") for key, value in event["contentBlockStart"]["start"].items()
            }
        if "contentBlockDelta" in event:
            delta = event["contentBlockDelta"]["delta"]
            block = blocks.setdefault(event["contentBlockDelta"]["contentBlockIndex"], {})
            if "toolUse" in delta:
                block["toolUse"]["input"] += delta["toolUse"]["input"]
            if "reasoningContent" in delta:
                reasoning = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})["reasoningText"]
                reasoning["text"] += delta["reasoningContent"].get("text", "")
                reasoning |= {key: value for key, value in delta["reasoningContent"].items() if key == "signature"}
        stop = event.get("messageStop", {}).get("stopReason", stop)
    content = [blocks[index] for index in sorted(blocks)]
    call = content[-1]["toolUse"]
    call["input"] = json.loads(call["input"])
    assert stop == "tool_use" and call["input"] == {"q": "libssl3"}, content
    assert content[0]["reasoningContent"]["reasoningText"]["signature"], content
    conversation += [
        {"role": "assistant", "content": content},
        {"role": "user", "content": [{"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": "{}"}]}}]},
    ]
    answer = client.converse(messages=conversation, **options)
    assert answer["output"]["message"]["content"][-1]["text"] == "It is there.", answer


def ollama_chat():
    client = ollama.Client(host=os.environ["OLLAMA_URL"])
    tools = [{"type": "function", "function": {"name": "search", "description": "Searches.", "parameters": SCHEMA}}]
    options = {"model": "qwen3:8b", "tools": tools, "think": True}
    conversation = [{"role": "user", "content": "ollama tool"}]
    thinking, calls = "", []
    for part in client.chat(messages=conversation, stream=True, **options):
        thinking += part.message.thinking or ""
        calls += part.message.tool_calls or []
    assert part.done and calls[0].function.arguments == {"q": "libssl3"} and thinking == "Let me look.", part
    conversation += [
        {"role": "assistant", "thinking": thinking, "tool_calls": calls},
        {"role": "tool", "tool_name": "search", "content": "{}"},
    ]
    answer = client.chat(messages=conversation, **options)
    assert answer.message.content == "It is there.", answer


for check in (chat, responses, messages, gemini, azure, openrouter, vertex, bedrock, ollama_chat):
    check()
    print(f"{check.__name__}: ok")
