//! Tests of requests: reasoning, parameters, cache marks, ids of tool calls.

use ::genai::chat::ChatRole;
use rejoin_models::catalogue;
use rejoin_tools::ToolSpec;
use serde_json::json;

use super::messages::CALL_ID_MAX_BYTES;
use super::*;
use crate::{Message, Reasoning, ReasoningPart, ToolCall};

const CLAUDE: &str = "anthropic:claude-opus-5-5";
const GEMINI: &str = "gemini:gemini-3.8-flash";
const OPENAI: &str = "openai:gpt-6-luna";

fn to(name: &'static str, adapter: AdapterKind) -> Target<'static> {
    Target {
        adapter,
        name,
        known: catalogue().find(name),
        is_own_server: false,
        caches: true,
        refused: Parameters::default(),
    }
}

fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: "A tool.".to_owned(),
        parameters: json!({"type": "object", "properties": {}}).into(),
        read_only: true,
        idempotent: true,
        destructive: false,
    }
}

fn user(text: &str) -> Message {
    Message::user(text)
}

fn call(id: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: "t".to_owned(),
        arguments: json!({}),
    }
}

fn asked(id: &str, reasoning: Option<Reasoning>) -> Message {
    Message::Assistant {
        text: String::new(),
        tool_calls: vec![call(id)],
        reasoning,
    }
}

fn result(id: &str) -> Message {
    Message::ToolResult {
        call_id: id.to_owned(),
        tool: "t".to_owned(),
        content: "{}".to_owned(),
        is_error: false,
        attachments: Vec::new(),
    }
}

fn signed(call: Option<&str>) -> ReasoningPart {
    ReasoningPart::Signed {
        signature: "c2ln".to_owned(),
        text: call.is_none().then(|| "why".to_owned()),
        call: call.map(str::to_owned),
    }
}

fn by(model: &str, part: ReasoningPart) -> Option<Reasoning> {
    Reasoning::of(model.to_owned(), vec![part])
}

fn request(messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        system: "You test.".to_owned(),
        messages,
        tools: vec![tool("a"), tool("b")],
        temperature: Some(0.1),
        ..ModelRequest::default()
    }
}

#[test]
fn results_of_parallel_calls_travel_together_except_to_ollama() {
    let messages = [result("a"), result("b"), user("go")];
    let sent = |target: Target<'_>| target.messages(&messages, None, &mut Parameters::default()).len();
    assert_eq!(sent(to(CLAUDE, AdapterKind::Anthropic)), 2);
    assert_eq!(sent(to("ollama:llama3.2", AdapterKind::Ollama)), 3);
}

#[test]
fn arguments_that_are_no_object_are_sent_as_one() {
    let call = ToolCall {
        arguments: json!("{broken"),
        ..call("a")
    };
    let sent = to(OPENAI, AdapterKind::OpenAI).call(&call, None);
    assert_eq!(sent.fn_arguments, json!({"invalid_arguments": "{broken"}));
}

#[test]
fn a_model_gets_its_own_reasoning_back_and_no_other_models() {
    let target = to(CLAUDE, AdapterKind::Anthropic);
    let parts = |reasoning| {
        let sent = target.messages(
            &[user("go"), asked("a", reasoning), result("a")],
            None,
            &mut Parameters::default(),
        );
        sent[1].content.parts().len()
    };
    assert_eq!(parts(by(CLAUDE, signed(None))), 3, "signature, what it signs, the call");
    assert_eq!(parts(by(GEMINI, signed(None))), 1, "the call alone");
}

