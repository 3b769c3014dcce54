//! Input that a tool asks its user for in the middle of a call, such as an MCP server (elicitation). What it asks is recorded at once, and put
//! to the user after the other calls of the step, one question for each field of a form; the run is suspended until all are answered
//! (`deferred`). Then the call is made again with the answers.
//!
//! Invariant: a call that waits for input is on record as such, so that it outlives its worker; one that is being made, also with the answers,
//! is not, so that it ends as of unknown outcome if its worker is lost.

use std::time::Instant;

use rejoin_commands::{DeferredWhat, RecordInput};
use rejoin_runs::forms::{ACCEPT, AwaitedInput, DECLINE, FIELDS_MAX, FieldAnswer, FormField, ROUNDS_MAX, SKIP};
use rejoin_runs::questions::{self, AnswerOption, NewQuestion, Question};
use rejoin_runs::tool_calls::{CallStatus, ToolCallRow};
use rejoin_tools::input::{Form, InputGiven, InputNeeded};
use rejoin_types::ids;
use serde_json::{Map, Value, json};

use super::act::Ended;
use super::deferred::{Answer, waited_ms};
use super::{End, Execution, Interrupt};
use crate::coordination::{OPTIONS_MAX, QUESTION_MAX_CHARS};

/// Number of choices up to which they are shown as buttons.
const BUTTONS_MAX: usize = 5;
/// Types of values that a question can ask for.
const TYPES: [&str; 5] = ["string", "number", "integer", "boolean", "array"];

