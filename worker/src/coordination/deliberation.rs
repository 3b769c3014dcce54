//! `note_discussion`: records a discussion's state and entries in the knowledge graph. Called by discussions
//! themselves; in no workspace's pool.

use std::sync::{Arc, LazyLock};

use async_trait::async_trait;
use rejoin_scheduling::deliberation::{self, Note};
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};

pub const NOTE_DISCUSSION: &str = "note_discussion";

struct NoteDiscussion {
    spec: ToolSpec,
}

static TOOL: LazyLock<SharedTool> = LazyLock::new(|| {
    Arc::new(NoteDiscussion {
        spec: ToolSpec {
            name: NOTE_DISCUSSION.to_owned(),
            description: "Stores the state of a discussion in the knowledge graph.".to_owned(),
            parameters: json!({"type": "object"}).into(),
            read_only: false,
            // Ids of objects derive from the run.
            idempotent: true,
            destructive: false,
        },
    })
});

pub fn note_discussion() -> SharedTool {
    TOOL.clone()
}

#[async_trait]
impl Tool for NoteDiscussion {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, context: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let Some(run_id) = context.run_id else {
            let message = format!("{NOTE_DISCUSSION} can be called only within a run");
            return Err(ToolError::RespondToModel(message));
        };
        let note: Note =
            serde_json::from_value(arguments).map_err(|error| ToolError::RespondToModel(error.to_string()))?;
        let internal = |source: Box<dyn std::error::Error + Send + Sync>| ToolError::Internal {
            attempted: "storing a discussion".to_owned(),
            source,
        };
        let mut db = context.db.acquire().await.map_err(|error| internal(error.into()))?;
        match deliberation::write(&mut db, context.workspace_id, run_id, &note).await {
            Ok(id) => Ok(json!({ "discussion_id": id })),
            Err(error @ rejoin_graph::Error::Database { .. }) => Err(internal(error.into())),
            Err(error) => Err(ToolError::RespondToModel(error.to_string())),
        }
    }
}
