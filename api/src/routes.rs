//! The routes: one file per noun, each with its DTOs and handlers, combined here with their middleware.
//!
//! - `agent_message` proposes an agent's message to another agent
//! - `agent_stream`   the same in the dialect of earlier chat pages
//! - `conversations`  conversations, their messages and events
//! - `calendar_event_entities` links between calendar events and entities of the work graph
//! - `runs`           one run: its state, its events, its end
//! - `steering`       messages to a running run, and resuming a paused one
//! - `query_patterns` queries learned from the caller's questions
//! - `questions`      runs' questions to users, and the answers
//! - `agent_definitions`  configuration of agents (admin)
//! - `mcp_accounts`   users' accounts at MCP servers
//! - `mcp_servers`    MCP servers and their tools (admin)
//! - `model_prices`   a project's prices of models (admin)
//! - `routing`        assignment of agents to new conversations, and its statistics
//! - `contexts`  context types of conversations
//! - `custom_prompts` prompts of projects and users for all agents
//! - `extensions`     endpoints of extensions
//! - `agents`         the agents that a caller may choose
//! - `prewarm`   prefetches data before a first message
//! - `history`        the audit trail of runs, in three levels of detail
//! - `run_history`    run trees, whole runs as documents, forks
//! - `audit`          a project's audit log (admin)
//! - `operations`     queues, throughput, dead jobs, the fleet (admin)
//! - `graph`          the knowledge graph, with its own files
//! - `me`             the rights of the caller's key
//! - `projects`       the projects in which the caller can act
//! - `session`        browsers that sign in and out, and go on in another project
//! - `sign_in_codes`  one-time sign-in codes
//! - `keys`           API keys of a project (admins)
//! - `usage`          a project's usage today (admins)
//! - `members`        members of a project and their roles (owners)
//! - `tickets`        stream tickets for a browser's EventSource
//! - `health` `metrics`   for operators
//!
//! Endpoints of the identity provider, of invitations and of the list of sessions are in `rejoin_http::sign_in`, those that take
//! messages and files in `rejoin_chat`, those of plans, task DAGs and schedules in `rejoin_automation`, those of other programs' clients in `rejoin_dialects`.
//! Endpoints of calendars, data sources, consoles, web settings, webhooks, products and the work graph are in their extensions' crates, in
//! `routes`. [`composed`] merges them.
//!
//! To add an endpoint: write it with `#[utoipa::path]`, add it to its file's `routes()`. The type of its first argument says which
//! scope it needs (`authorization`).

pub mod agent_definitions;
pub mod agent_message;
pub mod agent_stream;
pub mod agents;
pub mod audit;
pub mod calendar_event_entities;
pub mod contexts;
pub mod conversations;
pub mod custom_prompts;
pub mod extensions;
pub mod graph;
pub mod health;
pub mod history;
pub mod keys;
pub mod mcp_accounts;
pub mod mcp_servers;
pub mod me;
pub mod members;
pub mod metrics;
pub mod model_prices;
pub mod models;
pub mod operations;
pub mod prewarm;
pub mod projects;
pub mod query_patterns;
pub mod questions;
pub mod routing;
pub mod run_history;
pub mod runs;
pub mod session;
pub mod sign_in_codes;
pub mod steering;
pub mod tickets;
pub mod usage;

