//! The fields of a request.
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>

use serde_json::Value;

use super::INVALID;
use crate::fields::{Field, Kind, may, must};
use crate::plan::{bad_request, list};
use crate::refusal::Refusal;

static CACHE_POINT: Kind = Kind::Object(&[
    must("type", &Kind::Word(&["default"])),
    may("ttl", &Kind::Word(&["5m", "1h"])),
]);

static SOURCE: Kind = Kind::Object(&[may("bytes", &Kind::Text), may("s3Location", &Kind::Map)]);

static IMAGE: Kind = Kind::Object(&[
    must("format", &Kind::Word(&["png", "jpeg", "gif", "webp"])),
    must("source", &SOURCE),
]);

static DOCUMENT: Kind = Kind::Object(&[
    must(
        "format",
        &Kind::Word(&["pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"]),
    ),
    must("name", &Kind::Text),
    must("source", &SOURCE),
    may("context", &Kind::Text),
    may("citations", &Kind::Map),
]);

static RESULT_CONTENT: Kind = Kind::Object(&[
    may("text", &Kind::Text),
    may("json", &Kind::Map),
    may("image", &IMAGE),
    may("document", &DOCUMENT),
]);

static BLOCK: Kind = Kind::Object(&[
    may("text", &Kind::Text),
    may("image", &IMAGE),
    may("document", &DOCUMENT),
    may("video", &Kind::Map),
    may("cachePoint", &CACHE_POINT),
    may("guardContent", &Kind::Map),
    may(
        "reasoningContent",
        &Kind::Object(&[
            may(
                "reasoningText",
                &Kind::Object(&[must("text", &Kind::Text), may("signature", &Kind::Text)]),
            ),
            may("redactedContent", &Kind::Text),
        ]),
    ),
    may(
        "toolUse",
        &Kind::Object(&[
            must("toolUseId", &Kind::Text),
            must("name", &Kind::Text),
            must("input", &Kind::Map),
        ]),
    ),
    may(
        "toolResult",
        &Kind::Object(&[
            must("toolUseId", &Kind::Text),
            must("content", &Kind::List(&RESULT_CONTENT)),
            may("status", &Kind::Word(&["success", "error"])),
        ]),
    ),
]);

static TOOL: Kind = Kind::Object(&[
    may(
        "toolSpec",
        &Kind::Object(&[
            must("name", &Kind::Text),
            may("description", &Kind::Text),
            must("inputSchema", &Kind::Object(&[must("json", &Kind::Map)])),
            may("strict", &Kind::Flag),
        ]),
    ),
    may("cachePoint", &CACHE_POINT),
    may("systemTool", &Kind::Map),
]);

static CHOICE: Kind = Kind::Object(&[
    may("auto", &Kind::Map),
    may("any", &Kind::Map),
    may("tool", &Kind::Object(&[must("name", &Kind::Text)])),
]);

pub(super) static REQUEST: &[Field] = &[
    must(
        "messages",
        &Kind::List(&Kind::Object(&[
            must("role", &Kind::Word(&["user", "assistant"])),
            must("content", &Kind::List(&BLOCK)),
        ])),
    ),
    may(
        "system",
        &Kind::List(&Kind::Object(&[
            may("text", &Kind::Text),
            may("cachePoint", &CACHE_POINT),
            may("guardContent", &Kind::Map),
        ])),
    ),
    may(
        "inferenceConfig",
        &Kind::Object(&[
            may("maxTokens", &Kind::Integer),
            may("temperature", &Kind::Number),
            may("topP", &Kind::Number),
            may("stopSequences", &Kind::List(&Kind::Text)),
        ]),
    ),
    may(
        "toolConfig",
        &Kind::Object(&[must("tools", &Kind::List(&TOOL)), may("toolChoice", &CHOICE)]),
    ),
    may("additionalModelRequestFields", &Kind::Map),
    may("additionalModelResponseFieldPaths", &Kind::List(&Kind::Text)),
    may("guardrailConfig", &Kind::Map),
    may("outputConfig", &Kind::Map),
    may("performanceConfig", &Kind::Map),
    may("promptVariables", &Kind::Map),
    may("requestMetadata", &Kind::Map),
    may("serviceTier", &Kind::Map),
];

/// The reference, on each union: "only one of the following members can be specified".
pub(super) fn check_unions(body: &Value) -> Result<(), Refusal> {
    let config = &body["toolConfig"];
    let choice = config.get("toolChoice").filter(|choice| !choice.is_null());
    let blocks = list(body, "messages")
        .iter()
        .flat_map(|message| list(message, "content"));
    let inner = list(body, "messages")
        .iter()
        .flat_map(|message| list(message, "content"))
        .flat_map(|block| list(&block["toolResult"], "content"));
    let unions = list(body, "system")
        .iter()
        .chain(list(config, "tools"))
        .chain(choice)
        .chain(blocks)
        .chain(inner);
    for union in unions {
        let given = union.as_object().into_iter().flatten();
        if given.filter(|(_, value)| !value.is_null()).count() != 1 {
            return Err(bad_request(
                INVALID,
                format!("Exactly one member of a union must be specified, and not those of {union}"),
            ));
        }
    }
    Ok(())
}
