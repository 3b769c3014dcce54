//! A running server under test: its parts, its proxies, the scripted side, and the requests of a turn. Called by `play`, `special` and `suite`.
//!
//! - `faults`  what is done to its parts

mod faults;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::adapter::{Adapter, Call, Role};
use crate::capture;
use crate::ports;
use crate::processes::{Launch, Process, Ready};
use crate::proxy::Proxy;
use crate::random::Random;
use crate::script::Script;
use crate::scripted::Scripted;
use crate::template::{Values, expand};
use crate::wire::{Request, Response};

/// How long a request without a stream may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);

/// Where a target is run, and how.
#[derive(Debug, Clone)]
pub struct Place {
    /// A new folder for its state and logs.
    pub folder: PathBuf,
    /// What adapters have installed.
    pub cache: PathBuf,
    /// A build that breaks a promise.
    pub fault: Option<String>,
    /// Whether the standby of its database runs.
    pub has_standby: bool,
}

/// Parts of a server, by what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    Worker,
    Server,
    All,
    Database,
}

impl Which {
    fn has(self, role: Role) -> bool {
        match self {
            Self::Worker => role.executes(),
            Self::Server => role.serves(),
            Self::All => role.executes() || role.serves(),
            Self::Database => role == Role::Database,
        }
    }
}

/// A turn that was asked for.
#[derive(Debug, Clone)]
pub struct Turn {
    pub script: Script,
    pub values: Values,
}

/// A running server.
pub struct Target {
    pub adapter: Adapter,
    pub scripted: Scripted,
    pub folder: PathBuf,
    pub has_standby: bool,
    values: Values,
    parts: Mutex<Vec<(Role, Process)>>,
    proxies: Vec<Proxy>,
    is_used_up: AtomicBool,
}