use std::any::Any;
use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS};
use axum::http::{Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use rejoin_a2a as a2a;
use rejoin_a2a::routes::A2aState;
use rejoin_calendar::routes::{CalendarState, calendar_files};
use rejoin_chat::files;
use rejoin_data_sources::routes::DataSourcesState;
use rejoin_dialects::{ai_sdk, openai};
use rejoin_http::REQUEST_LIMIT;
use rejoin_http::authorization::{self, AccessTable, Public};
use rejoin_http::openapi;
use rejoin_http::problem::Problem;
use rejoin_http::rate_limit;
use rejoin_products::routes::ProductsState;
use rejoin_remote_tools::routes::{CLAIMS_PATH, RemoteToolsState};
use rejoin_runs::builtin;
use rejoin_webhooks::routes::WebhooksState;
use tokio::time::timeout;
use tower_http::catch_panic::CatchPanicLayer;
use tracing::error;
use utoipa::openapi::OpenApi;

use crate::admission;
use crate::mcp;
use crate::spa;
use crate::state::{AppState, Routes};

/// Returns the documented routes of the engine.
fn own() -> Routes {
    Routes::new()
        .merge(agent_message::routes())
        .merge(agent_stream::routes())
        .merge(conversations::routes())
        .merge(calendar_event_entities::routes())
        .merge(runs::routes())
        .merge(steering::routes())
        .merge(questions::routes())
        .merge(agent_definitions::routes())
        .merge(mcp_accounts::routes())
        .merge(mcp_servers::routes())
        .merge(models::routes())
        .merge(model_prices::routes())
        .merge(usage::routes())
        .merge(agents::routes())
        .merge(routing::routes())
        .merge(contexts::routes())
        .merge(custom_prompts::routes())
        .merge(query_patterns::routes())
        .merge(prewarm::routes())
        .merge(history::routes())
        .merge(run_history::routes())
        .merge(audit::routes())
        .merge(operations::routes())
        .merge(graph::routes())
        .merge(me::routes())
        .merge(projects::routes())
        .merge(session::routes())
        .merge(sign_in_codes::routes())
        .merge(keys::routes())
        .merge(members::routes())
        .merge(tickets::routes())
        .merge(health::routes())
        .merge(metrics::routes())
}

/// Returns the documented routes of messages, of dialects, and of the features. Without a state: their description, without handlers.
fn composed(state: Option<&AppState>) -> Routes {
    fn with<S: Clone + Send + Sync + 'static>(routes: authorization::Routes<S>, state: Option<S>) -> Routes {
        match state {
            Some(state) => routes.with_state(state),
            None => routes.description(),
        }
    }
    let chat = state.map(|state| &state.chat);
    let http = state.map(|state| &state.http);
    let calendar = state.map(|state| CalendarState {
        http: state.http.clone(),
        google: Arc::new(state.config.google.clone()),
    });
    let data_sources = state.map(|state| DataSourcesState {
        http: state.http.clone(),
        sources: state.sources.clone(),
    });
    let products = state.map(|state| ProductsState {
        http: state.http.clone(),
        commands: state.commands.clone(),
    });
    let a2a = state.map(|state| A2aState {
        chat: state.chat.clone(),
        push: Arc::new(state.webhooks.clone()),
        mcp_path: mcp::PATH,
    });
    let webhooks = state.map(|state| WebhooksState {
        http: state.http.clone(),
        webhooks: state.webhooks.clone(),
    });
    let remote_tools = state.map(|state| RemoteToolsState {
        http: state.http.clone(),
        args: Arc::new(state.config.remote_tools.clone()),
        waiting: state.waiting.clone(),
        reserved: Arc::new(other_tools(state)),
    });
    with(rejoin_http::sign_in::routes(), http.cloned())
        .merge(with(rejoin_chat::routes(), chat.cloned()))
        .merge(with(rejoin_automation::routes(), chat.cloned()))
        .merge(with(rejoin_dialects::routes(), chat.cloned()))
        .merge(with(a2a::routes::routes(), a2a))
        .merge(with(rejoin_calendar::routes::routes(), calendar))
        .merge(with(rejoin_data_sources::routes::routes(), data_sources))
        .merge(with(rejoin_products::routes::routes(), products))
        .merge(with(rejoin_web_search::routes::routes(), http.cloned()))
        .merge(with(rejoin_webhooks::routes::routes(), webhooks))
        .merge(with(rejoin_work_graph::routes::routes(), http.cloned()))
        .merge(with(rejoin_remote_tools::routes::routes(), remote_tools))
}

/// The names that no remote tool may have.
fn other_tools(state: &AppState) -> HashSet<String> {
    let of_extensions = state.extensions.tools();
    let registry = builtin::tools().with(of_extensions);
    let coordination = builtin::COORDINATION.into_iter();
    registry.names().chain(coordination).map(str::to_owned).collect()
}

/// Returns all documented routes.
fn all(state: Option<&AppState>) -> Routes {
    composed(state).merge(own())
}

/// Returns the complete OpenAPI document, as printed by `rejoin openapi`.
pub fn document() -> OpenApi {
    openapi::named(all(None).document(openapi::base()))
}

/// All routes: those of the OpenAPI document, the document itself with its page, and those of `/mcp`.
fn served(mcp: Routes, state: Option<&AppState>) -> Routes {
    static DOCUMENT: LazyLock<String> =
        LazyLock::new(|| document().to_json().expect("the OpenAPI document is plain data"));
    all(state)
        .undocumented(Method::GET, "/openapi.json", async move |_: Public| {
            (
                [(CONTENT_TYPE, HeaderValue::from_static("application/json"))],
                DOCUMENT.as_str(),
            )
        })
        .undocumented(Method::GET, spa::REFERENCE_PATH, spa::reference)
        .merge(mcp)
}

/// Who may call which operation.
pub fn access() -> AccessTable {
    served(mcp::routes(), None).table().clone()
}

