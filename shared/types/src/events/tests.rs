//! Events as the wire shows them.

use super::*;
use serde_json::json;

#[test]
fn a_token_is_what_the_wire_shows() {
    let run = Uuid::nil();
    let event = Event::of(run, Kind::Token { token: "Hel".into() });
    assert_eq!(
        serde_json::from_str::<Value>(&event.to_json()).unwrap(),
        json!({"type": "token", "runId": run, "token": "Hel"})
    );
}

#[test]
fn meta_names_its_agent_once() {
    let event = Event::of(
        Uuid::nil(),
        Kind::Meta {
            conversation_id: None,
            agent_definition_id: None,
            agent_name: Some("a".into()),
            model: "m".into(),
            model_requested: None,
            model_retired_on: None,
            citations: vec![],
            attempt: 1,
        },
    );
    let text = event.to_json();
    assert_eq!(text.matches("\"agent\"").count(), 1, "{text}");
}

#[test]
fn an_unknown_kind_is_read_and_not_an_error() {
    let event: Event =
        serde_json::from_value(json!({"type": "from_the_future", "runId": Uuid::nil(), "x": 1})).unwrap();
    assert_eq!(event.kind, Kind::Unknown);
}

#[test]
fn an_event_of_a_program_has_its_name_and_data() {
    let event = Event::of(
        Uuid::nil(),
        Kind::Custom {
            name: "progress".into(),
            data: json!({"done": 3}),
            call_id: None,
        },
    );
    assert_eq!(
        serde_json::from_str::<Value>(&event.to_json()).unwrap(),
        json!({"type": "custom", "runId": Uuid::nil(), "name": "progress", "data": {"done": 3}})
    );
}
