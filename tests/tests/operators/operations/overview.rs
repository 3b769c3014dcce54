//! The operations view of a project's admins: queues, runs by the minute, dead jobs and their retry; and isolation from
//! other projects.

use rejoin_identity::workspaces::{self, Role};
use rejoin_queue::{NewJob, Outcome};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::members::member;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::jobs::{add, claim, end, job};

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

fn path(project: Uuid) -> String {
    format!("/api/admin/projects/{project}/operations")
}

async fn shown(client: &Client, project: Uuid) -> Value {
    let (status, operations) = client.get(&path(project)).await;
    assert_eq!(status, StatusCode::OK, "{operations}");
    operations
}

/// A job that dies in its first attempt; returns its number.
async fn dead(app: &TestApp, new: NewJob) -> i64 {
    let id = add(&app.db, new).await;
    let claimed = claim(&app.db, 100).await;
    let it = claimed.iter().find(|job| job.id == id).expect("it is claimed");
    assert!(
        end(
            &app.db,
            it,
            Outcome::Fail {
                error: "it broke".into()
            }
        )
        .await
    );
    id
}

fn of(workspace_id: Uuid, kind: &str) -> NewJob {
    NewJob {
        workspace_id,
        ..job(kind)
    }
}

#[tokio::test]
async fn runs_are_counted_by_the_minute_over_all_users_of_the_project() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &[]).await;
    let (_, other_key) = app.db.another_user().await;
    for client in [app.client(), Client::new(app.url(), &other_key)] {
        app.model.script([Reply::text("Yes.")]);
        client.ask(Some(agent), "Is it so?").await;
    }
    let operations = shown(&app.client(), app.db.workspace_id).await;
    let counts =
        |pace: &Value| ["started", "completed", "failed", "cancelled"].map(|name| pace[name].as_i64().unwrap());
    let hour = &operations["hour"];
    assert_eq!(counts(hour), [2, 2, 0, 0]);
    assert_eq!(hour["from"], Value::Null);
    let percentiles = |of: &str| ["50", "95", "99"].map(|nth| hour[format!("{of}P{nth}S")].as_f64().expect(of));
    let (waited, first_token, took) = (percentiles("waited"), percentiles("firstToken"), percentiles("took"));
    for times in [waited, first_token, took] {
        assert!(times[0] >= 0.0 && times.is_sorted(), "{hour}");
    }
    assert!(
        waited[0] < first_token[0],
        "a run has begun before its first token: {hour}"
    );
    let minutes = operations["minutes"].as_array().unwrap();
    assert_eq!(minutes.len(), 60);
    let started: i64 = minutes.iter().map(|minute| counts(minute)[0]).sum();
    assert_eq!(started, 2);
    assert_eq!(
        (
            counts(&minutes[0]),
            &minutes[0]["tookP99S"],
            &minutes[0]["firstTokenP50S"]
        ),
        ([0; 4], &Value::Null, &Value::Null),
        "nothing an hour ago"
    );
    assert!(minutes.is_sorted_by_key(|minute| minute["from"].as_str().unwrap().to_owned()));

    let workers = operations["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 1, "{operations}");
    assert_eq!(
        (&workers[0]["alive"], &workers[0]["draining"]),
        (&json!(true), &json!(false))
    );
    let api = &operations["api"];
    assert_eq!(api["wakeups"], "listening");
    assert!(api["databaseMs"].as_f64().unwrap() > 0.0, "{api}");
    assert!(
        api["connections"]["open"].as_i64() <= api["connections"]["max"].as_i64(),
        "{api}"
    );
}

#[tokio::test]
async fn jobs_are_counted_by_what_they_wait_for() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    dead(&app, of(project, "lost")).await;
    add(&app.db, of(project, "at_work")).await;
    assert_eq!(claim(&app.db, 1).await.len(), 1);
    add(&app.db, of(project, "due")).await;
    for kind in ["first", "second"] {
        let key = Some("one".to_owned());
        add(
            &app.db,
            NewJob {
                concurrency_key: key,
                ..of(project, kind)
            },
        )
        .await;
    }
    sqlx::query("select queue.enqueue('later', p_project_id => $1, p_run_at => now() + interval '1 day')")
        .bind(project)
        .execute(&app.db.pool)
        .await
        .unwrap();
    sqlx::query("update queue.jobs set run_at = now() - interval '1 minute' where kind = 'due'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let operations = shown(&app.client(), project).await;
    let queue = &operations["queues"][0];
    let counts = ["available", "scheduled", "held", "running", "dead"].map(|name| queue[name].as_i64().unwrap());
    assert_eq!(counts, [2, 1, 1, 1, 1], "{queue}");
    assert!(
        (60.0..90.0).contains(&queue["oldestAvailableS"].as_f64().unwrap()),
        "{queue}"
    );
    assert_eq!((&queue["queue"], &queue["paused"]), (&json!("default"), &json!(false)));
}

