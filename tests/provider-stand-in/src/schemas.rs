//! JSON Schemas that providers reject: in strict tools, in structured output, in any tool.

use serde_json::{Map, Value};

/// Keywords that OpenAI's strict mode does not support.
/// <https://developers.openai.com/api/docs/guides/structured-outputs>, "Some type-specific keywords are not yet supported" and "Supported schemas".
const OPENAI_STRICT_UNSUPPORTED: [&str; 12] = [
    "allOf",
    "not",
    "dependentRequired",
    "dependentSchemas",
    "if",
    "then",
    "else",
    "patternProperties",
    "unevaluatedProperties",
    "propertyNames",
    "minProperties",
    "maxProperties",
];
/// Keywords that Anthropic's structured outputs do not support.
/// <https://platform.claude.com/docs/en/build-with-claude/structured-outputs>, "JSON Schema limitations".
const ANTHROPIC_UNSUPPORTED: [&str; 11] = [
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "maxItems",
    "uniqueItems",
    "patternProperties",
    "not",
];

/// Returns OpenAI's error for a schema in strict mode, without the text before `In context=`.
pub(super) fn openai_strict(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" || schema.get("anyOf").is_some() {
        return Err(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
            schema.get("type").map_or("\"None\"".to_owned(), Value::to_string)
        ));
    }
    strict_part(schema, &mut Vec::new())
}

fn strict_part(schema: &Value, context: &mut Vec<String>) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    if let Some(keyword) = OPENAI_STRICT_UNSUPPORTED
        .iter()
        .find(|word| members.contains_key(**word))
    {
        return Err(format!(
            "In context={}, '{keyword}' is not permitted.",
            written(context)
        ));
    }
    if has_type(members, "object") {
        if members.get("additionalProperties") != Some(&Value::Bool(false)) {
            return Err(format!(
                "In context={}, 'additionalProperties' is required to be supplied and to be false.",
                written(context)
            ));
        }
        let required: Vec<&str> = members
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let properties = members.get("properties").and_then(Value::as_object);
        if let Some(missing) = properties
            .into_iter()
            .flat_map(Map::keys)
            .find(|name| !required.contains(&name.as_str()))
        {
            return Err(format!(
                "In context={}, 'required' is required to be supplied and to be an array including every key in \
                 properties. Missing '{missing}'.",
                written(context)
            ));
        }
    }
    if has_type(members, "array") && !members.contains_key("items") {
        return Err(format!("In context={}, array schema missing items.", written(context)));
    }
    each_part(members, context, &mut strict_part)
}

/// Returns OpenAI's error for the parameters of a non-strict tool.
pub(super) fn openai_tool(schema: &Value) -> Result<(), String> {
    if schema["type"] != "object" {
        return Err(format!(
            "schema must be a JSON Schema of 'type: \"object\"', got 'type: {}'.",
            schema.get("type").map_or("\"None\"".to_owned(), Value::to_string)
        ));
    }
    arrays_have_items(schema, &mut Vec::new())
}

fn arrays_have_items(schema: &Value, context: &mut Vec<String>) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    if has_type(members, "array") && !members.contains_key("items") {
        return Err(format!("In context={}, array schema missing items.", written(context)));
    }
    each_part(members, context, &mut arrays_have_items)
}

/// Returns Anthropic's error for a schema of a structured output, or of a strict tool.
pub(super) fn anthropic_structured(schema: &Value) -> Result<(), String> {
    if let Some(reference) = recursive(schema) {
        return Err(format!("Recursive schemas are not supported: {reference}"));
    }
    structured_part(schema, &mut Vec::new())
}

fn structured_part(schema: &Value, context: &mut Vec<String>) -> Result<(), String> {
    let Some(members) = schema.as_object() else {
        return Ok(());
    };
    let kind = members.get("type").and_then(Value::as_str).unwrap_or("object");
    if let Some(keyword) = ANTHROPIC_UNSUPPORTED.iter().find(|word| members.contains_key(**word)) {
        return Err(format!("For '{kind}' type, property '{keyword}' is not supported"));
    }
    if members
        .get("minItems")
        .and_then(Value::as_u64)
        .is_some_and(|items| items > 1)
    {
        return Err(format!(
            "For '{kind}' type, 'minItems' values other than 0 or 1 are not supported"
        ));
    }
    if has_type(members, "object") && members.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Err("For 'object' type, 'additionalProperties' must be explicitly set to false".to_owned());
    }
    each_part(members, context, &mut structured_part)
}

/// Returns a `$ref` to the schema that contains it.
fn recursive(schema: &Value) -> Option<String> {
    let definitions = schema.get("$defs").or_else(|| schema.get("definitions"));
    for (name, definition) in definitions.and_then(Value::as_object).into_iter().flatten() {
        let own = format!("/{name}\"");
        if definition.to_string().contains(&format!("\"$ref\":\"#/$defs{own}")) {
            return Some(name.clone());
        }
    }
    schema.to_string().contains("\"$ref\":\"#\"").then(|| "#".to_owned())
}

/// Returns Anthropic's error for any tool's `input_schema`.
/// <https://platform.claude.com/docs/en/agents-and-tools/tool-use/define-tools>, on `input_schema`.
pub(super) fn anthropic_tool(schema: &Value) -> Result<(), String> {
    match schema.get("type") {
        None => return Err(".type: Field required".to_owned()),
        Some(kind) if kind != "object" => return Err(".type: Input should be 'object'".to_owned()),
        Some(_) => {}
    }
    if ["oneOf", "allOf", "anyOf"]
        .iter()
        .any(|word| schema.get(word).is_some())
    {
        return Err(": input_schema does not support oneOf, allOf, or anyOf at the top level".to_owned());
    }
    Ok(())
}

fn has_type(members: &Map<String, Value>, name: &str) -> bool {
    match members.get("type") {
        Some(Value::String(kind)) => kind == name,
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == name),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => false,
    }
}

type Part<'a> = &'a mut dyn FnMut(&Value, &mut Vec<String>) -> Result<(), String>;

/// Checks all subschemas.
fn each_part(members: &Map<String, Value>, context: &mut Vec<String>, part: Part<'_>) -> Result<(), String> {
    for group in ["properties", "$defs", "definitions"] {
        for (name, schema) in members.get(group).and_then(Value::as_object).into_iter().flatten() {
            context.extend([format!("'{group}'"), format!("'{name}'")]);
            part(schema, context)?;
            context.truncate(context.len() - 2);
        }
    }
    for group in ["anyOf", "oneOf", "allOf"] {
        for (index, schema) in members
            .get(group)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .enumerate()
        {
            context.extend([format!("'{group}'"), format!("'{index}'")]);
            part(schema, context)?;
            context.truncate(context.len() - 2);
        }
    }
    if let Some(items) = members.get("items") {
        context.push("'items'".to_owned());
        part(items, context)?;
        context.pop();
    }
    Ok(())
}

/// Formats like a Python tuple.
fn written(context: &[String]) -> String {
    match context {
        [one] => format!("({one},)"),
        many => format!("({})", many.join(", ")),
    }
}
