//! The identity of a span, as other processes and services get it: `traceparent` of the W3C's Trace Context. Called by all spans, and where a
//! request or a run brings one.

use std::fmt;

use opentelemetry::{SpanId, TraceId};
use sha2::{Digest, Sha256};
use uuid::Uuid;

/// Length of a `traceparent` of version 00, in bytes.
const LENGTH: usize = 55;

/// The identity of a span: its trace, its id, and whether it is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    pub(crate) trace_id: TraceId,
    pub(crate) span_id: SpanId,
    pub(crate) is_sampled: bool,
}

impl TraceContext {
    /// Parses a `traceparent`. None: it is invalid, and must be ignored. Of a version later than 00, the fields of 00 are read.
    pub fn parse(header: &str) -> Option<Self> {
        let text = header.trim_matches([' ', '\t']);
        if !text.is_ascii() || text.len() < LENGTH {
            return None;
        }
        let (known, later) = text.split_at(LENGTH);
        let mut fields = known.split('-');
        let mut field = |length: usize| fields.next().filter(|field| field.len() == length && is_hex(field));
        let version = field(2)?;
        let trace_id = u128::from_str_radix(field(32)?, 16).ok()?;
        let span_id = u64::from_str_radix(field(16)?, 16).ok()?;
        let flags = u8::from_str_radix(field(2)?, 16).ok()?;
        let may_continue = match version {
            "ff" => return None,
            "00" => later.is_empty(),
            _ => later.is_empty() || later.starts_with('-'),
        };
        let is_valid = may_continue && trace_id != 0 && span_id != 0;
        is_valid.then(|| Self {
            trace_id: TraceId::from(trace_id),
            span_id: SpanId::from(span_id),
            is_sampled: flags & 1 == 1,
        })
    }

    /// Returns the trace's id, in hexadecimal.
    pub fn trace_id(&self) -> String {
        self.trace_id.to_string()
    }

    /// Returns whether the span is recorded.
    pub fn is_sampled(&self) -> bool {
        self.is_sampled
    }
}

/// The `traceparent`, of version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "00-{}-{}-{:02x}",
            self.trace_id,
            self.span_id,
            u8::from(self.is_sampled)
        )
    }
}

/// The parent of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// A span of this process.
    Local(TraceContext),
    /// A span of another process or service.
    Remote(TraceContext),
    /// No span, but the trace of a run that was stored without one: the same for each of its attempts, and for the runs that it starts.
    Run(Uuid),
    /// None: a new trace begins.
    None,
}

/// Returns the id of a run's trace. It is a digest, since samplers need random bits, and an id of a run begins with its time.
pub(crate) fn trace_of_run(root_run_id: Uuid) -> TraceId {
    let digest = Sha256::digest(root_run_id.as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TraceId::from_bytes(bytes)
}

/// Returns whether all digits are hexadecimal, in lower case.
fn is_hex(field: &str) -> bool {
    field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_valid_traceparent_is_read_and_written() {
        let context = TraceContext::parse(VALID).unwrap();
        assert_eq!(context.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), VALID);
        assert_eq!(context.to_string().len(), LENGTH);
        let unsampled = VALID.replace("-01", "-00");
        assert_eq!(TraceContext::parse(&unsampled).unwrap().to_string(), unsampled);
    }

    #[test]
    fn versions_and_flags_of_later_specifications_are_read() {
        for (header, is_sampled) in [
            (VALID.replace("-01", "-03"), true),
            (VALID.replace("-01", "-02"), false),
            (VALID.replace("00-0af", "01-0af"), true),
            (format!("{}-what-is-new", VALID.replace("00-0af", "cc-0af")), true),
            (format!(" {VALID}\t"), true),
        ] {
            let context = TraceContext::parse(&header).unwrap_or_else(|| panic!("{header}"));
            assert_eq!(context.is_sampled(), is_sampled, "{header}");
        }
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        for header in [
            String::new(),
            "00".to_owned(),
            VALID.to_uppercase(),
            VALID.replace('-', "_"),
            VALID.replace("00-0af", "ff-0af"),
            VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            VALID.replace("b7ad6b7169203331", &"0".repeat(16)),
            VALID.replace("0af7", "0ag7"),
            VALID.replace("0af7", "+af7"),
            VALID.replace("-01", "-1"),
            VALID.replace("-01", "-0x"),
            format!("{VALID}-more"),
            format!("{}more", VALID.replace("00-0af", "01-0af")),
            VALID.replace("0af7", "0äf7"),
            // The same length, with a separator in another place.
            VALID.replace("c-b", "-cb"),
        ] {
            assert_eq!(TraceContext::parse(&header), None, "{header:?}");
        }
    }

    #[test]
    fn a_run_has_one_trace() {
        let run: Uuid = "0198c5f4-7b7a-7c2e-9a3e-0123456789ab".parse().unwrap();
        assert_eq!(trace_of_run(run), trace_of_run(run));
        assert_ne!(trace_of_run(run), trace_of_run(rejoin_types::ids::new()));
        assert_ne!(trace_of_run(run), TraceId::INVALID);
    }
}