impl Execution {
    /// Records what a call asks its user. Some: it can't be asked, and the call ends.
    pub(super) async fn await_input(
        &mut self,
        call: &ToolCallRow,
        needed: InputNeeded,
        began: Instant,
    ) -> Result<Option<Ended>, End> {
        let state = needed.state.clone();
        match self.askable(call, needed).await? {
            Ok(awaited) => {
                let awaited = json!(awaited);
                let record = RecordInput {
                    run: &self.request.run,
                    attempt: self.request.attempt,
                    id: call.id,
                    awaited: Some(&awaited),
                };
                let recorded = self.request.services.execute(&record).await;
                recorded.map_err(|error| self.infrastructure(error))?;
                self.input_awaited.push(ToolCallRow {
                    status: CallStatus::Running.as_str().to_owned(),
                    awaited_input: Some(awaited),
                    ..call.clone()
                });
                Ok(None)
            }
            Err(why) => {
                if let Some(tool) = self.tool(&call.tool_name) {
                    tool.abandon(self.request.run.user_id, &state).await;
                }
                let duration_ms = i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX);
                Ok(Some(Ended::failed(why, duration_ms)))
            }
        }
    }

    /// Returns what a call waits for. Err: why it can't be asked, for the model.
    async fn askable(&self, call: &ToolCallRow, needed: InputNeeded) -> Result<Result<AwaitedInput, String>, End> {
        let db = &self.request.services.db.pool_sqlx;
        let failed = |error| End::database("counting questions", error);
        let rounds = questions::rounds_of(db, call.id).await.map_err(failed)?;
        let round = u32::try_from(rounds).unwrap_or(u32::MAX).saturating_add(1);
        if round > ROUNDS_MAX {
            return Ok(Err(format!(
                "{} has asked the user {ROUNDS_MAX} times in one call, the maximum; the call was ended",
                needed.asker
            )));
        }
        let awaited = AwaitedInput { round, needed };
        let new = match questions_of(&awaited) {
            Ok(new) => new.len(),
            Err(why) => return Ok(Err(why)),
        };
        if let Some(most) = self.request.questions {
            let asked = questions::asked_by(db, self.request.run.id).await.map_err(failed)?;
            // Those of other calls of this step are recorded, but not asked yet.
            let recorded = self.input_awaited.iter().filter_map(AwaitedInput::of);
            let recorded: usize = recorded.map(|awaited| fields_of(&awaited)).sum();
            let all = asked.saturating_add(i64::try_from(new + recorded).unwrap_or(i64::MAX));
            if all > i64::from(most) {
                return Ok(Err(format!(
                    "{} asks for input, but at most {most} questions per turn may be asked; continue with what you know",
                    awaited.needed.asker
                )));
            }
        }
        Ok(Ok(awaited))
    }

    /// Returns the state of a call that waits for input.
    pub(super) async fn input_of(&self, call: &ToolCallRow, awaited: AwaitedInput) -> Result<Answer, End> {
        let db = &self.request.services.db.pool_sqlx;
        let asked = questions::of_round(db, call.id, awaited.round).await;
        let asked = asked.map_err(|error| End::database("reading the questions of a tool", error))?;
        if asked.is_empty() {
            return Ok(match questions_of(&awaited) {
                Ok(questions) => Answer::Awaited(DeferredWhat::Forms(questions)),
                Err(why) => Answer::Ended(Ended::failed(why, waited_ms(call))),
            });
        }
        if asked.iter().any(Question::is_pending) {
            return Ok(Answer::Awaited(DeferredWhat::Begun));
        }
        let Some(tool) = self.tool(&call.tool_name) else {
            let gone = format!("the tool {} no longer exists; it had asked the user", call.tool_name);
            return Ok(Answer::Ended(Ended::failed(gone, waited_ms(call))));
        };
        let responses = awaited
            .needed
            .forms
            .iter()
            .map(|form| (form.key.clone(), response(form, &asked)))
            .collect();
        let given = InputGiven {
            state: awaited.needed.state,
            responses,
        };
        Ok(Answer::Resumes(tool, awaited.needed.arguments, given))
    }

    /// Records that a call is about to be made with the answers.
    pub(super) async fn resume_call(&mut self, call: &ToolCallRow) -> Result<(), End> {
        let record = RecordInput {
            run: &self.request.run,
            attempt: self.request.attempt,
            id: call.id,
            awaited: None,
        };
        let recorded = self.request.services.execute(&record).await;
        let (goes_on, _) = recorded.map_err(|error| self.infrastructure(error))?;
        if !goes_on {
            // Its start was published.
            self.abandon_input(call).await;
            let ended = Ended::failed("the run was cancelled while it waited".to_owned(), waited_ms(call));
            self.record_end(call, &ended).await?;
            return Err(self.interrupted(Interrupt::Cancelled));
        }
        self.spans.begin_call(call);
        Ok(())
    }

    /// Ends the calls that wait for input and were not asked yet, with their run: every published start also ends.
    pub(super) async fn end_awaited(&mut self) -> Result<(), End> {
        for call in std::mem::take(&mut self.input_awaited) {
            self.abandon_input(&call).await;
            let ended = Ended::failed("the run ended before the user was asked".to_owned(), waited_ms(&call));
            self.record_end(&call, &ended).await?;
        }
        Ok(())
    }

    /// Ends what the tool of a call keeps for its answers: the call will not be made again.
    pub(super) async fn abandon_input(&self, call: &ToolCallRow) {
        if let (Some(awaited), Some(tool)) = (AwaitedInput::of(call), self.tool(&call.tool_name)) {
            tool.abandon(self.request.run.user_id, &awaited.needed.state).await;
        }
    }
}

/// The number of questions that a call asks.
fn fields_of(awaited: &AwaitedInput) -> usize {
    let forms = awaited.needed.forms.iter();
    forms.map(|form| form.fields.len().max(1)).sum()
}

/// Returns the questions that a call asks, one for each field. Err: why they can't be asked, for the model.
fn questions_of(awaited: &AwaitedInput) -> Result<Vec<NewQuestion>, String> {
    let asker = &awaited.needed.asker;
    let count = fields_of(awaited);
    if count > FIELDS_MAX {
        return Err(format!(
            "{asker} asks for {count} fields at once; the maximum is {FIELDS_MAX}. Use another tool"
        ));
    }
    let mut questions = Vec::with_capacity(count);
    for form in &awaited.needed.forms {
        let field = |name: Option<&str>, required: bool, schema: &Value| FormField {
            form: form.key.clone(),
            round: awaited.round,
            name: name.map(str::to_owned),
            required,
            schema: schema.clone(),
            connects: form.connects.clone(),
        };
        if form.fields.is_empty() {
            // Connecting the account accepts; the option is for a user who has done so.
            let accept = if form.connects.is_some() { "Continue" } else { "Accept" };
            let options = vec![option(accept, ACCEPT), option("Decline", DECLINE)];
            let text = format!("{asker} asks: {}", form.message);
            questions.push(new_question(text, options, "buttons", field(None, true, &Value::Null)));
        }
        for asked in &form.fields {
            let field = field(Some(&asked.name), asked.required, &asked.schema);
            questions.push(question(asker, form, field)?);
        }
    }
    Ok(questions)
}

