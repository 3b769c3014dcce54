//! The structure of a JSON Schema: its subschemas, and whether they apply to the same value or to a part of it. It
//! bounds the cost of validating a value in advance (`checks`). Called by `schemas`.
//!
//! The unit is one check: a subschema applied to one value. References make schemas small and checks many: if each of
//! twenty definitions names the next one twice, the last one is checked a million times. A schema that multiplies by
//! itself is refused; one that multiplies together with the value (each level of a tree checked against two
//! alternatives) leads to refusal of the value.
//!
//! - `bound` the number of checks, bounded
//!
//! Invariant: for an accepted schema, one value takes a bounded number of checks, and recursion is bounded.

mod bound;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use self::bound::bound;

/// Maximum size of a schema, in bytes.
const SCHEMA_BYTES: usize = 512 * 1024;
/// Maximum nesting of a schema's JSON.
const SCHEMA_DEPTH: usize = 100;
/// Maximum number of subschemas.
const SUBSCHEMAS: usize = 10_000;
/// Maximum number of distinct patterns.
const PATTERNS: usize = 100;
/// Maximum size of a pattern, in bytes.
const PATTERN_BYTES: usize = 2_000;

/// Cost factor of `unevaluated…`: evaluated parts are determined by checking again.
const TIMES_UNEVALUATED: u64 = 3;
/// Bytes of literals (`enum`, `const`) and pattern states compared in the time of one check.
pub(super) const COMPARED: u64 = 64;

/// A subschema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Its own checks: itself, and its literals.
    pub(super) own: u64,
    /// Estimated number of its pattern's states.
    pub(super) pattern: u64,
    /// Whether it works by checking again.
    pub(super) is_unevaluated: bool,
    /// Subschemas applied to the same value.
    pub(super) same: Vec<usize>,
    pub(super) properties: BTreeMap<String, usize>,
    /// By pattern, with the states of each.
    pub(super) patterned: Vec<(u64, usize)>,
    /// For properties that are not named.
    pub(super) others: Vec<usize>,
    pub(super) names: Vec<usize>,
    /// For the first items, one by one.
    pub(super) first: Vec<usize>,
    /// For the items after those.
    pub(super) rest: Vec<usize>,
    /// For all items.
    pub(super) items: Vec<usize>,
}

/// The subschemas reachable from a schema, which is the first.
#[derive(Debug)]
pub(super) struct Outline {
    pub(super) nodes: Vec<Node>,
    /// The number of distinct patterns.
    pub(super) patterns: usize,
}

impl Outline {
    /// # Errors
    /// Why validation may cost too much, in words.
    pub(super) fn of(schema: &Value) -> Result<Self, String> {
        let patterns = measure(schema)?;
        let mut reader = Reader {
            root: schema,
            known: HashMap::new(),
            open: Vec::new(),
            nodes: Vec::new(),
        };
        reader.node(schema)?;
        while let Some((index, schema)) = reader.open.pop() {
            let node = reader.read(schema)?;
            reader.nodes[index] = node;
        }
        bound(&reader.nodes)?;
        Ok(Self {
            nodes: reader.nodes,
            patterns,
        })
    }
}

