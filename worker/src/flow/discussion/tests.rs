//! Each phase of a discussion, from recorded messages.

use super::*;
use crate::coordination;

fn result(tool: &str, content: Value) -> Message {
    Message::ToolResult {
        call_id: "c".to_owned(),
        tool: tool.to_owned(),
        content: content.to_string(),
        is_error: false,
        attachments: Vec::new(),
    }
}

fn said(summaries: &[&str]) -> Message {
    let results: Vec<Value> = summaries
        .iter()
        .zip(["a", "b", "c"])
        .map(|(summary, agent)| match *summary {
            "" => json!({"agent_name": agent, "status": "failed", "error": "it broke"}),
            summary => json!({"agent_name": agent, "status": "completed", "summary": summary}),
        })
        .collect();
    result(SPAWN_AGENTS, json!({ "results": results }))
}

fn noted() -> Message {
    result(NOTE_DISCUSSION, json!({}))
}

fn after(messages: Vec<Message>) -> NextAction {
    let flow = Flow {
        agents: ["a", "b", "c"].map(str::to_owned).to_vec(),
        threshold: Some(0.6),
        ..Flow::default()
    };
    let request = ModelRequest {
        messages,
        tools: vec![coordination::spawn_agents().spec().clone()],
        ..ModelRequest::default()
    };
    next(&flow, "Which?", &request).unwrap()
}

fn calls(next: NextAction) -> Vec<ToolCall> {
    match next {
        NextAction::Calls(calls) => calls,
        NextAction::Answer(text) => panic!("an answer: {text}"),
    }
}

fn until_votes(votes: &[&str]) -> Vec<Message> {
    vec![
        noted(),
        said(&["red", "blue", ""]),
        noted(),
        said(&["red!", "", "blue?"]),
        noted(),
        said(votes),
    ]
}

#[test]
fn proposals_are_argued_about_and_voted_on() {
    let first = calls(after(vec![]));
    assert_eq!(first[0].arguments["entries"], json!([]));
    assert_eq!(first[1].name, SPAWN_AGENTS);
    let argue = calls(after(until_votes(&[]).into_iter().take(2).collect()));
    assert_eq!(
        argue[0].arguments["entries"].as_array().unwrap().len(),
        2,
        "the third made none"
    );
    let task = argue[1].arguments["agents"][2]["task"].as_str().unwrap();
    assert!(
        task.contains("Proposal 2 (by b):\nblue") && task.contains("Discuss the proposals"),
        "{task}"
    );
    let vote = calls(after(until_votes(&[]).into_iter().take(4).collect()));
    assert_eq!(vote[0].arguments["noted"], 2);
    assert_eq!(vote[0].arguments["entries"][1]["kind"], "argument");
    assert!(
        vote[1].arguments["agents"][0]["task"]
            .as_str()
            .unwrap()
            .contains("c argued:\nblue?")
    );
}

#[test]
fn enough_votes_settle_it() {
    let mut messages = until_votes(&["2", "2\nbecause", "Proposal 1"]);
    let note = calls(after(messages.clone()));
    assert_eq!(note[0].arguments["status"], "resolved");
    assert_eq!(note[0].arguments["decision"], "blue");
    assert_eq!(note[0].arguments["entries"][0]["kind"], "vote");
    assert_eq!(note.len(), 1);
    messages.push(noted());
    match after(messages) {
        NextAction::Answer(text) => assert!(text.starts_with("blue") && text.contains("2 of 3"), "{text}"),
        NextAction::Calls(_) => panic!("it is over"),
    }
}

#[test]
fn without_consensus_a_person_decides() {
    let mut messages = until_votes(&["2", "1", "I abstain"]);
    let asked = calls(after(messages.clone()));
    assert_eq!(asked[0].arguments["status"], "escalated");
    assert_eq!(asked[1].name, ASK_USER);
    assert_eq!(asked[1].arguments["options"][1]["value"], "2");
    messages.extend([noted(), result(ASK_USER, json!({"answer": "1"}))]);
    let note = calls(after(messages.clone()));
    assert_eq!(note[0].arguments["decision"], "red");
    assert_eq!(
        note[0].arguments["entries"],
        json!([]),
        "they were noted with the question"
    );
    assert_eq!(note[0].arguments["noted"], 7);
    messages.push(noted());
    assert!(matches!(after(messages), NextAction::Answer(text) if text.contains("a person decided")));
}

#[test]
fn without_a_decider_all_proposals_are_the_answer() {
    let mut messages = until_votes(&["2", "1", ""]);
    let unanswered = Message::ToolResult {
        call_id: "c".to_owned(),
        tool: ASK_USER.to_owned(),
        content: "the question was not answered in time".to_owned(),
        is_error: true,
        attachments: Vec::new(),
    };
    messages.extend([noted(), unanswered]);
    assert_eq!(calls(after(messages.clone()))[0].arguments["status"], "abandoned");
    messages.push(noted());
    assert!(matches!(after(messages), NextAction::Answer(text) if text.contains("no person decided")));
}
