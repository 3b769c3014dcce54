//! A running server under test: its parts, its proxies, the scripted side, and the requests of a turn. Called by `play`, `special` and `suite`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::adapter::{Adapter, Call, Role};
use crate::capture;
use crate::ports;
use crate::processes::{Launch, Process, Ready};
use crate::proxy::{Proxy, Weather};
use crate::random::Random;
use crate::script::Script;
use crate::scripted::Scripted;
use crate::template::{Values, expand};
use crate::transcript::Transcript;
use crate::wire::{Request, Response};

/// How long a request without a stream may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(30);
/// From the end of a killed part to its next start.
const RESTART_PAUSE: Duration = Duration::from_millis(500);

/// Where a target is run, and how.
#[derive(Debug, Clone)]
pub struct Place {
    /// A new folder for its state and logs.
    pub folder: PathBuf,
    /// What adapters have installed.
    pub cache: PathBuf,
    /// A build that breaks a promise.
    pub fault: Option<String>,
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
    values: Values,
    parts: Mutex<Vec<(Role, Process)>>,
    proxies: Vec<Proxy>,
}

impl Target {
    /// Starts all parts, and prepares the server.
    ///
    /// # Errors
    /// A command fails, a part is not ready in time, or a request of `prepare` is refused.
    pub async fn start(adapter: &Adapter, place: &Place) -> Result<Self> {
        let scripted = Scripted::start().await?;
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
        for (name, text) in &adapter.variables {
            let value = expand(text, &values).with_context(|| format!("the variable {name}"))?;
            values.insert(name.clone(), value);
        }
        let mut target = Self {
            adapter: adapter.clone(),
            scripted,
            folder: place.folder.clone(),
            values,
            parts: Mutex::default(),
            proxies,
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
            if part.role != Role::Spare {
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

    /// Kills parts with SIGKILL, and starts them again.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn restart(&self, which: Which, transcript: &Transcript) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| which.has(*role)) {
            transcript.note(&format!("kill -9 {}", process.name));
            process.kill().await?;
        }
        tokio::time::sleep(RESTART_PAUSE).await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| which.has(*role)) {
            process.start(self.ready_limit()).await?;
            transcript.note(&format!("{} runs again", process.name));
        }
        Ok(())
    }

    /// Stops parts with SIGTERM, and starts them again at once, as a deployment does.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn drain(&self, which: Which, transcript: &Transcript) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (_, process) in parts.iter_mut().filter(|(role, _)| which.has(*role)) {
            transcript.note(&format!("SIGTERM to {}", process.name));
            let is_orderly = process.stop().await?;
            if !is_orderly {
                transcript.note(&format!("{} had to be killed", process.name));
            }
            process.start(self.ready_limit()).await?;
            transcript.note(&format!("{} runs again", process.name));
        }
        Ok(())
    }

    /// Pauses all workers, and starts the spare one, if there is one.
    ///
    /// # Errors
    /// The spare worker does not start.
    pub async fn pause_workers(&self, transcript: &Transcript) -> Result<()> {
        let mut parts = self.parts.lock().await;
        for (role, process) in parts.iter_mut() {
            if role.executes() {
                transcript.note(&format!("SIGSTOP to {}", process.name));
                process.pause();
            } else if *role == Role::Spare {
                process.start(self.ready_limit()).await?;
                transcript.note(&format!("{} runs", process.name));
            }
        }
        Ok(())
    }

    /// Continues all workers.
    pub async fn continue_workers(&self, transcript: &Transcript) {
        let parts = self.parts.lock().await;
        for (_, process) in parts.iter().filter(|(role, _)| role.executes()) {
            transcript.note(&format!("SIGCONT to {}", process.name));
            process.go_on();
        }
    }

    /// Sets the weather of all proxies.
    pub fn set(&self, weather: Weather, transcript: &Transcript) {
        for proxy in &self.proxies {
            transcript.note(&format!("proxy {}: {weather:?}", proxy.name));
            proxy.set(weather);
        }
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

    /// Brings everything back to where it was before a case.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn settle(&self, transcript: &Transcript) -> Result<()> {
        for proxy in &self.proxies {
            proxy.set(Weather::default());
        }
        let mut parts = self.parts.lock().await;
        for (role, process) in parts.iter_mut() {
            process.go_on();
            if *role == Role::Spare {
                process.stop().await?;
            } else if !process.runs()? {
                transcript.note(&format!("{} had ended", process.name));
                process.start(self.ready_limit()).await?;
            }
        }
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
