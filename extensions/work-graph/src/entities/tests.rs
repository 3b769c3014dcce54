//! Changes of an entity that are merged.

use super::*;

#[test]
fn strategies_replace_append_and_merge() {
    let there = json!({"description": "one", "priority": 3, "props": {"a": 1, "b": 2}});
    let given = json!({"description": "two", "priority": 1, "props": {"b": null, "c": 3}});
    let by = |strategy| Value::Object(together(&there, given.as_object().unwrap().clone(), strategy));
    assert_eq!(by(Strategy::Replace), given);
    assert_eq!(
        by(Strategy::Append),
        json!({"description": "one\n\ntwo", "priority": 1, "props": {"a": 1, "c": 3}})
    );
    assert_eq!(
        by(Strategy::Merge),
        json!({"description": "two", "priority": 1, "props": {"a": 1, "c": 3}})
    );
}
