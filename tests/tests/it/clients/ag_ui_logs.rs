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

/// Number of logs.
const LOGS: usize = 1_000;
/// Maximum number of changes that damage a log.
const DAMAGE: usize = 6;
/// Maximum number of random events of a made-up log, without its beginning and end.
const EVENTS: usize = 40;
const ROOT: &str = "root";
const CHILDREN: [&str; 2] = ["child1", "child2"];

/// Random numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).expect("it is small")
    }

    fn once_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

type Log = Vec<(i64, Value)>;

/// What a log of a run that is being made up needs to know.
struct Story {
    log: Log,
    /// The root's text that counts, each piece with its number.
    text: Vec<(i64, String)>,
    /// The end of the root's last stored step.
    safe: i64,
    calls: usize,
    questions: Vec<String>,
    asked: usize,
}

impl Story {
    fn say(&mut self, run: &str, kind: &str, more: Value) -> i64 {
        let seq = i64::try_from(self.log.len()).expect("it is short") + 1;
        let mut event = json!({"type": kind, "runId": run});
        if run != ROOT {
            event["parentRunId"] = ROOT.into();
            event["agent"] = "helper".into();
        }
        for (name, value) in more.as_object().into_iter().flatten() {
            event[name] = value.clone();
        }
        self.log.push((seq, event));
        seq
    }

    fn of(dice: &mut Dice) -> Self {
        let mut story = Self {
            log: Vec::new(),
            text: Vec::new(),
            safe: 2,
            calls: 0,
            questions: Vec::new(),
            asked: 0,
        };
        story.say(
            ROOT,
            "message",
            json!({"message": {"id": "m", "role": "user", "content": "Hi"}}),
        );
        story.say(
            ROOT,
            "meta",
            json!({"agent": "writer", "model": "m", "attempt": 1, "citations": []}),
        );
        for _ in 0..dice.below(EVENTS) {
            story.go_on(dice);
        }
        story.end(dice);
        story
    }

    fn go_on(&mut self, dice: &mut Dice) {
        let run = if dice.once_in(3) { CHILDREN[dice.below(2)] } else { ROOT };
        match dice.below(14) {
            0..=4 => {
                let word = format!("word{} ", dice.below(99));
                let seq = self.say(run, "token", json!({"token": word}));
                if run == ROOT {
                    self.text.push((seq, word));
                }
            }
            5 => {
                self.say(run, "reasoning", json!({"text": "Hm. "}));
            }
            6 => {
                let seq = self.say(
                    run,
                    "usage",
                    json!({"inputTokens": 1, "outputTokens": 1, "totalTokens": 2, "steps": 1}),
                );
                if run == ROOT {
                    self.safe = seq;
                }
            }
            7 | 8 => {
                // Some providers number the calls of each answer.
                let call = format!("call{}", if dice.once_in(4) { 0 } else { self.calls });
                self.calls += 1;
                let call = json!({"callId": call, "tool": "search"});
                let with = |more: Value| {
                    let mut call = call.clone();
                    for (name, value) in more.as_object().into_iter().flatten() {
                        call[name] = value.clone();
                    }
                    call
                };
                self.say(run, "mcp_tool", with(json!({"status": "started", "input": {"q": "x"}})));
                if !dice.once_in(5) {
                    let end = [
                        json!({"status": "completed", "result": {"a": [1]}}),
                        json!({"status": "error", "error": "no"}),
                    ];
                    let seq = self.say(run, "mcp_tool", with(end[dice.below(2)].clone()));
                    if run == ROOT {
                        self.safe = seq;
                    }
                }
            }
            9 => {
                let safe = self.safe;
                if run == ROOT {
                    self.text.retain(|(seq, _)| *seq <= safe);
                }
                self.say(
                    run,
                    "reset",
                    json!({"discardAfter": safe, "attempt": 2, "reason": "worker lost"}),
                );
            }
            10 => {
                let status = ["started", "completed", "failed", "paused", "cancelled"][dice.below(5)];
                self.say(
                    CHILDREN[dice.below(2)],
                    "sub_agent",
                    json!({"status": status, "task": "Look.", "error": "e"}),
                );
            }
            11 => {
                let step = json!({"stepNumber": dice.below(3), "description": "Look.", "status": "pending"});
                let kind = ["step_start", "step_complete"][dice.below(2)];
                self.say(ROOT, kind, json!({"step": step}));
            }
            12 => self.ask(run, dice),
            _ => {
                let kind = [
                    "operation",
                    "handoff",
                    "telemetry",
                    "from_the_future",
                    "plan_created",
                    "agent_state",
                ][dice.below(6)];
                self.say(
                    run,
                    kind,
                    json!({"from": "a", "to": "b", "plan": {"steps": []}, "state": "thinking"}),
                );
            }
        }
    }

    /// A question, and its answer: then the run goes on.
    fn ask(&mut self, run: &str, dice: &mut Dice) {
        let id = format!("q{}", self.asked);
        self.asked += 1;
        let kind = ["text", "confirm", "client_tool", "select"][dice.below(4)];
        let options = json!([{"label": "A", "value": "a"}]);
        let question = json!({
            "questionId": id, "question": "Which?", "options": options, "interactionType": kind, "callId": format!("of {id}"),
        });
        self.say(run, "question", question);
        self.say(run, "agent_state", json!({"state": "waiting_on_user"}));
        let seq = self.say(
            run,
            "question_answered",
            json!({"questionId": id, "status": "answered", "answer": "a"}),
        );
        self.safe = seq;
        self.questions.push(id);
    }

    fn reply(&self) -> String {
        self.text.iter().map(|(_, text)| text.as_str()).collect()
    }

    fn end(&mut self, dice: &mut Dice) {
        let status = ["completed", "completed", "completed", "failed", "cancelled", "paused"][dice.below(6)];
        let reply = self.reply();
        if status == "failed" {
            self.say(
                ROOT,
                "error",
                json!({"error": "it broke", "code": "broken", "retryable": true}),
            );
        }
        if !reply.is_empty() {
            self.say(
                ROOT,
                "message",
                json!({"message": {"id": "f", "role": "assistant", "content": reply}}),
            );
        }
        self.say(ROOT, "done", json!({"status": status, "finalMessageId": "f"}));
    }
}

/// Leaves out, repeats, swaps and changes events.
fn damage(log: &mut Log, dice: &mut Dice) {
    for _ in 0..=dice.below(DAMAGE) {
        if log.is_empty() {
            return;
        }
        let at = dice.below(log.len());
        match dice.below(5) {
            0 => {
                log.remove(at);
            }
            1 => {
                let event = log[at].clone();
                log.insert(at, event);
            }
            2 => {
                let other = dice.below(log.len());
                log.swap(at, other);
            }
            3 => log[at].1["runId"] = CHILDREN[dice.below(2)].into(),
            _ => {
                let fields = log[at].1.as_object_mut().expect("an event");
                let name = fields.keys().nth(dice.below(fields.len())).expect("a field").clone();
                fields.remove(&name);
            }
        }
    }
    for (seq, (number, _)) in (1..).zip(log) {
        *number = seq;
    }
}

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
    let said: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(said["count"], 0, "{said:#}");
    assert!(
        said["streams"].as_u64().is_some_and(|streams| streams > 900),
        "{said:#}"
    );
}
