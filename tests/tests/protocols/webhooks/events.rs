//! Which events webhooks send, and what is in them.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use rejoin_secrets::Plaintext;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use rejoin_tests::web::Site;
use rejoin_webhooks::signature;
use serde_json::{Value, json};

use super::{add, header, options, payload, requests, talk};

async fn accepting() -> Site {
    Site::start(|_, _| StatusCode::NO_CONTENT.into_response()).await
}

#[tokio::test]
async fn the_end_of_a_run_is_signed_and_sent_without_texts() {
    let app = TestApp::with(options()).await;
    let site = accepting().await;
    let hook = add(&app, &format!("{}/in?token=1", site.url), &["run.ended"]).await;
    let agent = app.agent("writer", &[]).await;
    let conversation = talk(&app, agent, None, "A private question.").await;
    let asked = requests(&site, 1).await.remove(0);
    assert_eq!(asked.0, "POST /in?token=1");
    assert_eq!(header(&asked, "content-type"), "application/json");
    let text = String::from_utf8(asked.2.to_vec()).expect("UTF-8");
    assert!(!text.contains("private"), "{text}");
    let sent = payload(&asked);
    assert_eq!(sent["type"], "run.ended");
    assert!(sent["timestamp"].as_str().is_some_and(|at| at.ends_with('Z')), "{sent}");
    let data = &sent["data"];
    assert_eq!(
        (&data["conversationId"], &data["state"], &data["agent"]),
        (&json!(conversation), &json!("completed"), &json!("writer"))
    );
    assert!(data["usage"].is_object() && data["totalCostUsd"].is_number(), "{data}");
    let timestamp = header(&asked, "webhook-timestamp").parse().expect("seconds");
    let secrets = [Plaintext::new(hook.secret.clone().into_bytes())];
    let expected = signature::signatures(&secrets, header(&asked, "webhook-id"), timestamp, &text);
    assert_eq!(Some(header(&asked, "webhook-signature")), expected.as_deref());
    let delivered = hook.ended(&app, 1).await.remove(0);
    assert_eq!(
        (&delivered["state"], &delivered["attempts"], &delivered["lastStatus"]),
        (&json!("delivered"), &json!(1), &json!(204))
    );
    assert_eq!(delivered["id"], header(&asked, "webhook-id"));
    assert_eq!(delivered["payload"], sent);
}

#[tokio::test]
async fn a_webhook_gets_exactly_the_events_that_it_names() {
    let app = TestApp::with(options()).await;
    let (questions, ends) = (accepting().await, accepting().await);
    let of_questions = add(&app, &questions.url, &["question.asked"]).await;
    let of_ends = add(&app, &ends.url, &["run.ended", "dag.ended"]).await;
    let agent = app.agent("asker", &["ask_user"]).await;
    let ask = json!({"question": "Which colour?", "options": [{"label": "Red", "value": "red"}]});
    app.model
        .on("paint it", [Reply::tool("ask_user", ask), Reply::text("Red it is.")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "paint it", "agentDefinitionId": agent}))
        .await;
    let asked = payload(&requests(&questions, 1).await[0]);
    assert_eq!(asked["type"], "question.asked");
    assert_eq!(asked["data"]["runId"], posted["runId"]);
    assert!(!asked.to_string().contains("colour"), "{asked}");
    assert_eq!(ends.asked().len(), 0, "the run has not ended");
    let question = asked["data"]["questionId"].as_str().expect("an id");
    let answer = format!("/api/questions/{question}/answer");
    assert_eq!(client.post(&answer, json!({"answer": "red"})).await.0, 200);
    let ended = payload(&requests(&ends, 1).await[0]);
    assert_eq!(
        (&ended["type"], &ended["data"]["runId"]),
        (&json!("run.ended"), &posted["runId"])
    );
    assert_eq!(of_questions.ended(&app, 1).await.len(), 1);
    assert_eq!(of_ends.ended(&app, 1).await.len(), 1);
}

#[tokio::test]
async fn the_end_of_a_dag_is_sent() {
    let app = TestApp::with(options()).await;
    let site = accepting().await;
    add(&app, &site.url, &["dag.ended"]).await;
    app.agent("worker", &[]).await;
    app.model.on("# Only", [Reply::text("done")]);
    let dags = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let spec = json!({"name": "one", "tasks": [{"id": "only", "title": "Only", "agent": "worker"}]});
    let (status, dag) = app.client().post(&dags, spec).await;
    assert_eq!(status, 201, "{dag}");
    let sent = payload(&requests(&site, 1).await[0]);
    assert_eq!(
        (&sent["type"], &sent["data"]["dagId"], &sent["data"]["state"]),
        (&json!("dag.ended"), &dag["id"], &json!("completed"))
    );
}

