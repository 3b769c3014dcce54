//! Questions of runs to users: an agent's question (the tool `ask_user`), or the confirmation of a call (tools marked
//! `confirm` by a definition). A call of a client's tool is one, too: its answer is what the client returned. The run
//! waits until all of its questions are answered. A field of a tool's form (`forms`) is an agent's question with its field.
//!
//! - `connecting` questions that wait until their user has connected an account
//!
//! States: pending -> answered | expired | cancelled. An answer is validated against its question before it is stored.

pub mod connecting;

use chrono::{DateTime, Utc};
use rejoin_types::events::Kind;
use rejoin_types::owner::Owner;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

use crate::client_tools::{self, ClientOutput};
use crate::forms::{FieldAnswer, FormField};

/// Selects whole questions, as `q`: what precedes the `select` and what follows its `from`, then the arguments.
#[macro_export]
macro_rules! select_questions {
    ($head:literal, $tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::questions::Question,
            $head + "select q.id, q.project_id as workspace_id, q.run_id, q.tool_call_id, q.kind, q.question, q.options, \
             q.interaction_type, q.placeholder, q.max_length, q.status, q.answer, q.answered_by, q.created_at, \
             q.answered_at, q.form_field from kb.questions q " + $tail
            $(, $argument)*
        )
    };
}

/// Default maximum length of a text answer, in characters.
pub const ANSWER_MAX_CHARS: usize = 20_000;
/// Answers to an approval: of a call, or of a plan's execution.
pub const DECISIONS: [&str; 3] = ["approve", "edit", "refuse"];

/// An option of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerOption {
    pub label: String,
    pub value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A question to be asked.
#[derive(Debug, Clone, PartialEq)]
pub struct NewQuestion {
    pub id: Uuid,
    /// `ask`, `confirm`, `task`, `plan` or `client_tool`.
    pub kind: &'static str,
    pub question: String,
    pub options: Vec<AnswerOption>,
    /// `buttons`, `select`, `multi_select`, `text`, `confirm` or `client_tool`.
    pub interaction_type: String,
    pub placeholder: Option<String>,
    pub max_length: Option<i32>,
    /// The field of a tool's form that it asks for.
    pub form_field: Option<FormField>,
}

/// The call that a question shows to its reader.
#[derive(Debug, Clone, Copy)]
pub struct ShownCall<'a> {
    /// The model's id of the call.
    pub call_id: &'a str,
    pub tool: &'a str,
    /// The arguments of a call that the client executes or its user decides about.
    pub input: &'a Value,
}

impl NewQuestion {
    /// The event that publishes it.
    pub fn event(&self, call: Option<ShownCall<'_>>) -> Kind {
        Kind::Question {
            question_id: self.id,
            question: self.question.clone(),
            options: self.options.iter().map(|option| json!(option)).collect(),
            interaction_type: self.interaction_type.clone(),
            clarifying: self.kind == "ask",
            call_id: call.map(|call| call.call_id.to_owned()),
            tool: call.map(|call| call.tool.to_owned()),
            input: call.map(|call| call.input.clone()),
        }
    }

    /// As the list of an agent's questions shows it.
    pub fn shown(&self) -> Value {
        json!({"id": self.id, "question": self.question, "options": self.options, "interactionType": self.interaction_type})
    }
}

/// A question as stored.
#[derive(Debug, Clone)]
pub struct Question {
    pub id: Uuid,
    pub workspace_id: Uuid,
    pub run_id: Uuid,
    /// None: not asked by a call.
    pub tool_call_id: Option<Uuid>,
    pub kind: String,
    pub question: String,
    pub options: Value,
    pub interaction_type: String,
    pub placeholder: Option<String>,
    pub max_length: Option<i32>,
    pub status: String,
    pub answer: Option<Value>,
    pub answered_by: Option<Uuid>,
    pub created_at: DateTime<Utc>,
    pub answered_at: Option<DateTime<Utc>>,
    /// A [`FormField`].
    pub form_field: Option<Value>,
}

impl Question {
    pub fn is_pending(&self) -> bool {
        self.status == "pending"
    }

