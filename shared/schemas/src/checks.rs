//! Counts the checks needed to validate a value, before validation. Called by `schemas`.
//!
//! Invariants: the count is never below that of a validator without memoization; counting takes no more steps than its
//! limit.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::outline::{COMPARED, Node, Outline};

/// Maximum number of checks of a value with all its parts.
const CHECKS: u64 = 1_000_000;
/// Maximum nesting of checks: each takes stack space.
const DEPTH: usize = 400;

/// Returns an upper bound of the checks that a value takes.
///
/// # Errors
/// Too many: in words, for the sender of the value.
pub(super) fn of(outline: &Outline, value: &Value) -> Result<u64, String> {
    let mut count = Count {
        outline,
        known: HashMap::new(),
        steps: 0,
    };
    let checks = count.checks(0, value, 0)?;
    if checks <= CHECKS { Ok(checks) } else { Err(too_many()) }
}

fn too_many() -> String {
    format!("validating it takes more than {CHECKS} steps; send less data, or less nesting")
}

/// Returns the checks of the value alone.
fn alone(node: &Node, value: &Value) -> u64 {
    let compared = match value {
        Value::String(text) => searched(node.pattern, text),
        Value::Array(items) => items.len() as u64 / COMPARED,
        _ => 0,
    };
    node.own.saturating_add(compared)
}

/// Returns the cost, in checks, of searching a text with a pattern of so many states.
fn searched(states: u64, text: &str) -> u64 {
    match states {
        0 => 0,
        states => 1 + states.saturating_mul(text.len() as u64) / COMPARED,
    }
}

/// Counts the checks of one value.
struct Count<'a> {
    outline: &'a Outline,
    /// Results by node and part of the value.
    known: HashMap<(usize, *const Value), u64>,
    steps: u64,
}

impl Count<'_> {
    fn checks(&mut self, index: usize, value: &Value, depth: usize) -> Result<u64, String> {
        self.steps += 1;
        if self.steps > CHECKS {
            return Err(too_many());
        }
        if depth > DEPTH {
            return Err("it is nested too deeply for the schema; send less nesting".to_owned());
        }
        let node = &self.outline.nodes[index];
        let mut checks = alone(node, value);
        if node.is_leaf() {
            return Ok(checks);
        }
        let key = (index, std::ptr::from_ref(value));
        if let Some(known) = self.known.get(&key) {
            return Ok(*known);
        }
        for target in &node.same {
            let below = self.checks(*target, value, depth + 1)?;
            checks = checks.saturating_add(below.saturating_mul(node.times()));
        }
        match value {
            Value::Object(fields) => checks = checks.saturating_add(self.fields(node, fields, depth + 1)?),
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    let placed = match node.first.get(place) {
                        Some(first) => std::slice::from_ref(first),
                        None => &node.rest,
                    };
                    for target in placed.iter().chain(&node.items) {
                        checks = checks.saturating_add(self.checks(*target, item, depth + 1)?);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        self.known.insert(key, checks);
        Ok(checks)
    }

    fn fields(&mut self, node: &Node, fields: &Map<String, Value>, depth: usize) -> Result<u64, String> {
        let mut checks = 0_u64;
        for (name, field) in fields {
            for (states, target) in &node.patterned {
                let below = self.checks(*target, field, depth)?;
                checks = checks.saturating_add(searched(*states, name)).saturating_add(below);
            }
            let named = match node.properties.get(name) {
                Some(named) => std::slice::from_ref(named),
                None => &node.others,
            };
            for target in named {
                checks = checks.saturating_add(self.checks(*target, field, depth)?);
            }
            if !node.names.is_empty() {
                let name = Value::String(name.clone());
                for target in &node.names {
                    checks = checks.saturating_add(self.name(*target, &name)?);
                }
            }
        }
        Ok(checks)
    }

    /// Counts the checks of a property's name. They are not cached: the text has no stable address.
    fn name(&mut self, index: usize, name: &Value) -> Result<u64, String> {
        self.steps += 1;
        if self.steps > CHECKS {
            return Err(too_many());
        }
        let node = &self.outline.nodes[index];
        let mut checks = alone(node, name);
        for target in &node.same {
            let below = self.name(*target, name)?;
            checks = checks.saturating_add(below.saturating_mul(node.times()));
        }
        Ok(checks)
    }
}
