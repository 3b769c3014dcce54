//! Rights at start: work that starts long after it was requested, by the clock, from the queue, or after another task,
//! is checked against its user's rights at that moment. Users who have left the project, or are read-only by now, have
//! nothing started, with the reason.

use rejoin_commands::{CloseQuestion, Closing};
use rejoin_db::rls;
use rejoin_db::{Db, Role as Process};
use rejoin_identity::initiators::{self, Membership};
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use rejoin_tests::members::{member, trigger};
use rejoin_tests::support;

const LEFT: &str = "is no longer a member of the project";
const READS: &str = "may no longer write in the project";

/// How a user loses the right to have work done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    Leaves,
    Role(Role),
}

const LOSSES: [(Loss, &str, &str); 3] = [
    (Loss::Leaves, "maker_left", LEFT),
    (Loss::Role(Role::Viewer), "maker_may_not_write", READS),
    (Loss::Role(Role::Operator), "maker_may_not_write", READS),
];

async fn lose(app: &TestApp, user: Uuid, loss: Loss) {
    let mut db = app.db.pool.acquire().await.unwrap();
    match loss {
        Loss::Leaves => workspaces::remove_member(&mut db, app.db.workspace_id, user)
            .await
            .unwrap(),
        Loss::Role(role) => workspaces::set_role(&mut db, app.db.workspace_id, user, role)
            .await
            .unwrap(),
    }
}

fn note() -> Reply {
    Reply::tool(
        "create_entity",
        json!({"type": "Note", "key": "written", "properties": {}}),
    )
}

/// An app without workers, with an agent `writer` that writes into the graph immediately.
async fn start() -> TestApp {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    app.agent("writer", &["create_entity", "ask_user"]).await;
    app.model.answer_by(|request| {
        let last = request["messages"].as_array()?.last()?;
        Some(if last["role"] == "tool" {
            Reply::text("Written.")
        } else {
            note()
        })
    });
    app
}

