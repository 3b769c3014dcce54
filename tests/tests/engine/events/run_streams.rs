//! The stream of one run: which events it shows, and when it ends.

use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::json;
use uuid::Uuid;

use super::sse::{Turn, ids, quiet, take};

#[tokio::test]
async fn a_runs_stream_shows_that_run_alone_and_closes_after_its_done() {
    let app = quiet().await;
    let first = Turn::begin(&app).await;
    let second = Turn::post(
        &app,
        json!({"message": "and then?", "conversationId": first.conversation}),
    )
    .await;
    let live = app.client().stream(&first.run_events()).await;
    first.append(&app, "token", 2).await;
    first.finish(&app).await;
    second.append(&app, "token", 1).await;
    assert_eq!(ids(&live.rest().await), [1, 3, 4, 5]);
    assert_eq!(
        ids(&app.client().stream(&first.run_events()).await.rest().await),
        [1, 3, 4, 5]
    );
    // The same run again, from the middle; and the other one continues.
    assert_eq!(
        ids(&app.client().stream_after(&first.run_events(), 3).await.rest().await),
        [4, 5]
    );
    let mut other = app.client().stream(&second.run_events()).await;
    assert_eq!(ids(&take(&mut other, 2).await), [2, 6]);
    assert!(other.is_silent_for(Duration::from_millis(300)).await);
}

#[tokio::test]
async fn a_sub_agents_done_does_not_close_its_roots_stream() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let live = app.client().stream(&turn.run_events()).await;
    let done = json!({"type": "done", "runId": Uuid::now_v7(), "status": "completed"}).to_string();
    sqlx::query("select stream.append($1, $2, array['done'], array[$3])")
        .bind(turn.conversation)
        .bind(turn.run)
        .bind(done)
        .execute(&app.db.pool)
        .await
        .unwrap();
    turn.finish(&app).await;
    assert_eq!(ids(&live.rest().await), [1, 2, 3]);
}

#[tokio::test]
async fn a_sub_agents_own_stream_shows_its_events_alone() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    let child = Uuid::now_v7();
    sqlx::query(
        "insert into kb.agent_runs (id, project_id, conversation_id, user_id, parent_run_id, root_run_id, depth, log_id, input,
                                    state, first_seq)
         select $1, project_id, conversation_id, user_id, id, id, 1, log_id, 'part', 'running', 1 from kb.agent_runs where id = $2",
    )
    .bind(child)
    .bind(turn.run)
    .execute(&app.db.pool)
    .await
    .unwrap();
    let of_child = app.client().stream(&format!("/api/runs/{child}/events")).await;
    turn.append(&app, "token", 1).await;
    for kind in ["token", "done"] {
        sqlx::query("select stream.append($1, $2, array[$3], array[$4])")
            .bind(turn.conversation)
            .bind(turn.run)
            .bind(kind)
            .bind(json!({"type": kind, "runId": child, "parentRunId": turn.run}).to_string())
            .execute(&app.db.pool)
            .await
            .unwrap();
    }
    assert_eq!(ids(&of_child.rest().await), [3, 4]);
    let mut of_root = app.client().stream(&turn.run_events()).await;
    assert_eq!(ids(&take(&mut of_root, 4).await), [1, 2, 3, 4]);
}

#[tokio::test]
async fn a_finished_run_is_204_and_an_impossible_cursor_is_400() {
    let app = quiet().await;
    let turn = Turn::begin(&app).await;
    turn.finish(&app).await;
    let client = app.client();
    let run = turn.run_events();
    assert_eq!(
        client.stream_status(&format!("{run}?after=2")).await,
        StatusCode::NO_CONTENT
    );
    assert_eq!(
        client.stream_status(&format!("{run}?after=now")).await,
        StatusCode::NO_CONTENT
    );
    let again = client
        .request(Method::GET, &run)
        .header("last-event-id", "2")
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), StatusCode::NO_CONTENT);
    for (query, code) in [
        ("after=3", "cursor_ahead"),
        ("after=-1", "cursor_malformed"),
        ("after=x", "cursor_malformed"),
    ] {
        for path in [&run, &turn.conversation_events()] {
            let (status, problem) = client.get(&format!("{path}?{query}")).await;
            assert_eq!(
                (status, &problem["code"]),
                (StatusCode::BAD_REQUEST, &json!(code)),
                "{path}?{query}"
            );
        }
    }
}
