//! Settings of traces: OpenTelemetry's own environment variables, so that operators find them. Called once by each process.
//!
//! Its SDK reads three more by itself: `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT` (and those for traces alone), and
//! `OTEL_RESOURCE_ATTRIBUTES`.

use clap::Args;
use url::Url;

use crate::sampler::{self, Sampler};

/// The path of traces below the endpoint of all signals.
const TRACES_PATH: &str = "v1/traces";
/// The supported protocol.
const PROTOCOL: &str = "http/protobuf";

/// Settings of traces.
#[derive(Debug, Clone, Args)]
pub struct TelemetryArgs {
    /// URL of an OpenTelemetry collector that accepts OTLP over HTTP, such as `http://127.0.0.1:4318`: traces are sent to it
    #[arg(long, env = "OTEL_EXPORTER_OTLP_ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// The whole URL for traces, such as `http://127.0.0.1:4318/v1/traces`, in place of the collector's
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")]
    pub otlp_traces_endpoint: Option<String>,

    /// Protocol of the collector; only http/protobuf is supported
    #[arg(long, env = "OTEL_EXPORTER_OTLP_PROTOCOL", default_value = PROTOCOL)]
    pub otlp_protocol: String,

    /// The same for traces alone
    #[arg(long, env = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")]
    pub otlp_traces_protocol: Option<String>,

    /// Name of this service in traces [default: rejoin-api or rejoin-worker]
    #[arg(long, env = "OTEL_SERVICE_NAME")]
    pub otel_service_name: Option<String>,

    /// Which traces are recorded: always_on, always_off, traceidratio, or one of these after `parentbased_`
    #[arg(long, env = "OTEL_TRACES_SAMPLER", default_value = sampler::DEFAULT)]
    pub otel_traces_sampler: String,

    /// The recorded part of all traces, from 0 to 1, with a sampler by ratio
    #[arg(long, env = "OTEL_TRACES_SAMPLER_ARG")]
    pub otel_traces_sampler_arg: Option<String>,

    /// `true`: send no traces, whatever the other settings are
    #[arg(long, env = "OTEL_SDK_DISABLED")]
    pub otel_sdk_disabled: Option<String>,
}

impl Default for TelemetryArgs {
    fn default() -> Self {
        Self {
            otlp_endpoint: None,
            otlp_traces_endpoint: None,
            otlp_protocol: PROTOCOL.to_owned(),
            otlp_traces_protocol: None,
            otel_service_name: None,
            otel_traces_sampler: sampler::DEFAULT.to_owned(),
            otel_traces_sampler_arg: None,
            otel_sdk_disabled: None,
        }
    }
}

/// An invalid setting of traces.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The URL is invalid.
    #[error("{variable} is not the URL of a collector: {why}; use one such as http://127.0.0.1:4318, or unset it")]
    Endpoint {
        /// The environment variable.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Another protocol.
    #[error(
        "OTLP over {0} is not supported: set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf, and the endpoint to the \
        collector's port for HTTP, which usually is 4318"
    )]
    Protocol(String),
    /// Another sampler, or an invalid ratio.
    #[error("OTEL_TRACES_SAMPLER: {0}")]
    Sampler(String),
    /// The exporter refuses the settings.
    #[error("preparing to send traces failed: {0}")]
    Exporter(String),
}

/// Checked settings.
pub(crate) struct Checked {
    pub endpoint: String,
    pub sampler: Sampler,
    pub service_name: Option<String>,
}

impl TelemetryArgs {
    /// Settings that send traces to the collector at `endpoint`.
    pub fn to(endpoint: impl Into<String>) -> Self {
        Self {
            otlp_endpoint: Some(endpoint.into()),
            ..Self::default()
        }
    }