    /// Returns whether it stands for a call of a client's tool: no person is asked.
    pub fn is_for_client(&self) -> bool {
        self.kind == client_tools::QUESTION
    }

    /// Returns whether it asks for approval: of a call, or of a plan.
    pub fn is_approval(&self) -> bool {
        matches!(self.kind.as_str(), "confirm" | "plan")
    }

    /// Returns the field of a tool's form that it asks for.
    pub fn field(&self) -> Option<FormField> {
        FormField::deserialize(self.form_field.as_ref()?).ok()
    }

    /// Returns the answer meant by a user's next message. None: no answer.
    ///
    /// An option is matched by its value or label; any other text is a text answer. An approval takes its exact word:
    /// no other text may trigger an action. A field of a form takes what fits it.
    pub fn meant_by(&self, message: &str) -> Option<Value> {
        let words = message.trim().trim_end_matches(['.', '!']).to_lowercase();
        let options = self.options.as_array().into_iter().flatten();
        let named = options
            .filter_map(|option| Some((option["value"].as_str()?, option["label"].as_str().unwrap_or_default())))
            .find(|(value, label)| [*value, *label].iter().any(|name| name.to_lowercase() == words))
            .map(|(value, _)| value);
        if self.form_field.is_some() {
            let answer = match named {
                Some(value) if self.interaction_type == "multi_select" => json!([value]),
                Some(value) => json!(value),
                None => json!(message.trim()),
            };
            return self.check(&answer, None).ok();
        }
        match (self.kind.as_str(), named) {
            ("ask", Some(value)) if self.interaction_type == "multi_select" => Some(json!([value])),
            ("ask", Some(value)) => Some(json!(value)),
            ("ask", None) => Some(json!(message)),
            _ if self.is_approval() => named.and_then(|decision| self.check(&json!(decision), None).ok()),
            _ => None,
        }
    }

    /// Returns the stored form of an answer. Err: what is wrong with it, for the user.
    pub fn check(&self, answer: &Value, input: Option<&Value>) -> Result<Value, String> {
        let values: Vec<&str> = self
            .options
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|option| option["value"].as_str())
            .collect();
        let one_of = || format!("answer must be one of {}", values.join(", "));
        if let Some(field) = self.field() {
            return self.check_field(&field, answer, input);
        }
        match self.interaction_type.as_str() {
            "confirm" => {
                let decision = answer.as_str().filter(|decision| DECISIONS.contains(decision));
                let decision = decision.ok_or_else(|| format!("answer must be one of {}", DECISIONS.join(", ")))?;
                match (decision, input) {
                    ("edit", Some(input @ Value::Object(_))) => Ok(json!({"decision": decision, "input": input})),
                    ("edit", _) => Err("an edited call requires its arguments: input, an object".to_owned()),
                    (_, None) => Ok(json!({"decision": decision})),
                    (_, Some(_)) => Err("input can be used only with the answer edit".to_owned()),
                }
            }
            client_tools::QUESTION => match (answer, input) {
                (_, Some(_)) => Err("input can be used only with the answer edit".to_owned()),
                (Value::String(text), None) => ClientOutput::Text(text).to_answer(),
                (other, None) => ClientOutput::Text(&other.to_string()).to_answer(),
            },
            "multi_select" => {
                let chosen: Option<Vec<&str>> = answer
                    .as_array()
                    .map(|chosen| chosen.iter().filter_map(Value::as_str).collect());
                let count = answer.as_array().map_or(0, Vec::len);
                match chosen {
                    Some(chosen) if chosen.len() == count && chosen.iter().all(|value| values.contains(value)) => {
                        Ok(json!(chosen))
                    }
                    Some(_) | None => Err(format!("answer must be a list of {}", values.join(", "))),
                }
            }
            "buttons" | "select" => match answer.as_str() {
                Some(value) if values.contains(&value) => Ok(json!(value)),
                Some(_) | None => Err(one_of()),
            },
            _ => {
                let text = answer.as_str().ok_or("answer must be text")?;
                let max = self.max_chars();
                if text.trim().is_empty() || text.chars().count() > max {
                    return Err(format!("answer must have 1 to {max} characters"));
                }
                Ok(json!(text))
            }
        }
    }

    fn check_field(&self, field: &FormField, answer: &Value, input: Option<&Value>) -> Result<Value, String> {
        if input.is_some() {
            return Err("input can be used only with the answer edit".to_owned());
        }
        let read = field.read(answer)?;
        if let (FieldAnswer::Value(_), Some(text)) = (&read, answer.as_str()) {
            let max = self.max_chars();
            if text.trim().is_empty() || text.chars().count() > max {
                return Err(format!("answer must have 1 to {max} characters"));
            }
        }
        Ok(answer.clone())
    }

    /// Maximum length of a text answer, in characters.
    fn max_chars(&self) -> usize {
        self.max_length
            .and_then(|max| usize::try_from(max).ok())
            .unwrap_or(ANSWER_MAX_CHARS)
    }
}

