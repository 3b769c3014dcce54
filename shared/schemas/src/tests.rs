//! Expensive schemas and values, refused schemas, and generators' schemas that are accepted.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Map, json};

use super::*;

/// Timeout for one schema and one value, on a slow machine without optimization.
const LIMIT: Duration = Duration::from_secs(10);

/// Definitions of which each refers to the next one `times` times by `keyword`.
fn doubled(levels: usize, times: usize, keyword: &str) -> Value {
    let mut definitions = Map::new();
    for level in 0..levels {
        let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
        definitions.insert(format!("d{level}"), json!({ keyword: vec![next; times] }));
    }
    definitions.insert(format!("d{levels}"), json!({"type": "integer"}));
    json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions})
}

/// A tree whose nodes are one of several alternatives.
fn tree(alternatives: usize) -> Value {
    let node = json!({"$ref": "#/$defs/node"});
    let kinds: Vec<Value> = (0..alternatives)
        .map(|kind| json!({"type": "object", "properties": {"child": node, "kind": {"const": kind}}, "required": ["kind"]}))
        .collect();
    json!({"type": "object", "properties": {"tree": node}, "$defs": {"node": {"anyOf": kinds}}})
}

fn nested(depth: usize) -> Value {
    let leaf = json!({"kind": "none"});
    json!({"tree": (0..depth).fold(leaf, |child, _| json!({"child": child, "kind": "none"}))})
}

/// The result of a schema and a value, within the timeout.
fn outcome(schema: &Value, value: &Value) -> Result<Vec<String>, String> {
    let began = Instant::now();
    let outcome = compiled(schema).map(|validator| faults(&validator, value));
    let took = began.elapsed();
    assert!(took < LIMIT, "{took:?}: {}", cut(&schema.to_string()));
    outcome
}

#[test]
fn references_that_multiply_are_refused_with_the_schema() {
    for keyword in ["anyOf", "allOf", "oneOf"] {
        let refused = outcome(&doubled(24, 2, keyword), &json!({"x": "no"})).unwrap_err();
        assert!(refused.contains("multiply"), "{refused}");
    }
    let one = |schema: Value| json!({"properties": {"x": schema}});
    for (schema, words) in [
        (json!({"$ref": "#"}), "without end"),
        (
            json!({"anyOf": [{"$ref": "#/anyOf/1"}, {"allOf": [{"$ref": "#/anyOf/0"}]}]}),
            "without end",
        ),
        (doubled(500, 1, "allOf"), "in a chain"),
        (one(json!({"$ref": "#/nowhere"})), "does not resolve"),
        (one(json!({"$ref": "https://example.org/schema"})), "#/"),
        (one(json!({"$ref": "#name"})), "#/"),
        (
            one(json!({"$id": "https://example.org/", "type": "string"})),
            "its own $id",
        ),
        (json!({"enum": ["x".repeat(1_000_000)]}), "bytes"),
        (json!({"anyOf": vec![json!({"type": "string"}); 20_000]}), "subschemas"),
    ] {
        let refused = outcome(&schema, &json!({"x": 1})).unwrap_err();
        assert!(refused.contains(words), "{words}: {refused}");
        assert_eq!(check(&schema), Err(refused));
    }
    // A path through distinct parts is as long as the schema is large.
    let way = |parts: usize| {
        let mut definitions = Map::new();
        for part in 0..parts {
            definitions.insert(
                format!("d{part}"),
                json!({"properties": {"a": {"$ref": format!("#/$defs/d{}", part + 1)}}}),
            );
        }
        definitions.insert(format!("d{parts}"), json!({}));
        json!({"$ref": "#/$defs/d0", "$defs": definitions})
    };
    assert!(outcome(&way(3_000), &json!({})).unwrap_err().contains("has a chain of"));
    assert_eq!(outcome(&way(450), &json!({"a": {"a": {}}})), Ok(Vec::new()));
    let deep = (0..120).fold(json!({}), |schema, _| json!({"not": schema}));
    assert!(outcome(&deep, &json!({})).unwrap_err().contains("nested deeper"));
}

#[test]
fn a_value_that_multiplies_with_its_schema_is_refused() {
    let schema = tree(4);
    assert_eq!(
        outcome(&schema, &json!({"tree": {"kind": 1, "child": {"kind": 3}}})),
        Ok(Vec::new())
    );
    let faults = outcome(&schema, &nested(2)).unwrap();
    assert!(faults[0].starts_with("tree: "), "{faults:?}");
    for depth in [12, 40, 110] {
        let faults = outcome(&schema, &nested(depth)).unwrap();
        assert!(faults.len() == 1 && faults[0].contains("steps"), "{depth}: {faults:?}");
    }
    // Nesting without alternatives costs no more than its size.
    assert_eq!(outcome(&tree(1), &nested(100)).unwrap().len(), 1);
    // Names and literals count as well.
    let listed: Vec<String> = (0..20_000).map(|number| format!("word{number}")).collect();
    let schema = json!({"properties": {"x": {"items": {"enum": listed}}}});
    let faults = outcome(&schema, &json!({"x": vec!["none"; 50_000]})).unwrap();
    assert!(faults[0].contains("steps"), "{faults:?}");
}

#[test]
fn patterns_in_values_are_not_compiled() {
    let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "items": {"format": "regex"}});
    assert_eq!(
        outcome(&schema, &json!(vec![r"((\p{L}{1000}){100}){10}"; 1_000])),
        Ok(Vec::new())
    );
}

