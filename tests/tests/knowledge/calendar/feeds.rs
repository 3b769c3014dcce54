//! Calendar feeds: accessible by their address, until they are removed, replaced, or the owner leaves.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use reqwest::header::{CACHE_CONTROL, ETAG, IF_NONE_MATCH};
use reqwest::{Response, StatusCode};
use serde_json::json;

/// Requests a feed like a program that knows only the address.
async fn read(url: &str, known: Option<&str>) -> Response {
    let request = reqwest::Client::new().get(url);
    let request = match known {
        Some(tag) => request.header(IF_NONE_MATCH, format!("W/\"other\", {tag}")),
        None => request,
    };
    request.send().await.unwrap()
}

async fn calendar(client: &Client) -> String {
    let made = json!({"name": "Work", "timeZone": "Europe/Berlin"});
    let (status, made) = client.post("/api/calendars", made).await;
    assert_eq!((status, &made["hasFeed"]), (StatusCode::CREATED, &json!(false)));
    format!("/api/calendars/{}", made["id"].as_str().unwrap())
}

async fn feed(client: &Client, calendar: &str) -> String {
    let (status, made) = client.post(&format!("{calendar}/feed"), json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    made["url"].as_str().unwrap().to_owned()
}

async fn add(client: &Client, calendar: &str, title: &str) {
    let event = json!({"title": title, "start": "2027-03-01T10:00"});
    let (status, made) = client.post(&format!("{calendar}/events"), event).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
}

/// Requirements: E56.
#[tokio::test]
async fn a_feed_serves_the_calendar_at_its_address_with_its_changes() {
    let app = TestApp::start().await;
    let client = app.client();
    let (work, private) = (calendar(&client).await, calendar(&client).await);
    add(&client, &work, "Standup").await;
    add(&client, &private, "Dentist").await;
    let url = feed(&client, &work).await;
    assert!(
        url.starts_with(&format!("{}/api/calendar-feeds/", app.url())) && url.ends_with(".ics"),
        "{url}"
    );
    let shown = read(&url, None).await;
    assert_eq!(
        (shown.status(), &shown.headers()[CACHE_CONTROL]),
        (StatusCode::OK, &"private, no-cache".parse().unwrap())
    );
    assert_eq!(shown.headers()["content-type"], "text/calendar; charset=utf-8");
    assert!(
        shown.headers().contains_key("ratelimit-remaining"),
        "{:?}",
        shown.headers()
    );
    let tag = shown.headers()[ETAG].to_str().unwrap().to_owned();
    let text = shown.text().await.unwrap();
    assert!(text.contains("SUMMARY:Standup") && !text.contains("Dentist"), "{text}");
    let again = read(&url, Some(&tag)).await;
    assert_eq!(
        (again.status(), again.text().await.unwrap()),
        (StatusCode::NOT_MODIFIED, String::new())
    );
    add(&client, &work, "Retro").await;
    let newer = read(&url, Some(&tag)).await;
    assert_eq!(newer.status(), StatusCode::OK);
    assert!(newer.text().await.unwrap().contains("SUMMARY:Retro"));
    // The secret is in no list, and grants access to nothing else.
    let (_, listed) = client.get("/api/calendars").await;
    let has: Vec<_> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["hasFeed"].clone())
        .collect();
    assert_eq!(has, [json!(true), json!(false)]);
    let secret = url.rsplit('/').next().unwrap().trim_end_matches(".ics");
    assert!(!listed.to_string().contains(secret));
    let as_key = Client::new(app.url(), secret);
    assert_eq!(as_key.get("/api/calendars").await.0, StatusCode::UNAUTHORIZED);
    let stored: Vec<u8> = sqlx::query_scalar("select hash from kb.calendar_feeds")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(!String::from_utf8_lossy(&stored).contains(secret));
}

/// Requirements: E56.
#[tokio::test]
async fn a_replaced_removed_or_ownerless_feed_shows_nothing() {
    let app = TestApp::start().await;
    let client = app.client();
    let work = calendar(&client).await;
    let gone = async |url: &str| {
        let response = read(url, None).await;
        let (status, body) = rejoin_tests::client::answer(response).await;
        assert_eq!(
            (status, &body["code"]),
            (StatusCode::NOT_FOUND, &json!("calendar_feed_not_found")),
            "{url}"
        );
    };
    gone(&format!("{}/api/calendar-feeds/{}.ics", app.url(), "A".repeat(43))).await;
    let first = feed(&client, &work).await;
    let second = feed(&client, &work).await;
    gone(&first).await;
    assert_eq!(read(&second, None).await.status(), StatusCode::OK);
    // Others can neither create nor remove it.
    let (user, key) = app.db.another_user().await;
    let other = Client::new(app.url(), &key);
    assert_eq!(
        other.post(&format!("{work}/feed"), json!({})).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(other.delete(&format!("{work}/feed")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(read(&second, None).await.status(), StatusCode::OK);
    let theirs = feed(&other, &calendar(&other).await).await;
    assert_eq!(read(&theirs, None).await.status(), StatusCode::OK);
    sqlx::query("delete from kb.project_members where user_id = $1")
        .bind(user)
        .execute(&app.db.pool)
        .await
        .unwrap();
    gone(&theirs).await;
    assert_eq!(client.delete(&format!("{work}/feed")).await.0, StatusCode::NO_CONTENT);
    gone(&second).await;
    assert_eq!(client.delete(&format!("{work}/feed")).await.0, StatusCode::NOT_FOUND);
    let (_, entries) = client
        .get(&format!("/api/admin/projects/{}/audit", app.db.workspace_id))
        .await;
    let actions = entries["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["action"].as_str());
    let actions: Vec<&str> = actions.filter(|action| action.starts_with("calendar_feed")).collect();
    assert_eq!(
        actions,
        [
            "calendar_feed.removed",
            "calendar_feed.made",
            "calendar_feed.made",
            "calendar_feed.made"
        ]
    );
}
