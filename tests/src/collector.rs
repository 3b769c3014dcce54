//! A real collector of traces for tests: rotel, an OpenTelemetry collector from PyPI, which `scripts/setup-collector.sh` fetches; without it
//! a test fails in CI and is skipped elsewhere. It writes each span that it receives to its log, from which tests read them.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use uuid::Uuid;

use crate::ports::free_address;
use crate::{needs, support};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../.cache/collector/rotel/rotel-agent");
/// Another process may take a port between its choice and its use.
const TRIES: u32 = 3;
const CONNECT_LIMIT: Duration = Duration::from_millis(200);

/// A running collector; stopped when dropped.
pub struct Collector {
    /// Its URL, for OTLP over HTTP.
    pub endpoint: String,
    child: Child,
    log: PathBuf,
}

/// A span as the collector has received it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Received {
    /// The name of the service that has sent it.
    pub service: String,
    pub trace: String,
    pub id: String,
    /// Empty: none.
    pub parent: String,
    pub name: String,
    /// `SPAN_KIND_SERVER` and so on.
    pub kind: String,
    /// `STATUS_CODE_ERROR` and so on.
    pub status: String,
    /// With their types, such as `Int(3)`.
    pub attributes: BTreeMap<String, String>,
}

impl Received {
    /// Returns an attribute; empty if it is missing.
    pub fn get(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }

    /// Returns an attribute that is a number.
    pub fn number(&self, name: &str) -> i64 {
        let value = self.get(name);
        let digits = value.strip_prefix("Int(").and_then(|value| value.strip_suffix(')'));
        digits
            .and_then(|digits| digits.parse().ok())
            .unwrap_or_else(|| panic!("{name} is no number: {self:?}"))
    }
}

impl Collector {
    /// Starts one. None: it is not installed.
    pub async fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            needs::skip("there is no collector of traces: scripts/setup-collector.sh fetches one");
            return None;
        }
        for _ in 0..TRIES {
            if let Some(collector) = Self::start_once().await {
                return Some(collector);
            }
        }
        panic!("the collector does not start");
    }

    async fn start_once() -> Option<Self> {
        let [http, grpc] = [(); 2].map(|()| free_address());
        let log = std::env::temp_dir().join(format!("rejoin-collector-{}", Uuid::now_v7()));
        let output = File::create(&log).expect("a log");
        let child = Command::new(PROGRAM)
            .arg("start")
            .args(["--otlp-http-endpoint", &http.to_string()])
            .args(["--otlp-grpc-endpoint", &grpc.to_string()])
            .args(["--exporter", "blackhole"])
            .args(["--debug-log", "traces", "--debug-log-verbosity", "detailed"])
            .arg("--pid-file")
            .arg(log.with_extension("pid"))
            .stdin(Stdio::null())
            .stderr(output.try_clone().expect("the same log"))
            .stdout(output)
            .spawn()
            .expect("the collector starts");
        let mut collector = Self {
            endpoint: format!("http://{http}"),
            child,
            log,
        };
        let lives = support::wait_for("the collector to listen", async || {
            let lives = collector.child.try_wait().expect("a child of ours").is_none();
            let listens = TcpStream::connect_timeout(&http, CONNECT_LIMIT).is_ok();
            (!lives || listens).then_some(lives)
        })
        .await;
        lives.then_some(collector)
    }

    /// Returns everything that it has written.
    pub fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).expect("the log");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Returns the spans so far.
    pub fn spans(&self) -> Vec<Received> {
        spans(&self.output())
    }

    /// Waits until these spans satisfy the condition, and none is being written.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        let mut before = Vec::new();
        support::wait_for(what, async || {
            let now = self.spans();
            let is_met = now == before && condition(&now);
            before.clone_from(&now);
            is_met.then_some(now)
        })
        .await
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.log);
    }
}

/// Reads the spans in a log of the collector.
fn spans(log: &str) -> Vec<Received> {
    let mut found: Vec<Received> = Vec::new();
    let mut service = String::new();
    let mut is_in_resource = false;
    let mut is_in_attributes = false;
    for line in log.lines() {
        let line = line.trim();
        match line {
            "Resource attributes:" => (is_in_resource, is_in_attributes) = (true, false),
            "Attributes:" => (is_in_resource, is_in_attributes) = (false, true),
            "Events:" | "Links:" => (is_in_resource, is_in_attributes) = (false, false),
            _ => {}
        }
        if line.starts_with("Span #") {
            (is_in_resource, is_in_attributes) = (false, false);
            found.push(Received {
                service: service.clone(),
                ..Received::default()
            });
        } else if let Some(attribute) = line.strip_prefix("-> ")
            && let Some((name, value)) = attribute.split_once(": ")
        {
            if is_in_resource && name == "service.name" {
                service = value.trim_start_matches("Str(").trim_end_matches(')').to_owned();
            } else if is_in_attributes && let Some(span) = found.last_mut() {
                span.attributes.insert(name.to_owned(), value.to_owned());
            }
        } else if let Some((field, value)) = line.split_once(':')
            && let Some(span) = found.last_mut()
            && !is_in_resource
            && !is_in_attributes
        {
            let value = value.trim().to_owned();
            match field.trim() {
                "Trace ID" => span.trace = value,
                "Parent ID" => span.parent = value,
                "ID" => span.id = value,
                "Name" => span.name = value,
                "Kind" => span.kind = value,
                "Status code" => span.status = value,
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_from_the_log_of_the_collector() {
        let log = "2026-11-27T19:08:12Z  INFO Starting Rotel.
ResourceSpans #0
Resource SchemaURL:
Resource attributes:
     -> service.name: Str(rejoin-api)
ScopeSpans #0
ScopeSpans SchemaURL:
InstrumentationScope rejoin 0.1.0
Span #0
    Trace ID       : 0af7651916cd43dd8448eb211c80319c
    Parent ID      :
    ID             : b7ad6b7169203331
    Name           : POST /api/chat/stream
    Kind           : SPAN_KIND_SERVER
Start time: 1700000000000000000
End time: 1700000000500000000
    Status code    : STATUS_CODE_UNSET
    Status message :
Attributes:
     -> http.route: Str(/api/chat/stream)
     -> a.count: Int(42)
Span #1
    Trace ID       : 0af7651916cd43dd8448eb211c80319c
    Parent ID      : b7ad6b7169203331
    ID             : 00f067aa0ba902b7
    Name           : chat scripted
    Kind           : SPAN_KIND_CLIENT
    Status code    : STATUS_CODE_ERROR
Attributes:
     -> error.type: Str(model_overloaded)
Events:
SpanEvent #0
     -> Name: first
";
        let spans = spans(log);
        let [server, chat] = spans.as_slice() else {
            panic!("{spans:?}")
        };
        assert_eq!((server.service.as_str(), server.parent.as_str()), ("rejoin-api", ""));
        assert_eq!(server.name, "POST /api/chat/stream");
        assert_eq!(server.get("http.route"), "Str(/api/chat/stream)");
        assert_eq!(server.number("a.count"), 42);
        assert_eq!(chat.parent, server.id);
        assert_eq!(chat.status, "STATUS_CODE_ERROR");
        assert_eq!(chat.attributes.len(), 1, "{chat:?}");
    }
}