#[test]
fn unevaluated_properties_within_each_other_are_bounded() {
    let schema = |levels: usize| {
        (0..levels).fold(
            json!({"properties": {"a": true}}),
            |inner, _| json!({"allOf": [inner], "unevaluatedProperties": false}),
        )
    };
    assert_eq!(outcome(&schema(3), &json!({"a": 1})), Ok(Vec::new()));
    assert!(outcome(&schema(20), &json!({"a": 1})).unwrap_err().contains("multiply"));
}

#[test]
fn patterns_have_bounds_of_number_size_and_time() {
    let patterned = |patterns: Vec<String>| {
        let properties: Map<String, Value> = patterns
            .into_iter()
            .enumerate()
            .map(|(number, pattern)| (format!("p{number}"), json!({"type": "string", "pattern": pattern})))
            .collect();
        json!({ "properties": properties })
    };
    let large = |number: usize| format!("^[a-z]{{1,{}}}[A-Z]{{1,100}}$", number + 1);
    let refused = outcome(&patterned((0..2_000).map(large).collect()), &json!({})).unwrap_err();
    assert!(refused.contains("2000 patterns"), "{refused}");
    assert_eq!(
        outcome(&patterned((0..100).map(large).collect()), &json!({"p5": "aB"})),
        Ok(Vec::new())
    );
    let refused = outcome(&patterned(vec![r"(\p{L}{1000}){1000}".to_owned()]), &json!({})).unwrap_err();
    assert!(refused.contains("pattern") || refused.contains("regex"), "{refused}");
    let refused = outcome(&patterned(vec!["a".repeat(5_000)]), &json!({})).unwrap_err();
    assert!(refused.contains("5000 bytes"), "{refused}");
    // Backtracking, and many simultaneous states, over a long text.
    for pattern in [
        "^(?=(a+)+$)(a+)+b$",
        r"^(a+)+\1b$",
        "(a|b|ab)*[ab]{300}c",
        r"(\p{L}|\p{N}){1,9}x",
    ] {
        for length in [30, 5_000, 250_000] {
            let faults = outcome(&patterned(vec![pattern.to_owned()]), &json!({"p0": "a".repeat(length)}));
            // Rejected or invalid, in time.
            assert!(faults.is_err() || !faults.unwrap().is_empty(), "{pattern} {length}");
        }
    }
    // Property names, too.
    let schema =
        json!({"patternProperties": {"^(a|b|ab)*[ab]{300}c$": true}, "propertyNames": {"pattern": "(a|b)*[ab]{300}c"}});
    let names: Map<String, Value> = (0..50)
        .map(|number| (format!("{}{number}", "ab".repeat(2_000)), json!(1)))
        .collect();
    assert!(outcome(&schema, &Value::Object(names)).unwrap()[0].contains("steps"));
}

#[test]
fn schemas_that_generators_write_are_taken() {
    let mut large = Map::new();
    for number in 0..300 {
        large.insert(
            format!("field{number}"),
            json!({"anyOf": [{"type": "string", "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}$"}, {"type": "null"}], "default": null}),
        );
    }
    for schema in [
        json!({"type": "object", "properties": large}),
        json!({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://example.org/a",
               "definitions": {"a b": {"type": "object", "properties": {"$id": {"type": "string"}, "next": {"$ref": "#/definitions/a%20b"}}}},
               "properties": {"x": {"$ref": "#/definitions/a%20b"}, "y": {"$ref": "https://example.org/a#/properties/x"}}}),
        json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "properties": {"x": {"$dynamicRef": "#/$defs/y"}},
               "$defs": {"y": {"type": "array", "prefixItems": [true], "items": {"type": "string"}, "contains": {"const": "a"}}}}),
        json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}, "if": {"required": ["a"]}, "then": {"minProperties": 2}}),
        json!(true),
    ] {
        let taken = compiled(&schema);
        assert!(taken.is_ok(), "{schema}: {}", taken.unwrap_err());
    }
    // A result of the maximum size of a call.
    let schema = json!({"properties": {"rows": {"items": {"type": "object", "properties": {
        "id": {"type": "integer"}, "name": {"type": "string", "maxLength": 100}, "kind": {"enum": ["a", "b"]}}}}}});
    let rows: Vec<Value> = (0..6_000)
        .map(|id| json!({"id": id, "name": "somebody", "kind": "b"}))
        .collect();
    assert_eq!(outcome(&schema, &json!({"rows": rows})), Ok(Vec::new()));
}

#[test]
fn what_a_schema_of_a_few_kilobytes_can_cost_at_most_is_little() {
    // The largest accepted schema of each shape: checks that all fail, and are reported.
    for (levels, times) in [(12, 2), (8, 3), (6, 4), (3, 20)] {
        for keyword in ["anyOf", "oneOf", "allOf"] {
            let schema = doubled(levels, times, keyword);
            let many = json!({"type": "object", "properties": {"list": {"items": schema["properties"]["x"]}}, "$defs": schema["$defs"]});
            for items in [1, 100, 10_000] {
                let told = outcome(&many, &json!({"list": vec!["no"; items]}));
                assert!(told.is_err() || !told.unwrap().is_empty());
            }
        }
    }
    let mut text = String::new();
    for number in 0..2_000 {
        write!(text, "{number},").unwrap();
    }
    assert!(outcome(&json!({"maxLength": 10}), &json!(text)).unwrap()[0].len() < 600);
}
