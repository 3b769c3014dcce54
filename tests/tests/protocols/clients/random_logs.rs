//! Logs of runs, made up at random from a seed, and damaged.

use serde_json::{Value, json};

/// Maximum number of changes that damage a log.
const DAMAGE: usize = 6;
/// Maximum number of random events of a made-up log, without its beginning and end.
const EVENTS: usize = 40;
pub(super) const ROOT: &str = "root";
const CHILDREN: [&str; 2] = ["child1", "child2"];

/// Random numbers that are the same in every run.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).expect("it is small")
    }

    pub(super) fn once_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}

pub(super) type Log = Vec<(i64, Value)>;

/// What a log of a run that is being made up needs to know.
pub(super) struct Story {
    pub(super) log: Log,
    /// The root's text that counts, each piece with its number.
    pub(super) text: Vec<(i64, String)>,
    /// The end of the root's last stored step.
    safe: i64,
    calls: usize,
    pub(super) questions: Vec<String>,
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

    pub(super) fn of(dice: &mut Dice) -> Self {
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
                    "custom",
                    "from_the_future",
                    "plan_created",
                    "agent_state",
                ][dice.below(7)];
                self.say(
                    run,
                    kind,
                    json!({"from": "a", "to": "b", "plan": {"steps": []}, "state": "thinking", "name": "progress", "data": 1}),
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

    pub(super) fn reply(&self) -> String {
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
pub(super) fn damage(log: &mut Log, dice: &mut Dice) {
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