#[test]
fn claudes_reasoning_goes_back_only_with_its_tools_and_prompt() {
    const BOUND: &str = "anthropic:claude-haiku-5-5";
    let target = to(BOUND, AdapterKind::Anthropic);
    let mut first = request(vec![user("go")]);
    let bound_to = target.request(&first).bound_to;
    assert!(bound_to.is_some());
    let reasoning = || {
        by(BOUND, signed(None)).map(|reasoning| Reasoning {
            bound_to: bound_to.clone(),
            ..reasoning
        })
    };
    first.messages = vec![user("go"), asked("a", reasoning()), result("a")];
    let parts = |request: &ModelRequest| {
        let sent = target.request(request);
        let told = sent
            .chat
            .messages
            .iter()
            .find(|message| message.role == ChatRole::Assistant);
        (
            told.map(|message| message.content.parts().len()),
            sent.options.tool_choice,
        )
    };
    assert_eq!(parts(&first), (Some(3), None), "signature, what it signs, the call");
    // The last step may call nothing, and has the same tools.
    let last = ModelRequest {
        tools: Vec::new(),
        withdrawn_tools: first.tools.clone(),
        ..first.clone()
    };
    assert_eq!(parts(&last), (Some(3), Some(ToolChoice::None)));
    let mut other = first.clone();
    other.tools.push(tool("c"));
    assert_eq!(parts(&other), (Some(1), None), "another tool: the call alone");
    let mut other = first.clone();
    other.system.push('!');
    assert_eq!(parts(&other), (Some(1), None), "other instructions: the call alone");
    // The others' reasoning is not tied to anything.
    for (model, adapter) in [
        (GEMINI, AdapterKind::Gemini),
        ("anthropic:claude-haiku-4-5", AdapterKind::Anthropic),
    ] {
        assert_eq!(to(model, adapter).request(&first).bound_to, None, "{model}");
    }
    let elsewhere = to(GEMINI, AdapterKind::Gemini).request(&last);
    assert!(elsewhere.chat.tools.is_none() && elsewhere.options.tool_choice.is_none());
}

#[test]
fn a_signature_goes_back_with_the_call_that_it_came_with() {
    let target = to(GEMINI, AdapterKind::Gemini);
    let signature = |id: &str| {
        let reasoning = by(GEMINI, signed(Some(id)));
        target.call(&call("a"), reasoning.as_ref()).thought_signatures
    };
    assert_eq!(signature("a"), Some(vec!["c2ln".to_owned()]));
    assert_eq!(signature("b"), None);
}

#[test]
fn unsigned_reasoning_goes_to_own_servers_within_its_turn() {
    let told = |is_own_server, messages: &[Message]| {
        let target = Target {
            is_own_server,
            ..to("openai:deepseek-v4", AdapterKind::OpenAI)
        };
        let sent = target.messages(messages, None, &mut Parameters::default());
        sent[1].content.parts().len() == 2
    };
    let thought = || by("openai:deepseek-v4", ReasoningPart::Text { text: "hm".to_owned() });
    let this_turn = [user("go"), asked("a", thought()), result("a")];
    let earlier = [user("go"), asked("a", thought()), result("a"), user("and?")];
    assert!(told(true, &this_turn));
    assert!(!told(true, &earlier));
    assert!(!told(false, &this_turn), "OpenAI itself knows no such field");
}

#[test]
fn a_temperature_is_sent_to_models_that_take_one() {
    let sent = |name, adapter| {
        let options = to(name, adapter).request(&request(vec![user("go")])).options;
        options.temperature
    };
    assert_eq!(sent(CLAUDE, AdapterKind::Anthropic), None);
    assert_eq!(sent("anthropic:claude-haiku-4-5", AdapterKind::Anthropic), Some(0.1));
    assert_eq!(sent("openai:some-local-model", AdapterKind::OpenAI), Some(0.1));
    let mut refused = Parameters::default();
    refused.add(Parameter::Temperature);
    let target = Target {
        refused,
        ..to("openai:some-local-model", AdapterKind::OpenAI)
    };
    assert_eq!(target.request(&request(vec![user("go")])).options.temperature, None);
}

#[test]
fn a_reasoning_level_becomes_the_models_nearest_level() {
    use ReasoningEffort::{High, Low, Max, Medium, None as No, XHigh};
    let level = |name, adapter, wanted| {
        let effort = to(name, adapter).effort(wanted, Some(4_096));
        effort.map(|effort| effort.to_string())
    };
    let has = |name: &str| catalogue().find(name).unwrap().efforts.clone();
    assert_eq!(has(CLAUDE), ["low", "medium", "high", "xhigh", "max"]);
    let claude = |wanted| level(CLAUDE, AdapterKind::Anthropic, wanted);
    assert_eq!(claude(XHigh).as_deref(), Some("xhigh"));
    assert_eq!(claude(No).as_deref(), Some("low"), "it refuses to be switched off");
    // For a model with a thinking budget: at most half of the answer's tokens.
    let budget = |wanted| level("anthropic:claude-haiku-4-5", AdapterKind::Anthropic, wanted);
    assert_eq!(budget(Low).as_deref(), Some("1024"));
    assert_eq!(budget(High).as_deref(), Some("2048"));
    assert_eq!(budget(No), None, "it reasons only when asked");
    // For an unknown model: the requested level.
    assert_eq!(level("openai:new", AdapterKind::OpenAI, Max).as_deref(), Some("max"));
    // For a model without reasoning: nothing.
    assert_eq!(
        catalogue().find("openai:gpt-4.1").unwrap().can(Ability::Reasoning),
        Some(false)
    );
    assert_eq!(level("openai:gpt-4.1", AdapterKind::OpenAI, Medium), None);
}

