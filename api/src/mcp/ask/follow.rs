//! Follows a turn to its end, and reports its progress to the client.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rejoin_db::config::poll_interval;
use rejoin_event_log::wakeup;
use rmcp::ErrorData;
use rmcp::model::{
    CallToolResponse, CallToolResult, ElicitRequest, ElicitRequestParams, InputRequest, InputRequiredResult,
    ProgressNotificationParam,
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::warn;
use uuid::Uuid;

use super::{Turn, question_id};
use crate::mcp::elicitation::{self, Way};
use crate::mcp::tools::failed;
use crate::mcp::{Asked, Context};

/// Minimum interval between progress notifications.
const NOTICE_EVERY: Duration = Duration::from_millis(250);
/// Maximum length of a notification's text, in characters.
const NOTICE_CHARS: usize = 200;

/// Reports a turn's progress to a client.
pub(super) struct Follow<'a> {
    asked: &'a Asked,
    turn: Turn,
    /// None: the request has ended, and its client reads on elsewhere.
    context: Option<&'a Context>,
    reply: String,
    steps: f64,
    noticed: Option<Instant>,
    /// The run's open questions: their events.
    open: BTreeMap<Uuid, Value>,
    /// Those that were put to the client's user.
    put: HashSet<Uuid>,
    way: Way,
}

impl<'a> Follow<'a> {
    pub(super) fn of(asked: &'a Asked, turn: Turn, context: Option<&'a Context>, way: Way) -> Self {
        Self {
            asked,
            turn,
            context,
            reply: String::new(),
            steps: 0.0,
            noticed: None,
            open: BTreeMap::new(),
            put: HashSet::new(),
            way,
        }
    }

    pub(super) async fn until_done(mut self) -> Result<CallToolResponse, ErrorData> {
        let state = &self.asked.state;
        let way = self.way;
        let mut wakes = state.bus.subscribe();
        let mut cursor = self.turn.cursor;
        let log_id = self.turn.log_id;
        let mut error = None;
        // Dropped with the call.
        let mut answers = FuturesUnordered::new();
        loop {
            let events = state.streams.hub.source.page(log_id, cursor).await;
            let events = events.map_err(|error| {
                warn!(%error, "reading a log failed");
                ErrorData::internal_error(
                    "the database is unavailable; the run continues, so ask for its result later",
                    None,
                )
            })?;
            for event in &events {
                cursor = event.seq;
                if event.run_id != Some(self.turn.run_id) {
                    continue;
                }
                let data: Value = serde_json::from_slice(&event.data).unwrap_or_default();
                match event.kind.as_str() {
                    "token" => {
                        self.reply.push_str(data["token"].as_str().unwrap_or_default());
                        let from = self.reply.chars().count().saturating_sub(NOTICE_CHARS);
                        let latest: String = self.reply.chars().skip(from).collect();
                        self.notice(latest, false).await;
                    }
                    "reset" => self.reply.clear(),
                    "mcp_tool" if data["status"] == "started" => {
                        self.notice(format!("calls {}", data["tool"].as_str().unwrap_or_default()), true)
                            .await;
                    }
                    "message" if data["message"]["role"] == "assistant" => {
                        self.reply = data["message"]["content"].as_str().unwrap_or_default().to_owned();
                    }
                    "question" => {
                        if let Some(id) = question_id(&data) {
                            self.open.insert(id, data);
                        }
                    }
                    "question_answered" => {
                        if let Some(id) = question_id(&data) {
                            self.open.remove(&id);
                        }
                    }
                    "error" => error = data["error"].as_str().map(str::to_owned),
                    "done" => return Ok(self.ended(&data, error).into()),
                    _ => {}
                }
            }
            if !events.is_empty() {
                continue;
            }
            match way {
                _ if self.open.is_empty() => {}
                Way::Result => return Ok(self.input_required()),
                Way::None => return Ok(self.waiting().into()),
                Way::Request => {
                    for (id, form) in self.forms() {
                        let Some(context) = self.context.filter(|_| self.put.insert(id)) else {
                            continue;
                        };
                        let (asked, peer) = (self.asked, &context.peer);
                        answers.push(async move {
                            match peer.create_elicitation(form).await {
                                Ok(result) => elicitation::answer(asked, id, &result).await,
                                Err(error) => {
                                    warn!(%error, "an MCP client did not answer a question");
                                    Ok(false)
                                }
                            }
                        });
                    }
                    if answers.is_empty() && !self.open.keys().all(|id| self.put.contains(id)) {
                        return Ok(self.waiting().into());
                    }
                }
            }
            let hinted = async {
                loop {
                    let wake = wakeup::next(&mut wakes).await;
                    if wake.all || wake.logs.contains(&log_id) {
                        return;
                    }
                }
            };
            tokio::select! {
                _ = timeout(poll_interval(), hinted) => {}
                Some(answered) = answers.next() => match answered {
                    Ok(true) => {}
                    Ok(false) => return Ok(self.waiting().into()),
                    Err(problem) => return Ok(failed(problem.detail).into()),
                },
                // Cancelled by the client, which its own notification handles; or this API stops, and the run
                // continues.
                () = self.closed() => {
                    let reason = format!("the client no longer waits for the answer; the run is {}", self.turn.run_id);
                    return Err(ErrorData::internal_error(reason, None));
                }
            }
        }
    }

