//! What fuzzers feed with any bytes, and what has to hold for all of them. Called by the targets of `fuzz/`, and by the test `operations::fuzz`
//! with the corpus and changes of it.
//!
//! - `sse`        the client's parser of server-sent events
//! - `cursor`     cursors of logs and of lists
//! - `ndjson`     lines of a graph import
//! - `arguments`  a model's tool arguments, against the tool's schema or any other

use axum::http::{HeaderMap, HeaderValue};
use chrono::{DateTime, Utc};
use futures::executor::block_on;
use rejoin_cli::stream::{Frame, Parser};
use rejoin_graph::import::lines::{LineRead, Lines, MAX_LINE_BYTES};
use rejoin_graph::ndjson::{self, Line};
use rejoin_http::extract::{PageParams, page};
use rejoin_runs::builtin;
use rejoin_sse::start::{Start, StreamParams};
use rejoin_tools::ToolSpec;
use rejoin_tools::arguments::admit;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use uuid::Uuid;

/// Panics if a property is violated.
pub type Target = fn(&[u8]);

/// The targets by name, as their corpora are named.
pub const TARGETS: [(&str, Target); 4] = [
    ("sse", sse),
    ("cursor", cursor),
    ("ndjson", ndjson),
    ("arguments", arguments),
];

/// Maximum size of the error text about wrong arguments, in bytes: it may quote megabytes.
const MAX_TOLD_BYTES: usize = 64 * 1024;

/// The frames don't depend on how the network splits the bytes, and the API's frames arrive unchanged.
pub fn sse(data: &[u8]) {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    let whole = parsed([rest]);
    let piece = usize::from(*first) + 1;
    assert_eq!(whole, parsed(rest.chunks(piece)), "in pieces of {piece}");
    assert!(whole.iter().flat_map(|frame| &frame.id).all(|id| !id.contains('\0')));
    // A frame of the API, after arbitrary bytes.
    let sent = String::from_utf8_lossy(rest).replace(['\r', '\n'], " ");
    let frame = format!("\n\nid: 7\ndata: {sent}\n\n");
    let frames = parsed([rest, frame.as_bytes()]);
    let last = frames.last().expect("it has data");
    assert_eq!((last.id.as_deref(), last.data.as_str()), (Some("7"), sent.as_str()));
}

fn parsed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Frame> {
    let mut parser = Parser::default();
    pieces
        .into_iter()
        .flat_map(|piece| parser.push(piece).expect("no line is too long"))
        .collect()
}

/// A log's cursor is the number that it looks like, or rejected; a list's cursor opens its page, or is rejected.
pub fn cursor(data: &[u8]) {
    let text = String::from_utf8_lossy(data).into_owned();
    let params = StreamParams {
        after: Some(text.clone()),
        ..StreamParams::default()
    };
    let start = params.start(&HeaderMap::new());
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match &start {
        Ok(Start::After(seq)) => assert_eq!(text.trim_start_matches('0').parse().unwrap_or(0), *seq),
        Ok(Start::Now) => assert_eq!(text, "now"),
        Ok(Start::Beginning | Start::Snapshot) => panic!("{text:?} begins somewhere else"),
        Err(problem) => assert!(!is_number || text.len() > 18, "{problem:?}"),
    }
    if let Ok(header) = HeaderValue::from_bytes(data)
        && !header.is_empty()
    {
        let headers = HeaderMap::from_iter([("last-event-id".parse().expect("a name"), header)]);
        let of_header = StreamParams::default().start(&headers);
        assert!(of_header.is_err() || of_header.ok() == start.ok());
    }
    reopens::<i64>(&text);
    reopens::<String>(&text);
    reopens::<(i32, i32)>(&text);
    reopens::<(DateTime<Utc>, Uuid)>(&text);
}

fn reopens<K: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    let params = |cursor: &str| PageParams {
        limit: None,
        cursor: Some(cursor.to_owned()),
    };
    if let Ok(Some(key)) = params(text).after::<K>() {
        // Two rows for a page of one: there is a next page, which begins after this key.
        let (_, next) = page(vec![&key, &key], 1, |key| *key, |_| ());
        let again = params(&next.expect("there is a next page")).after::<K>();
        assert_eq!(again.expect("it is one of ours"), Some(key));
    }
}

/// Lines are split at line ends, whatever the buffer; an accepted line can be stored, and is accepted again when
/// exported.
pub fn ndjson(data: &[u8]) {
    let (first, rest) = data.split_first().unwrap_or((&0, &[]));
    let source = tokio::io::BufReader::with_capacity(usize::from(*first) + 1, rest);
    let mut lines = Lines::new(source);
    let mut expected = rest.strip_suffix(b"\n").unwrap_or(rest).split(|byte| *byte == b'\n');
    let mut read = 0;
    while let Some((line, bytes)) = block_on(lines.next()).expect("memory can be read") {
        let between = expected.next().expect("no more lines than there are");
        read = bytes;
        match line {
            LineRead::TooLong => assert!(between.len() > MAX_LINE_BYTES),
            LineRead::Line(line) => {
                assert!(between.ends_with(line), "only a byte order mark is left out");
                line_is_sound(line);
            }
        }
    }
    assert_eq!(read, rest.len() as u64);
}

fn line_is_sound(line: &[u8]) {
    let Ok(parsed) = ndjson::parse(line) else { return };
    // PostgreSQL can't store it.
    let shown = format!("{parsed:?}").replace("\\\\", "");
    assert!(!shown.contains("\\0"), "{parsed:?}");
    let line: Line = serde_json::from_slice(line).expect("it was parsed");
    let exported = serde_json::to_vec(&line).expect("a line is plain data");
    ndjson::parse(&exported).expect("what was exported can be imported");
}

/// Either arguments that match the schema, or a bounded error text for the model. Before a NUL, a schema; otherwise all
/// built-in tools.
pub fn arguments(data: &[u8]) {
    let (schema, arguments) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (Some(&data[..at]), &data[at + 1..]),
        None => (None, data),
    };
    // Like the executor: invalid JSON is text.
    let arguments =
        serde_json::from_slice(arguments).unwrap_or_else(|_| Value::String(String::from_utf8_lossy(arguments).into()));
    match schema {
        Some(schema) => {
            if let Ok(parameters) = serde_json::from_slice(schema) {
                is_admitted_or_told(&tool(parameters), &arguments);
            }
        }
        None => {
            let registry = builtin::tools();
            for name in registry.names() {
                is_admitted_or_told(registry.get(name).expect("it is there").spec(), &arguments);
            }
        }
    }
}

fn tool(parameters: Value) -> ToolSpec {
    ToolSpec {
        name: "fuzzed".to_owned(),
        description: String::new(),
        parameters: parameters.into(),
        read_only: false,
        idempotent: false,
        destructive: true,
    }
}

fn is_admitted_or_told(spec: &ToolSpec, arguments: &Value) {
    match admit(spec, arguments) {
        Ok(admitted) => {
            assert!(admitted.is_object());
            let again = admit(spec, &admitted);
            assert_eq!(again, Ok(admitted), "what was admitted is");
        }
        Err(told) => assert!(told.len() <= MAX_TOLD_BYTES, "{} bytes: {told:.1000}", told.len()),
    }
}
