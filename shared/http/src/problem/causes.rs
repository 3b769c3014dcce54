//! The problem of each error of the engine: commands, identity, files, the graph.

use axum::http::StatusCode;
use rejoin_commands::{AnswerError, DagError, ForkError, PostError, ResumeError, SteerError};
use rejoin_db::failure_log::ErrorChain;
use rejoin_event_log::archive::ArchiveError;
use rejoin_files::objects::ObjectStoreError;
use rejoin_files::types::TypeFault;
use rejoin_files::{AttachError, BeginError};
use rejoin_identity::auth::AuthError;
use rejoin_identity::invitations::InvitationError;
use rejoin_identity::keys::KeyError;
use rejoin_identity::sessions::SwitchError;
use rejoin_identity::sso::SsoError;
use rejoin_identity::workspaces::{Exhausted, MemberError};
use rejoin_models::reads;
use serde_json::json;
use tracing::error;

use super::Problem;

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        match error {
            AuthError::UnknownKey => Self::unauthorized("unauthorized", "the API key is unknown, expired or revoked"),
            AuthError::UnknownWorkspace => Self::not_found("project_not_found", "The project"),
            AuthError::TokenExpired => Self::unauthorized("token_expired", error.to_string()),
            AuthError::TokenNotYetValid => Self::unauthorized("token_invalid", error.to_string()),
            AuthError::UnknownUser => Self::new(
                StatusCode::FORBIDDEN,
                "user_unknown",
                "the token's subject is not a user of this server; an operator can create the user",
            ),
            AuthError::WorkspaceNeeded => Self::bad_request("project_needed", error.to_string()),
            AuthError::Database(error) => error.into(),
        }
    }
}

impl From<MemberError> for Problem {
    fn from(error: MemberError) -> Self {
        match error {
            MemberError::NotFound => Self::not_found("member_not_found", "The member"),
            MemberError::LastOwner => Self::conflict("last_owner", error.to_string()),
            MemberError::Database(error) => error.into(),
        }
    }
}

impl From<InvitationError> for Problem {
    fn from(error: InvitationError) -> Self {
        let detail = error.to_string();
        match error {
            InvitationError::Uses | InvitationError::Note | InvitationError::Service => {
                Self::bad_request("invalid_invitation", detail)
            }
            InvitationError::TooMany(_) => Self::conflict("too_many_invitations", detail),
            InvitationError::NotFound => Self::not_found("invitation_not_found", "The invitation"),
            InvitationError::Invalid => Self::new(StatusCode::NOT_FOUND, "invitation_invalid", detail),
            InvitationError::Handle => Self::bad_request("invalid_handle", detail),
            InvitationError::HandleTaken => Self::conflict("handle_taken", detail),
            InvitationError::Key(error) => error.into(),
            InvitationError::Database(error) => error.into(),
        }
    }
}

impl From<SsoError> for Problem {
    fn from(error: SsoError) -> Self {
        let detail = error.to_string();
        match error {
            SsoError::Times(_) => Self::unauthorized("token_invalid", detail),
            SsoError::UnknownUser => Self::new(StatusCode::FORBIDDEN, "user_unknown", detail),
            SsoError::NoProject => Self::new(StatusCode::FORBIDDEN, "no_project", detail),
            SsoError::ServiceAccount => Self::new(StatusCode::FORBIDDEN, "role_missing", detail),
            SsoError::AnotherUser => Self::conflict("signed_in_as_another", detail),
            SsoError::Invitation(error) => error.into(),
            SsoError::Database(error) => error.into(),
        }
    }
}

impl From<SwitchError> for Problem {
    fn from(error: SwitchError) -> Self {
        match error {
            SwitchError::NotASession => Self::conflict("not_a_session", error.to_string()),
            SwitchError::Stays => Self::conflict("session_stays", error.to_string()),
            SwitchError::UnknownWorkspace => Self::not_found("project_not_found", "The project"),
            SwitchError::Database(error) => error.into(),
        }
    }
}

impl From<PostError> for Problem {
    fn from(error: PostError) -> Self {
        match error {
            PostError::ConversationNotFound => Self::not_found("conversation_not_found", "The conversation"),
            PostError::DefinitionNotFound => {
                Self::bad_request("agent_definition_not_found", "Agent definition was not found")
            }
            PostError::Busy { run_id } => {
                Self::conflict("conversation_busy", "a run of this conversation is active").with("runId", json!(run_id))
            }
            PostError::KeyReused => Self::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                "idempotency_key_reused",
                "the idempotency key was already used with another body",
            ),
            PostError::Unfit { code, detail } => Self::bad_request(code, detail),
            PostError::Files(error) => match error {
                AttachError::NotFound(_) => Self::bad_request("file_not_found", error.to_string()),
                AttachError::TooLarge { .. } => Self::bad_request("attachments_too_large", error.to_string()),
                AttachError::Database(error) => error.into(),
            },
            PostError::Unreadable(unreadable) => {
                let models = json!(unreadable.others);
                Self::bad_request(reads::CODE, unreadable.to_string()).with("models", models)
            }
            PostError::Exhausted(Exhausted { what, limit, wait_s }) => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "quota_exhausted",
                format!(
                    "the project has reached today's limit of {limit} {what} (UTC); an operator can raise the \
                    quota"
                ),
            )
            .with("quota", json!({ "of": what, "perDay": limit }))
            .retry_after(wait_s),
            PostError::Database(error) => error.into(),
        }
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        let detail = error.to_string();
        match error {
            KeyError::Name | KeyError::NoScopes => Self::bad_request("invalid_key", detail),
            KeyError::MoreThanMaker(_) => Self::new(StatusCode::FORBIDDEN, "scope_missing", detail),
            KeyError::TooMany => Self::conflict("too_many_keys", detail),
            KeyError::NotFound => Self::not_found("key_not_found", "The key"),
            KeyError::LastAdmin => Self::conflict("last_admin_key", detail),
            KeyError::Database(error) => error.into(),
        }
    }
}

