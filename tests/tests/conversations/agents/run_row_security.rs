//! Row-level security hides a member's run, with all that belongs to it, from the other members.

use rejoin_db::{Db, Role as Process, rls};
use rejoin_identity::workspaces::Role;
use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_types::owner::Owner;
use reqwest::StatusCode;
use serde_json::json;
use uuid::Uuid;

use super::run_initiators::{member, trigger, wait_for_state};

#[tokio::test]
async fn row_level_security_hides_a_run_from_all_but_its_maker() {
    let app = TestApp::start().await;
    let demo = app.client();
    app.agent("asker", &["ask_user", "schema_version"]).await;
    let question = json!({"question": "Which?", "options": []});
    app.model.on(
        "ask",
        [
            Reply::tool("schema_version", json!({})),
            Reply::tool("ask_user", question),
        ],
    );
    let run = trigger(&demo, &app, "asker", "ask").await;
    wait_for_state(&app, &run, "waiting").await;
    let run: Uuid = run.parse().unwrap();
    let (status, _) = demo
        .post(&format!("/api/runs/{run}/messages"), json!({"message": "hurry"}))
        .await;
    assert_eq!(status, StatusCode::ACCEPTED);
    sqlx::query(
        "insert into kb.agent_plans (id, project_id, user_id, run_id, call_id, objective, user_message, strategy, execution_mode, status, steps)
         values (gen_random_uuid(), $1, $2, $3, gen_random_uuid(), 'x', 'x', 'planner_stream', 'draft_only', 'pending_review', '[]')",
    )
    .bind(app.db.workspace_id)
    .bind(app.db.user_id)
    .bind(run)
    .execute(&app.db.pool)
    .await
    .unwrap();
    let (bob, _) = member(&app, Role::Member).await;
    let pool = Db::connect_lazy(&app.db.args(), "rejoin-test-app", Process::App)
        .unwrap()
        .pool_sqlx;
    let begin = async |user_id: Uuid| {
        let owner = Owner {
            workspace_id: app.db.workspace_id,
            user_id,
        };
        rls::begin(&pool, rls::Scope::User(owner)).await.unwrap()
    };
    for table in [
        "kb.agent_runs",
        "kb.agent_run_messages",
        "kb.agent_run_tool_calls",
        "kb.questions",
        "kb.run_inbox",
        "kb.agent_plans",
    ] {
        let count = format!("select count(*) from {table}");
        let seen = async |user| -> i64 {
            sqlx::query_scalar(sqlx::AssertSqlSafe(count.clone()))
                .fetch_one(&mut *begin(user).await)
                .await
                .unwrap()
        };
        assert_eq!((seen(bob).await, seen(app.db.user_id).await > 0), (0, true), "{table}");
    }
    for statement in [
        "update kb.agent_runs set input = 'mine now'",
        "delete from kb.agent_runs",
        "update kb.questions set status = 'answered'",
        "delete from kb.run_inbox",
        "update kb.agent_plans set steps = '[1]'",
    ] {
        let mut tx = begin(bob).await;
        let done = sqlx::query(statement).execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        assert_eq!(done.rows_affected(), 0, "{statement}");
    }
    // Nor can he create one in another's name.
    let insert = "insert into kb.agent_runs (id, project_id, user_id, root_run_id, log_id, input, first_seq)
                  values (gen_random_uuid(), $1, $2, gen_random_uuid(), gen_random_uuid(), 'x', 0)";
    let refused = sqlx::query(insert)
        .bind(app.db.workspace_id)
        .bind(app.db.user_id)
        .execute(&mut *begin(bob).await)
        .await
        .expect_err("a run in another's name");
    assert_eq!(refused.into_database_error().unwrap().code().as_deref(), Some("42501"));
    // Lists reveal nothing of its content, and only within this project.
    let columns: Vec<String> = sqlx::query_scalar(
        "select attname::text from pg_attribute where attrelid = 'kb.listed_runs'::regclass and attnum > 0 order by attnum",
    )
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(
        columns,
        [
            "id",
            "project_id",
            "conversation_id",
            "user_id",
            "agent_definition_id",
            "agent_name",
            "parent_run_id",
            "root_run_id",
            "depth",
            "state",
            "created_at",
            "started_at",
            "finished_at"
        ]
    );
    let heads = "select count(*) from kb.listed_runs";
    let listed: i64 = sqlx::query_scalar(heads)
        .fetch_one(&mut *begin(bob).await)
        .await
        .unwrap();
    assert_eq!(listed, 1);
    let stranger = Owner {
        workspace_id: Uuid::now_v7(),
        user_id: app.db.user_id,
    };
    for scope in [rls::Scope::User(stranger), rls::Scope::System] {
        let mut tx = rls::begin(&pool, scope).await.unwrap();
        let listed: i64 = sqlx::query_scalar(heads).fetch_one(&mut *tx).await.unwrap();
        assert_eq!(listed, 0, "{scope:?}");
    }
}