/// Returns the application: the routes and their middleware.
pub fn router(state: AppState) -> Router {
    let mcp_server = mcp::McpServer::new(&state.config, state.draining.clone());
    let mcp = mcp::routes().layer(Extension(mcp_server));
    let routes = served(mcp, Some(&state)).merge(extensions::routes(&state.extensions));
    let table = Arc::new(routes.table().clone());
    let max_body_bytes = state.args.max_body_bytes;
    routes
        .into_router()
        .fallback(spa::serve)
        .method_not_allowed_fallback(async || {
            Problem::new(
                StatusCode::METHOD_NOT_ALLOWED,
                "method_not_allowed",
                "the path does not support this method",
            )
        })
        .layer(DefaultBodyLimit::max(max_body_bytes))
        .layer(middleware::from_fn_with_state((state.clone(), table), limited))
        .layer(middleware::from_fn(rate_limit::headers))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(middleware::from_fn(openai::routes::translated))
        .layer(middleware::from_fn(a2a::routes::translated))
        .layer(middleware::map_response(guarded))
        .layer(middleware::from_fn(metrics::count))
        .with_state(state)
}

/// The load class of a request.
enum Weight {
    /// Always admitted: for operators, especially under load.
    Free,
    /// Waits for its turn and for one query; limited by the number of streams.
    OpensStream,
    /// Has its own limits.
    Transfer,
    /// Responds with limited streams; its body is handled like any other.
    Protocol,
    /// As `Protocol`; its response may begin with the end of a run.
    WaitsForRun,
    Work,
}

impl Weight {
    fn of(request: &Request) -> Self {
        match request.extensions().get::<MatchedPath>().map(MatchedPath::as_str) {
            Some(graph::transfer::IMPORT_PATH) => Self::Transfer,
            Some(files::PATH) if request.method() == Method::POST => Self::Transfer,
            Some(path) if request.method() == Method::GET && path.ends_with("/events") => Self::OpensStream,
            Some(ai_sdk::routes::STREAM_PATH) => Self::OpensStream,
            Some(mcp::PATH) if mcp::is_of_call(request.headers()) => Self::WaitsForRun,
            Some(mcp::PATH) => Self::Protocol,
            Some(CLAIMS_PATH) => Self::WaitsForRun,
            Some(path)
                if request.method() == Method::POST && (openai::routes::waits(path) || a2a::routes::waits(path)) =>
            {
                Self::WaitsForRun
            }
            Some(path) if path.starts_with("/api/") || openai::routes::has(path) => Self::Work,
            Some(_) | None => Self::Free,
        }
    }
}

/// Refuses a request without a free slot, and ends one whose response does not begin: the database may be up but
/// unresponsive.
async fn limited(State((state, table)): State<(AppState, Arc<AccessTable>)>, request: Request, next: Next) -> Response {
    let weight = Weight::of(&request);
    let works = match weight {
        Weight::Transfer => return next.run(request).await,
        Weight::Free => return in_time(next.run(request)).await,
        Weight::OpensStream => {
            return in_time(async {
                let _turn = state.opening.acquire().await;
                next.run(request).await
            })
            .await;
        }
        Weight::Protocol | Weight::WaitsForRun => false,
        Weight::Work => true,
    };
    let path = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let access = path.and_then(|path| table.get(path, request.method()));
    let max_bytes = match path {
        Some(calendar_files::IMPORT_PATH) => calendar_files::MAX_BYTES,
        Some(_) | None => state.args.max_body_bytes,
    };
    // Boxed: the future of every request, also of those that open streams, has room for the largest of its parts.
    match Box::pin(admission::admit(&state, request, access, works, max_bytes)).await {
        Ok((request, _place)) => match weight {
            // Its handler limits the time of storing.
            Weight::WaitsForRun => next.run(request).await,
            _ => in_time(next.run(request)).await,
        },
        Err(problem) => problem.into_response(),
    }
}

async fn in_time(answer: impl Future<Output = Response>) -> Response {
    match timeout(REQUEST_LIMIT, answer).await {
        Ok(response) => response,
        Err(_) => {
            error!(
                "a request took longer than {} s and was aborted",
                REQUEST_LIMIT.as_secs()
            );
            Problem::database_away().into_response()
        }
    }
}

/// Adds security headers: no caching, no content sniffing, no referrers, unless the handler sets its own.
pub(crate) async fn guarded(mut response: Response) -> Response {
    for (name, value) in [
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        let headers = response.headers_mut();
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

fn panicked(panic: Box<dyn Any + Send + 'static>) -> Response {
    let reason = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("nothing");
    error!(reason, "a handler panicked");
    Problem::internal().into_response()
}
