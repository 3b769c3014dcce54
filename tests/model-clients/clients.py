"""Talks to the stand-in of model providers by the providers' own clients. What they make of its answers is checked here; any mismatch is
an exception. The test that runs this has scripted the turns."""

import json

import anthropic
import openai
from google import genai
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


for check in (chat, responses, messages, gemini):
    check()
    print(f"{check.__name__}: ok")