/// Rejects schemas too large to examine, and counts the patterns.
fn measure(schema: &Value) -> Result<usize, String> {
    let bytes = schema.to_string().len();
    if bytes > SCHEMA_BYTES {
        return Err(format!("the schema has {bytes} bytes; the limit is {SCHEMA_BYTES}"));
    }
    // A nested `$id` would change the targets of references. The oldest accepted draft calls it `id`.
    let draft = schema["$schema"].as_str().unwrap_or_default();
    let id = if draft.contains("draft-04") { "id" } else { "$id" };
    let mut patterns = BTreeSet::new();
    let mut open = vec![(schema, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > SCHEMA_DEPTH {
            return Err(format!("the schema is nested deeper than {SCHEMA_DEPTH} levels"));
        }
        match value {
            Value::Object(fields) => {
                if depth > 1 && fields.get(id).is_some_and(Value::is_string) {
                    return Err("a subschema has its own $id, which is not supported".to_owned());
                }
                patterns.extend(fields.get("pattern").and_then(Value::as_str));
                if let Some(Value::Object(patterned)) = fields.get("patternProperties") {
                    patterns.extend(patterned.keys().map(String::as_str));
                }
                open.extend(fields.values().map(|field| (field, depth + 1)));
            }
            Value::Array(items) => open.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    if patterns.len() > PATTERNS {
        let count = patterns.len();
        return Err(format!("the schema has {count} patterns; the limit is {PATTERNS}"));
    }
    match patterns.iter().map(|pattern| pattern.len()).max() {
        Some(bytes) if bytes > PATTERN_BYTES => Err(format!(
            "a pattern of the schema has {bytes} bytes; the limit is {PATTERN_BYTES}"
        )),
        Some(_) | None => Ok(patterns.len()),
    }
}

/// Finds the nodes of a schema.
struct Reader<'a> {
    root: &'a Value,
    /// By address: the schema does not move meanwhile.
    known: HashMap<*const Value, usize>,
    /// Not processed yet.
    open: Vec<(usize, &'a Value)>,
    nodes: Vec<Node>,
}

impl<'a> Reader<'a> {
    fn node(&mut self, schema: &'a Value) -> Result<usize, String> {
        let address: *const Value = schema;
        if let Some(index) = self.known.get(&address) {
            return Ok(*index);
        }
        let index = self.nodes.len();
        if index >= SUBSCHEMAS {
            return Err(format!("the schema has more than {SUBSCHEMAS} subschemas"));
        }
        self.nodes.push(Node::default());
        self.known.insert(address, index);
        self.open.push((index, schema));
        Ok(index)
    }

    fn read(&mut self, schema: &'a Value) -> Result<Node, String> {
        let mut node = Node {
            own: 1,
            ..Node::default()
        };
        // `true` and `false` are schemas, too.
        let Value::Object(fields) = schema else {
            return Ok(node);
        };
        for (keyword, value) in fields {
            match (keyword.as_str(), value) {
                ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(reference)) => {
                    node.same.push(self.referred(reference)?);
                }
                ("allOf" | "anyOf" | "oneOf", Value::Array(schemas)) => self.all(schemas, &mut node.same)?,
                ("not" | "if" | "then" | "else", schema) => node.same.push(self.node(schema)?),
                ("dependentSchemas" | "dependencies", Value::Object(schemas)) => {
                    // The older keyword may contain lists of names.
                    let schemas = schemas.values().filter(|schema| !schema.is_array());
                    self.all(schemas, &mut node.same)?;
                }
                ("properties", Value::Object(properties)) => {
                    for (name, schema) in properties {
                        node.properties.insert(name.clone(), self.node(schema)?);
                    }
                }
                ("patternProperties", Value::Object(properties)) => {
                    for (pattern, schema) in properties {
                        node.patterned.push((states(pattern), self.node(schema)?));
                    }
                }
                ("additionalProperties", schema) => node.others.push(self.node(schema)?),
                ("unevaluatedProperties", schema) => {
                    node.is_unevaluated = true;
                    node.others.push(self.node(schema)?);
                }
                ("propertyNames", schema) => node.names.push(self.node(schema)?),
                ("prefixItems" | "items", Value::Array(schemas)) => self.all(schemas, &mut node.first)?,
                ("items" | "additionalItems", schema) => node.rest.push(self.node(schema)?),
                ("unevaluatedItems", schema) => {
                    node.is_unevaluated = true;
                    node.rest.push(self.node(schema)?);
                }
                ("contains", schema) => node.items.push(self.node(schema)?),
                ("enum" | "const" | "required" | "dependentRequired", literals) => {
                    node.own += literals.to_string().len() as u64 / COMPARED;
                }
                ("pattern", Value::String(pattern)) => node.pattern = states(pattern),
                _ => {}
            }
        }
        Ok(node)
    }

    fn all(&mut self, schemas: impl IntoIterator<Item = &'a Value>, to: &mut Vec<usize>) -> Result<(), String> {
        for schema in schemas {
            to.push(self.node(schema)?);
        }
        Ok(())
    }

    /// Returns the node that a reference of the form `#/…` points to.
    fn referred(&mut self, reference: &str) -> Result<usize, String> {
        let id = self.root.get("$id").and_then(Value::as_str).unwrap_or_default();
        let local = match id {
            "" => reference,
            id => reference.strip_prefix(id.trim_end_matches('#')).unwrap_or(reference),
        };
        let shown: String = reference.chars().take(100).collect();
        let pointer = local
            .strip_prefix('#')
            .or_else(|| local.is_empty().then_some(""))
            .filter(|pointer| pointer.is_empty() || pointer.starts_with('/'))
            .ok_or_else(|| format!("the reference {shown:?} does not have the form #/…"))?;
        let target = self.root.pointer(&decoded(pointer));
        let target = target.ok_or_else(|| format!("the reference {shown:?} does not resolve"))?;
        self.node(target)
    }
}

/// Percent-decodes a fragment.
fn decoded(fragment: &str) -> Cow<'_, str> {
    if !fragment.contains('%') {
        return Cow::Borrowed(fragment);
    }
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = fragment.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        match (bytes[at], digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 3;
            }
            (byte, ..) => {
                plain.push(byte);
                at += 1;
            }
        }
    }
    Cow::Owned(String::from_utf8_lossy(&plain).into_owned())
}

/// Estimates the states of a compiled pattern: its characters, Unicode classes more, times all its counted repetitions.
fn states(pattern: &str) -> u64 {
    let mut states = 0_u64;
    let mut times = 1_u64;
    let mut characters = pattern.chars().peekable();
    while let Some(character) = characters.next() {
        states += match character {
            '\\' if matches!(characters.peek(), Some('p' | 'P')) => 400,
            '.' | '^' => 8,
            _ => 1,
        };
        if character == '{' {
            let inside: String = characters
                .clone()
                .take_while(|inside| *inside != '}')
                .take(20)
                .collect();
            let most = inside
                .split(',')
                .filter_map(|number| number.trim().parse::<u64>().ok())
                .max();
            times = times.saturating_mul(most.unwrap_or(1).max(1));
        }
    }
    // A larger one is not compiled.
    states
        .saturating_mul(times)
        .min(super::PATTERN_COMPILED_BYTES as u64 / 16)
}

impl Node {
    /// How often it checks the same value.
    pub(super) fn times(&self) -> u64 {
        if self.is_unevaluated { TIMES_UNEVALUATED } else { 1 }
    }

    /// All its targets.
    fn targets(&self) -> Vec<usize> {
        let lists = [
            &self.same,
            &self.others,
            &self.names,
            &self.first,
            &self.rest,
            &self.items,
        ];
        let listed = lists.into_iter().flatten().copied();
        let patterned = self.patterned.iter().map(|(_, target)| *target);
        listed
            .chain(self.properties.values().copied())
            .chain(patterned)
            .collect()
    }

    /// It checks only the value itself.
    pub(super) fn is_leaf(&self) -> bool {
        let lists = [
            &self.same,
            &self.others,
            &self.names,
            &self.first,
            &self.rest,
            &self.items,
        ];
        lists.into_iter().all(Vec::is_empty) && self.properties.is_empty() && self.patterned.is_empty()
    }
}
