//! Tools, called by models or over MCP. One trait; one file per family; a registry maps names to tools.
//!
//! # Layout
//! - `registry`  tools by name, whitelists with globs
//! - `arguments` parameter schemas, and parsing of a model's arguments
//! - `graph`     the tools over the knowledge graph
//! - `input`     what a tool asks its user in the middle of a call
//! - `outputs`   answers that fit a JSON schema
//! - `remote`    tools that users' own programs execute
//!
//! Called by the worker's runs and by the API's MCP server.

pub mod arguments;
pub mod graph;
pub mod input;
pub mod outputs;
pub mod registry;
pub mod remote;

pub use arguments::Schema;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use rejoin_graph::bounds::Bounds;
use rejoin_graph::embedder::SharedTextEmbedder;
use rejoin_graph::{Actor, ActorKind};
use rejoin_types::events::Kind;
use rejoin_types::events::Operation;
use rejoin_types::focus::Focus;

use input::{InputGiven, InputNeeded};

/// The description of a tool for models and the executor.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// The schema of the arguments: every property in `required`, optional ones nullable; null means absent.
    pub parameters: Schema,
    /// Has no effects: may be repeated after a crash.
    pub read_only: bool,
    /// Repeating it with the same arguments has no further effect: may be repeated after a crash.
    pub idempotent: bool,
    pub destructive: bool,
}

/// The context of a call. Everything is scoped to the workspace.
#[derive(Clone)]
pub struct ToolContext {
    pub db: sqlx::PgPool,
    pub workspace_id: Uuid,
    /// The embedding model for queries.
    pub model: SharedTextEmbedder,
    /// The calling run. None: a user's MCP client.
    pub run_id: Option<Uuid>,
    /// The user on whose behalf the call is made, if any.
    pub user_id: Option<Uuid>,
    pub call_id: String,
    /// The call's record: the same when the call is repeated after a crash.
    pub record_id: Uuid,
    /// Cancelled when the run is; the executor also drops the call's future then.
    pub cancel: CancellationToken,
    /// The conversation's focus. Tools of the work graph access nothing outside of it.
    pub focus: Option<Focus>,
    /// What the call may see of the graph, where there is a focus. None: all of it.
    pub bounds: Option<Bounds>,
}

impl ToolContext {
    /// Returns the author of the call's changes: the run, which identifies its agent and user, or the user.
    pub fn actor(&self) -> Actor {
        let (kind, id) = match self.run_id {
            Some(run) => (ActorKind::Agent, Some(run)),
            None => (ActorKind::User, self.user_id),
        };
        Actor { kind, id }
    }
}

/// The error of a call; the variant says who hears it.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Wrong arguments, nothing found, limit reached: a text that lets the model correct its call. The run continues.
    #[error("{0}")]
    RespondToModel(String),
    /// The tool failed for a reason beyond the model's control (database unreachable, …). The run continues with a
    /// short error to the model; the cause is logged for the operator.
    #[error("{attempted}")]
    Internal {
        attempted: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tool asks its user. A run puts the forms to the user, and makes the call again with the answers
    /// ([`Tool::resume`]); other callers can't, and report this text.
    #[error("{} asks for input, and only the run of an agent can ask its user; call the tool by an agent", .0.asker)]
    NeedsInput(Box<InputNeeded>),
}

#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;
    /// `arguments` have been validated against [`ToolSpec::parameters`].
    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError>;
    /// Makes a call again that has asked its user ([`ToolError::NeedsInput`]), with the answers. `arguments` are those
    /// of the first time.
    async fn resume(&self, _context: &ToolContext, _arguments: Value, _given: InputGiven) -> Result<Value, ToolError> {
        let name = &self.spec().name;
        Err(ToolError::RespondToModel(format!("{name} does not ask for input")))
    }
    /// Ends a call that has asked its user and is not made again, where its [state](InputNeeded::state) stands for work
    /// in progress for this user. Failures are ignored: the work expires.
    async fn abandon(&self, _user_id: Option<Uuid>, _state: &Value) {}
    /// Returns the call's operation on an entity, in words for users, published when it begins and when it ends. Looks
    /// up the names of ids. The caller sets its `status`, and the id of a created entity (`id` of its output).
    async fn operation(&self, _context: &ToolContext, _arguments: &Value) -> Option<Operation> {
        None
    }
    /// Returns further events to publish with the call's end, given its `output`: a tool never writes to a log itself.
    fn events(&self, _output: &Value) -> Vec<Kind> {
        Vec::new()
    }
    /// Returns how the tool is executed, if a user's program does: a run waits for its result without a slot, and does not [`Tool::call`] it.
    fn remote(&self) -> Option<&remote::Remote> {
        None
    }
}

pub type SharedTool = Arc<dyn Tool>;
