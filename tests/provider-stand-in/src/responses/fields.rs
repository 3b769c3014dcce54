//! The fields of a request.
//! <https://developers.openai.com/api/reference/resources/responses/methods/create>

use crate::chat::{CACHE_OPTIONS, EFFORT, TIER};
use crate::fields::{Field, Kind, may, must};

pub(super) const ENCRYPTED: &str = "reasoning.encrypted_content";

static BREAKPOINT: Kind = Kind::Object(&[must("mode", &Kind::Word(&["explicit"]))]);

static PART: Kind = Kind::Tagged(
    "type",
    &[
        (
            "input_text",
            &[must("text", &Kind::Text), may("prompt_cache_breakpoint", &BREAKPOINT)],
        ),
        (
            "input_image",
            &[
                may("detail", &Kind::Word(&["auto", "low", "high", "original"])),
                may("image_url", &Kind::Text),
                may("file_id", &Kind::Text),
                may("prompt_cache_breakpoint", &BREAKPOINT),
            ],
        ),
        (
            "input_file",
            &[
                may("file_data", &Kind::Text),
                may("file_id", &Kind::Text),
                may("file_url", &Kind::Text),
                may("filename", &Kind::Text),
                may("detail", &Kind::Text),
                may("prompt_cache_breakpoint", &BREAKPOINT),
            ],
        ),
        (
            "output_text",
            &[
                must("text", &Kind::Text),
                may("annotations", &Kind::Any),
                may("logprobs", &Kind::Any),
            ],
        ),
        ("refusal", &[must("refusal", &Kind::Text)]),
    ],
);

static CONTENT: Kind = Kind::Either(&[&Kind::Text, &Kind::List(&PART)]);

static MESSAGE: &[Field] = &[
    must("role", &Kind::Word(&["user", "assistant", "system", "developer"])),
    must("content", &CONTENT),
    may("id", &Kind::Text),
    may("status", &Kind::Text),
    may("phase", &Kind::Text),
    may("type", &Kind::Text),
];

static SUMMARY: Kind = Kind::Tagged("type", &[("summary_text", &[must("text", &Kind::Text)])]);

static ITEM: Kind = Kind::Either(&[
    &Kind::Tagged(
        "type",
        &[
            ("message", MESSAGE),
            (
                "function_call",
                &[
                    must("call_id", &Kind::Text),
                    must("name", &Kind::Text),
                    must("arguments", &Kind::Text),
                    may("id", &Kind::Text),
                    may("status", &Kind::Text),
                    may("namespace", &Kind::Text),
                    may("caller", &Kind::Any),
                    may("async", &Kind::Any),
                ],
            ),
            (
                "function_call_output",
                &[
                    must("call_id", &Kind::Text),
                    must("output", &CONTENT),
                    may("id", &Kind::Text),
                    may("status", &Kind::Text),
                    may("caller", &Kind::Any),
                ],
            ),
            (
                "reasoning",
                &[
                    must("summary", &Kind::List(&SUMMARY)),
                    may("id", &Kind::Text),
                    may("content", &Kind::Any),
                    may("encrypted_content", &Kind::Text),
                    may("status", &Kind::Text),
                ],
            ),
            ("item_reference", &[must("id", &Kind::Text)]),
            (
                "custom_tool_call",
                &[
                    must("call_id", &Kind::Text),
                    must("name", &Kind::Text),
                    must("input", &Kind::Text),
                    may("id", &Kind::Text),
                ],
            ),
            (
                "custom_tool_call_output",
                &[
                    must("call_id", &Kind::Text),
                    must("output", &CONTENT),
                    may("id", &Kind::Text),
                ],
            ),
        ],
    ),
    &Kind::Object(MESSAGE),
]);

static TOOL: Kind = Kind::Tagged(
    "type",
    &[
        (
            "function",
            &[
                must("name", &Kind::Text),
                may("parameters", &Kind::Map),
                may("strict", &Kind::Flag),
                may("description", &Kind::Text),
                may("defer_loading", &Kind::Flag),
                may("allowed_callers", &Kind::Any),
                may("output_schema", &Kind::Map),
                may("async", &Kind::Any),
            ],
        ),
        (
            "custom",
            &[
                must("name", &Kind::Text),
                may("description", &Kind::Text),
                may("format", &Kind::Map),
            ],
        ),
        (
            "web_search",
            &[
                may("filters", &Kind::Map),
                may("search_context_size", &Kind::Text),
                may("user_location", &Kind::Map),
            ],
        ),
        (
            "mcp",
            &[
                must("server_label", &Kind::Text),
                may("server_url", &Kind::Text),
                may("require_approval", &Kind::Any),
            ],
        ),
    ],
);

static FORMAT: Kind = Kind::Tagged(
    "type",
    &[
        ("text", &[]),
        ("json_object", &[]),
        (
            "json_schema",
            &[
                must("name", &Kind::Text),
                must("schema", &Kind::Map),
                may("description", &Kind::Text),
                may("strict", &Kind::Flag),
            ],
        ),
    ],
);

pub(super) static REQUEST: &[Field] = &[
    must("model", &Kind::Text),
    must("input", &Kind::Either(&[&Kind::Text, &Kind::List(&ITEM)])),
    may("background", &Kind::Flag),
    may("context_management", &Kind::Any),
    may("conversation", &Kind::Any),
    may(
        "include",
        &Kind::List(&Kind::Word(&[
            ENCRYPTED,
            "message.output_text.logprobs",
            "message.input_image.image_url",
            "file_search_call.results",
            "web_search_call.results",
            "web_search_call.action.sources",
            "computer_call_output.output.image_url",
            "code_interpreter_call.outputs",
        ])),
    ),
    may("instructions", &Kind::Text),
    may("max_output_tokens", &Kind::Integer),
    may("max_tool_calls", &Kind::Integer),
    may("metadata", &Kind::Map),
    may("moderation", &Kind::Any),
    may("parallel_tool_calls", &Kind::Flag),
    may("previous_response_id", &Kind::Text),
    may("prompt", &Kind::Map),
    may("prompt_cache_key", &Kind::Text),
    may("prompt_cache_options", &CACHE_OPTIONS),
    may("prompt_cache_retention", &Kind::Word(&["in_memory", "24h"])),
    may(
        "reasoning",
        &Kind::Object(&[
            may("effort", &EFFORT),
            may("summary", &Kind::Word(&["auto", "concise", "detailed"])),
            may("generate_summary", &Kind::Word(&["auto", "concise", "detailed"])),
            may("context", &Kind::Text),
            may("mode", &Kind::Text),
        ]),
    ),
    may("safety_identifier", &Kind::Text),
    may("service_tier", &TIER),
    may("store", &Kind::Flag),
    may("stream", &Kind::Flag),
    may(
        "stream_options",
        &Kind::Object(&[may("include_obfuscation", &Kind::Flag)]),
    ),
    may("temperature", &Kind::Number),
    may(
        "text",
        &Kind::Object(&[
            may("format", &FORMAT),
            may("verbosity", &Kind::Word(&["low", "medium", "high"])),
        ]),
    ),
    may(
        "tool_choice",
        &Kind::Either(&[&Kind::Word(&["none", "auto", "required"]), &Kind::Map]),
    ),
    may("tools", &Kind::List(&TOOL)),
    may("top_logprobs", &Kind::Integer),
    may("top_p", &Kind::Number),
    may("truncation", &Kind::Word(&["auto", "disabled"])),
    may("user", &Kind::Text),
];
