//! One connection to an MCP server: a child process, or HTTP. Created and kept by `connections`.
//!
//! Invariants: its own task owns the protocol, so that a cancelled caller does not close it; a process is ended with
//! its whole group when the connection closes, when the worker drains, and (by the watchdog) when the worker dies.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use process_wrap::tokio::{CommandWrap, ProcessGroup};
use rejoin_integrations::mcp::{Server, Transport, offers};
use rejoin_tools::input::{InputGiven, InputNeeded};
use rejoin_types::text;
use rmcp::model::{CallToolRequestParams, CallToolResponse, InputRequests};
use rmcp::service::{Peer, RoleClient, ServiceError};
use rmcp::transport::child_process::TokioChildProcess;
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::answer::{self, Keep};
use crate::http;
use crate::input::{self, Pending};
use crate::lifecycle::{self, Running};
use crate::listing;
use crate::oauth::{AccountNeeded, UserTokens};
use crate::redact::Redactor;
use crate::secrets::ResolvedSettings;
use crate::stderr;
use crate::tasks::{self, Outcome};
use crate::transport::{ConnectorDeps, Guarded, NotificationHandler, OpenError};

/// Timeout of closing a connection: a process is asked, then signalled, then killed, 3 s each.
const CLOSE_LIMIT: Duration = Duration::from_secs(10);
/// Timeout of listing tools.
const LIST_LIMIT: Duration = Duration::from_secs(20);
/// Number of times that a server may ask for a call to be made again without any input, and the pause before.
const STATES_MAX: u32 = 10;
const STATES_PAUSE: Duration = Duration::from_millis(250);
/// The environment variables that a process inherits; no others.
const INHERITED: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ"];

/// The error of a call.
#[derive(Debug)]
pub enum CallError {
    /// The server's answer, for the model.
    RespondToModel(String),
    /// The server's answer was invalid or missing.
    Failed(String),
    /// The server asks the user.
    NeedsInput(Box<InputNeeded>),
    /// The user must connect an account first, or agree to more.
    NeedsAccount(AccountNeeded),
}

/// An open connection to one server.
pub struct Connection {
    peer: Peer<RoleClient>,
    /// The revision of the server's settings.
    pub revision: i32,
    server: String,
    /// Whether it uses tokens: errors after a rejection then mention them.
    is_authorized: bool,
    /// The tokens of the user for whom it is.
    user: Option<UserTokens>,
    redactor: Redactor,
    max_result_bytes: usize,
    /// Requests closing.
    close: CancellationToken,
    /// The connection has ended, for any reason.
    over: CancellationToken,
    begun: Instant,
    /// The time of its last use, in milliseconds after `begun`.
    used: AtomicI64,
    in_flight: AtomicUsize,
}

impl Connection {
    /// Connects; the caller limits the time. `on_change` is notified when the server's list of tools changes.
    ///
    /// # Errors
    /// The reason, without any secret.
    pub async fn open(
        deps: &ConnectorDeps,
        server: &Server,
        filled: ResolvedSettings,
        list_changed: Arc<Notify>,
    ) -> Result<Arc<Self>, OpenError> {
        let redactor = filled.redactor.clone();
        let user = filled.user.clone();
        let is_authorized = filled.oauth.is_some() || user.is_some();
        let notifications = NotificationHandler {
            server: server.settings.name.clone(),
            list_changed: list_changed.clone(),
            redactor: redactor.clone(),
            has_forms: false,
        };
        let opened = match server.settings.transport {
            Transport::Stdio => start(deps, server, filled, notifications)
                .await
                .map_err(OpenError::Again),
            Transport::Http => http::reach(deps, filled, notifications)
                .await
                .map(|running| (running, None)),
        };
        let (running, guarded) = opened.map_err(|error| error.map(|words| redactor.text(words)))?;
        let connection = Arc::new(Self {
            peer: running.peer().clone(),
            revision: server.revision,
            server: server.settings.name.clone(),
            is_authorized,
            user,
            redactor,
            max_result_bytes: deps.max_result_bytes,
            close: CancellationToken::new(),
            over: CancellationToken::new(),
            begun: Instant::now(),
            used: AtomicI64::new(0),
            in_flight: AtomicUsize::new(0),
        });
        let (close, over) = (connection.close.clone(), connection.over.clone());
        let name = server.settings.name.clone();
        let following = lifecycle::follow_tools(connection.peer.clone(), list_changed, over.clone());
        deps.processes.tasks.spawn(following);
        deps.processes.tasks.spawn(async move {
            supervise(running, &close).await;
            drop(guarded);
            info!(server = name, "the connection to an MCP server was closed");
            over.cancel();
        });
        Ok(connection)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.is_cancelled() || self.peer.is_transport_closed()
    }

    /// Requests closing, without waiting.
    pub fn close(&self) {
        self.close.cancel();
    }

    /// Returns how long it has been idle.
    pub(crate) fn idle(&self) -> Duration {
        if self.in_flight.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        let used = u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or_default();
        self.begun.elapsed().saturating_sub(Duration::from_millis(used))
    }

