//! Reports on routing: a comparison with a control group, and the list of misrouted messages.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

use super::routing::{first_turn, route, specialists};

/// Requirements: D51.
#[tokio::test]
async fn routed_conversations_are_compared_with_a_control_group() {
    let app = TestApp::start().await;
    let client = app.client();
    specialists(&app).await;
    let mongodb = "count the documents of the orders collection in mongodb";
    // The former flow: everything goes to triage.
    route(&app, json!({"percent": 0, "controlAgent": "triage"})).await;
    app.model.script([
        Reply::tool("transfer_to_mongodb", json!({"reason": "documents"})),
        Reply::text("Three."),
        Reply::text("Four."),
    ]);
    let events = json_of(&client.chat(json!({ "message": mongodb })).await);
    assert_eq!(of_kind(&events, "meta")[0]["agent"], "triage");
    assert!(of_kind(&events, "telemetry").is_empty(), "nothing was chosen");
    let answer = of_kind(&events, "message")[1]["message"]["id"].as_str().unwrap();
    let feedback = format!("/api/messages/{answer}/feedback");
    assert_eq!(client.put(&feedback, json!({"helped": false})).await.0, 204);
    // Omitting the control agent keeps it; null removes it: the conversation stays without an agent, and counts.
    route(&app, json!({"percent": 100})).await;
    let events = json_of(&client.chat(json!({ "message": mongodb })).await);
    assert_eq!(of_kind(&events, "meta")[0]["agent"], "mongodb-analyst");
    let path = format!("/api/admin/projects/{}/routing", app.db.workspace_id);
    assert_eq!(client.get(&path).await.1["controlAgent"], "triage");
    route(&app, json!({"percent": 0, "controlAgent": null})).await;
    let (agent, _) = first_turn(&app, &client, json!({"message": "and who are you?"})).await;
    assert_eq!(agent, Value::Null);
    let (status, refused) = client.put(&path, json!({"percent": 0, "controlAgent": "nobody"})).await;
    assert_eq!(
        (status.as_u16(), &refused["code"]),
        (400, &json!("agent_definition_not_found"))
    );

    let stats = format!("/api/projects/{}/routing/stats", app.db.workspace_id);
    let (_, told) = client.get(&stats).await;
    let numbers = |arm: &Value| {
        let names = ["conversations", "handedOver", "failed", "helped", "didNotHelp"];
        names.map(|name| arm[name].as_i64().unwrap())
    };
    let arms = told["arms"].as_array().unwrap();
    assert_eq!(arms.len(), 2, "{told}");
    assert_eq!(
        (&arms[0]["arm"], numbers(&arms[0])),
        (&json!("routed"), [1, 0, 0, 0, 0])
    );
    assert_eq!(
        (&arms[1]["arm"], numbers(&arms[1])),
        (&json!("control"), [2, 1, 0, 0, 1])
    );
    assert!(arms.iter().all(|arm| arm["answerMsP50"].as_f64() > Some(0.0)), "{told}");
    // A conversation with a named agent is in neither group, and the choices are those of the routed ones.
    assert_eq!(told["items"].as_array().unwrap().len(), 1);
}

/// Requirements: D51.
#[tokio::test]
async fn misrouted_messages_are_listed_for_their_owner() {
    let app = TestApp::start().await;
    let client = app.client();
    specialists(&app).await;
    route(&app, json!({"percent": 100})).await;
    // Right; wrong, as the agent finds; triage's own work; wrong, by the user's feedback.
    first_turn(&app, &client, json!({"message": "count the mongodb collections"})).await;
    app.model.script([
        Reply::tool("transfer_to_bigquery", json!({"reason": "it is there"})),
        Reply::text("Seven."),
        Reply::tool("transfer_to_sql", json!({"reason": "tables"})),
        Reply::text("Eight."),
        Reply::text("Nine."),
    ]);
    client.chat(json!({"message": "mongo: visits of today"})).await;
    client.chat(json!({"message": "is it up to date?"})).await;
    let events = json_of(&client.chat(json!({"message": "the biggest postgres table"})).await);
    let answer = of_kind(&events, "message")[1]["message"]["id"].as_str().unwrap();
    let feedback = format!("/api/messages/{answer}/feedback");
    assert_eq!(client.put(&feedback, json!({"helped": false})).await.0, 204);

    let path = format!("/api/projects/{}/routing/misrouted", app.db.workspace_id);
    let told = |page: &Value| -> Vec<Value> {
        let items = page["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                json!([
                    item["message"],
                    item["routing"]["agent"],
                    item["handedTo"],
                    item["helped"]
                ])
            })
            .collect()
    };
    let (status, page) = client.get(&format!("{path}?limit=1")).await;
    assert_eq!(status, 200, "{page}");
    assert_eq!(
        told(&page),
        [json!(["the biggest postgres table", "postgres-analyst", null, false])]
    );
    let next = page["nextCursor"].as_str().unwrap();
    let (_, page) = client.get(&format!("{path}?limit=1&cursor={next}")).await;
    assert_eq!(
        (told(&page), &page["nextCursor"]),
        (
            vec![json!([
                "mongo: visits of today",
                "mongodb-analyst",
                "bigquery-analyst",
                null
            ])],
            &Value::Null
        )
    );
    // Other members see none of them: messages are private.
    let (_, key) = app.db.another_user().await;
    let (_, page) = Client::new(app.url(), &key).get(&path).await;
    assert_eq!(page["items"], json!([]));
    assert_eq!(client.get(&format!("{path}?days=0")).await.0, 400);
}
