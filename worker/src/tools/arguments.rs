//! Parameters of tools: building their JSON Schema, and reading what a model sent for them. Called by the tool families.
//!
//! Providers' strict modes want every property in `required` and no others; so optional ones are nullable. Models differ: null
//! and an absent property mean the same, and `10.0` is an integer. What a model gets wrong is answered in words it can act on.

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::{ToolError, ToolSpec};

/// Faults of one call that are told to the model.
const MAX_TOLD_FAULTS: usize = 5;
/// Of each fault: it quotes what is wrong, which may be megabytes.
const MAX_FAULT_CHARS: usize = 500;

/// One parameter of a tool.
#[derive(Debug, Clone, Copy)]
pub struct Parameter {
    pub name: &'static str,
    pub kind: Kind,
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub enum Kind {
    Text,
    OptionalText,
    OptionalInteger,
    OptionalTexts,
    OptionalChoice(&'static [&'static str]),
}

impl Parameter {
    pub const fn new(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
        Parameter {
            name,
            kind,
            description,
        }
    }
}

/// The schema of an object with these properties and no others.
pub fn schema(parameters: &[Parameter]) -> Value {
    let mut properties = Map::new();
    for parameter in parameters {
        let mut property = match parameter.kind {
            Kind::Text => json!({"type": "string"}),
            Kind::OptionalText => json!({"type": ["string", "null"]}),
            Kind::OptionalInteger => json!({"type": ["integer", "null"]}),
            Kind::OptionalTexts => json!({"type": ["array", "null"], "items": {"type": "string"}}),
            Kind::OptionalChoice(choices) => {
                let choices: Vec<Value> = choices
                    .iter()
                    .map(|&choice| choice.into())
                    .chain([Value::Null])
                    .collect();
                json!({"type": ["string", "null"], "enum": choices})
            }
        };
        property["description"] = parameter.description.into();
        properties.insert(parameter.name.to_owned(), property);
    }
    let required: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// What a tool may be called with, or what the model is told instead: no tool acts upon arguments that break its schema, whoever
/// wrote the tool. Null and an absent property mean the same, where the schema allows null.
pub fn admit(spec: &ToolSpec, arguments: &Value) -> Result<Value, String> {
    let mut fields = match arguments {
        Value::Object(fields) => fields.clone(),
        Value::Null => Map::new(),
        Value::String(_) => return Err("the arguments are text that is not a JSON object".to_owned()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err("the arguments are not a JSON object".to_owned());
        }
    };
    let no_properties = Map::new();
    let properties = spec.parameters["properties"].as_object().unwrap_or(&no_properties);
    for (name, schema) in properties {
        if !fields.contains_key(name) && allows_null(schema) {
            fields.insert(name.clone(), Value::Null);
        }
    }
    let validator = jsonschema::validator_for(&spec.parameters)
        .map_err(|error| format!("{} can't be called: its own schema is broken: {error}", spec.name))?;
    let fields = Value::Object(fields);
    let faults = faults(&validator, &fields);
    if faults.is_empty() {
        return Ok(fields);
    }
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    Err(format!(
        "wrong arguments: {}; {} takes: {}",
        faults.join("; "),
        spec.name,
        names.join(", ")
    ))
}

fn allows_null(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "null",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

fn faults(validator: &Validator, fields: &Value) -> Vec<String> {
    validator
        .iter_errors(fields)
        .take(MAX_TOLD_FAULTS)
        .map(|fault| {
            let cut = |text: String| text.chars().take(MAX_FAULT_CHARS).collect::<String>();
            let what = cut(fault.to_string());
            // Names in it may be the model's own.
            match cut(fault.instance_path().to_string()).trim_start_matches('/') {
                "" => what,
                path => format!("{path}: {what}"),
            }
        })
        .collect()
}

/// Arguments that have passed their schema.
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    /// Fills in null for optional parameters that are absent, then validates.
    pub fn read(parameters: &[Parameter], validator: &Validator, arguments: Value) -> Result<Arguments, ToolError> {
        let mut fields = match arguments {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => {
                let kind = match other {
                    Value::String(_) => "text that is not a JSON object",
                    _ => "not a JSON object",
                };
                return Err(ToolError::RespondToModel(format!(
                    "the arguments are {kind}; {}",
                    expected(parameters)
                )));
            }
        };
        for parameter in parameters {
            let optional = !matches!(parameter.kind, Kind::Text);
            if optional && !fields.contains_key(parameter.name) {
                fields.insert(parameter.name.to_owned(), Value::Null);
            }
        }
        let fields = Value::Object(fields);
        let faults = faults(validator, &fields);
        match fields {
            Value::Object(fields) if faults.is_empty() => Ok(Arguments(fields)),
            _ => Err(ToolError::RespondToModel(format!(
                "wrong arguments: {}; {}",
                faults.join("; "),
                expected(parameters)
            ))),
        }
    }

    /// A text; blank ones count as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    pub fn required_text(&self, name: &str) -> Result<&str, ToolError> {
        self.text(name)
            .ok_or_else(|| ToolError::RespondToModel(format!("{name} is empty; give some text")))
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let items = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        items
            .filter_map(Value::as_str)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// An integer, brought between the bounds.
    pub fn integer(&self, name: &str, default: i64, (least, most): (i64, i64)) -> i64 {
        let value = self.0.get(name);
        // JSON Schema takes 10.0 for an integer.
        let integer = value.and_then(|value| value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)));
        integer.unwrap_or(default).clamp(least, most)
    }
}

