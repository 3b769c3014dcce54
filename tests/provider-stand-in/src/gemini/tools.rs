//! Declared functions, and schemas in the restricted format.

use serde_json::{Map, Value};

use super::errors::{INVALID, problem};
use super::fields::SCHEMA;
use crate::fields::{Problem, Step, check as check_fields};
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

/// <https://ai.google.dev/api/caching#FunctionDeclaration>, on `name`.
const FUNCTION_NAME_MAX_CHARACTERS: usize = 128;

/// Validates a schema in the restricted format, recursively. Paths use the protocol buffer's field names: a map is a
/// list of entries there.
pub(super) fn check_schema(schema: &Value, path: &mut Vec<Step>) -> Result<(), Refusal> {
    let schema = camel_schema(schema);
    check_fields(&SCHEMA, &schema).map_err(|found| problem(under(path, found)))?;
    if let Some(properties) = schema["properties"].as_object() {
        for (index, inner) in properties.values().enumerate() {
            path.extend([
                Step::Key("properties".to_owned()),
                Step::Index(index),
                Step::Key("value".to_owned()),
            ]);
            check_schema(inner, path)?;
            path.truncate(path.len() - 3);
        }
    }
    if !schema["items"].is_null() {
        path.push(Step::Key("items".to_owned()));
        check_schema(&schema["items"], path)?;
        path.pop();
    }
    for (index, inner) in list(&schema, "anyOf").iter().enumerate() {
        path.extend([Step::Key("any_of".to_owned()), Step::Index(index)]);
        check_schema(inner, path)?;
        path.truncate(path.len() - 2);
    }
    Ok(())
}

/// Converts one schema's names to camel case; those of its properties are the caller's.
fn camel_schema(schema: &Value) -> Value {
    let Some(members) = schema.as_object() else {
        return schema.clone();
    };
    let mut camel = Map::new();
    for (name, value) in members {
        let name = match name.as_str() {
            "any_of" => "anyOf",
            "max_items" => "maxItems",
            "min_items" => "minItems",
            "max_length" => "maxLength",
            "min_length" => "minLength",
            "max_properties" => "maxProperties",
            "min_properties" => "minProperties",
            "property_ordering" => "propertyOrdering",
            other => other,
        };
        camel.insert(name.to_owned(), value.clone());
    }
    Value::Object(camel)
}

fn under(path: &[Step], found: Problem) -> Problem {
    let join = |inner: Vec<Step>| path.iter().cloned().chain(inner).collect();
    match found {
        Problem::Unknown { path } => Problem::Unknown { path: join(path) },
        Problem::Missing { path } => Problem::Missing { path: join(path) },
        Problem::Type { path, expected, got } => Problem::Type {
            path: join(path),
            expected,
            got,
        },
        Problem::Word { path, got, allowed } => Problem::Word {
            path: join(path),
            got,
            allowed,
        },
    }
}

/// <https://ai.google.dev/api/caching#FunctionDeclaration>: names, and `parameters` or `parametersJsonSchema`, not both.
pub(super) fn check_tools(body: &Value) -> Result<(), Refusal> {
    let mut names: Vec<&str> = Vec::new();
    for (at, tool) in list(body, "tools").iter().enumerate() {
        for (index, declared) in list(tool, "functionDeclarations").iter().enumerate() {
            let name = declared["name"].as_str().unwrap_or_default();
            let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let fits = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.:-".contains(c));
            let place = format!("tools[{at}].function_declarations[{index}]");
            if !starts || !fits || name.len() > FUNCTION_NAME_MAX_CHARACTERS {
                return Err(bad_request(
                    INVALID,
                    format!(
                        "* GenerateContentRequest.{place}.name: [Invalid function name. Must start with a letter or an \
                         underscore. Must be alphameric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), \
                         with a maximum length of {FUNCTION_NAME_MAX_CHARACTERS}.]\n"
                    ),
                ));
            }
            if names.contains(&name) {
                return Err(bad_request(
                    INVALID,
                    format!("Duplicate function declaration found: {name}"),
                ));
            }
            names.push(name);
            let parameters = &declared["parameters"];
            if !parameters.is_null() {
                if !declared["parametersJsonSchema"].is_null() {
                    return Err(bad_request(
                        INVALID,
                        format!(
                            "* GenerateContentRequest.{place}: parameters and parameters_json_schema cannot both be set.\n"
                        ),
                    ));
                }
                let mut path = vec![
                    Step::Key("tools".to_owned()),
                    Step::Index(at),
                    Step::Key("function_declarations".to_owned()),
                    Step::Index(index),
                    Step::Key("parameters".to_owned()),
                ];
                check_schema(parameters, &mut path)?;
            }
        }
    }
    // <https://ai.google.dev/gemini-api/docs/function-calling>, "Function calling modes": allowed names go with the mode ANY.
    let choice = &body["toolConfig"]["functionCallingConfig"];
    let allowed: Vec<&str> = list(choice, "allowedFunctionNames")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    if !allowed.is_empty() && choice["mode"] != "ANY" && choice["mode"] != "VALIDATED" {
        return Err(bad_request(
            INVALID,
            "Allowed function names should only be set when function calling mode is ANY.",
        ));
    }
    match allowed.iter().find(|name| !names.contains(name)) {
        Some(name) => Err(bad_request(
            INVALID,
            format!("Allowed function name {name} is not one of the declared functions."),
        )),
        None => Ok(()),
    }
}