    /// Checks the settings. None: no traces are sent.
    pub(crate) fn check(&self) -> Result<Option<Checked>, TelemetryError> {
        if filled(self.otel_sdk_disabled.as_ref()).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Ok(None);
        }
        let Some(endpoint) = self.endpoint()? else {
            return Ok(None);
        };
        let protocol = filled(self.otlp_traces_protocol.as_ref()).or(filled(Some(&self.otlp_protocol)));
        if let Some(other) = protocol.filter(|protocol| *protocol != PROTOCOL) {
            return Err(TelemetryError::Protocol(other.to_owned()));
        }
        let sampler = Sampler::named(
            filled(Some(&self.otel_traces_sampler)).unwrap_or(sampler::DEFAULT),
            filled(self.otel_traces_sampler_arg.as_ref()),
        );
        Ok(Some(Checked {
            endpoint,
            sampler: sampler.map_err(TelemetryError::Sampler)?,
            service_name: filled(self.otel_service_name.as_ref()).map(str::to_owned),
        }))
    }

    fn endpoint(&self) -> Result<Option<String>, TelemetryError> {
        if let Some(url) = filled(self.otlp_traces_endpoint.as_ref()) {
            return checked("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", url).map(Some);
        }
        let Some(url) = filled(self.otlp_endpoint.as_ref()) else {
            return Ok(None);
        };
        let url = checked("OTEL_EXPORTER_OTLP_ENDPOINT", url)?;
        Ok(Some(format!("{}/{TRACES_PATH}", url.trim_end_matches('/'))))
    }
}

fn checked(variable: &'static str, url: &str) -> Result<String, TelemetryError> {
    // The value itself may contain a password.
    let refused = |why: String| TelemetryError::Endpoint { variable, why };
    let parsed = Url::parse(url).map_err(|error| refused(error.to_string()))?;
    if !["http", "https"].contains(&parsed.scheme()) {
        return Err(refused("it begins neither with http:// nor with https://".to_owned()));
    }
    Ok(url.to_owned())
}

/// An empty variable counts as absent.
fn filled(value: Option<&String>) -> Option<&str> {
    value.map(|value| value.trim()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(args: &TelemetryArgs) -> Option<String> {
        args.check().unwrap().map(|checked| checked.endpoint)
    }

    #[test]
    fn traces_are_sent_only_to_an_endpoint() {
        assert_eq!(endpoint(&TelemetryArgs::default()), None);
        assert_eq!(endpoint(&TelemetryArgs::to(" ")), None);
        for base in ["http://collector:4318", "http://collector:4318/"] {
            let expected = Some("http://collector:4318/v1/traces".to_owned());
            assert_eq!(endpoint(&TelemetryArgs::to(base)), expected);
        }
        let both = TelemetryArgs {
            otlp_traces_endpoint: Some("https://traces.example/otlp".to_owned()),
            ..TelemetryArgs::to("http://collector:4318")
        };
        assert_eq!(endpoint(&both).as_deref(), Some("https://traces.example/otlp"));
        let disabled = TelemetryArgs {
            otel_sdk_disabled: Some("TRUE".to_owned()),
            ..both
        };
        assert_eq!(endpoint(&disabled), None);
    }

    #[test]
    fn what_is_unsupported_or_malformed_is_an_error() {
        let to = |endpoint: &str| TelemetryArgs::to(endpoint).check().err().map(|error| error.to_string());
        for endpoint in [
            "collector:4318",
            "127.0.0.1:4318",
            "http://",
            "ftp://collector",
            "grpc://c:4317",
        ] {
            let error = to(endpoint).unwrap_or_else(|| panic!("{endpoint} was accepted"));
            assert!(error.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{error}");
        }
        let grpc = TelemetryArgs {
            otlp_protocol: "grpc".to_owned(),
            ..TelemetryArgs::to("http://collector:4317")
        };
        assert!(matches!(grpc.check(), Err(TelemetryError::Protocol(_))));
        let sampler = TelemetryArgs {
            otel_traces_sampler: "xray".to_owned(),
            ..TelemetryArgs::to("http://collector:4318")
        };
        assert!(matches!(sampler.check(), Err(TelemetryError::Sampler(_))));
    }
}
