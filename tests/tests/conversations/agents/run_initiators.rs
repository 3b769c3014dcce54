//! Runs outside conversations act on behalf of their maker, with the maker's calendars and consoles: what other members
//! see of such a run, and can't do with it. Enforced by the queries, and by row-level security
//! (`run_row_security`).

use rejoin_identity::workspaces::Role;
use rejoin_runs::agents::DefinitionContent;
use rejoin_runs::consoles::tools;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
pub use rejoin_tests::members::{member, trigger};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Map, Value, json};
use uuid::Uuid;

/// Secrets that only their owner may see.
const SECRETS: [&str; 3] = ["secretevent", "secretconsole", "secretanswer"];

/// Reads the state in the database, regardless of visibility.
pub async fn wait_for_state(app: &TestApp, run: &str, state: &str) {
    wait_for(state, async || {
        let now: String = sqlx::query_scalar("select state from kb.agent_runs where id = $1::uuid")
            .bind(run)
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
        (now == state).then_some(())
    })
    .await;
}

/// The user has a private event and console.
pub async fn private_things(client: &Client) {
    let console = json!({"title": "secretconsole", "content": "select 1", "kind": "postgresql"});
    let (status, made) = client.post("/api/consoles", console).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let (status, calendar) = client
        .post("/api/calendars", json!({"name": "Mine", "timeZone": "UTC"}))
        .await;
    assert_eq!(status, StatusCode::CREATED, "{calendar}");
    let events = format!("/api/calendars/{}/events", calendar["id"].as_str().unwrap());
    let event = json!({"title": "secretevent", "start": "2026-03-27T10:00"});
    let (status, made) = client.post(&events, event).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
}

pub fn look_around() -> Reply {
    Reply::tools([
        (
            "list_calendar_events",
            json!({"start": "2026-03-20", "end": "2026-04-20"}),
        ),
        ("list_open_consoles", json!({})),
        ("search_consoles", json!({"query": "secretconsole"})),
    ])
}

/// Returns a tool's arguments: each required one contains a secret word.
fn secret_arguments(schema: &Value) -> Value {
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let arguments: Map<String, Value> = properties
        .keys()
        .map(|name| (name.clone(), json!("secretevent")))
        .collect();
    Value::Object(arguments)
}

#[tokio::test]
async fn another_members_run_shows_only_its_agent_state_and_times() {
    let app = TestApp::start().await;
    let demo = app.client();
    app.agent("secretary", &["*"]).await;
    private_things(&demo).await;
    // Every tool that acts on behalf of the run's user is called, and its call recorded.
    let private: Vec<(String, Value)> = rejoin_calendar::tools::tools()
        .into_iter()
        .chain(tools::tools())
        .map(|tool| {
            let spec = tool.spec();
            (spec.name.clone(), secret_arguments(spec.parameters.document()))
        })
        .collect();
    assert!(private.len() > 10, "{private:?}");
    let calls = private
        .iter()
        .map(|(name, arguments)| (name.as_str(), arguments.clone()));
    app.model.on(
        "look around",
        [
            look_around(),
            Reply::tools(calls),
            Reply::text("There is secretanswer."),
        ],
    );
    let run = trigger(&demo, &app, "secretary", "look around").await;
    // One of them asks its user first.
    wait_for_state(&app, &run, "waiting").await;
    let asked = demo.get("/api/questions?status=pending").await.1["items"][0].clone();
    let answer = json!({"answer": asked["options"][0]["value"]});
    let path = format!("/api/questions/{}/answer", asked["id"].as_str().unwrap());
    let (status, answered) = demo.post(&path, answer).await;
    assert_eq!(status, StatusCode::OK, "{answered}");
    wait_for_state(&app, &run, "completed").await;

    let history = format!("/api/projects/{}/agent-runs", app.db.workspace_id);
    let (_, whole) = demo.get(&format!("{history}/{run}/export")).await;
    let whole_text = whole.to_string();
    for secret in SECRETS {
        assert!(whole_text.contains(secret), "its maker reads {secret}: {whole}");
    }
    let calls = whole["toolCalls"].as_array().unwrap();
    assert_eq!(calls.len(), 3 + private.len());
    let mut paths = vec![
        format!("/api/runs/{run}"),
        format!("{history}/{run}"),
        format!("{history}/{run}/tree"),
        format!("{history}/{run}/export"),
        format!("{history}/{run}/messages"),
        format!("{history}/{run}/tool-calls"),
    ];
    for message in whole["messages"].as_array().unwrap() {
        paths.push(format!("{history}/{run}/messages/{}", message["id"].as_str().unwrap()));
    }
    for call in calls {
        paths.push(format!("{history}/{run}/tool-calls/{}", call["id"].as_str().unwrap()));
    }
    let mine = demo.get(&format!("{history}?limit=10")).await.1["items"][0].clone();
    assert_eq!(
        (&mine["restricted"], &mine["stepCount"]),
        (&json!(false), &json!(3)),
        "{mine}"
    );
    for role in [Role::Owner, Role::Member, Role::Viewer, Role::Operator, Role::Service] {
        let (_, other) = member(&app, role).await;
        for path in &paths {
            let (status, answer) = other.get(path).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{role:?} {path}: {answer}");
        }
        let events = format!("/api/runs/{run}/events");
        assert_eq!(other.stream_status(&events).await, StatusCode::NOT_FOUND, "{role:?}");
        assert_eq!(
            other.stream_status(&format!("{events}?from=snapshot")).await,
            StatusCode::NOT_FOUND,
            "{role:?}"
        );
        let (status, answer) = other.post("/api/stream-tickets", json!({"runId": run})).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{role:?}: {answer}");
        let (_, fork) = other.post(&format!("/api/runs/{run}/fork"), json!({"step": 1})).await;
        let writes = role.scopes().contains(&rejoin_types::access::Scope::Write);
        let refused = if writes { "run_not_found" } else { "scope_missing" };
        assert_eq!(fork["code"], refused, "{role:?}");
        for query in [
            String::new(),
            format!("?rootRunId={run}"),
            "?agent=secretary&state=completed&topLevel=true".to_owned(),
        ] {
            let (status, page) = other.get(&format!("{history}{query}")).await;
            assert_eq!(status, StatusCode::OK, "{page}");
            let body = json!({
                "id": run, "state": "completed", "status": "completed", "conversationId": null,
                "agentDefinitionId": mine["agentDefinitionId"], "agent": "secretary", "agentVersion": null, "parentRunId": null, "rootRunId": run,
                "depth": 0,
                "model": null, "inputPreview": null, "stepCount": 0, "totalSteps": 0, "attempt": 0, "durationMs": mine["durationMs"], "error": null,
                "errorCode": null, "usage": {}, "createdAt": mine["createdAt"], "startedAt": mine["startedAt"],
                "finishedAt": mine["finishedAt"], "cancelRequestedAt": null, "restricted": true,
            });
            assert_eq!(page, json!({"items": [body], "nextCursor": null}), "{role:?} {query}");
        }
    }
}

