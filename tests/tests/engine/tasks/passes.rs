//! Passes over a DAG: they settle all runs that have ended by then, also those of dead workers, and each once.

use rejoin_commands::{ChangeDag, DagChange};
use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

use super::dags::{ended, path, task};

/// Tasks that may run at the same time.
const WIDTH: usize = 6;

fn without_workers() -> AppOptions {
    AppOptions {
        workers: 0,
        ..AppOptions::default()
    }
}

/// A DAG of tasks, and one that waits for all of them. No worker runs.
async fn wide(app: &TestApp) -> Value {
    app.agent("worker", &[]).await;
    of_width(app, WIDTH).await
}

async fn of_width(app: &TestApp, width: usize) -> Value {
    let mut tasks: Vec<Value> = (0..width)
        .map(|nth| json!({"id": format!("t{nth}"), "title": format!("Part {nth}"), "agent": "worker"}))
        .collect();
    let parts: Vec<String> = (0..width).map(|nth| format!("t{nth}")).collect();
    tasks.push(json!({"id": "join", "title": "Whole", "agent": "worker", "after": parts}));
    let spec = json!({"name": "wide", "maxConcurrency": width, "tasks": tasks});
    app.client().post(&path(app), spec).await.1
}

/// Ends the runs of all tasks under way as a worker does that dies right after it.
async fn end_runs(app: &TestApp) {
    let mut tx = rejoin_db::begin(&app.db.pool).await.unwrap();
    sqlx::query(
        "update kb.agent_runs r set state = 'completed', finished_at = now(), summary = 'result of ' || t.ref
         from kb.tasks t where t.run_id = r.id and r.state = 'queued'",
    )
    .execute(&mut *tx)
    .await
    .unwrap();
    sqlx::query("delete from queue.jobs where run_id is not null")
        .execute(&mut *tx)
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

async fn pass(app: &TestApp, dag: &Value) {
    let id: Uuid = dag["id"].as_str().unwrap().parse().unwrap();
    let change = DagChange::Proceed;
    rejoin_commands::execute(&app.db.pool, &ChangeDag { id, change })
        .await
        .unwrap();
}

/// Invariant I12.
#[tokio::test]
async fn a_dag_goes_on_if_its_worker_died_before_the_pass() {
    let app = TestApp::with(without_workers()).await;
    let dag = wide(&app).await;
    end_runs(&app).await;
    app.model.on("# Whole", [Reply::text("the whole")]);
    let _worker = Process::worker(&app);
    let dag = ended(&app.client(), &app, &dag).await;
    assert_eq!(dag["state"], "completed", "{dag}");
    assert_eq!(task(&dag, "t3")["summary"], "result of t3");
    assert_eq!(task(&dag, "join")["summary"], "the whole");
    let input = sent(&app.model.requests()[0]).pop().unwrap().1;
    for nth in 0..WIDTH {
        assert!(input.contains(&format!("result of t{nth}")), "{input}");
    }
}

#[tokio::test]
async fn one_pass_settles_all_ends_and_another_finds_nothing() {
    let app = TestApp::with(without_workers()).await;
    let dag = wide(&app).await;
    end_runs(&app).await;
    pass(&app, &dag).await;
    let rows = async || -> (i64, i64, i64) {
        sqlx::query_as(
            "select (select count(*) from kb.tasks where state = 'completed'), (select count(*) from kb.agent_runs),
                    (select count(*) from kb.graph_objects)",
        )
        .fetch_one(&app.db.pool)
        .await
        .unwrap()
    };
    let after_one = rows().await;
    assert_eq!((after_one.0, after_one.1), (WIDTH as i64, WIDTH as i64 + 1));
    pass(&app, &dag).await;
    assert_eq!(rows().await, after_one);
}

/// Statements of a pass that settles tasks and starts one.
const PASS_MAX: i64 = 30;

/// A count is exact, unlike a duration, so it may be asserted.
#[tokio::test]
async fn a_pass_has_as_many_statements_for_many_tasks_as_for_few() {
    let (_server, db) = support::with_counted_statements().await;
    let app = TestApp::over(db, without_workers()).await;
    app.agent("worker", &[]).await;
    let mut counts = Vec::new();
    // The first one warms up: what is prepared once counts once.
    for width in [2, 2, 40] {
        let dag = of_width(&app, width).await;
        end_runs(&app).await;
        sqlx::query("select pg_stat_statements_reset()")
            .execute(&app.db.pool)
            .await
            .unwrap();
        pass(&app, &dag).await;
        let statements: Vec<(i64, String)> = sqlx::query_as(
            "select calls, query from pg_stat_statements where toplevel and query not like '%pg_stat_statements%' order by calls desc",
        )
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
        let total: i64 = statements.iter().map(|(calls, _)| calls).sum();
        assert!(total <= PASS_MAX, "{total}: {statements:#?}");
        counts.push(total);
    }
    assert!(counts[2] <= counts[1] + 1, "{counts:?}");
}

/// Two passes at the same moment: the second waits for the DAG's lock, and finds what the first one has left.
#[tokio::test]
async fn passes_at_the_same_moment_start_a_join_once() {
    let app = TestApp::with(without_workers()).await;
    let dag = wide(&app).await;
    end_runs(&app).await;
    futures::future::join_all((0..4).map(|_| pass(&app, &dag))).await;
    let joins: i64 = sqlx::query_scalar("select count(*) from kb.agent_runs where input like '# Whole%'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(joins, 1);
}

#[tokio::test]
async fn a_person_is_asked_once_however_often_the_dag_is_passed_over() {
    let app = TestApp::start().await;
    app.agent("worker", &[]).await;
    app.agent("judge", &[]).await;
    let escalate = json!({"verdict": "escalate", "feedback": "It may be a joke."}).to_string();
    app.model.always("Judge whether", Reply::text(escalate));
    app.model.always("# Odd", Reply::text("an odd answer"));
    let tasks = json!([{"id": "odd", "title": "Odd", "agent": "worker"}]);
    let spec = json!({"name": "odd", "judgeAgent": "judge", "tasks": tasks});
    let client = app.client();
    let (_, dag) = client.post(&path(&app), spec).await;
    let question = support::wait_for("the question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        page["items"].as_array().unwrap().first().cloned()
    })
    .await;
    pass(&app, &dag).await;
    let (_, page) = client.get("/api/questions").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 1, "{page}");
    let answer = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    assert_eq!(client.post(&answer, json!({"answer": "retry"})).await.0, 200);
    // Its next attempt is judged again.
    support::wait_for("the next question", async || {
        let (_, page) = client.get("/api/questions").await;
        (page["items"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
}
