//! The fields of a request.
//! <https://platform.claude.com/docs/en/api/messages/create>

use crate::fields::{Field, Kind, may, must};

static CACHE: Kind = Kind::Object(&[
    must("type", &Kind::Word(&["ephemeral"])),
    may("ttl", &Kind::Word(&["5m", "1h"])),
]);

static SOURCE: Kind = Kind::Tagged(
    "type",
    &[
        ("base64", &[must("media_type", &Kind::Text), must("data", &Kind::Text)]),
        ("url", &[must("url", &Kind::Text)]),
        ("file", &[must("file_id", &Kind::Text)]),
        (
            "text",
            &[
                must("media_type", &Kind::Word(&["text/plain"])),
                must("data", &Kind::Text),
            ],
        ),
        ("content", &[must("content", &Kind::Any)]),
    ],
);

static BLOCK: Kind = Kind::Tagged(
    "type",
    &[
        (
            "text",
            &[
                must("text", &Kind::Text),
                may("cache_control", &CACHE),
                may("citations", &Kind::Any),
            ],
        ),
        ("image", &[must("source", &SOURCE), may("cache_control", &CACHE)]),
        (
            "document",
            &[
                must("source", &SOURCE),
                may("cache_control", &CACHE),
                may("citations", &Kind::Map),
                may("context", &Kind::Text),
                may("title", &Kind::Text),
            ],
        ),
        (
            "thinking",
            &[must("thinking", &Kind::Text), must("signature", &Kind::Text)],
        ),
        ("redacted_thinking", &[must("data", &Kind::Text)]),
        (
            "tool_use",
            &[
                must("id", &Kind::Text),
                must("name", &Kind::Text),
                must("input", &Kind::Map),
                may("cache_control", &CACHE),
                may("caller", &Kind::Map),
                may("toolset_name", &Kind::Text),
            ],
        ),
        (
            "tool_result",
            &[
                must("tool_use_id", &Kind::Text),
                may(
                    "content",
                    &Kind::Either(&[&Kind::Text, &Kind::List(&Kind::Same(&BLOCK))]),
                ),
                may("is_error", &Kind::Flag),
                may("toolset_name", &Kind::Text),
                may("cache_control", &CACHE),
            ],
        ),
        (
            "search_result",
            &[
                must("content", &Kind::List(&Kind::Map)),
                must("source", &Kind::Text),
                must("title", &Kind::Text),
                may("cache_control", &CACHE),
                may("citations", &Kind::Map),
            ],
        ),
    ],
);

static CONTENT: Kind = Kind::Either(&[&Kind::Text, &Kind::List(&BLOCK)]);

static TOOL: Kind = Kind::Object(&[
    must("name", &Kind::Text),
    must("input_schema", &Kind::Map),
    may("type", &Kind::Word(&["custom"])),
    may("description", &Kind::Text),
    may("cache_control", &CACHE),
    may("strict", &Kind::Flag),
    may("eager_input_streaming", &Kind::Flag),
    may("defer_loading", &Kind::Flag),
    may("allowed_callers", &Kind::List(&Kind::Text)),
    may("input_examples", &Kind::List(&Kind::Map)),
]);

pub(super) static REQUEST: &[Field] = &[
    must("model", &Kind::Text),
    must(
        "messages",
        &Kind::List(&Kind::Object(&[
            must("role", &Kind::Word(&["user", "assistant", "system"])),
            must("content", &CONTENT),
        ])),
    ),
    must("max_tokens", &Kind::Integer),
    may("cache_control", &CACHE),
    may("container", &Kind::Any),
    may("diagnostics", &Kind::Map),
    may("inference_geo", &Kind::Text),
    may("metadata", &Kind::Object(&[may("user_id", &Kind::Text)])),
    may(
        "output_config",
        &Kind::Object(&[
            may("effort", &Kind::Word(&["low", "medium", "high", "xhigh", "max"])),
            may(
                "format",
                &Kind::Tagged("type", &[("json_schema", &[must("schema", &Kind::Map)])]),
            ),
        ]),
    ),
    may("service_tier", &Kind::Word(&["auto", "standard_only"])),
    may("speed", &Kind::Text),
    may("stop_sequences", &Kind::List(&Kind::Text)),
    may("stream", &Kind::Flag),
    may("system", &Kind::Either(&[&Kind::Text, &Kind::List(&BLOCK)])),
    may("temperature", &Kind::Number),
    may(
        "thinking",
        &Kind::Tagged(
            "type",
            &[
                (
                    "enabled",
                    &[must("budget_tokens", &Kind::Integer), may("display", &DISPLAY)],
                ),
                ("disabled", &[]),
                ("adaptive", &[may("display", &DISPLAY)]),
                ("between_tools", &[]),
            ],
        ),
    ),
    may(
        "tool_choice",
        &Kind::Tagged(
            "type",
            &[
                ("auto", &[may("disable_parallel_tool_use", &Kind::Flag)]),
                ("any", &[may("disable_parallel_tool_use", &Kind::Flag)]),
                ("none", &[]),
                (
                    "tool",
                    &[must("name", &Kind::Text), may("disable_parallel_tool_use", &Kind::Flag)],
                ),
            ],
        ),
    ),
    may("tools", &Kind::List(&TOOL)),
    may("top_k", &Kind::Integer),
    may("top_p", &Kind::Number),
];

static DISPLAY: Kind = Kind::Word(&["summarized", "omitted"]);