async fn written(app: &TestApp) -> i64 {
    sqlx::query_scalar("select count(*) from kb.graph_objects where type = 'Note'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap()
}

/// Returns state, code and text of a run's end, and the types of its log's last two events.
async fn end_of(app: &TestApp, run: &str) -> (String, String, String, Vec<String>) {
    let (state, code, words) = wait_for("the run to end", async || {
        sqlx::query_as::<_, (String, Option<String>, Option<String>)>(
            "select state, error_code, error from kb.agent_runs where id = $1::uuid and finished_at is not null",
        )
        .bind(run)
        .fetch_optional(&app.db.pool)
        .await
        .unwrap()
    })
    .await;
    let mut last: Vec<String> = sqlx::query_scalar(
        "select e.type from stream.each_event e join kb.agent_runs r on r.log_id = e.log_id
         where r.id = $1::uuid order by e.seq desc limit 2",
    )
    .bind(run)
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    last.reverse();
    (state, code.unwrap_or_default(), words.unwrap_or_default(), last)
}

async fn schedule(client: &Client, app: &TestApp, name: &str, target: Value) -> String {
    let path = format!("/api/projects/{}/schedules", app.db.workspace_id);
    let mut body = json!({"name": name, "cron": "0 3 * * *"});
    for (field, value) in target.as_object().unwrap() {
        body[field] = value.clone();
    }
    let (status, made) = client.post(&path, body).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    format!("{path}/{}", made["id"].as_str().unwrap())
}

#[tokio::test]
async fn a_schedule_without_its_makers_rights_is_switched_off() {
    let mut app = start().await;
    let dag = json!({"name": "d", "tasks": [{"id": "a", "title": "A", "agent": "writer"}]});
    let mut made = Vec::new();
    for (loss, _, words) in LOSSES {
        let (user, client) = member(&app, Role::Member).await;
        for (kind, target) in [
            ("run", json!({"agent": "writer", "input": "write"})),
            ("dag", json!({"tasks": dag})),
        ] {
            let path = schedule(&client, &app, &format!("{loss:?} {kind}"), target).await;
            made.push((path, words));
        }
        lose(&app, user, loss).await;
    }
    sqlx::query("update kb.schedules set next_at = now()")
        .execute(&app.db.pool)
        .await
        .unwrap();
    app.add_worker();
    let demo = app.client();
    for (path, words) in &made {
        let seen = wait_for("the schedule to be looked at", async || {
            let seen = demo.get(path).await.1;
            (!seen["lastError"].is_null()).then_some(seen)
        })
        .await;
        assert_eq!(
            (
                &seen["enabled"],
                &seen["nextAt"],
                &seen["lastRunId"],
                &seen["lastTaskDagId"]
            ),
            (&json!(false), &Value::Null, &Value::Null, &Value::Null),
            "{seen}"
        );
        assert!(seen["lastError"].as_str().unwrap().contains(words), "{seen}");
    }
    let begun: i64 =
        sqlx::query_scalar("select (select count(*) from kb.agent_runs) + (select count(*) from kb.task_dags)")
            .fetch_one(&app.db.pool)
            .await
            .unwrap();
    assert_eq!((begun, written(&app).await), (0, 0));
    // A user with the right takes it over.
    let path = &made[0].0;
    let (status, taken) = demo
        .patch(path, json!({"agent": "writer", "input": "write", "enabled": true}))
        .await;
    assert_eq!(
        (status, &taken["createdBy"], &taken["lastError"]),
        (StatusCode::OK, &json!(app.db.user_id), &Value::Null),
        "{taken}"
    );
    sqlx::query("update kb.schedules set next_at = now() where enabled")
        .execute(&app.db.pool)
        .await
        .unwrap();
    wait_for("the note", async || (written(&app).await == 1).then_some(())).await;
}

#[tokio::test]
async fn a_queued_run_without_its_makers_rights_fails_at_once() {
    let mut app = start().await;
    let mut runs = Vec::new();
    for (loss, code, words) in LOSSES {
        let (user, client) = member(&app, Role::Member).await;
        runs.push((trigger(&client, &app, "writer", "write").await, code, words));
        let posted = client.post_message(json!({"message": "write"})).await;
        runs.push((posted["runId"].as_str().unwrap().to_owned(), code, words));
        lose(&app, user, loss).await;
    }
    let (_, stays) = member(&app, Role::Service).await;
    let allowed = trigger(&stays, &app, "writer", "write").await;
    app.add_worker();
    for (run, code, words) in runs {
        let (state, told, error, last) = end_of(&app, &run).await;
        assert_eq!((state.as_str(), told.as_str()), ("failed", code), "{error}");
        assert!(error.contains(words), "{error}");
        assert_eq!(last, ["error", "done"]);
    }
    wait_for("the note of who may", async || (written(&app).await == 1).then_some(())).await;
    let by: Vec<Uuid> = sqlx::query_scalar("select distinct actor_id from kb.graph_objects where type = 'Note'")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(by, [allowed.parse::<Uuid>().unwrap()]);
}

#[tokio::test]
async fn a_waiting_run_whose_maker_lost_write_rights_does_not_resume() {
    let mut app = TestApp::start().await;
    app.agent("writer", &["create_entity", "ask_user"]).await;
    let question = json!({"question": "Shall I?", "options": []});
    for (loss, code, words) in LOSSES {
        let input = format!("ask {loss:?}");
        app.model
            .on(&input, [Reply::tool("ask_user", question.clone()), note()]);
        let (user, client) = member(&app, Role::Member).await;
        let run = trigger(&client, &app, "writer", &input).await;
        let question: Uuid = wait_for("the question", async || {
            sqlx::query_scalar("select id from kb.questions where run_id = $1::uuid and status = 'pending'")
                .bind(&run)
                .fetch_optional(&app.db.pool)
                .await
                .unwrap()
        })
        .await;
        lose(&app, user, loss).await;
        let expire = CloseQuestion {
            id: question,
            closing: Closing::Expire,
        };
        rejoin_commands::execute(&app.db.pool, &expire).await.unwrap();
        let (state, told, error, last) = end_of(&app, &run).await;
        assert_eq!((state.as_str(), told.as_str()), ("failed", code), "{error}");
        assert!(error.contains(words), "{error}");
        assert_eq!(last, ["error", "done"]);
    }
    assert_eq!(written(&app).await, 0);
    app.crash_workers();
}

#[tokio::test]
async fn a_task_without_its_makers_rights_fails_and_starts_none() {
    let mut app = start().await;
    let path = format!("/api/projects/{}/task-dags", app.db.workspace_id);
    let mut dags = Vec::new();
    for (loss, _, words) in LOSSES {
        let (user, client) = member(&app, Role::Member).await;
        let tasks = json!({"name": "two", "tasks": [
            {"id": "a", "title": "A", "agent": "writer", "maxRetries": 3},
            {"id": "b", "title": "B", "agent": "writer", "after": ["a"]},
        ]});
        let (status, dag) = client.post(&path, tasks).await;
        assert_eq!(status, StatusCode::CREATED, "{dag}");
        dags.push((format!("{path}/{}", dag["id"].as_str().unwrap()), words));
        lose(&app, user, loss).await;
    }
    app.add_worker();
    let demo = app.client();
    for (dag, words) in &dags {
        let over = wait_for("the DAG to end", async || {
            let dag = demo.get(dag).await.1;
            (dag["state"] == "failed").then_some(dag)
        })
        .await;
        let states: Vec<&Value> = over["tasks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|task| &task["state"])
            .collect();
        assert_eq!(states, ["failed", "skipped"], "{over}");
        assert!(
            over["tasks"][0]["failureContext"].as_str().unwrap().contains(words),
            "{over}"
        );
        assert_eq!(over["tasks"][1]["runId"], Value::Null, "{over}");
    }
    let runs: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!((runs, written(&app).await), (3, 0), "one each, and none again");
}

#[tokio::test]
async fn a_makers_role_is_per_project_and_the_api_sees_its_callers() {
    let db = support::database().await;
    let mut connection = db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    let third = workspaces::create(&mut connection, "third").await.unwrap();
    workspaces::add_member(&mut connection, other, db.user_id, Role::Viewer)
        .await
        .unwrap();
    let told = async |connection: &mut PgConnection| {
        let mut told = Vec::new();
        for project in [db.workspace_id, other, third] {
            told.push(
                initiators::membership(&mut *connection, project, Some(db.user_id))
                    .await
                    .unwrap(),
            );
        }
        told
    };
    let (owner, viewer) = (Membership::Member(Role::Owner), Membership::Member(Role::Viewer));
    assert_eq!(told(&mut connection).await, [owner, viewer, Membership::Left]);
    let app = Db::connect_lazy(&db.args(), "rejoin-test-app", Process::App)
        .unwrap()
        .pool_sqlx;
    let mut tx = rls::begin(&app, rls::Scope::User(db.owner())).await.unwrap();
    assert_eq!(told(&mut tx).await, [owner, Membership::Left, Membership::Left]);
    let without = initiators::membership(&mut *tx, db.workspace_id, None).await.unwrap();
    assert_eq!(without, Membership::NoInitiator);
}
