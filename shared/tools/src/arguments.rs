//! Tool parameters: builds their JSON Schema and parses a model's arguments. Called by the tool families.
//!
//! Providers' strict modes require every property in `required` and no others, so optional ones are nullable. Models
//! differ: null and an absent property are equivalent, and `10.0` is an integer. Errors are worded so that a model can
//! correct them.

use std::sync::{Arc, OnceLock};

use rejoin_schemas::Validator;
use serde_json::{Map, Value, json};

use super::{ToolError, ToolSpec};

/// Maximum number of properties listed for a model when its arguments are wrong.
const TOLD_PROPERTIES: usize = 100;

/// A JSON Schema, compiled on first use.
#[derive(Debug, Clone)]
pub struct Schema {
    document: Arc<Value>,
    validator: Arc<OnceLock<Result<Validator, String>>>,
}

impl From<Value> for Schema {
    fn from(document: Value) -> Self {
        Self {
            document: Arc::new(document),
            validator: Arc::default(),
        }
    }
}

impl Schema {
    pub fn document(&self) -> &Value {
        &self.document
    }

    /// Err: why it is not a valid JSON Schema.
    pub fn check(&self) -> Result<(), String> {
        self.validator().map(|_| ()).map_err(Clone::clone)
    }

    /// Err: the schema itself is invalid.
    pub(crate) fn validator(&self) -> Result<&Validator, &String> {
        let compiled = self.validator.get_or_init(|| rejoin_schemas::compiled(&self.document));
        compiled.as_ref()
    }
}

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
    Boolean,
    OptionalBoolean,
    OptionalNumber,
    Integer,
    /// With arbitrary properties.
    Object,
    OptionalObject,
    /// Each with exactly these fields.
    Objects(&'static [Parameter]),
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

/// The schema of an object with exactly these properties.
pub fn schema(parameters: &[Parameter]) -> Schema {
    object_of(parameters).into()
}

fn object_of(parameters: &[Parameter]) -> Value {
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
            Kind::Boolean => json!({"type": "boolean"}),
            Kind::OptionalBoolean => json!({"type": ["boolean", "null"]}),
            Kind::OptionalNumber => json!({"type": ["number", "null"]}),
            Kind::Integer => json!({"type": "integer"}),
            Kind::Object => json!({"type": "object"}),
            Kind::OptionalObject => json!({"type": ["object", "null"]}),
            Kind::Objects(fields) => json!({"type": "array", "items": object_of(fields)}),
        };
        property["description"] = parameter.description.into();
        properties.insert(parameter.name.to_owned(), property);
    }
    let required: Vec<&str> = parameters.iter().map(|parameter| parameter.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// Validates a call's arguments ([`admit`]) on a blocking thread: a schema may come from a third party.
pub async fn admit_apart(spec: &ToolSpec, arguments: &Value) -> Result<Value, String> {
    let (name, schema, arguments) = (spec.name.clone(), spec.parameters.clone(), arguments.clone());
    let admitted = tokio::task::spawn_blocking(move || held(&name, &schema, arguments)).await;
    admitted.unwrap_or_else(|_| Err(format!("{} cannot be called: its schema cannot be used", spec.name)))
}

/// Validates a call's arguments; the error is for the model: no tool acts upon arguments that violate its schema,
/// the author of the tool. Null and an absent property are equivalent, where the schema allows null.
pub fn admit(spec: &ToolSpec, arguments: &Value) -> Result<Value, String> {
    held(&spec.name, &spec.parameters, arguments.clone())
}

fn held(tool: &str, schema: &Schema, arguments: Value) -> Result<Value, String> {
    let mut fields = match arguments {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        Value::String(_) => return Err("the arguments are text that is not a JSON object".to_owned()),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            return Err("the arguments are not a JSON object".to_owned());
        }
    };
    let no_properties = Map::new();
    let document = schema.document();
    fill_in(document, &mut fields);
    let properties = document["properties"].as_object().unwrap_or(&no_properties);
    let validator = schema
        .validator()
        .map_err(|error| format!("{tool} cannot be called: its own schema is invalid: {error}"))?;
    let fields = Value::Object(fields);
    let faults = rejoin_schemas::faults(validator, &fields);
    if faults.is_empty() {
        return Ok(fields);
    }
    let takes = if properties.is_empty() {
        "none: send {}".to_owned()
    } else {
        properties
            .iter()
            .take(TOLD_PROPERTIES)
            .map(in_words)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let more = match properties.len().saturating_sub(TOLD_PROPERTIES) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Err(format!(
        "wrong arguments: {}; {tool} takes {takes}{more}",
        faults.join("; "),
    ))
}

/// Fills in null for absent nullable fields, also in objects of a list.
fn fill_in(schema: &Value, fields: &mut Map<String, Value>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        match fields.get_mut(name) {
            None if rejoin_schemas::allows_null(property) => {
                fields.insert(name.clone(), Value::Null);
            }
            Some(Value::Array(items)) => {
                for item in items.iter_mut().filter_map(Value::as_object_mut) {
                    fill_in(&property["items"], item);
                }
            }
            None | Some(_) => {}
        }
    }
}

