//! Rules of Claude families for which the catalogue has no field.

use crate::models::Named;

/// Models that take adaptive thinking alone: Opus 4.7 and newer, all of Fable and Mythos, all other families since 5.
/// <https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking>, "Supported models".
pub(super) fn is_adaptive_only(named: &Named<'_>) -> bool {
    named.is_family("fable") || named.is_family("mythos") || named.version() >= (4, 7)
}

/// <https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking>: since Opus and Sonnet 4.6.
pub(super) fn is_adaptive(named: &Named<'_>) -> bool {
    is_adaptive_only(named) || named.version() >= (4, 6)
}

/// Models whose thinking can't be disabled.
/// <https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5>, "Thinking can't be disabled", also for Fable;
/// <https://platform.claude.com/docs/en/models/sonnet-5-5/migration-guide>: `between_tools` in its place.
pub(super) fn always_thinks(named: &Named<'_>) -> bool {
    named.is_family("fable")
        || named.is_family("mythos")
        || (named.version() >= (5, 5) && (named.is_family("opus") || named.is_family("sonnet")))
}

/// Models that refuse a forced tool. <https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5>, "Forced tool use is not
/// supported"; also Fable since 5.1.
pub(super) fn refuses_force(named: &Named<'_>) -> bool {
    let newest = named.version() >= (5, 5) && named.is_family("opus");
    let fable = named.version() >= (5, 1) && (named.is_family("fable") || named.is_family("mythos"));
    newest || fable
}

/// Models whose thinking blocks are bound to the conversation before them.
/// <https://platform.claude.com/docs/en/models/opus-5-5/whats-new-opus-5-5>, "Thinking blocks are tied to the model and the conversation";
/// <https://platform.claude.com/docs/en/models/haiku-5-5/migration-guide>, "keep earlier turns unchanged".
pub(super) fn is_bound(named: &Named<'_>) -> bool {
    let fable = named.version() >= (5, 1) && (named.is_family("fable") || named.is_family("mythos"));
    fable || named.version() >= (5, 5)
}