    /// Waits until it has ended.
    pub async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Marks it as in use until the guard is dropped.
    fn using(&self) -> Using<'_> {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Using(self)
    }

    fn touch(&self) {
        let now = i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX);
        self.used.store(now, Ordering::Relaxed);
    }

    /// Returns the server's description of itself.
    pub(crate) fn about(&self) -> Value {
        match self.peer.peer_info() {
            Some(info) => {
                let cleaned = |original: &String| answer::cut(text::plain(self.redactor.text(original.clone())));
                json!({
                    "name": info.server_info.as_ref().map(|server| cleaned(&server.name)),
                    "version": info.server_info.as_ref().map(|server| cleaned(&server.version)),
                    "protocolVersion": info.protocol_version,
                    "instructions": info.instructions.as_ref().map(cleaned),
                })
            }
            None => json!({}),
        }
    }

    /// Returns the currently offered tools, and what was left out of the list.
    pub async fn list(&self) -> Result<offers::Listed, String> {
        let _using = self.using();
        let listed = timeout(LIST_LIMIT, listing::read(&self.peer, &self.redactor, &self.server)).await;
        let listed = match listed {
            Err(_) => return Err(format!("it did not list its tools within {} s", LIST_LIMIT.as_secs())),
            Ok(Err(error)) => return Err(format!("listing its tools failed: {}", self.words(&error))),
            Ok(Ok(listed)) => listed,
        };
        for left in &listed.left_out {
            warn!(
                server = self.server,
                tool = left.tool,
                reason = left.reason,
                "a tool of an MCP server was omitted"
            );
        }
        Ok(listed)
    }

    /// Formats an error.
    fn words(&self, error: &ServiceError) -> String {
        let words = http::refusal(error.auth_challenge(), self.is_authorized).unwrap_or_else(|| error.to_string());
        answer::cut(self.redactor.text(words))
    }

    /// Returns why the user must connect an account, if an error comes from that.
    fn account_needed(&self, error: &ServiceError) -> Option<AccountNeeded> {
        self.user.as_ref()?.needed(error.auth_challenge())
    }

    /// The end of a call, also if the server executes it as a task. `given`: what it has asked for before.
    async fn finished(
        &self,
        mut request: CallToolRequestParams,
        given: Option<&InputGiven>,
    ) -> Result<Outcome, ServiceError> {
        if let Some(given) = given {
            let answers = input::responses(given);
            match Pending::of(&given.state) {
                Pending::Task(id) => return tasks::resume(&self.peer, &id, answers).await,
                Pending::Call(state) => {
                    request.input_responses = Some(answers);
                    request.request_state = state;
                }
            }
        }
        for _ in 0..STATES_MAX {
            match self.peer.call_tool_once(request.clone()).await? {
                CallToolResponse::Complete(result) => return Ok(Outcome::Result(Box::new(result))),
                CallToolResponse::Task(created) => return tasks::outcome(&self.peer, &created.task).await,
                CallToolResponse::InputRequired(result) => {
                    let requests = result.input_requests.unwrap_or_default();
                    if !requests.is_empty() {
                        let pending = Pending::Call(result.request_state);
                        return Ok(Outcome::NeedsInput { requests, pending });
                    }
                    // It only wants to be called again, with its state.
                    request.input_responses = None;
                    request.request_state = result.request_state;
                    sleep(STATES_PAUSE).await;
                }
                _ => {
                    return Ok(Outcome::Failed(
                        "the tool responds in a way that is not supported".to_owned(),
                    ));
                }
            }
        }
        Ok(Outcome::Failed(format!(
            "the tool asked {STATES_MAX} times to be called again"
        )))
    }

    /// Returns what the server asks the user for, or why that is not possible. The session must have no handshake:
    /// with one, requests don't name the call that asks.
    fn needs_input(&self, arguments: Map<String, Value>, requests: InputRequests, pending: Pending) -> CallError {
        let server = &self.server;
        let has_handshake = self
            .peer
            .peer_info()
            .is_none_or(|info| info.protocol_version.has_initialize());
        let needed = if has_handshake {
            Err(format!(
                "the tool requests user input (elicitation), which is supported only for servers of the protocol's \
                revision 2026-07-28; {server} uses an older one. Use another tool"
            ))
        } else {
            input::needed(server, &self.redactor, arguments, requests, &pending)
        };
        match (needed, pending) {
            (Ok(needed), _) => CallError::NeedsInput(Box::new(needed)),
            (Err(words), pending) => {
                self.abandon(pending);
                CallError::RespondToModel(answer::cut(self.redactor.text(words)))
            }
        }
    }

    /// Ends a call that waits for input.
    pub(crate) fn abandon(&self, pending: Pending) {
        match pending {
            Pending::Task(id) => tasks::abandon(&self.peer, id),
            // Nothing is in progress at the server.
            Pending::Call(_) => {}
        }
    }

    /// Calls a tool, and stores the files in its answer. Dropping the future cancels the call at the server. `given`:
    /// what the same call has asked for before.
    pub async fn call(
        &self,
        tool: &str,
        arguments: Map<String, Value>,
        given: Option<&InputGiven>,
        limit: Duration,
        keep: Option<&dyn Keep>,
    ) -> Result<Value, CallError> {
        let _using = self.using();
        let request = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments.clone());
        let answered = tokio::select! {
            answered = timeout(limit, self.finished(request, given)) => answered,
            () = self.over.cancelled() => Ok(Err(ServiceError::TransportClosed)),
        };
        let server = &self.server;
        let result = match answered {
            Err(_) => {
                return Err(CallError::Failed(format!(
                    "the MCP server {server} did not respond within {} s",
                    limit.as_secs()
                )));
            }
            Ok(Ok(Outcome::Result(result))) => *result,
            Ok(Ok(Outcome::NeedsInput { requests, pending })) => {
                return Err(self.needs_input(arguments, requests, pending));
            }
            Ok(Ok(Outcome::Cancelled)) => {
                return Err(CallError::RespondToModel(format!("{server} has cancelled the call")));
            }
            Ok(Ok(Outcome::Failed(reason))) => {
                return Err(CallError::RespondToModel(answer::cut(self.redactor.text(reason))));
            }
            // The server itself reports an invalid call.
            Ok(Err(ServiceError::McpError(error))) => {
                return Err(CallError::RespondToModel(answer::cut(
                    self.redactor.text(error.message.into_owned()),
                )));
            }
            Ok(Err(ServiceError::TransportClosed | ServiceError::Cancelled { .. })) => {
                return Err(CallError::Failed(format!(
                    "the MCP server {server} ended during the call"
                )));
            }
            Ok(Err(error)) => {
                return Err(match self.account_needed(&error) {
                    Some(needed) => CallError::NeedsAccount(needed),
                    None => CallError::Failed(format!("the MCP server {server}: {}", self.words(&error))),
                });
            }
        };
        let kept = match keep {
            Some(keep) => answer::keep(&result, keep).await,
            None => Vec::new(),
        };
        let value = answer::of(result, &kept)
            .map_err(|words| CallError::RespondToModel(answer::cut(self.redactor.text(words))))?;
        let bytes = value.to_string().len();
        if bytes <= self.max_result_bytes {
            Ok(self.redactor.value(value))
        } else {
            Err(CallError::RespondToModel(format!(
                "the result has {bytes} bytes; the maximum is {}. Request less",
                self.max_result_bytes
            )))
        }
    }
}