#[tokio::test]
async fn a_used_up_budget_is_sent_before_the_end_of_its_run() {
    let app = TestApp::with(AppOptions {
        worker: |config| {
            (options().worker)(config);
            config.tree_tokens = 1;
        },
        ..options()
    })
    .await;
    let site = accepting().await;
    add(&app, &site.url, &["run.ended", "budget.reached"]).await;
    let agent = app.agent("spender", &["schema_version"]).await;
    app.model
        .script([Reply::tool("schema_version", json!({})), Reply::text("That is all.")]);
    app.client().ask(Some(agent), "Spend.").await;
    let sent: Vec<Value> = requests(&site, 2).await.iter().map(payload).collect();
    let kinds: Vec<&Value> = sent.iter().map(|sent| &sent["type"]).collect();
    assert_eq!(kinds, ["budget.reached", "run.ended"]);
    for sent in &sent {
        assert_eq!(
            (&sent["data"]["errorCode"], &sent["data"]["state"]),
            (&json!("token_budget"), &json!("paused"))
        );
    }
}

#[tokio::test]
async fn a_delivery_is_committed_with_its_event_or_not_at_all() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..options()
    })
    .await;
    add(&app, "https://hooks.example/", &["run.ended"]).await;
    let posted = app.client().post_message(json!({"message": "Hello?"})).await;
    let run: uuid::Uuid = posted["runId"].as_str().expect("an id").parse().expect("an id");
    let count = async || -> (i64, i64) {
        let deliveries = sqlx::query_scalar("select count(*) from kb.webhook_deliveries");
        let jobs = sqlx::query_scalar("select count(*) from queue.jobs where kind = 'webhook.deliver'");
        (
            deliveries.fetch_one(&app.db.pool).await.expect("a count"),
            jobs.fetch_one(&app.db.pool).await.expect("a count"),
        )
    };
    let end = "update kb.agent_runs set state = 'completed', finished_at = now() where id = $1";
    let mut tx = rejoin_db::begin(&app.db.pool).await.expect("a transaction");
    sqlx::query(end).bind(run).execute(&mut *tx).await.expect("an update");
    tx.rollback().await.expect("a rollback");
    assert_eq!(count().await, (0, 0));
    for _ in 0..2 {
        // The second time it has ended already.
        sqlx::query(end)
            .bind(run)
            .execute(&app.db.pool)
            .await
            .expect("an update");
        assert_eq!(count().await, (1, 1));
    }
}

#[tokio::test]
async fn sub_agents_send_no_ends_and_other_projects_nothing() {
    let app = TestApp::with(options()).await;
    let site = accepting().await;
    let hook = add(&app, &site.url, &["run.ended"]).await;
    let mut connection = app.db.pool.acquire().await.expect("a connection");
    let other = rejoin_identity::workspaces::create(&mut connection, "other")
        .await
        .expect("a project");
    drop(connection);
    sqlx::query("update kb.webhook_endpoints set project_id = $1")
        .bind(other)
        .execute(&app.db.pool)
        .await
        .expect("a move");
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("helper", &[]).await;
    let spawn = json!({"agents": [{"agent_name": "helper", "task": "help out"}]});
    let script = || {
        app.model
            .on("go", [Reply::tool("spawn_agents", spawn.clone()), Reply::text("Done.")]);
        app.model.on("help out", [Reply::text("Helped.")]);
    };
    script();
    app.client().ask(Some(boss), "go").await;
    let count: i64 = sqlx::query_scalar("select count(*) from kb.webhook_deliveries")
        .fetch_one(&app.db.pool)
        .await
        .expect("a count");
    assert_eq!(count, 0, "the webhook is another project's");
    let back = "update kb.webhook_endpoints set project_id = $1";
    sqlx::query(back)
        .bind(app.db.workspace_id)
        .execute(&app.db.pool)
        .await
        .expect("a move");
    script();
    app.client().ask(Some(boss), "go").await;
    let ended = wait_for("all runs to end", async || {
        let open: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where finished_at is null")
            .fetch_one(&app.db.pool)
            .await
            .expect("a count");
        (open == 0).then_some(())
    });
    ended.await;
    let deliveries: Vec<Value> = sqlx::query_scalar("select payload::jsonb from kb.webhook_deliveries")
        .fetch_all(&app.db.pool)
        .await
        .expect("deliveries");
    assert_eq!(deliveries.len(), 1, "one turn, one end: {deliveries:?}");
    assert_eq!(deliveries[0]["data"]["agent"], "boss");
    assert!(hook.path.starts_with("/api/admin/"));
}
