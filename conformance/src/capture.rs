//! Values that later requests use, found in responses, and the stored answer in its list. Called by `target` and `reader`.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::adapter::{Call, Stored};
use crate::stream_rules::text_at;
use crate::template::Values;
use crate::wire::Response;

/// Captures from a response. Those from frames are left to its reader.
///
/// # Errors
/// A value is missing, or its source is unknown.
pub fn of_response(call: &Call, response: &Response, body: &str) -> Result<Values> {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let mut values = Values::new();
    for (name, source) in &call.capture {
        let found = match source.split_once(':') {
            Some(("header", rest)) => of_header(rest, |header| response.header(header)),
            Some(("json", pointer)) => text_at(&json, pointer),
            Some(("frame", _)) => continue,
            _ => bail!("unknown source {source:?} of {name}: header:NAME, json:POINTER or frame:POINTER"),
        };
        let missing = || format!("{} {} returned no {name} at {source:?}: {body}", call.method, call.url);
        values.insert(name.clone(), found.with_context(missing)?);
    }
    Ok(values)
}

/// `NAME`, or `NAME after TEXT`: what follows the text, up to a slash or a question mark.
fn of_header<'a>(source: &str, header: impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    let Some((name, text)) = source.split_once(" after ") else {
        return header(source).map(str::to_owned);
    };
    let rest = header(name)?.split_once(text)?.1;
    rest.split(['/', '?']).next().map(str::to_owned)
}

/// The names that are captured from frames, with their pointers.
pub fn of_frames(call: &Call) -> BTreeMap<String, String> {
    let frames = call.capture.iter().filter_map(|(name, source)| {
        let pointer = source.strip_prefix("frame:")?;
        Some((name.clone(), pointer.to_owned()))
    });
    frames.collect()
}

/// The stored answer in a response.
pub fn stored(stored: &Stored, json: &Value) -> Option<String> {
    let at = json.pointer(&stored.at)?;
    let Some(role) = &stored.role else {
        return at.as_str().map(str::to_owned);
    };
    let is_answer = |message: &&Value| {
        let role = text_at(message, role).unwrap_or_default();
        stored.roles.contains(&role)
    };
    let answers = at.as_array()?.iter().filter(is_answer);
    let mut texts: Vec<String> = answers
        .filter_map(|message| text_of(message.pointer(&stored.text)?))
        .collect();
    let last = texts.pop()?;
    Some(if stored.all {
        texts.join(" ") + " " + &last
    } else {
        last
    })
}

/// Text, or the texts of a list of parts.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| part["text"].as_str()).collect()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_of_a_header_is_found() {
        let header = |name: &str| (name == "location").then_some("/threads/t/runs/r?x=1");
        assert_eq!(of_header("location after /runs/", header).as_deref(), Some("r"));
        assert_eq!(of_header("location", header).as_deref(), Some("/threads/t/runs/r?x=1"));
        assert_eq!(of_header("other", header), None);
    }

    #[test]
    fn the_last_answer_of_a_list_is_the_stored_one() {
        let call: Call = toml::from_str("url = \"http://localhost/\"").unwrap();
        let mut place = Stored {
            call,
            at: "/items".to_owned(),
            role: Some("/role".to_owned()),
            all: false,
            roles: vec!["assistant".to_owned()],
            text: "/content".to_owned(),
        };
        let list = json!({"items": [
            {"role": "assistant", "content": "old"}, {"role": "user", "content": "q"}, {"role": "assistant", "content": "new"},
        ]});
        assert_eq!(stored(&place, &list).as_deref(), Some("new"));
        let parts = json!({"items": [{"role": "assistant", "content": [{"type": "x"}, {"text": "a"}, {"text": "b"}]}]});
        assert_eq!(stored(&place, &parts).as_deref(), Some("ab"));
        place.all = true;
        assert_eq!(stored(&place, &list).as_deref(), Some("old new"));
        place.role = None;
        place.at = "/output".to_owned();
        assert_eq!(stored(&place, &json!({"output": "all"})).as_deref(), Some("all"));
    }
}