    /// Waits until the request has ended.
    async fn closed(&self) {
        match self.context {
            Some(context) => context.ct.cancelled().await,
            None => std::future::pending().await,
        }
    }

    /// The forms of the open questions, by the questions' ids.
    fn forms(&self) -> Vec<(Uuid, ElicitRequestParams)> {
        let forms = self.open.iter().map(|(id, event)| (*id, elicitation::form(event)));
        forms.filter_map(|(id, form)| Some((id, form?))).collect()
    }

    /// The result for a client that repeats its call with the answers of its user.
    fn input_required(&self) -> CallToolResponse {
        let forms = self.forms();
        if forms.is_empty() {
            return self.waiting().into();
        }
        let forms = forms
            .into_iter()
            .map(|(id, form)| (id.to_string(), InputRequest::Elicitation(ElicitRequest::new(form))));
        InputRequiredResult::new(Some(forms.collect()), Some(self.turn.run_id.to_string())).into()
    }

    /// The result of a call whose run waits for an answer that the client's user can't give here.
    fn waiting(&self) -> CallToolResult {
        let questions: Vec<Value> = self
            .open
            .iter()
            .map(|(id, event)| json!({"id": id, "question": event["question"], "options": event["options"]}))
            .collect();
        CallToolResult::structured(json!({
            "reply": self.reply,
            "status": "waiting",
            "questions": questions,
            "hint": "call ask_agent with this conversation_id, and the answer as its message",
            "run_id": self.turn.run_id,
            "conversation_id": self.turn.log_id,
        }))
    }

    fn ended(&self, done: &Value, error: Option<String>) -> CallToolResult {
        let status = done["status"].as_str().unwrap_or_default();
        let mut answer = json!({
            "reply": self.reply,
            "status": status,
            "run_id": self.turn.run_id,
            "conversation_id": self.turn.log_id,
        });
        if let Some(error) = error {
            answer["error"] = json!(error);
        }
        match status {
            "completed" | "paused" => CallToolResult::structured(answer),
            _ => CallToolResult::structured_error(answer),
        }
    }

    /// Sends a progress notification, if the client requested it, rate-limited.
    async fn notice(&mut self, message: String, important: bool) {
        let of_request = |context: &'a Context| Some((context, context.meta.get_progress_token()?));
        let Some((context, token)) = self.context.and_then(of_request) else {
            return;
        };
        if !important && self.noticed.is_some_and(|at| at.elapsed() < NOTICE_EVERY) {
            return;
        }
        self.noticed = Some(Instant::now());
        self.steps += 1.0;
        let mut progress = ProgressNotificationParam::new(token, self.steps);
        progress.message = Some(message);
        // A client that misses it still gets the answer.
        let _ = context.peer.notify_progress(progress).await;
    }
}