/// `limit (integer or null)`.
fn in_words((name, schema): (&String, &Value)) -> String {
    let words: Vec<&str> = match (&schema["enum"], &schema["type"]) {
        (Value::Array(choices), _) => choices.iter().map(|choice| choice.as_str().unwrap_or("null")).collect(),
        (_, Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect(),
        (_, Value::String(kind)) => vec![kind],
        (_, _) => vec!["anything"],
    };
    format!("{name} ({})", words.join(" or "))
}

/// Validated arguments ([`admit`]).
#[derive(Debug)]
pub struct Arguments(Map<String, Value>);

impl Arguments {
    pub fn of(arguments: Value) -> Self {
        match arguments {
            Value::Object(fields) => Self(fields),
            // No tool's schema allows it.
            _ => Self(Map::new()),
        }
    }

    /// Returns a text; blank ones count as absent.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .and_then(Value::as_str)
            .map(str::trim)
            .filter(|text| !text.is_empty())
    }

    pub fn required_text(&self, name: &str) -> Result<&str, ToolError> {
        self.text(name)
            .ok_or_else(|| ToolError::RespondToModel(format!("{name} is empty; pass some text")))
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let items = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        items
            .filter_map(Value::as_str)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
            .collect()
    }

    /// Returns an integer, clamped to the bounds.
    pub fn integer(&self, name: &str, default: i64, (least, most): (i64, i64)) -> i64 {
        let value = self.0.get(name);
        // JSON Schema accepts 10.0 as an integer.
        let integer = value.and_then(|value| value.as_i64().or_else(|| value.as_f64().map(|number| number as i64)));
        integer.unwrap_or(default).clamp(least, most)
    }

    pub fn flag(&self, name: &str) -> bool {
        self.0.get(name).and_then(Value::as_bool).unwrap_or_default()
    }

    pub fn number(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(Value::as_f64)
    }

    /// Returns an object; empty if absent.
    pub fn object(&self, name: &str) -> Map<String, Value> {
        self.0.get(name).and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// Returns the value as given, null or not.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_null())
    }

    /// Returns the objects of a list.
    pub fn objects(&self, name: &str) -> Vec<Arguments> {
        let items = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        items.cloned().map(Arguments::of).collect()
    }
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
        let spec = ToolSpec {
            name: "find".to_owned(),
            description: String::new(),
            parameters: schema(PARAMETERS),
            read_only: true,
            idempotent: true,
            destructive: false,
        };
        admit(&spec, &arguments).map(Arguments::of)
    }

    #[test]
    fn a_schema_requires_all_and_lets_optional_ones_be_null() {
        let schema = schema(PARAMETERS);
        let schema = schema.document();
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
    fn an_error_lists_the_tools_arguments() {
        let missing = read(json!({"limit": "many"})).unwrap_err();
        assert!(missing.contains("query") && missing.contains("limit: "), "{missing}");
        for words in [
            "find takes ",
            "limit (integer or null)",
            "order (asc or desc or null)",
            "query (string)",
        ] {
            assert!(missing.contains(words), "{missing}");
        }
        assert!(read(json!({"query": "x", "depth": 1})).unwrap_err().contains("depth"));
        assert!(read(json!("{query")).unwrap_err().contains("not a JSON object"));
    }
}
