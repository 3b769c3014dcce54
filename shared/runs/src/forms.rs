//! Forms of tools: what a tool asks its user in the middle of a call ([`rejoin_tools::input`]). Each field of a form is a question
//! (`questions`). Its stored answer is a text or a list of texts, as that of any question; here it becomes the value of the field.

use rejoin_tools::input::{Connects, InputNeeded};
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use crate::tool_calls::{CallStatus, ToolCallRow};

/// Maximum number of times that one call asks its user.
pub const ROUNDS_MAX: u32 = 10;
/// Maximum number of fields that a call asks for at once.
pub const FIELDS_MAX: usize = 20;

/// The option with which a user declines a form.
pub const DECLINE: &str = "decline_form";
/// The option with which a user leaves an optional field empty.
pub const SKIP: &str = "skip_field";
/// The option with which a user agrees to a form without fields.
pub const ACCEPT: &str = "accept_form";

/// What a running call waits for (`kb.agent_run_tool_calls.awaited_input`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AwaitedInput {
    /// The number of times that the call has asked, with this one.
    pub round: u32,
    pub needed: InputNeeded,
}

impl AwaitedInput {
    /// Returns what the call waits for. None: nothing.
    pub fn of(call: &ToolCallRow) -> Option<Self> {
        let awaited = call.awaited_input.as_ref()?;
        // One that can't be read is a call that may have acted.
        (call.status() == CallStatus::Running)
            .then(|| Self::deserialize(awaited).ok())
            .flatten()
    }
}

/// The field that a question asks for (`kb.questions.form_field`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FormField {
    /// The key of its form.
    pub form: String,
    /// [`AwaitedInput::round`].
    pub round: u32,
    /// None: the form has no fields, and the user agrees to it or declines.
    pub name: Option<String>,
    pub required: bool,
    pub schema: Value,
    /// The account that its form waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connects: Option<Connects>,
}

/// What an answer says about a field.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldAnswer {
    /// The whole form is declined.
    Declined,
    /// The field stays empty.
    Skipped,
    Value(Value),
}

