//! The demo model's rules, turn by turn.

use serde_json::{Value, json};

use super::question::{Direction, Question};
use super::{Move, OPENING, chunks, next_move};
use crate::{Chunk, Finish, Message, ModelRequest, ToolCall};
use rejoin_tools::ToolSpec;

fn tool(name: &str, properties: &[&str]) -> ToolSpec {
    let properties: serde_json::Map<String, Value> =
        properties.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        parameters: json!({"type": "object", "properties": properties}).into(),
        read_only: true,
        idempotent: true,
        destructive: false,
    }
}

fn graph_tools() -> Vec<ToolSpec> {
    vec![
        tool("hybrid_search", &["query", "types", "labels", "limit"]),
        tool("get_entity_edges", &["entity_id"]),
    ]
}

fn request(tools: Vec<ToolSpec>, messages: Vec<Message>) -> ModelRequest {
    ModelRequest {
        model: "demo:graph".to_owned(),
        messages,
        tools,
        ..ModelRequest::default()
    }
}

fn user(text: &str) -> Message {
    Message::user(text)
}

fn result(tool: &str, content: Value) -> Message {
    Message::ToolResult {
        call_id: "c".to_owned(),
        tool: tool.to_owned(),
        content: content.to_string(),
        is_error: false,
        attachments: Vec::new(),
    }
}

fn package(name: &str) -> Value {
    json!({"id": format!("id-{name}"), "key": name, "type": "Package", "name": name, "properties": {"version": "1.0"}})
}

fn found(names: &[&str]) -> Message {
    let data: Vec<Value> = names
        .iter()
        .map(|name| json!({"object": package(name), "score": 0.5}))
        .collect();
    result("hybrid_search", json!({"data": data, "total": names.len()}))
}

fn edge(kind: &str, other: &str, properties: Value) -> Value {
    json!({"relationship_id": "r", "relationship_type": kind, "connected_entity": package(other), "properties": properties})
}

fn answer(messages: Vec<Message>) -> String {
    match next_move(&request(graph_tools(), messages)) {
        Move::Answer(text) => text,
        Move::Call { tool, .. } => panic!("called {tool} instead of answering"),
    }
}

fn direction(text: &str) -> (Direction, String) {
    let question = Question::read(&[text]);
    (question.direction, question.query().to_owned())
}

#[test]
fn names_and_directions_are_read_from_questions() {
    let expect = |text: &str, wanted: Direction, query: &str| {
        assert_eq!(direction(text), (wanted, query.to_owned()), "{text}");
    };
    expect("Which packages need libssl3, and why?", Direction::Incoming, "libssl3");
    expect(
        "What depends on python3-requests?",
        Direction::Incoming,
        "python3-requests",
    );
    expect("What does openssl depend on?", Direction::Outgoing, "openssl");
    expect("what does \"curl\" need", Direction::Outgoing, "curl");
    expect("List the dependencies of curl.", Direction::Outgoing, "curl");
    expect("reverse dependencies of curl", Direction::Incoming, "curl");
    expect("Why is zlib1g needed?", Direction::Incoming, "zlib1g");
    expect("What is required by curl?", Direction::Outgoing, "curl");
    expect("Tell me about the package curl", Direction::Both, "curl");
    expect("Hello there!", Direction::Both, "");
    expect("Which packages are there?", Direction::Both, "packages");
}

#[test]
fn a_follow_up_takes_its_subject_from_before() {
    let question = Question::read(&["Tell me about openssl", "And what needs it?"]);
    assert_eq!((question.direction, question.query()), (Direction::Incoming, "openssl"));
    let question = Question::read(&["Tell me about openssl", "What does it depend on?"]);
    assert_eq!((question.direction, question.query()), (Direction::Outgoing, "openssl"));
}

#[test]
fn a_turn_searches_reads_relations_and_answers_with_sources() {
    let mut messages = vec![user("Which packages need libssl3, and why?")];
    assert_eq!(
        next_move(&request(graph_tools(), messages.clone())),
        Move::Call {
            tool: "hybrid_search",
            arguments: json!({"query": "libssl3", "types": null, "labels": null, "limit": 10}),
        }
    );
    messages.push(found(&["libssl3-dev", "libssl3"]));
    assert_eq!(
        next_move(&request(graph_tools(), messages.clone())),
        Move::Call {
            tool: "get_entity_edges",
            arguments: json!({"entity_id": "id-libssl3"}),
        }
    );
    messages.push(result(
        "get_entity_edges",
        json!({
            "incoming": [
                edge("DEPENDS_ON", "openssl", json!({"constraint": ">= 3.0.9"})),
                edge("DEPENDS_ON", "curl", json!({"constraint": null, "kind": "runtime"})),
                edge("MAINTAINS", "someone", json!({})),
            ],
            "outgoing": [edge("DEPENDS_ON", "libc6", json!({}))],
        }),
    ));
    let text = answer(messages);
    assert_eq!(
        text,
        "libssl3 [Package:libssl3] has 2 incoming DEPENDS_ON relationships:\n\n\
         - curl depends on libssl3 (kind: runtime) [Package:curl]\n\
         - openssl depends on libssl3 (>= 3.0.9) [Package:openssl]\n\n\
         Why: each line is a relationship that the graph holds; what stands in brackets is how it was declared.\n\n\
         What also points to it:\n- 1 × MAINTAINS: someone [Package:someone]"
    );
}

