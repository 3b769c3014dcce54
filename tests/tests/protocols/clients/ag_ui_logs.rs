//! A thousand logs, recorded, made up and damaged, as AG-UI: its own client finds no violation of the protocol in any, and a client that
//! reads on after any frame gets what it missed.

use std::collections::HashSet;
use std::fmt::Write as _;

use rejoin_dialects::ag_ui::{AgUi, AgUiRenderer, Begin};
use rejoin_sse::dialects::Renderer as _;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::json_of;
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

use super::ag_ui::{client_folder, node};
use super::random_logs::{Dice, Log, ROOT, Story, damage};

/// Number of logs.
const LOGS: usize = 1_000;

fn renderer(root: &str, begin: Begin) -> AgUiRenderer {
    AgUiRenderer::new(AgUi {
        thread_id: "t".into(),
        run_id: "r".into(),
        root: root.into(),
        posted_message: Some("m".into()),
        messages: vec![json!({"id": "u", "role": "user", "content": "Hi"})],
        state: None,
        begin,
    })
}

/// Renders the events from the one at `from` on as a reader sends them: to the end of the response, or all that follow.
fn read(renderer: &mut AgUiRenderer, log: &[(i64, Value)], to_the_end: bool) -> String {
    let mut out = Vec::new();
    for (seq, event) in log {
        renderer.render(*seq, event, &mut out);
        if !to_the_end && renderer.is_over() {
            break;
        }
    }
    String::from_utf8(out).expect("UTF-8")
}

/// The frames of a log, each with its id, from the beginning and all runs of the client one after the other.
fn frames(text: &str) -> Vec<(String, String)> {
    let frames = text.split("\n\n").filter(|frame| !frame.is_empty());
    frames
        .map(|frame| {
            let id = frame.lines().find_map(|line| line.strip_prefix("id: ")).expect("an id");
            (id.to_owned(), format!("{frame}\n\n"))
        })
        .collect()
}

/// A client that was cut off after a random frame, and read on.
fn cut_once(root: &str, log: &[(i64, Value)], dice: &mut Dice) -> String {
    let whole = read(&mut renderer(root, Begin::After(0)), log, true);
    let all = frames(&whole);
    if all.is_empty() {
        return whole;
    }
    let cut = dice.below(all.len());
    let (id, _) = &all[cut];
    let (after, sent) = match id.split_once('.') {
        None => (id.parse::<i64>().expect("a number"), 0),
        Some((seq, sent)) => (
            seq.parse::<i64>().expect("a number") - 1,
            sent.parse().expect("a number"),
        ),
    };
    let mut reads_on = renderer(root, Begin::ReadOn { after, frames: sent });
    let mut rest = String::new();
    for (seq, event) in log {
        let mut out = Vec::new();
        reads_on.render(*seq, event, &mut out);
        if *seq > after {
            rest.push_str(std::str::from_utf8(&out).expect("UTF-8"));
        }
    }
    let mut text: String = all[..=cut].iter().map(|(_, frame)| frame.as_str()).collect();
    text.push_str(&rest);
    text
}

/// A client that connects after a random event.
fn connect(root: &str, log: &[(i64, Value)], dice: &mut Dice) -> String {
    let at = dice.below(log.len() + 1);
    let mut connected = renderer(root, Begin::Now);
    let mut text = read(&mut connected, &log[..at], true);
    if text.is_empty() {
        let mut out = Vec::new();
        let is_over = connected.caught_up(i64::try_from(at).expect("it is short"), &mut out);
        text.push_str(std::str::from_utf8(&out).expect("UTF-8"));
        if is_over {
            return text;
        }
    }
    text + &read(&mut connected, &log[at..], false)
}

/// One of the ways to read a log. None: another text than the reply comes out of it.
fn read_somehow(root: &str, log: &[(i64, Value)], questions: &[String], dice: &mut Dice) -> (String, bool) {
    match dice.below(4) {
        0 => (cut_once(root, log, dice), questions.is_empty()),
        1 => (connect(root, log, dice), false),
        2 if !questions.is_empty() => {
            let answered = HashSet::from([questions[dice.below(questions.len())].clone()]);
            (read(&mut renderer(root, Begin::Answered(answered)), log, false), false)
        }
        _ => (
            read(&mut renderer(root, Begin::After(0)), log, false),
            questions.is_empty(),
        ),
    }
}

/// Real logs: an answer, a question, sub-agents.
async fn recorded() -> Vec<(String, Log)> {
    let app = TestApp::start().await;
    let asker = app.agent("asker", &["ask_user"]).await;
    app.model.on("plain", [Reply::text("One two three.").reasoning("Hm.")]);
    app.model.on(
        "ask",
        [
            Reply::text("Well. ").then_tool("ask_user", json!({"question": "Which?", "options": []})),
            Reply::text("So be it."),
        ],
    );
    let client = app.client();
    let mut logs = Vec::new();
    for message in ["plain", "ask"] {
        let posted = client
            .post_message(json!({"message": message, "agentDefinitionId": asker}))
            .await;
        let run = posted["runId"].as_str().expect("an id").to_owned();
        let mut stream = client.stream(&format!("/api/runs/{run}/events")).await;
        let mut read = Vec::new();
        if message == "ask" {
            read.extend(json_of(&stream.until("agent_state").await));
            let (_, open) = client.get("/api/questions?status=pending").await;
            let path = format!(
                "/api/questions/{}/answer",
                open["items"][0]["id"].as_str().expect("a question")
            );
            client.post(&path, json!({"answer": "this"})).await;
        }
        read.extend(json_of(&stream.until("done").await));
        logs.push((run, (1..).zip(read).collect()));
    }
    logs
}

#[tokio::test]
async fn its_client_finds_no_violation_in_any_log() {
    let Some(folder) = client_folder() else { return };
    let recorded = recorded().await;
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut lines = String::new();
    for number in 0..LOGS {
        let is_recorded = number % 10 == 0;
        let (root, mut log, questions, reply) = if is_recorded {
            let (root, log) = recorded[dice.below(recorded.len())].clone();
            (root, log, Vec::new(), None)
        } else {
            let story = Story::of(&mut dice);
            let reply = story.reply();
            (ROOT.to_owned(), story.log, story.questions, Some(reply))
        };
        let is_damaged = dice.once_in(2);
        if is_damaged {
            damage(&mut log, &mut dice);
        }
        let (body, has_reply) = read_somehow(&root, &log, &questions, &mut dice);
        if !body.is_empty() {
            let text = reply.filter(|_| has_reply && !is_damaged);
            writeln!(lines, "{}", json!({"body": body, "text": text})).expect("memory");
        }
    }
    let file = std::env::temp_dir().join(format!("rejoin-ag-ui-{}.jsonl", std::process::id()));
    std::fs::write(&file, &lines).expect("a file");
    let output = node("verify.mjs", &folder, file.to_str().expect("a name"))
        .output()
        .await
        .expect("node starts");
    std::fs::remove_file(&file).expect("it is there");
    let printed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(printed["count"], 0, "{printed:#}");
    assert!(
        printed["streams"].as_u64().is_some_and(|streams| streams > 900),
        "{printed:#}"
    );
}