#[tokio::test]
async fn a_dead_job_is_retried_once_unless_it_is_a_runs() {
    let app = quiet().await;
    let (client, project) = (app.client(), app.db.workspace_id);
    let run = NewJob {
        run_id: Some(Uuid::now_v7()),
        ..of(project, "run")
    };
    let of_run = dead(&app, run).await;
    let id = dead(&app, of(project, "flaky")).await;
    let jobs = shown(&client, project).await["deadJobs"].clone();
    assert_eq!(
        (
            &jobs[0]["id"],
            &jobs[0]["kind"],
            &jobs[0]["lastError"],
            &jobs[0]["runId"]
        ),
        (&json!(id), &json!("flaky"), &json!("it broke"), &Value::Null)
    );
    assert_eq!(jobs[1]["id"], json!(of_run));

    let retry = format!("{}/jobs/{id}/retry", path(project));
    let (status, retried) = client.post(&retry, json!({})).await;
    assert_eq!(status, StatusCode::OK, "{retried}");
    let back = claim(&app.db, 1).await.remove(0);
    assert_eq!(
        (json!(back.id), back.kind.as_str(), back.workspace_id),
        (retried["jobId"].clone(), "flaky", project)
    );
    for gone in [id, of_run] {
        let (status, problem) = client
            .post(&format!("{}/jobs/{gone}/retry", path(project)), json!({}))
            .await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::NOT_FOUND, &json!("dead_job_not_found"))
        );
    }
    let (_, log) = client.get(&format!("/api/admin/projects/{project}/audit")).await;
    let entry = &log["items"][0];
    assert_eq!(
        (&entry["action"], &entry["target"], &entry["detail"]),
        (
            &json!("job.retried"),
            &json!(format!("job:{id}")),
            &json!({"kind": "flaky", "newJob": back.id})
        )
    );
}

#[tokio::test]
async fn dead_jobs_are_retried_by_number_by_kind_or_all() {
    let app = quiet().await;
    let (client, project) = (app.client(), app.db.workspace_id);
    let of_run = NewJob {
        run_id: Some(Uuid::now_v7()),
        ..of(project, "print")
    };
    dead(&app, of_run).await;
    let mut ids = Vec::new();
    for kind in ["print", "print", "mail", "mail", "scan"] {
        ids.push(dead(&app, of(project, kind)).await);
    }
    let operations = shown(&client, project).await;
    assert_eq!(
        operations["deadKinds"],
        json!([
            {"kind": "mail", "dead": 2, "retriable": 2},
            {"kind": "print", "dead": 3, "retriable": 2},
            {"kind": "scan", "dead": 1, "retriable": 1}
        ])
    );
    let retry = format!("{}/retry-jobs", path(project));
    let retried = async |body: Value| -> Vec<i64> {
        let (status, retried) = client.post(&retry, body.clone()).await;
        assert_eq!(status, StatusCode::OK, "{body}: {retried}");
        let jobs = retried["jobs"].as_array().unwrap();
        jobs.iter().map(|job| job["id"].as_i64().unwrap()).collect()
    };
    assert_eq!(retried(json!({"ids": [ids[0], ids[0], -1]})).await, [ids[0]]);
    assert!(retried(json!({"ids": [ids[0]]})).await.is_empty());
    assert_eq!(retried(json!({"kind": "mail"})).await, [ids[2], ids[3]]);
    assert_eq!(retried(json!({})).await, [ids[1], ids[4]]);
    assert!(retried(json!({})).await.is_empty(), "the job of a run is left");
    let kinds: Vec<String> = claim(&app.db, 10).await.into_iter().map(|job| job.kind).collect();
    assert_eq!(kinds, ["print", "mail", "mail", "print", "scan"]);
    let (_, log) = client.get(&format!("/api/admin/projects/{project}/audit")).await;
    assert_eq!(
        (&log["items"][1]["action"], &log["items"][1]["detail"]),
        (
            &json!("job.retried"),
            &json!({"kind": "mail", "jobs": [ids[2], ids[3]]})
        )
    );
    for refused in [
        json!({"ids": []}),
        json!({"ids": vec![1; 1_001]}),
        json!({"ids": [1], "kind": "mail"}),
        json!({"kind": "\0"}),
    ] {
        let (status, problem) = client.post(&retry, refused).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_request"))
        );
    }
}