#[test]
fn long_lists_are_cut_and_the_rest_is_counted() {
    let incoming: Vec<Value> = (10..40)
        .map(|n| edge("DEPENDS_ON", &format!("p{n}"), json!({})))
        .collect();
    let text = answer(vec![
        user("what needs libc6?"),
        found(&["libc6"]),
        result("get_entity_edges", json!({"incoming": incoming, "outgoing": []})),
    ]);
    assert!(
        text.starts_with("libc6 [Package:libc6] has 30 incoming DEPENDS_ON relationships:"),
        "{text}"
    );
    assert_eq!(text.lines().filter(|line| line.starts_with("- ")).count(), 25);
    assert!(text.ends_with("… and 5 more."), "{text}");
}

#[test]
fn a_plain_question_gets_properties_and_both_directions() {
    let text = answer(vec![
        user("Tell me about curl"),
        found(&["curl"]),
        result(
            "get_entity_edges",
            json!({"incoming": [], "outgoing": [edge("DEPENDS_ON", "libc6", json!({"constraint": ">= 2.34"}))]}),
        ),
    ]);
    assert_eq!(
        text,
        "curl is of type Package [Package:curl].\n- version: 1.0\n\n\
         What it points to:\n- 1 × DEPENDS_ON: libc6 (>= 2.34) [Package:libc6]"
    );
}

#[test]
fn nothing_found_is_said_with_a_suggestion() {
    let text = answer(vec![user("what needs foo-bar?"), found(&[])]);
    assert!(
        text.starts_with("the knowledge graph has nothing that fits “foo-bar”."),
        "{text}"
    );
    assert!(text.contains("Which packages need libssl3"), "{text}");
}

#[test]
fn only_tools_of_the_request_are_called() {
    let messages = vec![user("what needs curl?")];
    let search = vec![tool("search_entities", &["query", "type_name", "limit"])];
    let Move::Call { tool: called, .. } = next_move(&request(search.clone(), messages.clone())) else {
        panic!("no search");
    };
    assert_eq!(called, "search_entities");
    let found = result("search_entities", json!({"entities": [package("curl")], "count": 1}));
    let after = next_move(&request(search, vec![messages[0].clone(), found]));
    assert!(matches!(after, Move::Answer(text) if text.starts_with("curl is of type Package")));
    let without = next_move(&request(Vec::new(), messages));
    assert!(matches!(without, Move::Answer(text) if text.contains("nothing in the knowledge graph fitted")));
}

#[test]
fn results_of_an_earlier_turn_are_not_taken_for_this_ones() {
    let messages = vec![
        user("what needs curl?"),
        found(&["curl"]),
        Message::Assistant {
            text: "…".to_owned(),
            tool_calls: Vec::new(),
            reasoning: None,
        },
        user("what needs wget?"),
    ];
    let Move::Call { arguments, .. } = next_move(&request(graph_tools(), messages)) else {
        panic!("no search");
    };
    assert_eq!(arguments["query"], "wget");
}

#[test]
fn a_failed_tool_is_reported_and_not_called_again() {
    let failed = Message::ToolResult {
        call_id: "c".to_owned(),
        tool: "hybrid_search".to_owned(),
        content: "the database is away".to_owned(),
        is_error: true,
        attachments: Vec::new(),
    };
    let text = answer(vec![user("what needs curl?"), failed]);
    assert_eq!(text, "the search failed, so I can tell nothing: the database is away");
}

#[test]
fn a_plain_conversation_is_answered_from_its_context() {
    let mut request = request(Vec::new(), vec![user("What is curl?")]);
    request.system = "You help.\n\n## Context from the knowledge graph\n- [Package:libc6] libc6: C library\n\
                      - [Package:curl] curl: a client\n\nBe brief."
        .to_owned();
    let Move::Answer(text) = next_move(&request) else {
        panic!("no answer");
    };
    assert_eq!(
        text,
        "this is what the knowledge graph holds that fits your message:\n\n\
         - [Package:curl] curl: a client\n- [Package:libc6] libc6: C library"
    );
}

#[test]
fn an_answer_is_the_same_words_every_time_and_says_what_it_is() {
    let request = request(graph_tools(), vec![user("hello")]);
    let first = chunks(&request);
    assert_eq!(first, chunks(&request));
    let text: String = first
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::Text(text) => Some(text.as_str()),
            Chunk::Reasoning(_) | Chunk::ToolCall(_) | Chunk::End { .. } => None,
        })
        .collect();
    assert!(text.starts_with(OPENING), "{text}");
    assert!(matches!(
        first.last(),
        Some(Chunk::End {
            finish: Finish::Stop,
            ..
        })
    ));
}

#[test]
fn call_ids_do_not_repeat_within_a_run() {
    let mut messages = vec![user("what needs curl?")];
    messages.push(Message::Assistant {
        text: String::new(),
        tool_calls: vec![ToolCall {
            id: "demo_call_1".to_owned(),
            name: "hybrid_search".to_owned(),
            arguments: json!({}),
        }],
        reasoning: None,
    });
    messages.push(found(&["curl"]));
    let chunks = chunks(&request(graph_tools(), messages));
    assert!(matches!(&chunks[0], Chunk::ToolCall(call) if call.id == "demo_call_2" && call.name == "get_entity_edges"));
}
