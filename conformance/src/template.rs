//! Text with `{{name}}` in it, which adapters consist of. Called by `target` and `processes`.
//!
//! `{{name|json}}` is the value as a JSON string with its quotes, `{{name|pad20}}` a number with 20 digits, `{{env.NAME}}` or `{{env.NAME:TEXT}}` a
//! variable of the environment, or the text. An unknown name is an error:
//! a request with a hole in it would be blamed on the server.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};

/// Values by name.
pub type Values = BTreeMap<String, String>;

/// Replaces all names in a text.
///
/// # Errors
/// A name is unknown, or a `{{` is not closed.
pub fn expand(text: &str, values: &Values) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end = inner
            .find("}}")
            .with_context(|| format!("`{{{{` is not closed in {text:?}"))?;
        out.push_str(&value(inner[..end].trim(), values).with_context(|| format!("in {text:?}"))?);
        rest = &inner[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn value(name: &str, values: &Values) -> Result<String> {
    let (name, filter) = name.split_once('|').unwrap_or((name, ""));
    let found = match name.strip_prefix("env.") {
        Some(variable) => variable_of(variable)?,
        None => values
            .get(name)
            .with_context(|| {
                let known: Vec<&str> = values.keys().map(String::as_str).collect();
                format!("unknown name {name:?}; known are: {}", known.join(", "))
            })?
            .clone(),
    };
    match filter {
        "" => Ok(found),
        "json" => Ok(serde_json::to_string(&found)?),
        "pad20" => Ok(format!("{found:0>20}")),
        _ => bail!("unknown filter {filter:?}: there are `json` and `pad20`"),
    }
}

/// A variable of the environment; `NAME:TEXT` is the text if it is not set.
fn variable_of(text: &str) -> Result<String> {
    let (name, default) = match text.split_once(':') {
        Some((name, default)) => (name, Some(default)),
        None => (text, None),
    };
    match (std::env::var(name), default) {
        (Ok(value), _) => Ok(value),
        (Err(_), Some(default)) => Ok(default.to_owned()),
        (Err(_), None) => bail!("the variable {name} is not set"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_and_quoted() {
        let values = Values::from([
            ("text".to_owned(), "say \"hi\"".to_owned()),
            ("port".to_owned(), "80".to_owned()),
        ]);
        let expanded = expand(r#"{"m": {{text|json}}, "p": {{ port }}}"#, &values).unwrap();
        assert_eq!(expanded, r#"{"m": "say \"hi\"", "p": 80}"#);
        assert_eq!(expand("plain { text }", &values).unwrap(), "plain { text }");
        assert_eq!(expand("{{port|pad20}}", &values).unwrap(), "00000000000000000080");
    }

    #[test]
    fn unknown_names_are_errors() {
        let values = Values::new();
        assert!(expand("{{nothing}}", &values).is_err());
        assert!(expand("{{env.RESUME_SUITE_NOTHING}}", &values).is_err());
        assert_eq!(expand("{{env.RESUME_SUITE_NOTHING:text}}", &values).unwrap(), "text");
        assert!(expand("{{open", &values).is_err());
        assert!(expand("{{a|upper}}", &Values::from([("a".to_owned(), String::new())])).is_err());
    }
}
