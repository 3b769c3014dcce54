//! Tools controlled by tests: one with a side effect, recorded in a ledger outside the database, that waits at a gate;
//! one that waits for concurrent calls of itself.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};
use tokio::sync::{Barrier, Semaphore};

/// The effects of [`Payment`] calls, by call id: the outside world.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Vec<String>>>);

impl Ledger {
    pub fn entries(&self) -> Vec<String> {
        self.0.lock().expect("no panic while it is held").clone()
    }
}

/// A tool that acts immediately, then waits at the gate before it answers.
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
        // Every call needs its own permit.
        self.gate.acquire().await.expect("the gate is never closed").forget();
        if arguments["amount"].as_i64().is_some_and(|amount| amount < 0) {
            return Err(ToolError::RespondToModel("the amount must not be negative".to_owned()));
        }
        Ok(json!({ "paid": arguments["amount"] }))
    }
}

/// Counts concurrent calls; a call ends when `meets` of them are in progress, or the run is stopped.
pub struct Meeting {
    spec: ToolSpec,
    there: Arc<Mutex<usize>>,
    most: Arc<Mutex<usize>>,
    meets: Arc<Barrier>,
}

impl Meeting {
    /// Returns the tool, with the maximum number of concurrent calls.
    pub fn shared(name: &str, read_only: bool, meets: usize) -> (SharedTool, Arc<Mutex<usize>>) {
        let most = Arc::default();
        let tool = Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: "Waits for others.".to_owned(),
                parameters: json!({"type": "object", "properties": {"n": {"type": "integer"}}}).into(),
                read_only,
                idempotent: true,
                destructive: false,
            },
            there: Arc::default(),
            most: Arc::clone(&most),
            meets: Arc::new(Barrier::new(meets)),
        };
        (Arc::new(tool), most)
    }
}

#[async_trait]
impl Tool for Meeting {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, _: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let now = {
            let mut there = self.there.lock().expect("no panic while it is held");
            *there += 1;
            *there
        };
        {
            let mut most = self.most.lock().expect("no panic while it is held");
            *most = now.max(*most);
        }
        self.meets.wait().await;
        *self.there.lock().expect("no panic while it is held") -= 1;
        Ok(arguments["n"].clone())
    }
}
