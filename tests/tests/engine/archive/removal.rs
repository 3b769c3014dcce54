//! Objects go with what they belong to, and are seen in their workspace only.

use rejoin_archive::leftovers;
use rejoin_db::{Db, Role, rls};
use rejoin_event_log::retention;
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_types::owner::Owner;
use reqwest::StatusCode;
use serde_json::json;
use sqlx::PgPool;
use uuid::Uuid;

use super::{Archiving, end};

const LEFT: &str = "select count(*) from stream.archive_leftovers";

async fn sweep(archiving: &Archiving) {
    while leftovers::sweep(&archiving.pool, Some(&archiving.archive))
        .await
        .expect("a sweep")
    {}
}

#[tokio::test]
async fn a_deleted_conversation_s_objects_are_removed() {
    let archiving = Archiving::start().await;
    let client = archiving.app.client();
    let (deleted, _) = archiving.conversation().await;
    let (kept, _) = archiving.conversation().await;
    archiving.archive_all().await;
    let all = archiving.objects().len();
    let left = archiving.parts(kept).await.len();
    assert!(all > left && left > 0);
    let (status, _) = client.delete(&format!("/api/conversations/{deleted}")).await;
    assert!(status.is_success());
    assert!(archiving.parts(deleted).await.is_empty());
    assert_eq!(
        archiving.objects().len(),
        all,
        "the request does not wait for the store"
    );
    sweep(&archiving).await;
    assert_eq!((archiving.objects().len(), archiving.count(LEFT).await), (left, 0));
    // A whole workspace.
    sqlx::query("delete from kb.chat_conversations")
        .execute(&archiving.app.db.pool)
        .await
        .expect("they go");
    sqlx::query("delete from kb.projects where id = $1")
        .bind(archiving.app.db.workspace_id)
        .execute(&archiving.app.db.pool)
        .await
        .expect("it goes");
    sweep(&archiving).await;
    assert_eq!((archiving.objects().len(), archiving.count(LEFT).await), (0, 0));
}

#[tokio::test]
async fn objects_whose_store_is_away_are_removed_later() {
    let archiving = Archiving::start().await;
    let (id, _) = archiving.conversation().await;
    archiving.archive_all().await;
    let objects = archiving.objects().len();
    archiving.app.client().delete(&format!("/api/conversations/{id}")).await;
    // A worker without the setting.
    let refused = leftovers::sweep(&archiving.pool, None)
        .await
        .expect_err("there is no store");
    assert!(refused.to_string().contains("REJOIN_ARCHIVE_URL"));
    assert_eq!(archiving.objects().len(), objects);
    sweep(&archiving).await;
    assert_eq!(archiving.objects().len(), 0);
}

#[tokio::test]
async fn retention_removes_archived_events_with_their_objects() {
    let archiving = Archiving::start().await;
    let (id, _) = archiving.conversation().await;
    let client = archiving.app.client();
    archiving.archive_all().await;
    let last = end(&archiving, id).await;
    // Runs that ended two hours ago; the next one does not.
    sqlx::query("update kb.agent_runs set finished_at = now() - interval '2 hours'")
        .execute(&archiving.app.db.pool)
        .await
        .expect("the runs");
    archiving.app.model.script([Reply::text("new")]);
    client.chat(json!({"message": "go on", "conversationId": id})).await;
    archiving.app.wait_until_idle().await;
    let mut events = 0;
    loop {
        let trimmed = retention::trim(&archiving.pool, 3_600.0)
            .await
            .expect("retention works");
        events += trimmed.events;
        if !trimmed.more {
            break;
        }
    }
    assert_eq!(events, last);
    assert!(archiving.parts(id).await.is_empty());
    sweep(&archiving).await;
    assert_eq!(archiving.objects().len(), 0);
    let path = format!("/api/conversations/{id}/events");
    let (status, problem) = client.get(&format!("{path}?after={}", last - 1)).await;
    assert_eq!(
        (status, &problem["oldest"]),
        (StatusCode::GONE, &json!(last + 1)),
        "{problem}"
    );
    let mut kept = client.stream_after(&path, last).await;
    assert_eq!(kept.next_event().await.expect("an event").id, Some(last + 1));
}

/// The names that a transaction of the API sees in a scope.
async fn seen(pool: &PgPool, owner: Owner) -> Vec<String> {
    let mut tx = rls::begin(pool, rls::Scope::User(owner)).await.expect("a transaction");
    sqlx::query_scalar("select name from stream.archives order by name")
        .fetch_all(&mut *tx)
        .await
        .expect("the names")
}

#[tokio::test]
async fn objects_of_other_workspaces_are_invisible() {
    let archiving = Archiving::start().await;
    let (id, run) = archiving.conversation().await;
    archiving.archive_all().await;
    let api = Db::connect_lazy(&archiving.app.db.args(), "rejoin-test-app", Role::App)
        .expect("a readable URL")
        .pool_sqlx;
    let owner = archiving.app.db.owner();
    assert_eq!(seen(&api, owner).await.len(), archiving.parts(id).await.len());
    let stranger = Owner {
        workspace_id: Uuid::now_v7(),
        ..owner
    };
    assert_eq!(seen(&api, stranger).await, Vec::<String>::new());
    for statement in [
        "delete from stream.archives",
        "update stream.archives set name = 'x'",
        "select from stream.archive_leftovers",
    ] {
        let mut tx = rls::begin(&api, rls::Scope::User(owner)).await.expect("a transaction");
        let refused = sqlx::query(statement).execute(&mut *tx).await;
        let code = refused
            .expect_err(statement)
            .into_database_error()
            .and_then(|error| error.code().map(String::from));
        assert_eq!(code.as_deref(), Some("42501"), "{statement}");
    }
    // Over HTTP, another user finds neither.
    let (_, key) = archiving.app.db.another_user().await;
    let other = Client::new(archiving.app.url(), &key);
    for path in [
        format!("/api/conversations/{id}/events"),
        format!("/api/runs/{run}/events"),
    ] {
        assert_eq!(other.stream_status(&path).await, StatusCode::NOT_FOUND, "{path}");
    }
}
