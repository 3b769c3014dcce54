//! Tools that tests hold by the hand: one that has a side effect, kept in a ledger outside the database, and waits at a gate.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rejoin_shared::tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

/// What a [`Payment`] did, by call id: the world outside.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    pub fn entries(&self) -> Vec<String> {
        self.0.lock().expect("no panic while it is held").clone()
    }
}

/// A call acts at once, then waits at the gate before it answers.
pub struct Payment {
    spec: ToolSpec,
    ledger: Ledger,
    gate: Arc<Semaphore>,
}

impl Payment {
    /// With `idempotent`, the executor may repeat a call after a crash.
    pub fn shared(ledger: &Ledger, gate: &Arc<Semaphore>, idempotent: bool) -> SharedTool {
        Arc::new(Self {
            spec: ToolSpec {
                name: "pay".to_owned(),
                description: "Pays an amount.".to_owned(),
                parameters: json!({
                    "type": "object",
                    "properties": { "amount": { "type": "integer" } },
                    "required": ["amount"],
                    "additionalProperties": false
                })
                .into(),
                read_only: false,
                idempotent,
                destructive: true,
            },
            ledger: ledger.clone(),
            gate: gate.clone(),
        })
    }
}

#[async_trait]
impl Tool for Payment {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        self.ledger
            .0
            .lock()
            .expect("no panic while it is held")
            .push(context.call_id.clone());
        // Every call needs a permit of its own.
        self.gate.acquire().await.expect("the gate is never closed").forget();
        if arguments["amount"].as_i64().is_some_and(|amount| amount < 0) {
            return Err(ToolError::RespondToModel("the amount must not be negative".to_owned()));
        }
        Ok(json!({ "paid": arguments["amount"] }))
    }
}
