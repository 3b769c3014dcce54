//! `/mcp`: Rejoin as an MCP server. MCP clients (streamable HTTP) get the workspace's built-in tools, and `ask_agent`,
//! with the same keys, roles and rate limits as the rest of the API.
//!
//! - `tasks`     runs of `ask_agent` as tasks
//! - `tools`     the built-in tools in the protocol's format
//! - `ask`       `ask_agent`: a turn of an agent, with progress, cancellable
//! - `elicitation` questions of its run, as forms for the client's user
//! - `resources` conversations, runs and entities
//! - `param_headers` headers that repeat arguments of a call
//! - `prompts`   prompts of the workspace's installed products
//! - `refusals`  error messages for unknown methods
//! - `sessions`  clients' sessions in the database: any API process can continue any session
//!
//! Invariants: every request is authenticated by itself; a session belongs to its caller; a stopping API cancels no run, and neither does a
//! client that disconnects from its session: only a cancellation does.

mod ask;
mod elicitation;
mod param_headers;
mod prompts;
mod refusals;
mod resources;
mod sessions;
mod tasks;
mod tools;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use rejoin_db::rls;
use rejoin_http::caller::{Caller, Read};
use rejoin_http::problem::Problem;
use rejoin_runs::agents;
use rejoin_runs::builtin;
use rejoin_sse::resumable::{self, Names, Place};
use rejoin_tools::registry::{Patterns, Registry};
use rejoin_types::access::Scope;
use rmcp::ErrorData;
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CancelledNotificationParam, CompleteRequestParams,
    CompleteResult, GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InitializeResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::tower::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub use self::param_headers::is_of_call;
use self::refusals::unsupported;
use crate::config::ApiConfig;
use crate::state::{AppState, Routes};

type Context = RequestContext<RoleServer>;

/// The path of the MCP server.
pub const PATH: &str = "/mcp";
/// The protocol's session header.
const SESSION_HEADER: &str = "mcp-session-id";
/// Idle time after which a session's state is dropped from memory; the next request restores it from the database.
const SESSION_MEMORY: Duration = Duration::from_secs(300);
/// Timeout of a built-in tool's call.
const TOOL_LIMIT: Duration = Duration::from_secs(60);

/// The protocol's server in this process. Cheap to clone.
#[derive(Clone)]
pub struct McpServer(StreamableHttpService<Door, LocalSessionManager>);

impl McpServer {
    pub fn new(config: &ApiConfig, draining: CancellationToken) -> Self {
        let mut session = SessionConfig::default();
        session.keep_alive = Some(SESSION_MEMORY);
        let mut sessions = LocalSessionManager::default();
        sessions.session_config = session;
        let mut settings = StreamableHttpServerConfig::default()
            .with_sse_keep_alive(Some(config.streams.heartbeat()))
            .with_max_request_body_bytes(config.http.max_body_bytes)
            .with_cancellation_token(draining)
            .disable_allowed_hosts();
        // DNS rebinding: a page whose name resolves to this machine could reach a loopback listener; elsewhere a load
        // balancer has checked the host.
        if config.listen.ip().is_loopback() {
            settings = settings.with_allowed_hosts(["localhost", "127.0.0.1", "::1"]);
        }
        if !config.mcp_hosts.is_empty() {
            settings = settings.with_allowed_hosts(&config.mcp_hosts);
        }
        // Replaced by the caller's own on each request.
        settings.session_store = Some(Arc::new(sessions::Nobodys));
        Self(StreamableHttpService::new(|| Ok(Door), Arc::new(sessions), settings))
    }
}

/// The caller and the request's options: passed with each request through the protocol's library.
#[derive(Clone)]
struct Asked {
    state: AppState,
    caller: Caller,
    /// Restricts the tools to this agent's.
    agent: Option<String>,
    /// The tools of the caller's project, once they were read.
    tools: Arc<OnceCell<Registry>>,
}

/// What a request needs beyond reading, is asked of each tool.
pub fn routes() -> Routes {
    Routes::new().undocumented_any(PATH, serve)
}

