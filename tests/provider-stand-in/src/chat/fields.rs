//! The fields of a request.
//! <https://developers.openai.com/api/reference/resources/chat/subresources/completions/methods/create>

use crate::fields::{Field, Kind, may, must};

static BREAKPOINT: Kind = Kind::Object(&[must("mode", &Kind::Word(&["explicit"]))]);

static PART: Kind = Kind::Tagged(
    "type",
    &[
        (
            "text",
            &[must("text", &Kind::Text), may("prompt_cache_breakpoint", &BREAKPOINT)],
        ),
        ("refusal", &[must("refusal", &Kind::Text)]),
        (
            "image_url",
            &[
                must(
                    "image_url",
                    &Kind::Object(&[
                        must("url", &Kind::Text),
                        may("detail", &Kind::Word(&["auto", "low", "high", "original"])),
                    ]),
                ),
                may("prompt_cache_breakpoint", &BREAKPOINT),
            ],
        ),
        (
            "input_audio",
            &[
                must(
                    "input_audio",
                    &Kind::Object(&[must("data", &Kind::Text), must("format", &Kind::Word(&["wav", "mp3"]))]),
                ),
                may("prompt_cache_breakpoint", &BREAKPOINT),
            ],
        ),
        (
            "file",
            &[
                must(
                    "file",
                    &Kind::Object(&[
                        may("file_data", &Kind::Text),
                        may("file_id", &Kind::Text),
                        may("filename", &Kind::Text),
                    ]),
                ),
                may("prompt_cache_breakpoint", &BREAKPOINT),
            ],
        ),
    ],
);

static CONTENT: Kind = Kind::Either(&[&Kind::Text, &Kind::List(&PART)]);

static CALL: Kind = Kind::Tagged(
    "type",
    &[(
        "function",
        &[
            must("id", &Kind::Text),
            must(
                "function",
                &Kind::Object(&[must("name", &Kind::Text), must("arguments", &Kind::Text)]),
            ),
        ],
    )],
);

static MESSAGE: Kind = Kind::Tagged(
    "role",
    &[
        ("developer", &[must("content", &CONTENT), may("name", &Kind::Text)]),
        ("system", &[must("content", &CONTENT), may("name", &Kind::Text)]),
        ("user", &[must("content", &CONTENT), may("name", &Kind::Text)]),
        (
            "assistant",
            &[
                may("content", &CONTENT),
                may("refusal", &Kind::Text),
                may("name", &Kind::Text),
                may("audio", &Kind::Map),
                may("tool_calls", &Kind::List(&CALL)),
                may("annotations", &Kind::Any),
                may("function_call", &Kind::Map),
            ],
        ),
        ("tool", &[must("content", &CONTENT), must("tool_call_id", &Kind::Text)]),
    ],
);

static TOOL: Kind = Kind::Tagged(
    "type",
    &[
        (
            "function",
            &[must(
                "function",
                &Kind::Object(&[
                    must("name", &Kind::Text),
                    may("description", &Kind::Text),
                    may("parameters", &Kind::Map),
                    may("strict", &Kind::Flag),
                ]),
            )],
        ),
        ("custom", &[must("custom", &Kind::Map)]),
    ],
);

static FORMAT: Kind = Kind::Tagged(
    "type",
    &[
        ("text", &[]),
        ("json_object", &[]),
        (
            "json_schema",
            &[must(
                "json_schema",
                &Kind::Object(&[
                    must("name", &Kind::Text),
                    may("description", &Kind::Text),
                    may("schema", &Kind::Map),
                    may("strict", &Kind::Flag),
                ]),
            )],
        ),
    ],
);

pub(crate) static CACHE_OPTIONS: Kind = Kind::Object(&[
    may("mode", &Kind::Word(&["implicit", "explicit"])),
    may("ttl", &Kind::Word(&["30m"])),
]);

pub(crate) static EFFORT: Kind = Kind::Word(&["none", "minimal", "low", "medium", "high", "xhigh", "max"]);

pub(crate) static TIER: Kind = Kind::Word(&["auto", "default", "flex", "scale", "priority"]);

pub(super) static REQUEST: &[Field] = &[
    must("model", &Kind::Text),
    must("messages", &Kind::List(&MESSAGE)),
    may("audio", &Kind::Map),
    may("frequency_penalty", &Kind::Number),
    may("logit_bias", &Kind::Map),
    may("logprobs", &Kind::Flag),
    may("max_completion_tokens", &Kind::Integer),
    may("max_tokens", &Kind::Integer),
    may("metadata", &Kind::Map),
    may("moderation", &Kind::Map),
    may("modalities", &Kind::List(&Kind::Word(&["text", "audio"]))),
    may("n", &Kind::Integer),
    may("parallel_tool_calls", &Kind::Flag),
    may("prediction", &Kind::Map),
    may("presence_penalty", &Kind::Number),
    may("prompt_cache_key", &Kind::Text),
    may("prompt_cache_options", &CACHE_OPTIONS),
    may("prompt_cache_retention", &Kind::Word(&["in_memory", "24h"])),
    may("reasoning_effort", &EFFORT),
    may("response_format", &FORMAT),
    may("safety_identifier", &Kind::Text),
    may("seed", &Kind::Integer),
    may("service_tier", &TIER),
    may("stop", &Kind::Either(&[&Kind::Text, &Kind::List(&Kind::Text)])),
    may("store", &Kind::Flag),
    may("stream", &Kind::Flag),
    may(
        "stream_options",
        &Kind::Object(&[
            may("include_usage", &Kind::Flag),
            may("include_obfuscation", &Kind::Flag),
        ]),
    ),
    may("temperature", &Kind::Number),
    may(
        "tool_choice",
        &Kind::Either(&[&Kind::Word(&["none", "auto", "required"]), &Kind::Map]),
    ),
    may("tools", &Kind::List(&TOOL)),
    may("top_logprobs", &Kind::Integer),
    may("top_p", &Kind::Number),
    may("user", &Kind::Text),
    may("verbosity", &Kind::Word(&["low", "medium", "high"])),
    may("web_search_options", &Kind::Map),
];
