//! Which agents have coordination tools, and which questions a person can answer.

use super::*;

#[test]
fn below_the_top_only_a_name_grants_coordination() {
    let named = vec![SPAWN_AGENTS.to_owned()];
    let glob = vec!["*".to_owned()];
    assert!(keeps(SPAWN_AGENTS, &glob, 0, None));
    assert!(!keeps(SPAWN_AGENTS, &glob, 1, None));
    assert!(keeps(SPAWN_AGENTS, &named, 1, None));
    assert!(!keeps(LIST_AVAILABLE_AGENTS, &named, 1, None));
    assert!(!keeps(SPAWN_AGENTS, &named, 2, Some(9)), "two is the hard cap");
    assert!(!keeps(SPAWN_AGENTS, &named, 0, Some(0)), "a definition may want less");
    assert!(keeps("hybrid_search", &glob, 2, None));
}

#[test]
fn a_question_is_what_a_person_can_answer() {
    let asked = question(json!({"question": "Which?", "options": [{"label": "A", "value": "a"}]})).unwrap();
    assert_eq!(asked.interaction_type, "buttons");
    assert_eq!(question(json!({"question": "Why?"})).unwrap().interaction_type, "text");
    assert!(question(json!({"question": " "})).is_err());
    assert!(question(json!({"question": "Which?", "interaction_type": "select"})).is_err());
}
