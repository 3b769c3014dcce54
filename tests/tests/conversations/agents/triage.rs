//! Triage in a project with four kinds of data sources: first messages that the router can't or wrongly assigns, and
//! which agent answers in the end. The model is scripted by a rule that knows only its input: the names of sources
//! returned by `list_data_sources`.

use std::sync::{Arc, Mutex};

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, kinds, of_kind, text};
use rejoin_tests::model_server::{Reply, last_user_message, sent};
use serde_json::{Value, json};
use uuid::Uuid;

/// (name, kind, its agent, its agent's name in handoffs)
const SOURCES: [(&str, &str, &str, &str); 4] = [
    ("billing", "postgresql", "postgres-analyst", "postgres"),
    ("shopfront", "mongodb", "mongodb-analyst", "mongodb"),
    ("visits", "bigquery", "bigquery-analyst", "bigquery"),
    ("depot", "sqlite", "sql-analyst", "sql"),
];

/// First messages that name a source and no kind of database; with the index of the source above.
const PLAIN: [(&str, usize); 40] = [
    ("who are our ten best customers in billing?", 0),
    ("What was the revenue of last quarter, by billing?", 0),
    ("billing: what is overdue for more than 60 days", 0),
    ("how much did ACME pay us this year? it must be in billing", 0),
    ("Is the data in billing up to date?", 0),
    ("billing has ACME twice, or not?", 0),
    ("our average invoice last month (billing)", 0),
    ("which countries pay late, going by billing", 0),
    ("Please check billing for refunds above 500 euros", 0),
    ("churn by month out of billing", 0),
    ("who bought an umbrella in the shopfront yesterday", 1),
    ("shopfront: carts that nobody came back to", 1),
    ("How many people signed up in shopfront this week?", 1),
    ("the three latest reviews in the shopfront", 1),
    ("what do people put on their wish lists in shopfront", 1),
    ("is anything out of stock in the shopfront?", 1),
    ("Which coupons were used most in shopfront?", 1),
    ("shopfront, accounts without a phone number", 1),
    ("how old are the shopfront's oldest carts", 1),
    ("did we sell more hats or more gloves in shopfront", 1),
    ("conversion rate by channel, last 30 days, from visits", 2),
    ("Where do most of our visitors come from? See visits", 2),
    ("visits by the hour of the day", 2),
    ("how long do people stay, says visits", 2),
    ("visits: mau and dau for the last 12 months", 2),
    ("did the campaign in May change anything in visits", 2),
    ("Which pages do people leave from? That's in visits", 2),
    ("share of phones in visits, year by year", 2),
    ("the busiest day ever in visits", 2),
    ("returning people per month according to visits", 2),
    ("what is below its minimum in depot", 3),
    ("depot: pallets that have not moved since spring", 3),
    ("How heavy is all that lies in the depot?", 3),
    ("who signed for the last delivery to depot", 3),
    ("free shelves per aisle in the depot", 3),
    ("which supplier is late most often, going by depot", 3),
    ("depot: what expires within 14 days", 3),
    ("Did the depot get the 40 crates from Lyon?", 3),
    ("the most expensive thing in depot, please", 3),
    ("count what came back broken to the depot", 3),
];
/// No signal: one question to the user.
const OPEN: [&str; 2] = ["is it up to date?", "hey there"];

/// What a model with triage's prompt would do: look once, hand over by the result, or ask.
fn triage(request: &Value) -> Reply {
    let given = sent(request);
    let asked = last_user_message(request).to_lowercase();
    let Some((_, listed)) = given.iter().rev().find(|(role, _)| role == "tool") else {
        return Reply::tool("list_data_sources", json!({}));
    };
    let Ok(listed) = serde_json::from_str::<Value>(listed) else {
        // The user's answer.
        return Reply::text("Then I can't tell.");
    };
    let sources = listed["dataSources"].as_array().cloned().unwrap_or_default();
    let meant = sources
        .iter()
        .find(|source| source["name"].as_str().is_some_and(|name| asked.contains(name)));
    let word = meant.and_then(|source| SOURCES.iter().find(|(_, kind, ..)| source["kind"] == *kind));
    match word {
        Some((_, _, _, word)) => Reply::tool(&format!("transfer_to_{word}"), json!({"reason": "its source is named"})),
        None => Reply::tool(
            "ask_user",
            json!({"question": "Which of them do you mean?", "options": []}),
        ),
    }
}

fn offered(request: &Value) -> Vec<String> {
    let tools = request["tools"].as_array().cloned().unwrap_or_default();
    let name = |tool: &Value| tool["function"]["name"].as_str().map(str::to_owned);
    tools.iter().filter_map(name).collect()
}

/// Installs the specialists over four sources.
pub(super) async fn install(app: &TestApp) {
    let client = app.client();
    let admin = format!("/api/admin/projects/{}", app.db.workspace_id);
    let install = format!("{admin}/install-default-agents?set=databases");
    assert_eq!(client.post(&install, json!({})).await.0, 200);
    sqlx::query("update kb.agent_definitions set model = '{\"name\": \"openai:scripted\"}'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    for (name, kind, ..) in SOURCES {
        sqlx::query("insert into kb.data_sources (id, project_id, name, kind, settings) values ($1, $2, $3, $4, '{}')")
            .bind(Uuid::now_v7())
            .bind(app.db.workspace_id)
            .bind(name)
            .bind(kind)
            .execute(&app.db.pool)
            .await
            .unwrap();
    }
    let set = client.put(&format!("{admin}/routing"), json!({"percent": 100})).await;
    assert_eq!(set.0, 200, "{}", set.1);
}

