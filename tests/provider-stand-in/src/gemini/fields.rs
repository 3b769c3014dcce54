//! The fields of a request: <https://ai.google.dev/api/generate-content>. Protocol buffers in JSON accept names in both
//! cases.

use crate::fields::{Field, Kind, may, must};
use serde_json::{Map, Value};

/// <https://ai.google.dev/api/caching#Schema>: the part of OpenAPI's schemas that `parameters` and `responseSchema` take.
pub(super) static SCHEMA: Kind = Kind::Object(&[
    must("type", &Kind::Text),
    may("format", &Kind::Text),
    may("title", &Kind::Text),
    may("description", &Kind::Text),
    may("nullable", &Kind::Flag),
    may("enum", &Kind::List(&Kind::Text)),
    may("maxItems", &Kind::Any),
    may("minItems", &Kind::Any),
    may("properties", &Kind::Map),
    may("required", &Kind::List(&Kind::Text)),
    may("minProperties", &Kind::Any),
    may("maxProperties", &Kind::Any),
    may("minLength", &Kind::Any),
    may("maxLength", &Kind::Any),
    may("pattern", &Kind::Text),
    may("example", &Kind::Any),
    may("anyOf", &Kind::List(&Kind::Map)),
    may("propertyOrdering", &Kind::List(&Kind::Text)),
    may("default", &Kind::Any),
    may("items", &Kind::Map),
    may("minimum", &Kind::Number),
    may("maximum", &Kind::Number),
]);

static PART: Kind = Kind::Object(&[
    may("text", &Kind::Text),
    may("thought", &Kind::Flag),
    may("thoughtSignature", &Kind::Text),
    may(
        "inlineData",
        &Kind::Object(&[
            must("mimeType", &Kind::Text),
            must("data", &Kind::Text),
            may("displayName", &Kind::Text),
        ]),
    ),
    may(
        "fileData",
        &Kind::Object(&[
            may("mimeType", &Kind::Text),
            must("fileUri", &Kind::Text),
            may("displayName", &Kind::Text),
        ]),
    ),
    may(
        "functionCall",
        &Kind::Object(&[
            may("id", &Kind::Text),
            must("name", &Kind::Text),
            may("args", &Kind::Map),
        ]),
    ),
    may(
        "functionResponse",
        &Kind::Object(&[
            may("id", &Kind::Text),
            must("name", &Kind::Text),
            must("response", &Kind::Map),
            may("parts", &Kind::List(&Kind::Map)),
            may("willContinue", &Kind::Flag),
            may("scheduling", &Kind::Text),
        ]),
    ),
    may("executableCode", &Kind::Map),
    may("codeExecutionResult", &Kind::Map),
    may("toolCall", &Kind::Map),
    may("toolResponse", &Kind::Map),
    may("partMetadata", &Kind::Map),
    may("videoMetadata", &Kind::Map),
    may("mediaResolution", &Kind::Any),
]);

static CONTENT: Kind = Kind::Object(&[may("role", &Kind::Text), may("parts", &Kind::List(&PART))]);

static TOOL: Kind = Kind::Object(&[
    may(
        "functionDeclarations",
        &Kind::List(&Kind::Object(&[
            must("name", &Kind::Text),
            may("description", &Kind::Text),
            may("behavior", &Kind::Text),
            may("parameters", &Kind::Map),
            may("parametersJsonSchema", &Kind::Any),
            may("response", &Kind::Map),
            may("responseJsonSchema", &Kind::Any),
        ])),
    ),
    may("googleSearch", &Kind::Map),
    may("googleSearchRetrieval", &Kind::Map),
    may("codeExecution", &Kind::Map),
    may("urlContext", &Kind::Map),
    may("computerUse", &Kind::Map),
    may("fileSearch", &Kind::Map),
    may("googleMaps", &Kind::Map),
    may("mcpServers", &Kind::List(&Kind::Map)),
]);

static GENERATION: Kind = Kind::Object(&[
    may("stopSequences", &Kind::List(&Kind::Text)),
    may("responseMimeType", &Kind::Text),
    may("responseSchema", &Kind::Map),
    may("responseJsonSchema", &Kind::Any),
    may("responseFormat", &Kind::Map),
    may("responseModalities", &Kind::List(&Kind::Text)),
    may("candidateCount", &Kind::Integer),
    may("maxOutputTokens", &Kind::Integer),
    may("temperature", &Kind::Number),
    may("topP", &Kind::Number),
    may("topK", &Kind::Number),
    may("seed", &Kind::Integer),
    may("presencePenalty", &Kind::Number),
    may("frequencyPenalty", &Kind::Number),
    may("responseLogprobs", &Kind::Flag),
    may("logprobs", &Kind::Integer),
    may("enableEnhancedCivicAnswers", &Kind::Flag),
    may("speechConfig", &Kind::Map),
    may("imageConfig", &Kind::Map),
    may("mediaResolution", &Kind::Text),
    may(
        "thinkingConfig",
        &Kind::Object(&[
            may("includeThoughts", &Kind::Flag),
            may("thinkingBudget", &Kind::Integer),
            may("thinkingLevel", &Kind::Text),
        ]),
    ),
]);

pub(super) static REQUEST: &[Field] = &[
    must("contents", &Kind::List(&CONTENT)),
    may("model", &Kind::Text),
    may("systemInstruction", &CONTENT),
    may("tools", &Kind::List(&TOOL)),
    may(
        "toolConfig",
        &Kind::Object(&[
            may(
                "functionCallingConfig",
                &Kind::Object(&[
                    may("mode", &Kind::Text),
                    may("allowedFunctionNames", &Kind::List(&Kind::Text)),
                    may("streamFunctionCallArguments", &Kind::Flag),
                ]),
            ),
            may("retrievalConfig", &Kind::Map),
            may("includeServerSideToolInvocations", &Kind::Flag),
        ]),
    ),
    may("safetySettings", &Kind::List(&Kind::Map)),
    may("generationConfig", &GENERATION),
    may("cachedContent", &Kind::Text),
    may("serviceTier", &Kind::Text),
    may("store", &Kind::Flag),
];

/// Returns the request with names in camel case: protocol buffers accept both. The caller's own names stay.
pub(super) fn camel(value: &Value) -> Value {
    match value {
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, value)| {
                    let mut camel = String::new();
                    let mut upper = false;
                    for c in name.chars() {
                        if c == '_' && !camel.is_empty() {
                            upper = true;
                        } else if upper {
                            camel.push(c.to_ascii_uppercase());
                            upper = false;
                        } else {
                            camel.push(c);
                        }
                    }
                    let own = [
                        "args",
                        "response",
                        "parameters",
                        "parametersJsonSchema",
                        "responseSchema",
                        "responseJsonSchema",
                    ];
                    let value = if own.contains(&camel.as_str()) {
                        value.clone()
                    } else {
                        self::camel(value)
                    };
                    (camel, value)
                })
                .collect::<Map<_, _>>(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(camel).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}
