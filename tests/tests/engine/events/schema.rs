//! The schemas of events in the OpenAPI document: they describe what streams send, and docs/reference/streams.md lists them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use rejoin_schemas::Validator;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::json_of;
use rejoin_tests::model_server::Reply;
use rejoin_types::events::Kind;
use serde_json::{Value, json};

fn file(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// The schemas of the document.
fn schemas() -> Value {
    let document = serde_json::to_value(rejoin_api::routes::document()).expect("plain data");
    document["components"]["schemas"].clone()
}

/// The values of `type`, each with the name of its schema.
fn types(schemas: &Value) -> BTreeMap<String, String> {
    let mapping = schemas["StreamEvent"]["discriminator"]["mapping"].as_object();
    let named = mapping
        .expect("the union has a discriminator")
        .iter()
        .map(|(kind, place)| {
            let place = place.as_str().expect("a reference");
            (kind.clone(), place.rsplit('/').next().expect("a name").to_owned())
        });
    named.collect()
}

/// A validator for each type. Stricter than the document: a field without a schema is a violation.
struct Events(BTreeMap<String, Validator>);

impl Events {
    fn of(schemas: &Value) -> Self {
        let validators = types(schemas).into_iter().map(|(kind, name)| {
            let mut schema = schemas[&name].clone();
            schema["additionalProperties"] = json!(false);
            schema["components"] = json!({ "schemas": schemas });
            (kind, rejoin_schemas::compiled(&schema).expect("a schema"))
        });
        Self(validators.collect())
    }

    fn assert_describe(&self, event: &Value) {
        let kind = event["type"].as_str().expect("an event has a type");
        let validator = self.0.get(kind).unwrap_or_else(|| panic!("{kind} has no schema"));
        let faults = rejoin_schemas::faults(validator, event);
        assert!(faults.is_empty(), "{faults:?} in {event:#}");
    }
}

#[test]
fn recorded_events_match_their_schemas() {
    let events = Events::of(&schemas());
    let recorded = std::fs::read_to_string(file("web/packages/client/test/recorded.json")).expect("a recording");
    let recorded: Vec<(i64, Value)> = serde_json::from_str(&recorded).expect("a log");
    assert!(recorded.len() > 100);
    for (_, event) in &recorded {
        events.assert_describe(event);
    }
}

#[tokio::test]
async fn events_of_new_runs_match_their_schemas() {
    let events = Events::of(&schemas());
    let app = TestApp::start().await;
    let agent = app.agent("helper", &["*"]).await;
    app.model.script([
        Reply::tool("hybrid_search", json!({ "query": "openssl" })),
        Reply::text("Nothing found.").reasoning("Let me see."),
    ]);
    let client = app.client();
    let sent = json_of(&client.ask(Some(agent), "Is there anything?").await);
    for event in &sent {
        events.assert_describe(event);
    }
    let conversation = sent.iter().find_map(|event| event["conversationId"].as_str());
    let path = format!("/api/conversations/{}/events", conversation.expect("`meta` names it"));
    let mut late = client.event_stream(&format!("{path}?from=snapshot")).await;
    for frame in late.until("snapshot").await {
        events.assert_describe(&frame.json());
    }
}

#[test]
fn events_without_their_fields_do_not_match() {
    let schemas = schemas();
    let events = Events::of(&schemas);
    let run = uuid::Uuid::nil();
    for event in [
        json!({"type": "token", "runId": run}),
        json!({"type": "token", "token": "a"}),
        json!({"type": "token", "runId": run, "token": "a", "text": "b"}),
        json!({"type": "done", "runId": run, "status": "finished"}),
    ] {
        let kind = event["type"].as_str().expect("a type");
        assert!(!rejoin_schemas::faults(&events.0[kind], &event).is_empty(), "{event}");
    }
}

/// The manual's table of all types, made from the schemas.
fn table(schemas: &Value) -> String {
    let mut table = "| type | fields | meaning |\n| --- | --- | --- |\n".to_owned();
    for (kind, name) in types(schemas) {
        let schema = &schemas[&name];
        let required = schema["required"].as_array().expect("`type` is required");
        let properties = schema["properties"].as_object().expect("`type` is a property");
        let common = ["type", "runId", "parentRunId", "source", "stepNumber"];
        let fields = properties
            .keys()
            .filter(|field| !common.contains(&field.as_str()) && (*field != "agent" || kind == "meta"));
        let fields: Vec<String> = fields
            .map(|field| {
                let mark = if required.contains(&json!(field)) { "" } else { "?" };
                format!("`{field}{mark}`")
            })
            .collect();
        let meaning = schema["description"]
            .as_str()
            .unwrap_or_else(|| panic!("{name} has no description"));
        let meaning = meaning.replace('\n', " ").replace('|', "\\|");
        writeln!(table, "| `{kind}` | {} | {meaning} |", fields.join(", ")).expect("a string takes all");
    }
    table
}

#[test]
fn the_manual_lists_every_type_with_its_fields() {
    let table = table(&schemas());
    let page = file("docs/reference/streams.md");
    let text = std::fs::read_to_string(&page).expect("the page");
    let (begin, end) = ("<!-- events -->\n", "<!-- /events -->");
    let (head, rest) = text.split_once(begin).expect("where the table begins");
    let (_, tail) = rest.split_once(end).expect("where the table ends");
    let right = format!("{head}{begin}{table}{end}{tail}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&page, right).expect("the page is written");
    } else {
        assert!(
            text == right,
            "docs/reference/streams.md is out of date: run this test with INSTA_UPDATE=always"
        );
    }
}

#[test]
fn every_type_that_is_written_has_a_schema() {
    let schemas = schemas();
    let types = types(&schemas);
    let done = Kind::Done {
        status: rejoin_types::events::DoneStatus::Completed,
        final_message_id: None,
        usage: None,
    };
    assert_eq!(types[done.name()], "DoneEvent");
    assert!(!types.contains_key(Kind::Unknown.name()), "newer types have no schema");
    assert!(schemas["StreamEvent"]["oneOf"].as_array().expect("a union").len() == types.len());
}