/// Stores a question of a run's call. The caller publishes it, and counts it on the tree's root.
pub async fn insert(
    db: &mut PgConnection,
    workspace_id: Uuid,
    run_id: Uuid,
    tool_call_id: Option<Uuid>,
    question: &NewQuestion,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "insert into kb.questions (id, project_id, run_id, tool_call_id, kind, question, options, interaction_type, placeholder, max_length,
                                   form_field)
         values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        question.id,
        workspace_id,
        run_id,
        tool_call_id as _,
        question.kind,
        question.question,
        json!(question.options),
        question.interaction_type,
        question.placeholder,
        question.max_length,
        question.form_field.as_ref().map(|field| json!(field)) as _
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Counts an open question of the tree, whose clock is stopped meanwhile.
pub async fn opened(db: &mut PgConnection, root_run_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_runs
         set questions_since = case when questions_open = 0 then now() else questions_since end, questions_open = questions_open + 1
         where id = $1",
        root_run_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Counts a closed question of the tree.
async fn closed(db: &mut PgConnection, root_run_id: Uuid) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "update kb.agent_runs
         set person_s = person_s + case when questions_open = 1
                                        then greatest(extract(epoch from now() - questions_since), 0)::float8 else 0 end,
             questions_open = greatest(questions_open - 1, 0)
         where id = $1",
        root_run_id
    )
    .execute(db)
    .await?;
    Ok(())
}

/// Ends a pending question. False: it was not pending. The caller holds the log's lock, publishes the end, and resumes
/// the run.
pub async fn close(
    db: &mut PgConnection,
    id: Uuid,
    root_run_id: Uuid,
    status: &str,
    answer: Option<&Value>,
    by: Option<Uuid>,
) -> Result<bool, sqlx::Error> {
    let done = sqlx::query!(
        "update kb.questions set status = $2, answer = $3, answered_by = $4, answered_at = now() where id = $1 and status = 'pending'",
        id,
        status,
        answer,
        by
    )
    .execute(&mut *db)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    closed(db, root_run_id).await?;
    Ok(true)
}

/// Returns how many questions a run has asked, with those of tools' forms and without approvals of calls.
pub async fn asked_by(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select count(*) as "asked!" from kb.questions where run_id = $1 and kind = 'ask'"#,
        run_id
    )
    .fetch_one(db)
    .await
}

/// Returns a question. None: it was deleted.
pub async fn get(db: impl PgExecutor<'_>, id: Uuid) -> Result<Option<Question>, sqlx::Error> {
    select_questions!("", "where q.id = $1", id).fetch_optional(db).await
}

/// Returns the question of a call, if any, without those of its tool's forms.
pub async fn of_call(db: impl PgExecutor<'_>, tool_call_id: Uuid) -> Result<Option<Question>, sqlx::Error> {
    select_questions!("", "where tool_call_id = $1 and form_field is null", tool_call_id)
        .fetch_optional(db)
        .await
}

/// Returns the questions that a call asks for its tool's forms the `round`th time, in order.
pub async fn of_round(db: impl PgExecutor<'_>, tool_call_id: Uuid, round: u32) -> Result<Vec<Question>, sqlx::Error> {
    select_questions!(
        "",
        "where tool_call_id = $1 and (form_field ->> 'round')::bigint = $2 order by created_at, id",
        tool_call_id,
        i64::from(round)
    )
    .fetch_all(db)
    .await
}