/// The question for a field.
fn question(asker: &str, form: &Form, field: FormField) -> Result<NewQuestion, String> {
    let name = field.name.as_deref().unwrap_or_default();
    let kind = field.schema["type"].as_str().unwrap_or_default();
    let choices = field.choices();
    let is_choice = kind == "array" || !choices.is_empty();
    let has_ours = |(_, value): &(String, String)| [DECLINE, SKIP].contains(&value.as_str());
    if !TYPES.contains(&kind) || is_choice && choices.is_empty() || choices.iter().any(has_ours) {
        return Err(format!(
            "{asker} asks for {name} in a way that no question to the user supports; use another tool"
        ));
    }
    if choices.len() > OPTIONS_MAX {
        return Err(format!(
            "{asker} asks for {name} with {} choices; the maximum is {OPTIONS_MAX}. Use another tool",
            choices.len()
        ));
    }
    let interaction_type = match kind {
        "array" => "multi_select",
        _ if !is_choice => "text",
        _ if choices.len() <= BUTTONS_MAX => "buttons",
        _ => "select",
    };
    let mut options: Vec<AnswerOption> = choices.iter().map(|(label, value)| option(label, value)).collect();
    if !field.required {
        options.push(option("Skip", SKIP));
    }
    options.push(option("Decline", DECLINE));
    let mut question = new_question(text(asker, form, &field), options, interaction_type, field);
    let max_length = question
        .form_field
        .as_ref()
        .and_then(|field| field.schema["maxLength"].as_i64())
        .and_then(|max| i32::try_from(max).ok());
    question.max_length = max_length.filter(|max| *max > 0);
    Ok(question)
}

/// The text of a question: who asks, why, and for what.
fn text(asker: &str, form: &Form, field: &FormField) -> String {
    let name = field.name.as_deref().unwrap_or_default();
    let mut text = format!("{asker} asks: {}", form.message);
    let (title, description) = (field.schema["title"].as_str(), field.schema["description"].as_str());
    if form.fields.len() > 1 || title.is_some() || description.is_some() || !field.required {
        text.push_str("\n\n");
        text.push_str(title.unwrap_or(name));
        if let Some(description) = description {
            text.push_str(": ");
            text.push_str(description);
        }
        if !field.required {
            text.push_str(" (optional)");
        }
    }
    text
}

fn option(label: &str, value: &str) -> AnswerOption {
    AnswerOption {
        label: label.to_owned(),
        value: value.to_owned(),
        description: None,
    }
}

fn new_question(text: String, options: Vec<AnswerOption>, interaction_type: &str, field: FormField) -> NewQuestion {
    NewQuestion {
        id: ids::new(),
        kind: "ask",
        question: text.chars().take(QUESTION_MAX_CHARS).collect(),
        options,
        interaction_type: interaction_type.to_owned(),
        placeholder: None,
        max_length: None,
        form_field: Some(field),
    }
}

/// Returns the response to a form: what the user has entered, `decline` if they declined with any of its fields, and `cancel` if
/// any was not answered.
fn response(form: &Form, asked: &[Question]) -> Value {
    let mut content = Map::new();
    let mut answered = 0;
    let of_form = asked
        .iter()
        .filter_map(|question| Some((question.field()?, question)))
        .filter(|(field, _)| field.form == form.key);
    for (field, question) in of_form {
        let answer = question.answer.as_ref().filter(|_| question.status == "answered");
        match answer.map(|answer| field.read(answer)) {
            None | Some(Err(_)) => continue,
            Some(Ok(FieldAnswer::Declined)) => return json!({"action": "decline"}),
            Some(Ok(FieldAnswer::Skipped)) => {
                if let (Some(name), Some(default)) = (field.name, field.schema.get("default")) {
                    content.insert(name, default.clone());
                }
            }
            Some(Ok(FieldAnswer::Value(value))) => {
                if let Some(name) = field.name {
                    content.insert(name, value);
                }
            }
        }
        answered += 1;
    }
    if answered == form.fields.len().max(1) {
        json!({"action": "accept", "content": content})
    } else {
        json!({"action": "cancel"})
    }
}

#[cfg(test)]
mod tests;