impl FormField {
    /// Returns the choices that the schema offers, each with its label. Empty: it is not a choice.
    pub fn choices(&self) -> Vec<(String, String)> {
        let schema = &self.schema;
        if schema["type"] == "boolean" {
            return [("Yes", "true"), ("No", "false")]
                .map(|(label, value)| (label.to_owned(), value.to_owned()))
                .to_vec();
        }
        let schema = if schema["type"] == "array" {
            &schema["items"]
        } else {
            schema
        };
        let titled = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
        if let Some(titled) = titled {
            return titled
                .iter()
                .filter_map(|one| {
                    let value = one["const"].as_str()?;
                    Some((one["title"].as_str().unwrap_or(value).to_owned(), value.to_owned()))
                })
                .collect();
        }
        let values = schema["enum"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        values
            .enumerate()
            .map(|(at, value)| {
                let label = schema["enumNames"][at].as_str().unwrap_or(value);
                (label.to_owned(), value.to_owned())
            })
            .collect()
    }

    /// Returns what an answer says. Err: what is wrong with it, for the user.
    pub fn read(&self, answer: &Value) -> Result<FieldAnswer, String> {
        let chosen = |option: &str| {
            let listed = answer.as_array();
            answer == option || listed.is_some_and(|listed| listed.iter().any(|one| one == option))
        };
        if chosen(DECLINE) {
            return Ok(FieldAnswer::Declined);
        }
        if self.name.is_none() {
            let refused = || format!("answer must be one of {ACCEPT}, {DECLINE}");
            return chosen(ACCEPT)
                .then(|| FieldAnswer::Value(Value::Null))
                .ok_or_else(refused);
        }
        if !self.required && chosen(SKIP) {
            return Ok(FieldAnswer::Skipped);
        }
        let value = match self.schema["type"].as_str() {
            Some("array") => self.list(answer)?,
            Some("boolean") => json!(self.one_of_choices(answer)? == "true"),
            Some("integer") => self.integer(answer)?,
            Some("number") => self.number(answer)?,
            _ if !self.choices().is_empty() => json!(self.one_of_choices(answer)?),
            _ => json!(self.text(answer)?),
        };
        Ok(FieldAnswer::Value(value))
    }

    fn one_of_choices(&self, answer: &Value) -> Result<String, String> {
        let values: Vec<String> = self.choices().into_iter().map(|(_, value)| value).collect();
        let given = match answer {
            Value::Bool(given) => given.to_string(),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        if values.contains(&given) {
            Ok(given)
        } else {
            Err(format!("answer must be one of {}", values.join(", ")))
        }
    }

    fn list(&self, answer: &Value) -> Result<Value, String> {
        let listed = answer.as_array().ok_or("answer must be a list")?;
        for one in listed {
            self.one_of_choices(one)?;
        }
        let least = self.schema["minItems"].as_u64().unwrap_or_default();
        let most = self.schema["maxItems"].as_u64().unwrap_or(u64::MAX);
        let count = u64::try_from(listed.len()).unwrap_or(u64::MAX);
        if count < least {
            return Err(format!("answer must be a list of at least {least}"));
        }
        if count > most {
            return Err(format!("answer must be a list of at most {most}"));
        }
        Ok(answer.clone())
    }

    fn integer(&self, answer: &Value) -> Result<Value, String> {
        let given = match answer {
            Value::String(text) => text.trim().parse::<i64>().ok(),
            other => other.as_i64(),
        };
        let given = given.ok_or("answer must be a whole number")?;
        self.in_range(given as f64)?;
        Ok(json!(given))
    }

    fn number(&self, answer: &Value) -> Result<Value, String> {
        let given = match answer {
            Value::String(text) => text.trim().parse::<f64>().ok(),
            other => other.as_f64(),
        };
        let number = given.and_then(|given| Some((given, Number::from_f64(given)?)));
        let (given, number) = number.ok_or("answer must be a number")?;
        self.in_range(given)?;
        Ok(Value::Number(number))
    }

    fn in_range(&self, given: f64) -> Result<(), String> {
        match (self.schema["minimum"].as_f64(), self.schema["maximum"].as_f64()) {
            (Some(least), _) if given < least => Err(format!("answer must be at least {least}")),
            (_, Some(most)) if given > most => Err(format!("answer must be at most {most}")),
            (_, _) => Ok(()),
        }
    }

    fn text(&self, answer: &Value) -> Result<String, String> {
        let text = answer.as_str().ok_or("answer must be text")?;
        let least = self.schema["minLength"].as_u64().unwrap_or_default();
        if u64::try_from(text.chars().count()).unwrap_or(u64::MAX) < least {
            return Err(format!("answer must have at least {least} characters"));
        }
        let (fits, format) = match self.schema["format"].as_str() {
            Some("email") => (is_address(text), "an email address"),
            Some("uri") => (is_uri(text), "a URI, such as https://example.com/"),
            Some("date") => (
                chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok(),
                "a date, such as 2026-07-28",
            ),
            Some("date-time") => (
                chrono::DateTime::parse_from_rfc3339(text).is_ok(),
                "a date and a time, such as 2026-07-28T12:00:00Z",
            ),
            _ => (true, ""),
        };
        if fits {
            Ok(text.to_owned())
        } else {
            Err(format!("answer must be {format}"))
        }
    }
}

/// The tool validates addresses; this finds slips.
fn is_address(text: &str) -> bool {
    let parts = text.split_once('@');
    parts.is_some_and(|(user, host)| !user.is_empty() && !host.is_empty()) && !text.contains(char::is_whitespace)
}

fn is_uri(text: &str) -> bool {
    let scheme = |scheme: &str| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let parts = text.split_once(':');
    parts.is_some_and(|(name, rest)| scheme(name) && !rest.is_empty()) && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(schema: Value) -> FormField {
        FormField {
            form: "guest".to_owned(),
            round: 1,
            name: Some("value".to_owned()),
            required: true,
            schema,
            connects: None,
        }
    }

    fn value(schema: Value, answer: Value) -> Result<FieldAnswer, String> {
        field(schema).read(&answer)
    }

    fn is(given: Value) -> Result<FieldAnswer, String> {
        Ok(FieldAnswer::Value(given))
    }

    #[test]
    fn an_answer_becomes_a_value_of_the_fields_type() {
        let integer = json!({"type": "integer", "minimum": 1, "maximum": 9});
        assert_eq!(value(integer.clone(), json!(" 7 ")), is(json!(7)));
        assert!(value(integer.clone(), json!("7.5")).unwrap_err().contains("whole"));
        assert!(value(integer, json!("10")).unwrap_err().contains("at most 9"));
        assert_eq!(value(json!({"type": "number"}), json!("1.5")), is(json!(1.5)));
        assert!(value(json!({"type": "number"}), json!("NaN")).is_err());
        assert_eq!(value(json!({"type": "boolean"}), json!("false")), is(json!(false)));
        assert!(value(json!({"type": "boolean"}), json!("maybe")).is_err());
        assert_eq!(value(json!({"type": "string"}), json!("Ada")), is(json!("Ada")));
        let day = json!({"type": "string", "format": "date"});
        assert_eq!(value(day.clone(), json!("2026-07-28")), is(json!("2026-07-28")));
        assert!(value(day, json!("tomorrow")).unwrap_err().contains("2026-07-28"));
    }

    #[test]
    fn a_choice_is_one_of_the_schemas() {
        let titled = json!({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]});
        let labels = |schema: &Value| field(schema.clone()).choices();
        assert_eq!(labels(&titled), [("Red".to_owned(), "r".to_owned())]);
        assert!(value(titled, json!("Red")).unwrap_err().contains("one of r"));
        let named = json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]});
        assert_eq!(labels(&named)[1], ("B".to_owned(), "b".to_owned()));
        let list = json!({"type": "array", "minItems": 1, "items": {"type": "string", "enum": ["a", "b"]}});
        assert_eq!(value(list.clone(), json!(["b"])), is(json!(["b"])));
        assert!(value(list.clone(), json!([])).is_err() && value(list, json!(["c"])).is_err());
    }

    #[test]
    fn a_form_is_declined_and_an_optional_field_skipped() {
        let text = field(json!({"type": "string"}));
        assert_eq!(text.read(&json!(DECLINE)), Ok(FieldAnswer::Declined));
        assert_eq!(text.read(&json!([DECLINE])), Ok(FieldAnswer::Declined));
        let optional = FormField {
            required: false,
            ..text.clone()
        };
        assert_eq!(optional.read(&json!(SKIP)), Ok(FieldAnswer::Skipped));
        let bare = FormField { name: None, ..text };
        assert_eq!(bare.read(&json!(ACCEPT)), is(Value::Null));
        assert!(bare.read(&json!("yes")).is_err());
    }
}
