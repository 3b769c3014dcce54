//! `POST /api/agent/prewarm`: called by a chat page when it opens or changes its subject: finds or creates the session,
//! sets its context, and prefetches what the model will need before the first message.

use axum::Json;
use axum::extract::State;
use rejoin_event_log::wakeup::Wake;
use rejoin_http::authorization::routes;
use rejoin_http::caller::{Caller, Write};
use rejoin_http::extract::Body;
use rejoin_http::problem::{BodyRefused, Problem, Refused};
use rejoin_http::visible;
use rejoin_runs::contexts::{self, ContextPatch, location};
use rejoin_runs::conversations;
use rejoin_types::ids;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use super::conversations::ConversationBody;
use crate::state::{AppState, Routes};

pub mod warm;

pub fn routes() -> Routes {
    Routes::new().routes(routes!(prewarm))
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PrewarmRequest {
    /// The session; null: a new session
    #[serde(alias = "session_id")]
    pub session_id: Option<Uuid>,
    #[serde(alias = "context_type")]
    pub context_type: Option<String>,
    /// {projectId, projectName, focusType?, focusEntityId?}
    #[serde(alias = "project_focus")]
    #[schema(value_type = Option<Object>)]
    pub project_focus: Option<Value>,
    /// Agent of a new session
    #[serde(alias = "agent_definition_id")]
    pub agent_definition_id: Option<Uuid>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Prewarmed {
    /// Whether a project was prefetched
    pub warmed: bool,
    pub session: ConversationBody,
    /// Whether this request created the session
    pub created: bool,
    /// How long the prefetched data is used unless the project changes, in seconds
    pub kept_s: f64,
}

/// Find or create a session, and prefetch the data that its first answer needs
#[utoipa::path(post, path = "/api/agent/prewarm", tag = "agent stream", request_body = PrewarmRequest,
    responses((status = 200, description = "The session", body = Prewarmed), Refused, BodyRefused))]
async fn prewarm(
    State(state): State<AppState>,
    caller: Caller<Write>,
    Body(request): Body<PrewarmRequest>,
) -> Result<Json<Prewarmed>, Problem> {
    let context_patch = ContextPatch::of(request.context_type.as_deref(), request.project_focus.as_ref())
        .map_err(|fault| Problem::bad_request("invalid_context", fault))?;
    let session = match request.session_id {
        Some(id) => visible::conversation(&state, &caller, id).await?,
        None => {
            let mut db = caller.begin(&state).await?;
            if let Some(agent) = request.agent_definition_id {
                let found = rejoin_runs::agents::get(&mut db, caller.workspace_id, agent).await?;
                let missing =
                    || Problem::bad_request("agent_definition_not_found", "there is no such agent definition");
                found.filter(|found| found.is_open()).ok_or_else(missing)?;
            }
            let id = ids::new();
            conversations::create(
                &mut db,
                id,
                caller.owner(),
                conversations::UNTITLED,
                request.agent_definition_id,
                &json!({}),
            )
            .await?;
            let made = conversations::get(&mut db, caller.owner(), id)
                .await?
                .ok_or_else(Problem::internal)?;
            db.commit().await?;
            made
        }
    };
    let mut db = caller.begin(&state).await?;
    let has_changed = contexts::patch_conversation(&mut db, session.id, context_patch).await?;
    db.commit().await?;
    if has_changed {
        state.bus.publish(Wake::log(session.id));
    }
    let warmed = warm::warm(&state, &caller, session.id).await?;
    Ok(Json(Prewarmed {
        warmed,
        session: session.into(),
        created: request.session_id.is_none(),
        kept_s: location::KEPT_S,
    }))
}