#[tokio::test]
async fn an_admin_pauses_queues_that_no_other_project_uses() {
    let app = quiet().await;
    let (client, project) = (app.client(), app.db.workspace_id);
    add(&app.db, of(project, "due")).await;
    let queue = |verb: &str| format!("{}/queues/default/{verb}", path(project));
    for _ in 0..2 {
        let (status, paused) = client.post(&queue("pause"), json!({})).await;
        assert_eq!(
            (status, paused),
            (StatusCode::OK, json!({"queue": "default", "paused": true}))
        );
    }
    let operations = shown(&client, project).await;
    assert_eq!(
        (&operations["queues"][0]["paused"], &operations["mayPauseQueues"]),
        (&json!(true), &json!(true))
    );
    assert!(claim(&app.db, 10).await.is_empty());
    assert_eq!(client.post(&queue("resume"), json!({})).await.1["paused"], false);
    assert_eq!(claim(&app.db, 10).await.len(), 1);
    let (_, log) = client.get(&format!("/api/admin/projects/{project}/audit")).await;
    let actions = [0, 2].map(|nth| log["items"][nth]["action"].clone());
    assert_eq!(actions, [json!("queue.resumed"), json!("queue.paused")]);
    let (_, member) = member(&app, Role::Member).await;
    assert_eq!(member.post(&queue("pause"), json!({})).await.0, StatusCode::FORBIDDEN);
    let (status, problem) = client
        .post(&format!("{}/queues/%20/pause", path(project)), json!({}))
        .await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("invalid_name")));

    // Queues belong to all projects.
    support::populated(app.db.url.clone()).await;
    for verb in ["pause", "resume"] {
        let (status, problem) = client.post(&queue(verb), json!({})).await;
        assert_eq!((status.as_u16(), &problem["code"]), (409, &json!("shared_queue")));
    }
    assert_eq!(shown(&client, project).await["mayPauseQueues"], false);
}

#[tokio::test]
async fn another_projects_admin_sees_and_retries_no_job_or_run() {
    let mut app = TestApp::start().await;
    let agent = app.agent("asker", &[]).await;
    app.model.script([Reply::text("Yes.")]);
    app.client().ask(Some(agent), "Is it so?").await;
    // A crashed one could still have a claim under way.
    app.workers.remove(0).drain().await;
    let project = app.db.workspace_id;
    let id = dead(&app, of(project, "mine")).await;
    let queue = NewJob {
        queue: "reports".to_owned(),
        ..of(project, "due")
    };
    add(&app.db, queue).await;

    let other = support::populated(app.db.url.clone()).await;
    let stranger = Client::new(app.url(), &other.api_key);
    let operations = shown(&stranger, other.workspace_id).await;
    assert_eq!(operations["deadJobs"], json!([]));
    assert_eq!(operations["hour"]["started"], 0);
    let queues = operations["queues"].as_array().unwrap();
    assert_eq!(queues.len(), 1, "not even names of queues: {operations}");
    assert_eq!(
        (&queues[0]["queue"], &queues[0]["dead"]),
        (&json!("default"), &json!(0))
    );
    assert_eq!(stranger.get(&path(project)).await.0, StatusCode::NOT_FOUND);
    for theirs in [project, other.workspace_id] {
        let retry = format!("{}/jobs/{id}/retry", path(theirs));
        assert_eq!(stranger.post(&retry, json!({})).await.0, StatusCode::NOT_FOUND);
    }
    let retry = format!("{}/retry-jobs", path(other.workspace_id));
    for all in [json!({}), json!({"ids": [id]}), json!({"kind": "mine"})] {
        assert_eq!(stranger.post(&retry, all).await.1["jobs"], json!([]));
    }
    let mine = shown(&app.client(), project).await;
    assert_eq!(mine["deadJobs"][0]["id"], json!(id));
    assert_eq!(mine["queues"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn only_admins_see_it() {
    let app = quiet().await;
    let project = app.db.workspace_id;
    let retry = format!(
        "{}/jobs/{}/retry",
        path(project),
        dead(&app, of(project, "flaky")).await
    );
    for role in [Role::Member, Role::Viewer, Role::Service, Role::Operator] {
        let (user, key) = app.db.another_user().await;
        let mut db = app.db.pool.acquire().await.unwrap();
        workspaces::set_role(&mut db, project, user, role).await.unwrap();
        let client = Client::new(app.url(), &key);
        let (seen, retried) = (
            client.get(&path(project)).await.0,
            client.post(&retry, json!({})).await.0,
        );
        let many = client.post(&format!("{}/retry-jobs", path(project)), json!({})).await.0;
        assert_eq!(many, retried, "{role:?}");
        let expected = if role == Role::Operator {
            StatusCode::OK
        } else {
            StatusCode::FORBIDDEN
        };
        assert_eq!((seen, retried), (expected, expected), "{role:?}");
    }
}