/// Handles any request to `/mcp`.
async fn serve(
    State(state): State<AppState>,
    caller: Caller<Read>,
    Extension(server): Extension<McpServer>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Problem> {
    let store = sessions::Sessions::new(state.db.pool_sqlx.clone(), caller.owner());
    let session = session_of(request.headers());
    if let Some(session) = &session
        && !store.is_there(session).await?
    {
        // As the protocol specifies: the client starts a new session.
        return Err(Problem::not_found("session_not_found", "The session"));
    }
    let agent = url::form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .find(|(name, _)| name == "agent")
        .map(|(_, value)| value.into_owned());
    let mut server = server.0;
    server.config.session_store = Some(Arc::new(store));
    // An open stream counts as one of the user's streams, and ends with their rights.
    let permit = rejoin_sse::start::admit(&state.streams, &caller)?;
    let mut request = request;
    let caller = caller.plain();
    let tools = Arc::default();
    let asked = Asked {
        state,
        caller,
        agent,
        tools,
    };
    request.extensions_mut().insert(asked.clone());
    let ends_session = request.method() == Method::DELETE;
    let place = Place::take(request.headers_mut());
    let (request, names) = match (&session, &place) {
        (Some(_), None) => Names::of_request(request).await,
        (_, place) => (request, place.as_ref().and_then(Place::names)),
    };
    let annotated = param_headers::annotated(&asked, request.headers()).await;
    let handled = async { annotated.check(server.handle(request)).await.map(Body::new) };
    let mut response = match (session, place) {
        (Some(session), Some(place)) => match place.go_on(handled).await {
            Some(response) => response,
            None => ask::read_on(asked, &session, place).await,
        },
        (_, _) => handled.await,
    };
    // The library returns 202; clients expect 204 for an ended session.
    if ends_session && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    Ok(response.map(|body| permit.bounds(resumable::named(names, body))))
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(SESSION_HEADER)?;
    Some(value.to_str().unwrap_or_default().to_owned())
}

/// Handles requests by the data attached to each.
pub struct Door;

fn asked(extensions: &rmcp::model::Extensions) -> Result<(Asked, Option<String>), ErrorData> {
    let parts = extensions.get::<Parts>();
    let asked = parts.and_then(|parts| parts.extensions.get::<Asked>().cloned());
    let asked = asked.ok_or_else(|| ErrorData::internal_error("the request has no caller", None))?;
    Ok((asked, parts.and_then(|parts| session_of(&parts.headers))))
}

/// Converts an API error to a protocol error.
fn refused(problem: Problem) -> ErrorData {
    match problem.status {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND => ErrorData::invalid_params(problem.detail, None),
        _ => ErrorData::internal_error(problem.detail, None),
    }
}

impl Asked {
    /// Returns the built-in tools available to this caller.
    async fn granted(&self) -> Result<Granted, ErrorData> {
        let whitelist = match &self.agent {
            None => vec!["*".to_owned()],
            Some(name) => {
                let failed = |error: sqlx::Error| refused(error.into());
                let mut db = rls::begin(&self.state.db.pool_sqlx, self.caller.rls_scope())
                    .await
                    .map_err(failed)?;
                let definition = agents::find_by_name(&mut *db, self.caller.workspace_id, name)
                    .await
                    .map_err(failed)?;
                let definition = definition.filter(agents::AgentDefinition::is_open);
                let definition =
                    definition.ok_or_else(|| ErrorData::invalid_params(format!("there is no agent {name}"), None))?;
                definition.tools
            }
        };
        Ok(Granted {
            patterns: Patterns::new(&whitelist),
            writes: self.caller.may(Scope::Write),
        })
    }

    /// Refuses a caller that may only read.
    fn writes(&self) -> Result<(), ErrorData> {
        self.caller.needs(Scope::Write).map_err(refused)
    }

    /// Returns the tools of the caller's project: the built-in ones, and those over its work graph if it has one.
    async fn registry(&self) -> Result<&Registry, ErrorData> {
        let read = || async {
            let mut db = rls::begin(&self.state.db.pool_sqlx, self.caller.rls_scope()).await?;
            let extensions = &self.state.extensions;
            let of_project = extensions.workspace_tools(&mut db, self.caller.workspace_id).await?;
            let builtin = builtin::tools().with(extensions.tools_without_conversation());
            Ok(builtin.with(of_project))
        };
        let read = self.tools.get_or_try_init(read).await;
        read.map_err(|error: sqlx::Error| refused(error.into()))
    }
}

/// The built-in tools available to a caller.
struct Granted {
    patterns: Patterns,
    writes: bool,
}

impl ServerHandler for Door {
    fn get_info(&self) -> ServerConfig {
        let mut info = InitializeResult::new(
            ServerCapabilities::builder()
                .enable_tools()
                .enable_prompts()
                .enable_resources()
                .enable_tasks()
                .build(),
        );
        info.server_info = Implementation::new("rejoin", env!("CARGO_PKG_VERSION"));
        info.instructions = Some(
            "A project's knowledge graph and agents. Search and traverse the graph with the tools, or ask an agent \
            with ask_agent."
                .to_owned(),
        );
        info
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        let granted = asked.granted().await?;
        let mut tools = tools::list(asked.registry().await?, &granted);
        if granted.writes {
            tools.push(ask::described(&asked).await?);
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        param_headers::tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let (asked, session) = asked(&context.extensions)?;
        let granted = asked.granted().await?;
        if request.name == ask::NAME && granted.writes {
            return match ask::begin(&asked, session, request, &context.id).await {
                Err(refusal) => Ok(refusal.into()),
                Ok(turn) if tasks::are_supported(&context) => tasks::created(&asked, turn.run_id).await,
                Ok(turn) => ask::answered(&asked, turn, &context).await,
            };
        }
        let arguments = request.arguments.unwrap_or_default();
        let result = tools::call(&asked, &granted, &request.name, arguments, &context.ct).await?;
        Ok(result.into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        Ok(ListPromptsResult::with_all_items(prompts::list(&asked).await?))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        let arguments = request.arguments.unwrap_or_default();
        Ok(prompts::get(&asked, &request.name, &arguments).await?.into())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(unsupported("completion/complete"))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        resources::list(&asked, request.and_then(|request| request.cursor)).await
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(resources::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        Ok(resources::read(&asked, &request.uri).await?.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        tasks::get(&asked, &request, &context).await
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        asked.writes()?;
        tasks::update(&asked, &request).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let (asked, _) = asked(&context.extensions)?;
        asked.writes()?;
        tasks::cancel(&asked, &request).await
    }

    async fn on_cancelled(&self, cancelled: CancelledNotificationParam, context: NotificationContext<RoleServer>) {
        if let (Ok((asked, Some(session))), Some(request)) = (asked(&context.extensions), cancelled.request_id) {
            ask::cancel(&asked, &session, &request).await;
        }
    }
}
