//! JSON Schemas from users and models: compilation, and violations in words. Called wherever a value is validated:
//! graph packs, tool arguments, manifests.
//!
//! - `outline`  a schema's structure and limits
//! - `checks`   the cost of validating a value
//!
//! Invariant: compilation and validation take bounded time and memory for any schema and value. A schema that may cost
//! more is refused at compilation; a value that would cost more is refused before validation.

mod checks;
mod outline;

use jsonschema::PatternOptions;
use serde_json::Value;

use outline::Outline;

/// Maximum number of reported violations of one value.
const TOLD_FAULTS: usize = 5;
/// Maximum length of each, in characters: it quotes the invalid part, which may be megabytes.
const TOLD_CHARS: usize = 500;
/// Maximum number of checks of one value for which violations are collected: each violation of each alternative takes
/// memory. Beyond it, only their existence is reported.
const TOLD_CHECKS: u64 = 20_000;
/// Maximum size of a compiled pattern, in bytes.
const PATTERN_COMPILED_BYTES: usize = 256 * 1024;
/// Maximum size of a pattern's search tables, in bytes.
const PATTERN_TABLES_BYTES: usize = 256 * 1024;
/// Maximum number of backtracks of a pattern with lookaround or back references.
const PATTERN_BACKTRACKS: usize = 10_000;

/// A compiled schema.
#[derive(Debug)]
pub struct Validator {
    compiled: jsonschema::Validator,
    outline: Outline,
}

impl Validator {
    /// The number of distinct patterns, each of which takes time to compile.
    pub fn patterns(&self) -> usize {
        self.outline.patterns
    }
}

/// Returns why a schema would not be [`compiled`] because of its cost. Much cheaper than compiling it.
pub fn check(schema: &Value) -> Result<(), String> {
    Outline::of(schema).map(|_| ())
}

/// Err: what is wrong with the schema. References outside of it are not resolved.
pub fn compiled(schema: &Value) -> Result<Validator, String> {
    let outline = Outline::of(schema)?;
    let patterns = PatternOptions::fancy_regex()
        .size_limit(PATTERN_COMPILED_BYTES)
        .dfa_size_limit(PATTERN_TABLES_BYTES)
        .backtrack_limit(PATTERN_BACKTRACKS);
    let compiled = jsonschema::options()
        .with_pattern_options(patterns)
        // A value with the format of a pattern is not compiled to validate it.
        .with_format("regex", |_| true)
        .build(schema)
        .map_err(|error| cut(&error.to_string()))?;
    Ok(Validator { compiled, outline })
}

/// Returns the violations of a value, each with its location; empty if it is valid.
pub fn faults(validator: &Validator, value: &Value) -> Vec<String> {
    let checks = match checks::of(&validator.outline, value) {
        Ok(checks) => checks,
        Err(why) => return vec![why],
    };
    if validator.compiled.is_valid(value) {
        return Vec::new();
    }
    if checks > TOLD_CHECKS {
        return vec!["it violates the schema, and is too large to say where".to_owned()];
    }
    validator
        .compiled
        .iter_errors(value)
        .take(TOLD_FAULTS)
        .map(|fault| {
            let what = cut(&fault.to_string());
            // Names in it may be arbitrarily long.
            match cut(&fault.instance_path().to_string()).trim_start_matches('/') {
                "" => what,
                path => format!("{path}: {what}"),
            }
        })
        .collect()
}

/// Returns whether a property of this schema may be null.
pub fn allows_null(schema: &Value) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == "null",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "null"),
        _ => false,
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TOLD_CHARS).collect()
}

#[cfg(test)]
mod tests;
