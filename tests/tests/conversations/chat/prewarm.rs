//! Prefetching before a first message; prefetched data are never outdated.

use rejoin_runs::contexts::location;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::projects::focus;
use rejoin_types::focus::Focus;
use serde_json::{Value, json};
use uuid::Uuid;

use super::contexts::project;

/// Requirements: E04, E11.
#[tokio::test]
async fn a_session_is_found_or_made_and_prewarmed() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    let id = project(&app, "Apollo").await;
    app.model.always("x", Reply::text("ok"));
    let client = app.client();
    let warm = async |body: Value| {
        let (status, reply) = client.post("/api/agent/prewarm", body).await;
        assert_eq!(status, 200, "{reply}");
        reply
    };
    let reply =
        warm(json!({"context_type": "project", "project_focus": focus(id, ""), "agent_definition_id": agent})).await;
    assert_eq!((&reply["warmed"], &reply["created"]), (&json!(true), &json!(true)));
    let session = reply["session"]["id"].clone();
    let again = warm(json!({"sessionId": session})).await;
    assert_eq!(
        (&again["created"], &again["session"]["id"], &again["warmed"]),
        (&json!(false), &session, &json!(true))
    );
    let kept: (String, i64) = sqlx::query_as("select location, count(*) over () from kb.chat_context_cache")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(kept.0.contains("Apollo") && kept.1 == 1);
    assert!(linked(&app).await.is_empty(), "nothing is linked with it yet");
    let events = json_of(&client.chat(json!({"message": "x", "conversationId": session})).await);
    assert_eq!(of_kind(&events, "focus_active")[0]["focus"], focus(id, "Apollo"));
    assert!(sent(&app.model.requests()[0])[0].1.contains("Project: Apollo"));
    let nothing = warm(json!({"contextType": "global"})).await;
    assert_eq!((&nothing["warmed"], &nothing["created"]), (&json!(false), &json!(true)));
    for (body, code) in [
        (json!({"contextType": "space"}), "invalid_context"),
        (json!({"sessionId": Uuid::nil()}), "conversation_not_found"),
        (json!({"agentDefinitionId": Uuid::nil()}), "agent_definition_not_found"),
    ] {
        let (_, problem) = client.post("/api/agent/prewarm", body).await;
        assert_eq!(problem["code"], code, "{problem}");
    }
}

/// Returns the prepared descriptions of projects.
async fn linked(app: &TestApp) -> String {
    sqlx::query_scalar("select coalesce(string_agg(linked, ''), '') from kb.chat_context_cache")
        .fetch_one(&app.db.pool)
        .await
        .unwrap()
}

/// Requirements: E11.
#[tokio::test]
async fn a_changed_focus_and_its_links_are_prewarmed() {
    let app = TestApp::start().await;
    app.agent("helper", &[]).await;
    let client = app.client();
    let ids = rejoin_tests::projects::project(&client, "Apollo").await;
    let (_, made) = client.post("/api/conversations", json!({"title": "About it"})).await;
    let path = format!("/api/conversations/{}", made["id"].as_str().unwrap());
    let kept = async || -> Vec<(Uuid, String, String)> {
        sqlx::query_as("select entity_id, location, linked from kb.chat_context_cache order by entity_id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap()
    };
    // A title, or a type alone, needs no prefetching.
    for body in [json!({"title": "Still about it"}), json!({"contextType": "calendar"})] {
        assert_eq!(client.patch(&path, body).await.0, 200);
    }
    assert_eq!(kept().await, []);
    let (status, said) = client
        .patch(
            &path,
            json!({"contextType": "project", "projectFocus": {"projectId": ids["project"]}}),
        )
        .await;
    assert_eq!(status, 200, "{said}");
    let now = kept().await;
    assert_eq!(now.len(), 1);
    assert!(now[0].1.contains("Project: Apollo"), "{}", now[0].1);
    for name in ["Be done", "First", "Second", "About"] {
        assert!(now[0].2.contains(name), "{name}: {}", now[0].2);
    }
    // And an entity in it.
    let focus = json!({"projectId": ids["project"], "focusType": "task", "focusEntityId": ids["first"]});
    assert_eq!(client.patch(&path, json!({"projectFocus": focus})).await.0, 200);
    let now = kept().await;
    assert_eq!(now.len(), 2);
    assert!(now[1].1.contains("In focus there: task First"), "{}", now[1].1);
}

/// Number of writers and reads in the test below; each writer has its own project.
const WRITERS: usize = 4;
const PAIRS: usize = 2500;

/// Requirements: E66.
#[tokio::test]
async fn what_was_written_before_a_look_is_in_what_the_look_gives() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let mut about = Focus {
            project_id: project(&app, &format!("p{writer}")).await,
            project_name: String::new(),
            focus_type: None,
            focus_entity_id: None,
        };
        let (db, tenant) = (app.db.pool.clone(), app.db.workspace_id);
        writers.spawn(async move {
            for n in 0..PAIRS {
                let mut connection = db.acquire().await.unwrap();
                // Sometimes it is prepared before the write, sometimes during it, sometimes not at all.
                if n % 3 == 0 {
                    location::warm(&mut connection, tenant, &mut about).await.unwrap();
                }
                let mut tx = rejoin_db::begin(&db).await.unwrap();
                sqlx::query("update kb.graph_objects set properties = jsonb_set(properties, '{n}', to_jsonb($2::int)) where canonical_id = $1")
                    .bind(about.project_id)
                    .bind(i32::try_from(n).unwrap())
                    .execute(&mut *tx)
                    .await
                    .unwrap();
                if n % 3 == 1 {
                    location::warm(&mut connection, tenant, &mut about).await.unwrap();
                }
                tx.commit().await.unwrap();
                let seen = location::of(&mut connection, tenant, &mut about).await.unwrap();
                assert!(seen.location.contains(&format!("\"n\":{n}")) || seen.location.contains(&format!("\"n\": {n}")), "{n}: {}", seen.location);
            }
            about
        });
    }
    let mut about = None;
    while let Some(done) = writers.join_next().await {
        about = Some(done.unwrap());
    }
    // A prepared description is used exactly as long as nothing changes: detected by a mark in it.
    let mut about = about.unwrap();
    let mut db = app.db.pool.acquire().await.unwrap();
    location::warm(&mut db, app.db.workspace_id, &mut about).await.unwrap();
    let mark = "update kb.chat_context_cache set location = 'MARKED' where focus_id = $1";
    sqlx::query(mark)
        .bind(about.project_id)
        .execute(&mut *db)
        .await
        .unwrap();
    let kept = location::of(&mut db, app.db.workspace_id, &mut about).await.unwrap();
    assert_eq!(kept.location, "MARKED");
    project(&app, "one more").await;
    let read = location::of(&mut db, app.db.workspace_id, &mut about).await.unwrap();
    assert!(read.location.contains("Project: p"), "{}", read.location);
}