impl From<ResumeError> for Problem {
    fn from(error: ResumeError) -> Self {
        match error {
            ResumeError::NotFound => Self::not_found("run_not_found", "The run"),
            ResumeError::NotPaused(why) => Self::conflict("run_not_paused", why),
            ResumeError::SubAgent => Self::conflict("run_is_sub_agent", error.to_string()),
            ResumeError::Database(error) => error.into(),
        }
    }
}

impl From<SteerError> for Problem {
    fn from(error: SteerError) -> Self {
        match error {
            SteerError::NotFound => Self::not_found("run_not_found", "The run"),
            SteerError::Ended { state } => {
                let detail = format!("the run accepts no more messages: it is {state}, or is being cancelled");
                Self::conflict("run_ended", detail)
            }
            SteerError::Database(error) => error.into(),
        }
    }
}

impl From<ForkError> for Problem {
    fn from(error: ForkError) -> Self {
        match error {
            ForkError::NotFound => Self::not_found("run_not_found", "The run"),
            ForkError::Unfit(why) => Self::conflict("run_fork_unfit", why),
            ForkError::Exhausted(exhausted) => PostError::Exhausted(exhausted).into(),
            ForkError::Database(error) => error.into(),
        }
    }
}

impl From<AnswerError> for Problem {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::NotFound => Self::not_found("question_not_found", "The question"),
            AnswerError::Closed { status } => {
                Self::conflict("question_closed", format!("the question is already {status}"))
                    .with("status", json!(status))
            }
            AnswerError::Unfit(why) => Self::bad_request("answer_unfit", why),
            AnswerError::NoSuchCall { ref waiting, .. } => {
                Self::new(StatusCode::NOT_FOUND, "client_call_not_found", error.to_string())
                    .with("waiting", json!(waiting))
            }
            AnswerError::Database(error) => error.into(),
        }
    }
}

impl From<DagError> for Problem {
    fn from(error: DagError) -> Self {
        match error {
            DagError::NotFound => Self::not_found("task_dag_not_found", "The DAG of tasks"),
            DagError::Stands(_) | DagError::GoneOn => Self::conflict("task_dag_state", error.to_string()),
            DagError::NoTask(name) => Self::not_found("task_not_found", &format!("The task {name:?} of this DAG")),
            DagError::NotFailed { .. } => Self::conflict("task_state", error.to_string()),
            DagError::Graph(error) => error.into(),
            DagError::Database(error) => error.into(),
        }
    }
}

impl From<TypeFault> for Problem {
    fn from(fault: TypeFault) -> Self {
        let detail = fault.to_string();
        match fault {
            TypeFault::NotTaken(_) => Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "file_type_not_taken", detail),
            TypeFault::Disagrees(_) => Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "file_type_disagrees", detail),
            TypeFault::Image(_) => Self::bad_request("invalid_image", detail),
        }
    }
}

impl From<BeginError> for Problem {
    fn from(error: BeginError) -> Self {
        match error {
            BeginError::Full { .. } => Self::new(StatusCode::INSUFFICIENT_STORAGE, "files_full", error.to_string()),
            BeginError::Database(error) => error.into(),
        }
    }
}

impl From<ObjectStoreError> for Problem {
    fn from(error: ObjectStoreError) -> Self {
        error!(%error, "the object store could not serve a request");
        match error {
            ObjectStoreError::Damaged(_) => Self::file_damaged(),
            _ => Self::files_unavailable(),
        }
    }
}

impl From<ArchiveError> for Problem {
    fn from(error: ArchiveError) -> Self {
        error!(error = %ErrorChain(&error), "the archive of old logs could not serve a request");
        Self::archive_unavailable()
    }
}

impl From<rejoin_graph::Error> for Problem {
    fn from(error: rejoin_graph::Error) -> Self {
        let detail = error.to_string();
        match error {
            rejoin_graph::Error::NotFound { what } => {
                let code = match what.split(' ').next() {
                    Some("relationship") => "relationship_not_found",
                    Some("template") => "pack_not_found",
                    Some(_) | None => "object_not_found",
                };
                Self::new(StatusCode::NOT_FOUND, code, detail)
            }
            rejoin_graph::Error::VersionConflict { expected, actual } => Self::conflict("version_conflict", detail)
                .with("expectedVersion", expected.into())
                .with("version", actual.into()),
            rejoin_graph::Error::Conflict(_) => Self::conflict("already_exists", detail),
            rejoin_graph::Error::Invalid(_) => Self::bad_request("invalid_graph_data", detail),
            rejoin_graph::Error::Database { attempted, source } => {
                let problem = Self::from(source);
                if problem.status == StatusCode::INTERNAL_SERVER_ERROR {
                    error!(attempted, "a graph operation failed");
                }
                problem
            }
        }
    }
}