#[test]
fn prompts_are_marked_for_the_cache_in_at_most_four_places() {
    let mut messages = vec![user("go")];
    for step in 0..5 {
        messages.push(asked(&format!("c{step}"), None));
        messages.push(result(&format!("c{step}")));
    }
    let sent = to(CLAUDE, AdapterKind::Anthropic).request(&request(messages.clone()));
    let marked: Vec<usize> = (0..)
        .zip(&sent.chat.messages)
        .filter_map(|(at, message)| message.options.as_ref()?.cache_control.as_ref().map(|_| at))
        .collect();
    // The system's, the newest results', and those of the step before.
    assert_eq!(marked, [0, 9, 11]);
    let tools = sent.chat.tools.unwrap();
    assert_eq!(tools.iter().filter(|tool| tool.cache_control.is_some()).count(), 1);
    // Not if it is disabled, rejected, or useless.
    let plain = |target: Target<'_>, tools: Vec<ToolSpec>| {
        let request = ModelRequest {
            tools,
            ..request(messages.clone())
        };
        let sent = target.request(&request).chat;
        sent.messages.iter().all(|message| message.options.is_none())
    };
    assert!(plain(to(CLAUDE, AdapterKind::Anthropic), vec![]));
    let off = Target {
        caches: false,
        ..to(CLAUDE, AdapterKind::Anthropic)
    };
    assert!(plain(off, vec![tool("a")]));
    assert!(plain(to(GEMINI, AdapterKind::Gemini), vec![tool("a")]));
}

#[test]
fn ids_of_calls_are_made_fit_for_the_provider() {
    let odd = "call#search_entities#1";
    assert_eq!(to(GEMINI, AdapterKind::Gemini).call_id(odd), odd);
    let claude = to(CLAUDE, AdapterKind::Anthropic);
    let fit = claude.call_id(odd);
    assert_eq!(fit, claude.call_id(odd), "the same for the call and its result");
    assert!(fit.len() <= CALL_ID_MAX_BYTES && fit.starts_with("call_"), "{fit}");
    assert_eq!(claude.call_id("toolu_01A"), "toolu_01A");
}

#[test]
fn a_cache_key_goes_to_openais_models_alone() {
    let key = |name, adapter| {
        let request = ModelRequest {
            cache_key: Some("c".to_owned()),
            ..request(vec![user("go")])
        };
        to(name, adapter).request(&request).options.prompt_cache_key
    };
    assert_eq!(key(OPENAI, AdapterKind::OpenAI).as_deref(), Some("c"));
    assert_eq!(key("openai:some-local-model", AdapterKind::OpenAI), None);
    assert_eq!(key(CLAUDE, AdapterKind::Anthropic), None);
}

#[test]
fn an_answer_is_bounded_by_what_the_model_can_say() {
    let bound = |name, adapter, max_tokens| {
        let request = ModelRequest {
            max_tokens,
            ..request(vec![user("go")])
        };
        to(name, adapter).request(&request).options.max_tokens
    };
    assert_eq!(bound(CLAUDE, AdapterKind::Anthropic, None), Some(128_000));
    assert_eq!(bound(CLAUDE, AdapterKind::Anthropic, Some(1_000_000)), Some(128_000));
    assert_eq!(bound(OPENAI, AdapterKind::OpenAI, None), None);
    assert_eq!(bound(OPENAI, AdapterKind::OpenAI, Some(100)), Some(100));
}

#[test]
fn bedrock_and_openrouter_have_the_tools_of_calls_to_the_end() {
    for (model, adapter) in [
        ("bedrock:us.amazon.nova-2-lite-v1:0", AdapterKind::BedrockApi),
        ("openrouter:openai/gpt-6-luna", AdapterKind::OpenRouter),
    ] {
        let mut last = request(vec![user("go"), asked("a", None), result("a"), user("sum up")]);
        last.withdrawn_tools = std::mem::take(&mut last.tools);
        let sent = to(model, adapter).request(&last);
        assert_eq!(sent.chat.tools.map(|tools| tools.len()), Some(2), "{model}");
    }
}
