//! Tools, called by models or over MCP. One trait; one file per family; a registry maps names to tools.
//!
//! - `registry`  tools by name, whitelists with globs
//! - `arguments` parameter schemas, and parsing of a model's arguments
//! - `graph`     the tools over the knowledge graph
//! - `consoles`  the tools over the user's consoles
//! - `work`      the tools over the work graph, if its pack is installed
//!
//! Called by the worker's runs and by the API's MCP server.

pub mod arguments;
pub mod consoles;
pub mod graph;
pub mod registry;
pub mod work;

pub use arguments::Schema;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::contexts::Focus;
use crate::events::Kind;
use crate::events::kinds::Operation;
use crate::graph::meaning::SharedTextModel;
use crate::graph::{Actor, ActorKind};

/// What a model is told of a tool, and what the executor must know of it.
#[derive(Debug, Clone)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    /// Of the arguments: every property in `required`, optional ones nullable; null means absent.
    pub parameters: Schema,
    /// Changes nothing: may be run again after a crash.
    pub read_only: bool,
    /// Repeating it with the same arguments changes nothing more: may be run again after a crash.
    pub idempotent: bool,
    pub destructive: bool,
}

/// What a call may use. Everything is scoped to the project.
#[derive(Clone)]
pub struct ToolContext {
    pub db: sqlx::PgPool,
    pub project_id: Uuid,
    /// Makes vectors of queries.
    pub model: SharedTextModel,
    /// The run that calls. None: a user does, by a program of theirs.
    pub run_id: Option<Uuid>,
    /// The user on whose behalf it is, where there is one.
    pub user_id: Option<Uuid>,
    pub call_id: String,
    /// The call's record: the same when the call is repeated after a crash.
    pub record_id: Uuid,
    /// Cancelled when the run is; the executor also drops the call's future then.
    pub cancel: CancellationToken,
    /// What the conversation is about. Tools of the work graph touch nothing outside of it.
    pub focus: Option<Focus>,
}

impl ToolContext {
    /// Who changes what the call changes: the run, by which its agent and its user are found, or the user.
    pub fn actor(&self) -> Actor {
        let (kind, id) = match self.run_id {
            Some(run) => (ActorKind::Agent, Some(run)),
            None => (ActorKind::User, self.user_id),
        };
        Actor { kind, id }
    }
}

/// Who hears of a failed call.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Wrong arguments, nothing found, limit hit: words that let the model repair its call. The run goes on.
    #[error("{0}")]
    RespondToModel(String),
    /// The tool could not do its work for a reason that is not the model's (database away, …). The run goes on with a short
    /// error to the model; the cause is logged for the operator.
    #[error("{attempted}")]
    Internal {
        attempted: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

#[async_trait]
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;
    /// `arguments` have passed the schema of [`ToolSpec::parameters`].
    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError>;
    /// What a call does to which thing, in words for people: readers are told of it as it begins and as it ends. Names behind ids are looked
    /// up here. Its `status` is the caller's to set, and so is the id of what the call has made (`id` of its output).
    async fn operation(&self, _context: &ToolContext, _arguments: &Value) -> Option<Operation> {
        None
    }
    /// What readers of the run are told beside the call's end, when it has given `output`: a tool never writes to a log by itself.
    fn events(&self, _output: &Value) -> Vec<Kind> {
        Vec::new()
    }
}

pub type SharedTool = Arc<dyn Tool>;
