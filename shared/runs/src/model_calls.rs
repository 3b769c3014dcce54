//! Model calls of users' programs (docs/reference/worker-protocol.md): a function asks a language model. A run answers, as a sub-agent's does; in
//! the place of an agent's definition it has the request, which is on record in the step that asks ([`of_run`]).
//!
//! Called by the API, which checks requests, and by the worker, which executes them.

use rejoin_models::DEFAULT_MODEL;
use rejoin_models::choice::ModelChoice;
use rejoin_tools::outputs;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::PgExecutor;

use crate::agents::{AgentDefinition, INTERNAL};
use crate::runs::Run;

/// Maximum number of messages of one model call.
const MESSAGES_MAX: usize = 1_000;

rejoin_types::text_enum! {
    /// Who has said something.
    pub enum Speaker {
        User = "user",
        Assistant = "assistant",
    }
}

/// A message to a model, or an earlier answer of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    pub role: Speaker,
    pub text: String,
}

/// What a model is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// The newest message last.
    pub messages: Vec<Said>,
    /// The system prompt. None: there is none.
    #[serde(default)]
    pub system: Option<String>,
    /// As in a definition. None: the model of plain conversations.
    #[serde(default)]
    pub model: Option<String>,
    /// The JSON Schema of the answer. None: any text.
    #[serde(default)]
    pub output_schema: Option<Value>,
    /// Maximum length of the answer, including reasoning, in tokens. None: the model's.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The sampling temperature. None: the provider's default.
    #[serde(default)]
    pub temperature: Option<f64>,
}

impl ModelCall {
    /// The model call that a step requests. None: it requests something else.
    pub fn of(request: &Value) -> Option<Self> {
        Self::deserialize(request).ok()
    }

    /// Validates it. Compiling its schema may take long: call it on a blocking thread.
    ///
    /// # Errors
    /// What is wrong with it, for its program.
    pub fn check(&self) -> Result<(), String> {
        let count = self.messages.len();
        if !(1..=MESSAGES_MAX).contains(&count) {
            return Err(format!("a model call has 1 to {MESSAGES_MAX} messages, not {count}"));
        }
        if let Some(at) = self.messages.iter().position(|said| said.text.trim().is_empty()) {
            return Err(format!("message {} of {count} of the model call is empty", at + 1));
        }
        if self.messages.last().is_some_and(|said| said.role != Speaker::User) {
            return Err("the last message of a model call has the role user: the model answers it".to_owned());
        }
        self.choice().check()?;
        self.output_schema.as_ref().map_or(Ok(()), outputs::check)
    }

    /// The model, and how it is asked.
    pub fn choice(&self) -> ModelChoice {
        ModelChoice {
            temperature: self.temperature,
            max_tokens: self.max_tokens,
            ..ModelChoice::named(self.model.as_deref().unwrap_or(DEFAULT_MODEL))
        }
    }

    /// The definition that its run executes: it has no tools, and is not stored.
    pub fn definition(&self, run: &Run) -> AgentDefinition {
        AgentDefinition {
            id: run.id,
            workspace_id: run.workspace_id,
            name: run.agent_name.clone().unwrap_or_default(),
            description: String::new(),
            system_prompt: self.system.clone().unwrap_or_default(),
            model: Some(self.choice()),
            tools: Vec::new(),
            flow_type: "single".to_owned(),
            is_default: false,
            max_steps: None,
            default_timeout: None,
            visibility: INTERNAL.to_owned(),
            max_depth: None,
            config: json!({}),
            version: 1,
            created_at: run.created_at,
            updated_at: run.created_at,
        }
    }
}

/// Returns the model call that a run answers. None: it executes an agent.
pub async fn of_run(db: impl PgExecutor<'_>, run: &Run) -> Result<Option<ModelCall>, sqlx::Error> {
    let (Some(call_id), Some(number), true) = (run.spawn_call_id, run.spawn_position, run.is_model_call()) else {
        return Ok(None);
    };
    let request = sqlx::query_scalar!(
        "select request from kb.remote_steps where call_id = $1 and number = $2 and ref = $3",
        call_id,
        number,
        run.id
    )
    .fetch_optional(db)
    .await?;
    Ok(request.flatten().as_ref().and_then(ModelCall::of))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(changes: Value) -> ModelCall {
        let mut request = json!({"messages": [{"role": "user", "text": "Hello"}]});
        for (field, value) in changes.as_object().expect("fields") {
            request[field] = value.clone();
        }
        ModelCall::of(&request).expect("a model call")
    }

    #[test]
    fn a_request_with_messages_is_a_model_call() {
        assert_eq!(ModelCall::of(&json!({"agent": "auditor", "task": "look"})), None);
        assert_eq!(
            ModelCall::of(&json!({"messages": [{"role": "system", "text": "no"}]})),
            None
        );
        let plain = call(json!({"system": null, "model": null, "temperature": null}));
        assert_eq!(plain.choice(), ModelChoice::named("default"));
        let chosen = call(json!({"model": "openai:gpt-6-luna", "maxTokens": 9, "temperature": 0})).choice();
        assert_eq!(
            (chosen.name.as_str(), chosen.max_tokens, chosen.temperature),
            ("openai:gpt-6-luna", Some(9), Some(0.0))
        );
    }

    #[test]
    fn what_is_wrong_with_a_model_call_is_named() {
        let of = |role: &str, text: &str| json!({"role": role, "text": text});
        let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}});
        let history = json!([of("user", "Hi"), of("assistant", "Hello"), of("user", "Bye")]);
        assert_eq!(
            call(json!({"messages": history, "outputSchema": schema})).check(),
            Ok(())
        );
        for (changes, expected) in [
            (json!({"messages": []}), "1 to 1000 messages"),
            (json!({"messages": vec![of("user", "a"); MESSAGES_MAX + 1]}), "not 1001"),
            (
                json!({"messages": [of("user", "a"), of("user", " ")]}),
                "message 2 of 2",
            ),
            (
                json!({"messages": [of("user", "a"), of("assistant", "b")]}),
                "the role user",
            ),
            (json!({"model": " "}), "model.name"),
            (json!({"temperature": 3}), "between 0 and 2"),
            (json!({"maxTokens": 0}), "maxTokens"),
            (json!({"outputSchema": {"type": "array"}}), "object"),
        ] {
            let why = call(changes).check().unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }
}
