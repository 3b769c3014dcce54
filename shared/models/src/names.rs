//! Names of models: `provider:model`, or a bare name that is known to belong to one provider.

use std::borrow::Cow;

/// Returns the provider of a bare name; None if unknown.
pub fn provider_of(bare: &str) -> Option<&'static str> {
    let is = |family: &str| bare == family || bare.strip_prefix(family).is_some_and(|rest| rest.starts_with('-'));
    if bare.starts_with("gemini-") {
        Some("gemini")
    } else if bare.starts_with("claude-") {
        Some("anthropic")
    } else if bare.starts_with("gpt-") || bare.starts_with("chatgpt-") || is("o1") || is("o3") || is("o4") {
        Some("openai")
    } else {
        None
    }
}

/// The names of providers.
const PROVIDERS: [&str; 10] = [
    "openai",
    "openai-responses",
    "azure",
    "openrouter",
    "bedrock",
    "anthropic",
    "gemini",
    "vertex",
    "ollama",
    "demo",
];

/// Returns `provider:model`, as workers use it. None: not a name of a provider's model.
pub fn with_provider(name: &str) -> Option<String> {
    let name = name.trim();
    if let Some((provider, model)) = split(name) {
        let provider = provider.to_ascii_lowercase();
        if PROVIDERS.contains(&provider.as_str()) {
            return (!model.is_empty()).then(|| format!("{provider}:{model}"));
        }
    }
    provider_of(name).map(|provider| format!("{provider}:{name}"))
}

/// Prefixes a name with its provider. Some providers have two names for one list of models: the catalogue uses the
/// first.
pub fn full(name: &str) -> Option<Cow<'_, str>> {
    let name = name.trim();
    match split(name) {
        Some((provider, model)) => {
            let provider = provider.to_ascii_lowercase();
            let provider = if provider == "openai-responses" {
                "openai"
            } else {
                &provider
            };
            Some(Cow::Owned(format!("{provider}:{model}")))
        }
        None => provider_of(name).map(|provider| Cow::Owned(format!("{provider}:{name}"))),
    }
}

/// Splits into provider and model. A colon within the model (`llama3.2:3b`) is part of it; the provider precedes the
/// first one.
pub(super) fn split(name: &str) -> Option<(&str, &str)> {
    let (provider, model) = name.split_once(':')?;
    Some((provider.trim(), model.trim()))
}

/// Yields the name with successively fewer suffixes, from the requested one to the one of which it is a snapshot or
/// copy.
pub(super) fn shorter(full: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(full), |name| shorten(name))
}

fn shorten(name: &str) -> Option<&str> {
    if let Some(rest) = name.strip_suffix("-latest").or_else(|| name.strip_suffix("@default")) {
        return Some(rest);
    }
    // `-2026-04-23`, `-20260423`, `@20260423`, `-preview-09-2025` is no snapshot, `-001` is one of Google's.
    let cut = [11, 9, 4].into_iter().find_map(|length| {
        let at = name.len().checked_sub(length)?;
        let tail = name.get(at..)?;
        let (mark, digits) = tail.split_at_checked(1)?;
        let is_date = match length {
            11 => mark == "-" && is_dashed_date(digits),
            9 => (mark == "-" || mark == "@") && digits.starts_with("20") && all_digits(digits),
            _ => mark == "-" && digits.starts_with("00") && all_digits(digits),
        };
        is_date.then_some(at)
    });
    cut.and_then(|at| name.get(..at))
}

fn is_dashed_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    matches!(parts.as_slice(), [year, month, day]
        if year.len() == 4 && year.starts_with("20") && month.len() == 2 && day.len() == 2
            && [year, month, day].into_iter().all(|part| all_digits(part)))
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Removes the region from Bedrock's names of regional copies (`us.`, `eu.`, `global.`).
pub(super) fn without_region(full: &str) -> Option<String> {
    let (region, model) = full.strip_prefix("bedrock:")?.split_once('.')?;
    ["us", "eu", "apac", "au", "jp", "in", "global", "us-gov"]
        .contains(&region)
        .then(|| format!("bedrock:{model}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_names_find_their_provider() {
        for (name, with_provider) in [
            ("gemini-2.0-flash", "gemini:gemini-2.0-flash"),
            ("chatgpt-4o-latest", "openai:chatgpt-4o-latest"),
            ("o4-mini", "openai:o4-mini"),
            (" OpenAI : gpt-4o ", "openai:gpt-4o"),
            ("openai-responses:gpt-6-sol", "openai:gpt-6-sol"),
            ("ollama:llama3.2:3b", "ollama:llama3.2:3b"),
        ] {
            assert_eq!(full(name).as_deref(), Some(with_provider));
        }
        for name in ["o35", "mystery", ""] {
            assert_eq!(full(name), None, "{name}");
        }
    }

    #[test]
    fn dated_snapshots_are_shortened_and_other_numbers_stay() {
        let last = |name| shorter(name).last().map(str::to_owned);
        for (name, short) in [
            ("openai:gpt-6-luna-2026-09-22", "openai:gpt-6-luna"),
            ("anthropic:claude-haiku-4-5-20251001", "anthropic:claude-haiku-4-5"),
            ("anthropic:claude-haiku-5-5-latest", "anthropic:claude-haiku-5-5"),
            ("vertex:claude-opus-5-5@20260901", "vertex:claude-opus-5-5"),
            ("vertex:claude-opus-5-5@default", "vertex:claude-opus-5-5"),
            ("gemini:gemini-2.0-flash-001", "gemini:gemini-2.0-flash"),
            ("openai:gpt-4-0613", "openai:gpt-4-0613"),
            ("mistral:devstral-2512", "mistral:devstral-2512"),
            ("é", "é"),
        ] {
            assert_eq!(last(name).as_deref(), Some(short));
        }
    }

    #[test]
    fn a_region_is_no_part_of_a_models_name() {
        let name = "bedrock:eu.anthropic.claude-opus-5-5";
        assert_eq!(
            without_region(name).as_deref(),
            Some("bedrock:anthropic.claude-opus-5-5")
        );
        assert_eq!(without_region("bedrock:anthropic.claude-opus-5-5"), None);
        assert_eq!(without_region("openai:us.x"), None);
    }
}
