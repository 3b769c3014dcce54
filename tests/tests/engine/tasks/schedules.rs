//! Schedules: each firing happens once, with any number of workers; missed ones follow the schedule's policy; failures
//! are reported, and delay no others. (Refused ones: `schedule_refusals`.)

use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

pub(super) struct Site {
    pub(super) app: TestApp,
    pub(super) client: Client,
    pub(super) path: String,
}

impl Site {
    /// With agents `worker` and `other`, which accept any input.
    pub(super) async fn with(workers: usize) -> Self {
        let app = TestApp::with(AppOptions {
            workers,
            ..AppOptions::default()
        })
        .await;
        app.agent("worker", &[]).await;
        app.agent("other", &[]).await;
        app.model.always("", Reply::text("done"));
        Self {
            client: app.client(),
            path: format!("/api/projects/{}/schedules", app.db.workspace_id),
            app,
        }
    }

    pub(super) async fn add(&self, name: &str, rest: Value) -> Value {
        let mut body = json!({"name": name, "cron": "0 * * * *", "agent": "worker", "input": name});
        for (field, value) in rest.as_object().unwrap() {
            body[field] = value.clone();
        }
        body.as_object_mut().unwrap().retain(|_, value| !value.is_null());
        let (status, made) = self.client.post(&self.path, body).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        made
    }

    pub(super) async fn get(&self, schedule: &Value) -> Value {
        self.client
            .get(&format!("{}/{}", self.path, schedule["id"].as_str().unwrap()))
            .await
            .1
    }

    /// Moves the next firing into the past, as if no worker had run since.
    async fn due_since(&self, schedule: &Value, ago: &str) {
        sqlx::query("update kb.schedules set next_at = date_trunc('hour', now()) - $2::interval where id = $1::uuid")
            .bind(schedule["id"].as_str().unwrap())
            .bind(ago)
            .execute(&self.app.db.pool)
            .await
            .unwrap();
    }

    async fn due_now(&self, schedule: &Value) {
        sqlx::query("update kb.schedules set next_at = now() where id = $1::uuid")
            .bind(schedule["id"].as_str().unwrap())
            .execute(&self.app.db.pool)
            .await
            .unwrap();
    }

    /// Returns it once nothing is due.
    async fn settled(&self, schedule: &Value) -> Value {
        support::wait_for("the schedule to fire", async || {
            let is_due: bool =
                sqlx::query_scalar("select coalesce(next_at <= now(), false) from kb.schedules where id = $1::uuid")
                    .bind(schedule["id"].as_str().unwrap())
                    .fetch_one(&self.app.db.pool)
                    .await
                    .unwrap();
            (!is_due).then_some(())
        })
        .await;
        self.get(schedule).await
    }

