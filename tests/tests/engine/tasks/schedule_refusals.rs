//! Schedules that are refused as invalid, or hidden from other projects.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::client::Client;
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::schedules::Site;

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_what_is_wrong() {
    let site = Site::with(0).await;
    site.add("there", json!({})).await;
    for (body, words) in [
        (
            json!({"name": "x", "agent": "worker", "input": "go", "cron": "every day"}),
            "five fields",
        ),
        (
            json!({"name": "x", "agent": "worker", "input": "go", "cron": "* * * * * *"}),
            "five fields",
        ),
        (
            json!({"name": "x", "agent": "worker", "input": "go", "cron": "0 0 31 2 *"}),
            "never matches",
        ),
        (json!({"name": "x", "agent": "worker", "input": "go"}), "cron or at"),
        (
            json!({"name": "x", "agent": "worker", "input": "go", "at": "2020-01-01T00:00:00Z"}),
            "must be in the future",
        ),
        (
            json!({"name": "x", "agent": "worker", "input": "go", "cron": "@daily", "timeZone": "Moon/Base"}),
            "time zone",
        ),
        (
            json!({"name": "x", "agent": "nobody", "input": "go", "cron": "@daily"}),
            "no agent nobody",
        ),
        (json!({"name": "x", "agent": "worker", "cron": "@daily"}), "input"),
        (
            json!({"name": "", "agent": "worker", "input": "go", "cron": "@daily"}),
            "name",
        ),
        (json!({"name": "x", "cron": "@daily"}), "agent or tasks"),
        (
            json!({"name": "x", "cron": "@daily", "tasks": {"name": "d", "tasks": [{"id": "a", "after": ["a"]}]}}),
            "cycle",
        ),
    ] {
        let (status, problem) = site.client.post(&site.path, body.clone()).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_schedule")),
            "{body}"
        );
        assert!(
            problem["detail"].as_str().unwrap().contains(words),
            "{words}: {problem}"
        );
    }
    let again = json!({"name": "there", "agent": "worker", "input": "go", "cron": "@daily"});
    let (status, problem) = site.client.post(&site.path, again).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("schedule_name_taken"))
    );
}

#[tokio::test]
async fn another_project_sees_and_changes_nothing_of_it() {
    let site = Site::with(0).await;
    let (b, a) = (site.add("b", json!({})).await, site.add("a", json!({})).await);
    let (_, first) = site.client.get(&format!("{}?limit=1", site.path)).await;
    let next = format!("{}?limit=1&cursor={}", site.path, first["nextCursor"].as_str().unwrap());
    let (_, second) = site.client.get(&next).await;
    assert_eq!(
        (&first["items"][0]["id"], &second["items"][0]["id"]),
        (&a["id"], &b["id"])
    );
    assert_eq!(second["nextCursor"], Value::Null);

    let mut connection = site.app.db.pool.acquire().await.unwrap();
    let (user, _) = site.app.db.another_user().await;
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    workspaces::add_member(&mut connection, other, user, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut connection, user, Some(other), "test", &Scope::ALL, None)
        .await
        .unwrap();
    let stranger = Client::new(site.app.url(), &key);
    let id = a["id"].as_str().unwrap();
    let theirs = format!("/api/projects/{other}/schedules");
    assert_eq!(stranger.get(&theirs).await.1["items"], json!([]));
    for path in [format!("{}/{id}", site.path), format!("{theirs}/{id}")] {
        assert_eq!(stranger.get(&path).await.0, StatusCode::NOT_FOUND);
        assert_eq!(
            stranger.patch(&path, json!({"enabled": false})).await.0,
            StatusCode::NOT_FOUND
        );
        assert_eq!(stranger.delete(&path).await.0, StatusCode::NOT_FOUND);
    }
    assert_eq!(site.get(&a).await["enabled"], true);
    let path = format!("{}/{id}", site.path);
    assert_eq!(site.client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(site.client.get(&path).await.0, StatusCode::NOT_FOUND);
}
