//! The tools of a chaos run. Each records its effect in a ledger outside the database when it acts, and then delays its
//! answer: long enough for its process to be killed in between.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use rejoin_tools::registry::Registry;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::evidence::now_us;

/// Must not be repeated: a second effect of the same call is a second payment.
pub const PAY: &str = "pay";
/// May be repeated.
pub const LOOK: &str = "look";

/// The same two, of users' programs.
pub const PROGRAM_PAY: &str = "program_pay";
pub const PROGRAM_LOOK: &str = "program_look";
/// A durable function of theirs: it may be repeated, but what it pays in its first step may not.
pub const PROGRAM_FLOW: &str = "program_flow";

/// The same three, of programs that use the package for Python.
pub const PYTHON_PAY: &str = "python_pay";
pub const PYTHON_LOOK: &str = "python_look";
pub const PYTHON_FLOW: &str = "python_flow";
/// The same three, of programs that use the package for TypeScript.
pub const NODE_PAY: &str = "node_pay";
pub const NODE_LOOK: &str = "node_look";
pub const NODE_FLOW: &str = "node_flow";

/// Durable functions.
pub const FLOWS: [&str; 3] = [PROGRAM_FLOW, PYTHON_FLOW, NODE_FLOW];
/// Those that must pay once; durable functions do so in a step.
pub const PAYING: [&str; 7] = [
    PAY,
    PROGRAM_PAY,
    PYTHON_PAY,
    NODE_PAY,
    PROGRAM_FLOW,
    PYTHON_FLOW,
    NODE_FLOW,
];
pub const LOOKING: [&str; 4] = [LOOK, PROGRAM_LOOK, PYTHON_LOOK, NODE_LOOK];

/// The function of an agent of theirs, which writes its answer while it works.
pub const PROGRAM_ANSWER: &str = "program_answer";
pub const PROGRAM_AGENT: &str = "chaos program";

/// An external effect.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Effect {
    pub tool: String,
    pub run_id: Uuid,
    pub call_id: String,
    pub pid: u32,
    /// In µs since 1970.
    pub at_us: i64,
    /// Delay of its answer.
    pub hold_ms: u64,
}

struct Ledgered {
    spec: ToolSpec,
    ledger: Arc<File>,
}

/// Returns the tools of a chaos run's workers, with the ledger at this path.
pub fn registry(ledger: &Path) -> Result<Registry> {
    let opened = OpenOptions::new().create(true).append(true).open(ledger);
    let file = Arc::new(opened.with_context(|| format!("can't open the ledger {}", ledger.display()))?);
    let tool = |name: &str, description: &str, idempotent: bool| -> SharedTool {
        Arc::new(Ledgered {
            spec: ToolSpec {
                name: name.to_owned(),
                description: description.to_owned(),
                parameters: json!({
                    "type": "object",
                    "properties": {
                        "plan": { "type": "string" },
                        "step": { "type": "integer" },
                        "hold_ms": { "type": "integer" }
                    },
                    "required": ["plan", "step", "hold_ms"],
                    "additionalProperties": false
                })
                .into(),
                read_only: false,
                idempotent,
                destructive: !idempotent,
            },
            ledger: file.clone(),
        })
    };
    Ok(Registry::new([
        tool(PAY, "Pays, once and for all.", false),
        tool(LOOK, "Leaves a trace, that a second one changes nothing about.", true),
    ]))
}

#[async_trait]
impl Tool for Ledgered {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let hold_ms = arguments["hold_ms"].as_u64().unwrap_or_default();
        let effect = Effect {
            tool: self.spec.name.clone(),
            run_id: context.run_id.expect("runs alone are given these tools"),
            call_id: context.call_id.clone(),
            pid: std::process::id(),
            at_us: now_us(),
            hold_ms,
        };
        // One atomic write per line, with concurrent writers; durable even if we die right after it.
        (&*self.ledger)
            .write_all(format!("{}\n", json!(effect)).as_bytes())
            .map_err(|source| ToolError::Internal {
                attempted: "writing the ledger".to_owned(),
                source: Box::new(source),
            })?;
        tokio::time::sleep(Duration::from_millis(hold_ms)).await;
        Ok(json!({ "done": arguments["step"] }))
    }
}