    async fn runs(&self, input: &str) -> i64 {
        sqlx::query_scalar("select count(*) from kb.agent_runs where input = $1")
            .bind(input)
            .fetch_one(&self.app.db.pool)
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_schedule_that_is_due_fires_once_with_many_workers_at_work() {
    let site = Site::with(3).await;
    let mut made = Vec::new();
    for n in 0..8 {
        made.push(site.add(&format!("s{n}"), json!({"timeZone": "Europe/Berlin"})).await);
    }
    assert!(
        made[0]["nextAt"].is_string() && made[0]["lastAt"].is_null(),
        "{}",
        made[0]
    );
    for schedule in &made {
        site.due_now(schedule).await;
    }
    for (n, schedule) in made.iter().enumerate() {
        let fired = site.settled(schedule).await;
        assert_eq!(
            (site.runs(&format!("s{n}")).await, &fired["lastError"]),
            (1, &Value::Null)
        );
        assert!(
            fired["lastAt"].is_string() && fired["nextAt"].as_str() >= made[n]["nextAt"].as_str(),
            "{fired}"
        );
    }
    site.app.wait_until_idle().await;
    let (_, run) = site
        .client
        .get(&format!(
            "/api/runs/{}",
            site.get(&made[3]).await["lastRunId"].as_str().unwrap()
        ))
        .await;
    assert_eq!(
        (&run["state"], &run["agent"], &run["input"]),
        (&json!("completed"), &json!("worker"), &json!("s3"))
    );
}

#[tokio::test]
async fn what_was_missed_is_left_out_made_up_for_once_or_each() {
    let site = Site::with(0).await;
    let mut made = Vec::new();
    for missed in ["skip", "once", "all"] {
        let schedule = site.add(missed, json!({"missed": missed})).await;
        site.due_since(&schedule, "5 hours").await;
        made.push(schedule);
    }
    let (due, first_minutes): (f64, bool) = sqlx::query_as(
        "select floor(extract(epoch from now() - date_trunc('hour', now()) + interval '5 hours') / 3600)::float8 + 1,
                extract(minute from now()) in (0, 59)",
    )
    .fetch_one(&site.app.db.pool)
    .await
    .unwrap();
    let mut site = site;
    for _ in 0..3 {
        site.app.add_worker();
    }
    let mut fired = Vec::new();
    for schedule in &made {
        fired.push(site.settled(schedule).await);
    }
    assert_eq!(site.runs("once").await, 1);
    // In the first minute of an hour, its firing is not missed yet, and in the last one it may be due in a moment.
    if !first_minutes {
        assert_eq!((site.runs("skip").await, site.runs("all").await), (0, due as i64));
        assert!(
            fired[0]["lastError"].as_str().unwrap().contains("missed"),
            "{}",
            fired[0]
        );
    }
}

#[tokio::test]
async fn one_that_is_to_fire_once_does_so_and_is_switched_off() {
    let site = Site::with(1).await;
    let once = site
        .add("once", json!({"cron": null, "at": "2999-01-01T00:00:00Z"}))
        .await;
    let off = site.add("off", json!({"enabled": false})).await;
    assert_eq!(
        (&once["nextAt"], &off["nextAt"]),
        (&json!("2999-01-01T00:00:00Z"), &Value::Null)
    );
    sqlx::query("update kb.schedules set at = now(), next_at = now() where name = 'once'")
        .execute(&site.app.db.pool)
        .await
        .unwrap();
    let fired = site.settled(&once).await;
    assert_eq!(
        (&fired["enabled"], &fired["nextAt"], site.runs("once").await),
        (&json!(false), &Value::Null, 1)
    );
    // Its moment has passed.
    let path = format!("{}/{}", site.path, once["id"].as_str().unwrap());
    let (status, problem) = site.client.patch(&path, json!({"enabled": true})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_schedule"))
    );
    let (_, on) = site
        .client
        .patch(&path, json!({"enabled": true, "cron": "@daily"}))
        .await;
    assert_eq!(
        (&on["enabled"], &on["cron"], &on["at"]),
        (&json!(true), &json!("@daily"), &Value::Null)
    );
    assert!(on["nextAt"].is_string(), "{on}");
    let (_, off) = site.client.patch(&path, json!({"enabled": false})).await;
    assert_eq!((&off["nextAt"], site.runs("off").await), (&Value::Null, 0));
}

#[tokio::test]
async fn a_schedule_makes_dags_of_tasks() {
    let site = Site::with(1).await;
    let tasks = json!({"name": "two", "tasks": [{"id": "a", "agent": "worker"}, {"id": "b", "agent": "other", "after": ["a"]}]});
    let made = site
        .add("dag", json!({"agent": null, "input": null, "tasks": tasks}))
        .await;
    for _ in 0..2 {
        site.due_now(&made).await;
        site.settled(&made).await;
    }
    let dag = site.get(&made).await["lastTaskDagId"].as_str().unwrap().to_owned();
    let dags = format!("/api/projects/{}/task-dags", site.app.db.workspace_id);
    support::wait_for("the DAG to end", async || {
        let (_, dag) = site.client.get(&format!("{dags}/{dag}")).await;
        (dag["state"] == "completed").then_some(())
    })
    .await;
    let (_, page) = site.client.get(&dags).await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn what_cannot_be_started_is_reported_and_the_others_go_on() {
    let site = Site::with(0).await;
    let orphan = site.add("orphan", json!({"agent": "other"})).await;
    let fine = site.add("fine", json!({})).await;
    sqlx::query("delete from kb.agent_definitions where name = 'other'")
        .execute(&site.app.db.pool)
        .await
        .unwrap();
    site.due_since(&orphan, "0 hours").await;
    site.due_now(&fine).await;
    let mut site = site;
    site.app.add_worker();
    let (orphan, fine) = (site.settled(&orphan).await, site.settled(&fine).await);
    assert!(
        orphan["lastError"].as_str().unwrap().contains("no agent other"),
        "{orphan}"
    );
    assert_eq!((&orphan["enabled"], &orphan["lastRunId"]), (&json!(true), &Value::Null));
    assert_eq!((&fine["lastError"], site.runs("fine").await), (&Value::Null, 1));

    // A project with an exhausted quota.
    sqlx::query("update kb.projects set runs_per_day = 1")
        .execute(&site.app.db.pool)
        .await
        .unwrap();
    site.due_now(&fine).await;
    let fine = site.settled(&fine).await;
    assert!(
        fine["lastError"].as_str().unwrap().contains("used up its runs"),
        "{fine}"
    );
    assert_eq!(site.runs("fine").await, 1);
}

#[tokio::test]
async fn the_jobs_of_a_product_are_schedules() {
    let site = Site::with(1).await;
    let products = format!("/api/admin/projects/{}/products", site.app.db.workspace_id);
    let manifest = |version: &str, jobs: Value| {
        json!({"manifest": {"name": "errands", "version": version, "jobs": jobs,
            "agents": [{"name": "runner", "system_prompt": "Run.", "visibility": "internal", "model": {"name": "openai:scripted"}}]}})
    };
    let install = async |version: &str, jobs: Value| {
        let (status, done) = site.client.post(&products, manifest(version, jobs)).await;
        assert_eq!(status, StatusCode::OK, "{done}");
        let changes = done["changes"].as_array().unwrap().clone();
        let jobs = changes.into_iter().filter(|change| change["kind"] == "job");
        jobs.map(|change| {
            format!(
                "{} {}",
                change["action"].as_str().unwrap(),
                change["name"].as_str().unwrap()
            )
        })
        .collect::<Vec<_>>()
    };
    let nightly = json!({"name": "nightly", "cron": "0 3 * * *", "agent": "runner", "description": "Do errands.",
        "config": {"time_zone": "Asia/Tokyo", "missed": "skip"}});
    assert_eq!(install("1.0.0", json!([nightly])).await, ["create nightly"]);
    let (_, page) = site.client.get(&site.path).await;
    let schedule = page["items"][0].clone();
    assert_eq!(
        (&schedule["timeZone"], &schedule["missed"], &schedule["input"]),
        (&json!("Asia/Tokyo"), &json!("skip"), &json!("Do errands."))
    );
    site.due_now(&schedule).await;
    site.settled(&schedule).await;
    assert_eq!(site.runs("Do errands.").await, 1);

    // Disabled manually: it stays disabled, whatever is installed.
    let path = format!("{}/{}", site.path, schedule["id"].as_str().unwrap());
    site.client.patch(&path, json!({"enabled": false})).await;
    assert_eq!(install("1.0.0", json!([nightly])).await, ["keep nightly"]);
    let mut later = nightly.clone();
    later["cron"] = json!("0 4 * * *");
    assert_eq!(
        install(
            "1.1.0",
            json!([later, {"name": "weekly", "cron": "@weekly", "agent": "runner"}])
        )
        .await,
        ["update nightly", "create weekly"]
    );
    let nightly = site.get(&schedule).await;
    assert_eq!(
        (&nightly["cron"], &nightly["enabled"]),
        (&json!("0 4 * * *"), &json!(false))
    );
    assert_eq!(
        install("1.2.0", json!([later])).await,
        ["keep nightly", "remove weekly"]
    );
    // A schedule made by a user under the same name is not taken over.
    site.add("mine", json!({})).await;
    let mine = json!([later, {"name": "mine", "cron": "@daily", "agent": "runner"}]);
    let (status, problem) = site.client.post(&products, manifest("1.3.0", mine)).await;
    assert_eq!(status, StatusCode::CONFLICT, "{problem}");
    site.client.delete(&format!("{products}/errands")).await;
    let (_, page) = site.client.get(&site.path).await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["items"][0]["name"]),
        (1, &json!("mine"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_makes_lists_switches_and_removes_schedules() {
    let site = Site::with(0).await;
    let rejoin = |line: &[&str]| {
        let output = tokio::task::block_in_place(|| {
            std::process::Command::new(binary())
                .arg("schedules")
                .args(line)
                .env("REJOIN_URL", site.app.url())
                .env("REJOIN_API_KEY", &site.app.db.api_key)
                .env("REJOIN_PROJECT_ID", site.app.db.workspace_id.to_string())
                .output()
                .unwrap()
        });
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let added = rejoin(&[
        "add",
        "nightly",
        "--cron",
        "0 3 * * *",
        "--agent",
        "worker",
        "--input",
        "Tidy up.",
    ]);
    assert!(added.contains("nightly") && added.contains("0 3 * * * UTC"), "{added}");
    assert!(rejoin(&["add", "x", "--cron", "often", "--agent", "worker", "--input", "y"]).contains("five fields"));
    assert!(rejoin(&["list"]).contains("nightly"));
    assert!(rejoin(&["disable", "nightly"]).contains("is         off"));
    assert!(rejoin(&["enable", "nightly"]).contains("is         on"));
    assert!(rejoin(&["remove", "nightly"]).contains("removed"));
    assert!(rejoin(&["show", "nightly"]).contains("there is no schedule nightly"));
}