/// The same, with the rule above; errors in their offered tools are recorded in the list.
async fn project(app: &TestApp) -> Arc<Mutex<Vec<String>>> {
    install(app).await;
    let faults: Arc<Mutex<Vec<String>>> = Arc::default();
    let found = faults.clone();
    app.model.answer_by(move |request| {
        let tools = offered(request);
        let handoffs: Vec<&str> = tools
            .iter()
            .filter_map(|name| name.strip_prefix("transfer_to_"))
            .collect();
        if handoffs.len() == SOURCES.len() {
            let looks = |name: &&String| {
                !name.starts_with("list_") && !name.starts_with("transfer_to_") && name.as_str() != "ask_user"
            };
            let others: Vec<&String> = tools.iter().filter(looks).collect();
            if !others.is_empty() {
                found.lock().unwrap().push(format!("triage is offered {others:?}"));
            }
            return Some(triage(request));
        }
        // A specialist can hand over to all others. A wrongly chosen one knows it from the message.
        let own = SOURCES.iter().find(|(_, _, _, word)| !handoffs.contains(word));
        let asked = last_user_message(request);
        match (own, asked.contains("in visits instead")) {
            (Some((_, kind, ..)), true) if *kind != "bigquery" => Some(Reply::tool(
                "transfer_to_bigquery",
                json!({"reason": "the user wants visits"}),
            )),
            (Some((_, _, agent, _)), _) => Some(Reply::text(format!("This is {agent}."))),
            (None, _) => None,
        }
    });
    faults
}

/// Requirements: D15, D18.
#[tokio::test]
async fn triage_hands_over_in_its_first_turn_after_one_look() {
    let app = TestApp::developing().await;
    let client = app.client();
    let faults = project(&app).await;
    // Alternating: a user's most frequent agent would be a signal.
    for turn in 0..PLAIN.len() {
        let (message, of) = PLAIN[turn % 4 * 10 + turn / 4];
        let (_, _, agent, _) = SOURCES[of];
        let frames = client.chat(json!({"message": message})).await;
        let events = json_of(&frames);
        let published = &of_kind(&events, "telemetry")[0]["data"];
        assert_eq!(
            (&published["agent"], &published["reason"]),
            (&json!("triage"), &json!("triage")),
            "{message}"
        );
        // One look around, and no text before the handoff.
        let before: Vec<String> = kinds(&frames)
            .into_iter()
            .skip_while(|kind| kind != "telemetry")
            .take_while(|kind| kind != "handoff")
            .filter(|kind| kind != "usage")
            .collect();
        assert!(!before.iter().any(|kind| kind == "token"), "{message}: {before:?}");
        let calls: Vec<&str> = of_kind(&events, "mcp_tool")
            .into_iter()
            .filter(|event| event["status"] == "started")
            .filter_map(|event| event["tool"].as_str())
            .filter(|tool| !tool.starts_with("transfer_to_"))
            .collect();
        assert_eq!(calls, ["list_data_sources"], "{message}");
        let handoffs = of_kind(&events, "handoff");
        assert_eq!((handoffs.len(), &handoffs[0]["to"]), (1, &json!(agent)), "{message}");
        // It answers in the same stream, which ends once.
        assert_eq!(text(&frames), format!("This is {agent}."), "{message}");
        assert_eq!(of_kind(&events, "done").len(), 1, "{message}");
    }
    for message in OPEN {
        client.post_message(json!({"message": message})).await;
    }
    rejoin_tests::support::wait_for("the questions", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        (page["items"].as_array()?.len() == OPEN.len()).then_some(())
    })
    .await;

    let (_, stats) = client
        .get(&format!("/api/projects/{}/routing/stats", app.db.workspace_id))
        .await;
    let items = stats["items"].as_array().unwrap();
    let of_triage = items.iter().find(|item| item["agent"] == "triage").unwrap();
    let number = |name: &str| of_triage[name].as_f64().unwrap();
    assert_eq!((number("conversations"), number("handedOver")), (42.0, 40.0), "{stats}");
    assert_eq!(*faults.lock().unwrap(), Vec::<String>::new());
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

/// Requirements: D18, D51.
#[tokio::test]
async fn a_wrongly_chosen_specialist_hands_over_in_the_same_stream() {
    let app = TestApp::developing().await;
    let client = app.client();
    let faults = project(&app).await;
    // A console's database decides, whatever the message says.
    for (kind, agent) in [
        ("postgresql", "postgres-analyst"),
        ("sqlite", "sql-analyst"),
        ("mongodb", "mongodb-analyst"),
    ] {
        let console = json!({"id": Uuid::now_v7(), "title": "Orders", "content": "-- orders", "databaseType": kind});
        let body = json!({"message": "now the same in visits instead", "consoles": [console]});
        let frames = client.chat(body).await;
        let events = json_of(&frames);
        assert_eq!(of_kind(&events, "telemetry")[0]["data"]["agent"], agent);
        let handoffs = of_kind(&events, "handoff");
        assert_eq!(
            (handoffs.len(), &handoffs[0]["from"], &handoffs[0]["to"]),
            (1, &json!(agent), &json!("bigquery-analyst"))
        );
        assert_eq!(text(&frames), "This is bigquery-analyst.");
        assert_eq!(of_kind(&events, "done").len(), 1);
    }
    assert_eq!(*faults.lock().unwrap(), Vec::<String>::new());
    assert_eq!(app.model.violations(), Vec::<String>::new());
}