struct Using<'a>(&'a Connection);

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Owns a connection until it ends or is to be closed.
async fn supervise(running: Running, close: &CancellationToken) {
    let mut stop = Some(running.cancellation_token());
    let mut waiting = std::pin::pin!(running.waiting());
    tokio::select! {
        _ = &mut waiting => return,
        () = close.cancelled() => {}
    }
    if let Some(stop) = stop.take() {
        stop.cancel();
    }
    if timeout(CLOSE_LIMIT, waiting).await.is_err() {
        warn!("an MCP server did not stop in time");
    }
}

/// Starts a process of the operator's list.
async fn start(
    deps: &ConnectorDeps,
    server: &Server,
    filled: ResolvedSettings,
    notifications: NotificationHandler,
) -> Result<(Running, Option<Guarded>), String> {
    let (process, guarded) = spawn(deps, server, &filled)?;
    // On cancellation, the process is killed with its transport.
    let begun = match lifecycle::handshake(notifications.clone(), process).await {
        Err(error) if lifecycle::refuses_handshake(&error) => {
            drop(guarded);
            let (process, guarded) = spawn(deps, server, &filled)?;
            let running = lifecycle::discover(notifications, process).await;
            running.map(|running| (running, Some(guarded)))
        }
        begun => begun.map(|running| (running, Some(guarded))),
    };
    begun.map_err(|error| format!("its process does not speak MCP: {error}"))
}

fn spawn(
    deps: &ConnectorDeps,
    server: &Server,
    filled: &ResolvedSettings,
) -> Result<(TokioChildProcess, Guarded), String> {
    let name = server.settings.command.as_deref().unwrap_or_default();
    let allowed = deps.commands.allow(name, server.settings.env.keys())?;
    let mut command = Command::new(&allowed.command);
    command.args(&allowed.args).env_clear();
    for variable in INHERITED {
        if let Some(value) = std::env::var_os(variable) {
            command.env(variable, value);
        }
    }
    command.envs(&allowed.env).envs(filled.env.iter().cloned());
    if let Some(directory) = &allowed.directory {
        command.current_dir(directory);
    }
    let mut command = CommandWrap::from(command);
    command.wrap(ProcessGroup::leader());
    let spawned = TokioChildProcess::builder(command).stderr(Stdio::piped()).spawn();
    let (process, stderr) = spawned.map_err(|error| format!("starting its process failed: {error}"))?;
    let guarded = deps.processes.guard(process.id());
    if let Some(pipe) = stderr {
        let redactor = filled.redactor.clone();
        tokio::spawn(stderr::log_lines(pipe, server.settings.name.clone(), redactor));
    }
    Ok((process, guarded))
}