#[tokio::test]
async fn another_members_run_cannot_be_acted_on() {
    let app = TestApp::start().await;
    let demo = app.client();
    let confirming = |content: &mut DefinitionContent| content.config = json!({"confirm": ["create_calendar_event"]});
    app.agent_with("planner", &["*"], confirming).await;
    let brief = |content: &mut DefinitionContent| content.max_steps = Some(1);
    app.agent_with("brief", &["schema_version"], brief).await;
    let event = json!({"title": "Dentist", "start": "2026-03-27T10:00"});
    app.model.on(
        "plan",
        [Reply::tool("create_calendar_event", event), Reply::text("Done.")],
    );
    app.model.on(
        "be brief",
        [Reply::tool("schema_version", json!({})), Reply::text("Not done.")],
    );
    let waits = trigger(&demo, &app, "planner", "plan").await;
    let paused = trigger(&demo, &app, "brief", "be brief").await;
    wait_for_state(&app, &waits, "waiting").await;
    wait_for_state(&app, &paused, "paused").await;
    let open = demo.get("/api/questions?status=pending").await.1["items"].clone();
    let question = format!("/api/questions/{}", open[0]["id"].as_str().unwrap());
    let planted = json!({"answer": "edit", "input": {"title": "PLANTED-BY-BOB", "start": "2026-03-27T10:00"}});
    for role in [Role::Member, Role::Service, Role::Owner] {
        let (_, bob) = member(&app, role).await;
        assert_eq!(bob.get("/api/questions").await.1["items"], json!([]), "{role:?}");
        assert_eq!(bob.get(&question).await.0, StatusCode::NOT_FOUND, "{role:?}");
        for (path, body) in [
            (format!("{question}/answer"), planted.clone()),
            (format!("{question}/answer"), json!({"answer": "approve"})),
            (
                format!("/api/runs/{waits}/messages"),
                json!({"message": "list the calendar"}),
            ),
            (
                format!("/api/runs/{paused}/resume"),
                json!({"message": "list the calendar"}),
            ),
            (format!("/api/runs/{paused}/resume"), json!({})),
        ] {
            let (status, answer) = bob.post(&path, body).await;
            assert_eq!(status, StatusCode::NOT_FOUND, "{role:?} {path}: {answer}");
        }
    }
    let (_, bob) = member(&app, Role::Member).await;
    let cancel = format!("/api/runs/{waits}/cancel");
    assert_eq!(bob.post(&cancel, json!({})).await.0, StatusCode::NOT_FOUND);
    // All of that had no effect, and its maker's answer counts.
    wait_for_state(&app, &waits, "waiting").await;
    let told: i64 = sqlx::query_scalar("select count(*) from kb.run_inbox")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(told, 0);
    let (status, answered) = demo
        .post(&format!("{question}/answer"), json!({"answer": "approve"}))
        .await;
    assert_eq!(status, StatusCode::OK, "{answered}");
    wait_for_state(&app, &waits, "completed").await;
    let titles: Vec<String> = sqlx::query_scalar("select title from kb.calendar_events")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(titles, ["Dentist"]);
    let (status, resumed) = demo.post(&format!("/api/runs/{paused}/resume"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{resumed}");
}

#[tokio::test]
async fn a_project_owner_stops_another_members_run_unseen() {
    let app = TestApp::start().await;
    app.agent("asker", &["ask_user"]).await;
    let question = json!({"question": "Which?", "options": []});
    app.model.on("ask", [Reply::tool("ask_user", question)]);
    let (_, bob) = member(&app, Role::Member).await;
    let run = trigger(&bob, &app, "asker", "ask").await;
    wait_for_state(&app, &run, "waiting").await;
    let demo = app.client();
    assert_eq!(demo.get(&format!("/api/runs/{run}")).await.0, StatusCode::NOT_FOUND);
    let (status, cancelled) = demo.post(&format!("/api/runs/{run}/cancel"), json!({})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{cancelled}");
    wait_for_state(&app, &run, "cancelled").await;
    assert_eq!(demo.get(&format!("/api/runs/{run}")).await.0, StatusCode::NOT_FOUND);
    let (_, seen) = bob.get(&format!("/api/runs/{run}")).await;
    assert_eq!(seen["state"], "cancelled");
    // Missing runs, and those of a conversation, can't be stopped by an owner, either.
    let posted = bob.post_message(json!({"message": "hello"})).await;
    for other in [posted["runId"].as_str().unwrap().to_owned(), Uuid::now_v7().to_string()] {
        let (status, _) = demo.post(&format!("/api/runs/{other}/cancel"), json!({})).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_schedule_runs_as_the_last_member_who_changed_it() {
    let app = TestApp::start().await;
    let demo = app.client();
    app.agent("secretary", &["*"]).await;
    app.agent("other", &[]).await;
    private_things(&demo).await;
    app.model
        .on("now list the calendar", [look_around(), Reply::text("Nothing there.")]);
    app.model.always("", Reply::text("done"));
    let path = format!("/api/projects/{}/schedules", app.db.workspace_id);
    let nightly = json!({"name": "nightly", "cron": "0 3 * * *", "agent": "secretary", "input": "tidy up"});
    let (status, made) = demo.post(&path, nightly).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    assert_eq!(made["createdBy"], json!(app.db.user_id));
    let schedule = format!("{path}/{}", made["id"].as_str().unwrap());
    let (bob_id, bob) = member(&app, Role::Member).await;
    // Changing its time or enabling it does not change its maker.
    for change in [
        json!({"cron": "0 4 * * *"}),
        json!({"enabled": false}),
        json!({"enabled": true}),
        json!({"name": "morning"}),
    ] {
        let (status, changed) = bob.patch(&schedule, change).await;
        assert_eq!(status, StatusCode::OK, "{changed}");
        assert_eq!(changed["createdBy"], json!(app.db.user_id), "{changed}");
    }
    for change in [
        json!({"agent": "other"}),
        json!({"tasks": {"name": "t", "tasks": [{"id": "a", "title": "A", "agent": "other"}]}}),
        json!({"agent": "secretary", "input": "now list the calendar"}),
    ] {
        let back = json!({"agent": "secretary", "input": "tidy up"});
        let (_, theirs) = demo.patch(&schedule, back).await;
        assert_eq!(theirs["createdBy"], json!(app.db.user_id), "{theirs}");
        let (status, changed) = bob.patch(&schedule, change).await;
        assert_eq!(status, StatusCode::OK, "{changed}");
        assert_eq!(changed["createdBy"], json!(bob_id), "{changed}");
    }
    sqlx::query("update kb.schedules set next_at = now()")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let run = wait_for("the schedule to fire", async || {
        demo.get(&schedule).await.1["lastRunId"].as_str().map(str::to_owned)
    })
    .await;
    wait_for_state(&app, &run, "completed").await;
    let export = format!("/api/projects/{}/agent-runs/{run}/export", app.db.workspace_id);
    let (status, whole) = bob.get(&export).await;
    assert_eq!(status, StatusCode::OK, "it is his");
    let outputs: Vec<String> = whole["toolCalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["output"].to_string())
        .collect();
    assert_eq!(outputs.len(), 3);
    for secret in SECRETS {
        assert!(!outputs.concat().contains(secret), "{secret}: {outputs:?}");
    }
    assert_eq!(demo.get(&export).await.0, StatusCode::NOT_FOUND);
}