impl Target {
    /// Starts all parts, and prepares the server.
    ///
    /// # Errors
    /// A command fails, a part is not ready in time, or a request of `prepare` is refused.
    pub async fn start(adapter: &Adapter, place: &Place) -> Result<Self> {
        let scripted = Scripted::start(adapter.delegation.clone()).await?;
        let logs = place.folder.join("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("can't create {}", logs.display()))?;
        std::fs::create_dir_all(&place.cache).with_context(|| format!("can't create {}", place.cache.display()))?;
        let mut values = first_values(adapter, place, &scripted)?;
        let mut proxies = Vec::new();
        for proxy in &adapter.proxies {
            let to = expand(&proxy.to, &values)?;
            let started = Proxy::start(&proxy.name, 0, to).await?;
            values.insert(format!("proxy.{}", proxy.name), started.port.to_string());
            proxies.push(started);
        }
        let of_standby = adapter.fail_over.iter().filter(|_| place.has_standby);
        let variables = of_standby.flat_map(|fail_over| &fail_over.variables);
        for (name, text) in adapter.variables.iter().chain(variables) {
            let value = expand(text, &values).with_context(|| format!("the variable {name}"))?;
            values.insert(name.clone(), value);
        }
        let mut target = Self {
            adapter: adapter.clone(),
            scripted,
            folder: place.folder.clone(),
            has_standby: place.has_standby,
            values,
            parts: Mutex::default(),
            proxies,
            is_used_up: AtomicBool::new(false),
        };
        target.start_parts(place).await?;
        target.prepare().await?;
        Ok(target)
    }

    async fn start_parts(&mut self, place: &Place) -> Result<()> {
        let limit = self.ready_limit();
        let mut parts = Vec::new();
        for part in self.adapter.parts.clone() {
            for step in &part.before {
                let said = self.launch(&step.command, &step.environment, None)?.run().await?;
                let json: Value = serde_json::from_str(said.trim()).unwrap_or_default();
                for (name, pointer) in &step.capture {
                    let value = crate::stream_rules::text_at(&json, pointer)
                        .with_context(|| format!("`{}` printed nothing at {pointer}", step.command.join(" ")))?;
                    self.values.insert(name.clone(), value);
                }
            }
            let mut launch = self.launch(&part.command, &part.environment, part.directory.as_deref())?;
            if let (Some(variable), Some(name)) = (&self.adapter.fault_variable, &place.fault) {
                launch.environment.insert(variable.clone(), name.clone());
                if let Some(fault) = self.adapter.faults.get(name) {
                    launch.environment.extend(fault.environment.clone());
                }
            }
            let ready = Ready {
                url: part.ready.as_deref().map(|url| expand(url, &self.values)).transpose()?,
                command: self.words(&part.ready_command)?,
            };
            let mut process = Process::new(&part.name, launch, ready, &self.folder.join("logs"));
            let waits = part.role == Role::Spare || part.role == Role::Standby && !place.has_standby;
            if !waits {
                process.start(limit).await?;
            }
            parts.push((part.role, process));
        }
        self.parts = Mutex::new(parts);
        Ok(())
    }

    async fn prepare(&mut self) -> Result<()> {
        for call in self.adapter.prepare.clone() {
            let mut response = self.ask(&call, &self.values).await?;
            let body = response.text(REQUEST_LIMIT).await?;
            if response.status >= 400 {
                bail!(
                    "{} {} was refused with {}: {body}",
                    call.method,
                    call.url,
                    response.status
                );
            }
            let found = capture::of_response(&call, &response, &body)?;
            self.values.extend(found);
        }
        Ok(())
    }

    fn ready_limit(&self) -> Duration {
        Duration::from_secs(self.adapter.limits.ready_s)
    }

    fn words(&self, words: &[String]) -> Result<Vec<String>> {
        words.iter().map(|word| expand(word, &self.values)).collect()
    }

    fn launch(
        &self,
        command: &[String],
        environment: &std::collections::BTreeMap<String, String>,
        directory: Option<&str>,
    ) -> Result<Launch> {
        let environment = environment
            .iter()
            .map(|(name, value)| Ok((name.clone(), expand(value, &self.values)?)))
            .collect::<Result<_>>()?;
        Ok(Launch {
            command: self.words(command)?,
            environment,
            directory: directory
                .map(|directory| expand(directory, &self.values).map(PathBuf::from))
                .transpose()?,
        })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// It names unknown values, or there is no response.
    pub async fn ask(&self, call: &Call, values: &Values) -> Result<Response> {
        let headers = call
            .headers
            .iter()
            .map(|(name, value)| Ok((name.to_lowercase(), expand(value, values)?)))
            .collect::<Result<Vec<_>>>()?;
        let mut request = Request {
            method: call.method.clone(),
            url: expand(&call.url, values)?,
            headers,
            body: call.body.as_deref().map(|body| expand(body, values)).transpose()?,
        };
        if request.body.is_some() && !request.headers.iter().any(|(name, _)| name == "content-type") {
            request
                .headers
                .push(("content-type".to_owned(), "application/json".to_owned()));
        }
        request.send(REQUEST_LIMIT).await
    }

    /// A turn of a new conversation, not asked for yet.
    pub fn turn(&self, script: Script, random: &mut Random) -> Turn {
        let mut values = self.values.clone();
        values.insert("message".to_owned(), script.message());
        values.insert("turn".to_owned(), random.uuid());
        values.insert("conversation".to_owned(), random.uuid());
        Turn { script, values }
    }

    /// Another message of a turn's conversation.
    pub fn next_turn(&self, turn: &Turn, script: Script, random: &mut Random) -> Turn {
        let mut values = turn.values.clone();
        values.insert("message".to_owned(), script.message());
        values.insert("turn".to_owned(), random.uuid());
        Turn { script, values }
    }

    /// Posts a turn's message. Returns its stream, if the response is one.
    ///
    /// # Errors
    /// It was refused, or there was no response.
    pub async fn post(&self, turn: &mut Turn) -> Result<Option<Response>> {
        let call = self.adapter.requests.post.clone();
        self.post_by(&call, turn).await
    }

    /// Posts a further message of a conversation.
    ///
    /// # Errors
    /// As [`Self::post`].
    pub async fn post_next(&self, turn: &mut Turn) -> Result<Option<Response>> {
        let call = self
            .adapter
            .requests
            .follow_up
            .clone()
            .context("the adapter has no `follow_up`")?;
        self.post_by(&call, turn).await
    }

    async fn post_by(&self, call: &Call, turn: &mut Turn) -> Result<Option<Response>> {
        let mut response = self.ask(call, &turn.values).await?;
        if response.status >= 400 {
            let body = response.text(REQUEST_LIMIT).await.unwrap_or_default();
            bail!("the post was refused with {}: {body}", response.status);
        }
        if self.adapter.requests.post_streams {
            turn.values.extend(capture::of_response(call, &response, "")?);
            return Ok(Some(response));
        }
        let body = response.text(REQUEST_LIMIT).await?;
        turn.values.extend(capture::of_response(call, &response, &body)?);
        Ok(None)
    }

    /// Cancels a turn. Returns the status.
    ///
    /// # Errors
    /// The adapter can't, or there was no response.
    pub async fn cancel(&self, values: &Values) -> Result<u16> {
        let call = self
            .adapter
            .requests
            .cancel
            .clone()
            .context("the adapter has no `cancel`")?;
        Ok(self.ask(&call, values).await?.status)
    }

    /// The stored answer, if the adapter says where it is, and it is there.
    ///
    /// # Errors
    /// There was no response.
    pub async fn stored(&self, values: &Values) -> Result<Option<String>> {
        let Some(stored) = &self.adapter.requests.stored else {
            return Ok(None);
        };
        let mut response = self.ask(&stored.call, values).await?;
        let body = response.text(REQUEST_LIMIT).await?;
        let json: Value = serde_json::from_str(&body).unwrap_or(Value::String(body));
        Ok(capture::stored(stored, &json))
    }

    /// Runs a command of the adapter, with further values.
    ///
    /// # Errors
    /// It fails.
    pub async fn run(&self, command: &[String], further: &[(&str, String)]) -> Result<()> {
        let mut values = self.values.clone();
        values.extend(further.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let command = command
            .iter()
            .map(|word| expand(word, &values))
            .collect::<Result<_>>()?;
        let launch = Launch {
            command,
            ..Launch::default()
        };
        launch.run().await?;
        Ok(())
    }

    /// Stops all parts, the last one first.
    ///
    /// # Errors
    /// The system does not say when one has ended.
    pub async fn stop(&self) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (_, process) in parts.iter_mut().rev() {
            process.go_on();
            process.stop().await?;
        }
        Ok(())
    }
}

/// What texts of any adapter may name, before its own variables.
fn first_values(adapter: &Adapter, place: &Place, scripted: &Scripted) -> Result<Values> {
    let mut values = Values::new();
    let free = ports::free(adapter.ports.len())?;
    for (name, port) in adapter.ports.iter().zip(free) {
        values.insert(format!("port.{name}"), port.to_string());
    }
    values.extend(install_values(adapter, &place.cache));
    values.insert("folder".to_owned(), place.folder.display().to_string());
    values.insert("model_url".to_owned(), format!("{}/v1", scripted.url));
    values.insert("effect_url".to_owned(), format!("{}/effect", scripted.url));
    values.insert("mcp_url".to_owned(), format!("{}/mcp", scripted.url));
    Ok(values)
}

/// What the commands of `install` and `version` may name.
pub fn install_values(adapter: &Adapter, cache: &std::path::Path) -> Values {
    let adapters = adapter.folder.parent().unwrap_or(&adapter.folder);
    Values::from([
        ("cache".to_owned(), cache.display().to_string()),
        ("adapter".to_owned(), adapter.folder.display().to_string()),
        ("adapters".to_owned(), adapters.display().to_string()),
    ])
}
