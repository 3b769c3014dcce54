//! Snapshots folded from events: resets, calls, and sub-agents.

use rejoin_types::events::Kind;

use super::*;

fn event(run: Uuid, kind: Kind) -> (Event, String) {
    let event = Event::of(run, kind);
    let data = event.to_json();
    (event, data)
}

#[test]
fn a_reset_takes_back_what_was_half_written() {
    let run = Uuid::now_v7();
    let kinds = [
        Kind::Token { token: "Hello ".into() },
        Kind::Token { token: "wor".into() },
        Kind::Reset {
            discard_after: 1,
            attempt: 2,
            reason: "lease_expired".into(),
        },
        Kind::Token { token: "world".into() },
    ];
    let events = kinds.into_iter().zip(1..).map(|(kind, seq)| {
        let (event, data) = event(run, kind);
        (seq, event, data)
    });
    assert_eq!(fold(run, events).text, "Hello world");
}

#[test]
fn calls_and_sub_agents_know_where_in_the_text_they_began() {
    let (run, child) = (Uuid::now_v7(), Uuid::now_v7());
    let token = |token: &str| Kind::Token { token: token.into() };
    let call = |id: &str| Kind::McpTool {
        call_id: id.into(),
        tool: "look".into(),
        status: ToolStatus::Started,
        input: None,
        result: None,
        error: None,
        duration_ms: None,
    };
    let started = Kind::SubAgent {
        status: "started".into(),
        task: None,
        summary: None,
        error: None,
        code: None,
        usage: None,
    };
    let events = [
        (run, call("a")),
        // Four bytes, two UTF-16 code units.
        (run, token("🦀!")),
        (run, call("b")),
        (child, started),
        (child, token("Theirs.")),
        (child, call("c")),
    ];
    let events = events.into_iter().zip(1..).map(|((of, kind), seq)| {
        let (event, data) = event(of, kind);
        (seq, event, data)
    });
    let turn = fold(run, events);
    assert_eq!(
        turn.tool_calls.iter().map(|call| call.after_text).collect::<Vec<_>>(),
        [0, 3]
    );
    assert_eq!(
        (turn.agents[0].after_text, turn.agents[0].tool_calls[0].after_text),
        (3, 7)
    );
}

#[test]
fn words_of_sub_agents_are_marked_as_theirs() {
    let (run, child) = (Uuid::now_v7(), Uuid::now_v7());
    let sub_agent = |status: &str| Kind::SubAgent {
        status: status.into(),
        task: None,
        summary: None,
        error: None,
        code: None,
        usage: None,
    };
    let token = |token: &str| Kind::Token { token: token.into() };
    let events = [
        (run, token("Mine. ")),
        (child, sub_agent("started")),
        (child, token("Theirs.")),
        (child, sub_agent("completed")),
        (run, token("Mine again.")),
    ];
    let events = events.into_iter().zip(1..).map(|((of, kind), seq)| {
        let (event, data) = event(of, kind);
        (seq, event, data)
    });
    let turn = fold(run, events);
    assert_eq!(turn.text, "Mine. Mine again.");
    assert_eq!(
        (turn.agents[0].text.as_str(), turn.agents[0].status.as_str()),
        ("Theirs.", "completed")
    );
}