/// In words: what a tool takes.
fn expected(parameters: &[Parameter]) -> String {
    if parameters.is_empty() {
        return "this tool takes none: send {}".to_owned();
    }
    let names: Vec<String> = parameters
        .iter()
        .map(|parameter| match parameter.kind {
            Kind::Text => format!("{} (text, required)", parameter.name),
            Kind::OptionalText => format!("{} (text or null)", parameter.name),
            Kind::OptionalInteger => format!("{} (integer or null)", parameter.name),
            Kind::OptionalTexts => format!("{} (list of texts or null)", parameter.name),
            Kind::OptionalChoice(choices) => format!("{} ({} or null)", parameter.name, choices.join(", ")),
        })
        .collect();
    format!("this tool takes {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARAMETERS: &[Parameter] = &[
        Parameter::new("query", Kind::Text, "words"),
        Parameter::new("types", Kind::OptionalTexts, "types"),
        Parameter::new("limit", Kind::OptionalInteger, "how many"),
        Parameter::new("order", Kind::OptionalChoice(&["asc", "desc"]), "which way"),
    ];

    fn read(arguments: Value) -> Result<Arguments, String> {
        let validator = jsonschema::validator_for(&schema(PARAMETERS)).unwrap();
        Arguments::read(PARAMETERS, &validator, arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn a_schema_requires_all_and_lets_optional_ones_be_null() {
        let schema = schema(PARAMETERS);
        assert_eq!(schema["required"], json!(["query", "types", "limit", "order"]));
        assert_eq!(schema["properties"]["limit"]["type"], json!(["integer", "null"]));
        assert_eq!(schema["properties"]["order"]["enum"], json!(["asc", "desc", null]));
        assert_eq!(schema["additionalProperties"], json!(false));
    }

    #[test]
    fn null_and_absent_mean_the_default_and_limits_clamp() {
        for arguments in [
            json!({"query": "x"}),
            json!({"query": "x", "types": null, "limit": null, "order": null}),
        ] {
            let arguments = read(arguments).unwrap();
            assert_eq!(arguments.integer("limit", 20, (1, 100)), 20);
            assert!(arguments.texts("types").is_empty());
            assert_eq!(arguments.text("order"), None);
        }
        assert_eq!(
            read(json!({"query": "x", "limit": 1000.0}))
                .unwrap()
                .integer("limit", 20, (1, 100)),
            100
        );
        assert_eq!(
            read(json!({"query": "x", "limit": -5}))
                .unwrap()
                .integer("limit", 20, (1, 100)),
            1
        );
    }

    #[test]
    fn a_fault_is_told_with_what_the_tool_takes() {
        let missing = read(json!({"limit": "many"})).unwrap_err();
        assert!(missing.contains("query") && missing.contains("limit: "), "{missing}");
        assert!(
            missing.contains("this tool takes query (text, required), types (list of texts or null)"),
            "{missing}"
        );
        assert!(read(json!({"query": "x", "depth": 1})).unwrap_err().contains("depth"));
        assert!(read(json!("{query")).unwrap_err().contains("not a JSON object"));
    }
}