/// Returns how many times a call has asked for its tool's forms.
pub async fn rounds_of(db: impl PgExecutor<'_>, tool_call_id: Uuid) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar!(
        r#"select coalesce(max((form_field ->> 'round')::bigint), 0) as "rounds!" from kb.questions where tool_call_id = $1"#,
        tool_call_id
    )
    .fetch_one(db)
    .await
}

/// Returns the other open questions of the form that a question belongs to.
pub async fn open_of_form(db: impl PgExecutor<'_>, id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select other.id
         from kb.questions q
         join kb.questions other on other.tool_call_id = q.tool_call_id and other.form_field ->> 'form' = q.form_field ->> 'form'
         where q.id = $1 and other.id <> q.id and other.status = 'pending'
         order by other.created_at, other.id",
        id
    )
    .fetch_all(db)
    .await
}

/// Returns all questions of a run, oldest first.
pub async fn of_run(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<Question>, sqlx::Error> {
    select_questions!("", "where run_id = $1 order by created_at, id", run_id)
        .fetch_all(db)
        .await
}

/// Returns the open questions of a run.
pub async fn pending_of_run(db: impl PgExecutor<'_>, run_id: Uuid) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.questions where run_id = $1 and status = 'pending' order by created_at, id",
        run_id
    )
    .fetch_all(db)
    .await
}

/// Returns the open questions of a conversation's waiting runs, oldest first. The caller holds the log's lock.
pub async fn awaited_in(db: &mut PgConnection, log_id: Uuid) -> Result<Vec<Question>, sqlx::Error> {
    select_questions!(
        "",
        "join kb.agent_runs r on r.id = q.run_id
         where r.log_id = $1 and r.state = 'waiting' and r.cancel_requested_at is null and q.status = 'pending'
         order by q.created_at, q.id",
        log_id
    )
    .fetch_all(db)
    .await
}

/// Returns questions older than this, with their runs.
pub async fn overdue(db: impl PgExecutor<'_>, age_s: f64, limit: i64) -> Result<Vec<Uuid>, sqlx::Error> {
    sqlx::query_scalar!(
        "select id from kb.questions where status = 'pending' and created_at < now() - make_interval(secs => $1)
           and not cells.is_held(project_id)
         order by created_at limit $2",
        age_s,
        limit
    )
    .fetch_all(db)
    .await
}

/// Returns a question of a run that `owner` may see, like [`crate::runs::get_visible`].
pub async fn get_visible(db: impl PgExecutor<'_>, owner: Owner, id: Uuid) -> Result<Option<Question>, sqlx::Error> {
    select_questions!("", "join kb.agent_runs r on r.id = q.run_id
         where q.id = $1 and q.project_id = $2
           and (r.conversation_id is null and coalesce(r.user_id = $3, true)
                or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $3))",
        id,
        owner.workspace_id,
        owner.user_id
    )
    .fetch_optional(db)
    .await
}

/// Returns a page of the questions of runs that `owner` may see, oldest first, after the cursor (created_at, id).
pub async fn list_visible(
    db: impl PgExecutor<'_>,
    owner: Owner,
    status: Option<&str>,
    after: Option<(DateTime<Utc>, Uuid)>,
    limit: i64,
) -> Result<Vec<Question>, sqlx::Error> {
    let (at, id) = after.unzip();
    select_questions!(
        "",
        "join kb.agent_runs r on r.id = q.run_id
         where q.project_id = $1
           and (r.conversation_id is null and coalesce(r.user_id = $2, true)
                or exists (select from kb.chat_conversations c where c.id = r.conversation_id and c.owner_user_id = $2))
           and ($3::text is null or q.status = $3)
           and ($4::timestamptz is null or (q.created_at, q.id) > ($4, $5))
         order by q.created_at, q.id limit $6",
        owner.workspace_id,
        owner.user_id,
        status,
        at,
        id,
        limit
    )
    .fetch_all(db)
    .await
}

#[cfg(test)]
mod tests;
