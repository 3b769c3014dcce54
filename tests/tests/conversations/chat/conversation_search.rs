//! Search in the caller's conversations: titles and messages, page by page.

use reqwest::StatusCode;
use serde_json::json;

use super::conversations::quiet;

/// Returns the titles of all pages of a search, and the number of pages.
async fn found(client: &rejoin_tests::client::Client, text: &str, limit: i64) -> (Vec<String>, usize) {
    let (mut titles, mut pages, mut cursor) = (Vec::new(), 0, String::new());
    loop {
        let (status, page) = client
            .get(&format!("/api/conversations?q={text}&limit={limit}{cursor}"))
            .await;
        assert_eq!(status, StatusCode::OK, "{page}");
        pages += 1;
        titles.extend(
            page["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["title"].as_str().unwrap().to_owned()),
        );
        let Some(next) = page["nextCursor"].as_str() else {
            return (titles, pages);
        };
        cursor = format!("&cursor={next}");
    }
}

#[tokio::test]
async fn a_search_finds_the_callers_titles_and_messages_only() {
    let app = quiet().await;
    let client = app.client();
    let made = async |title: &str, message: &str| {
        let (status, body) = client.post("/api/conversations", json!({"title": title})).await;
        assert_eq!(status, StatusCode::CREATED, "{body}");
        let id = body["id"].as_str().unwrap();
        client
            .post_message(json!({"message": message, "conversationId": id}))
            .await;
    };
    made("first", "Which packages need libssl3?").await;
    made("About LibSSL3", "nothing of it").await;
    made("third", "100%_sure").await;
    made("fourth", "again LIBSSL3").await;
    made("fifth", "an even GRößER one").await;
    // Another user's, in the same project.
    sqlx::query(
        "with other as (insert into kb.users (id, handle) values (gen_random_uuid(), 'other') returning id),
              log as (insert into stream.logs (log_id) values ('00000000-0000-4000-8000-000000000001'))
         insert into kb.chat_conversations (id, project_id, owner_user_id, title)
         select '00000000-0000-4000-8000-000000000001', project_id, other.id, 'libssl3 of another'
         from other, (select project_id from kb.chat_conversations limit 1) mine",
    )
    .execute(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(
        found(&client, "libssl3", 50).await.0,
        ["fourth", "About LibSSL3", "first"]
    );
    assert_eq!(
        found(&client, "libssl3", 1).await.0,
        ["fourth", "About LibSSL3", "first"]
    );
    // A literal text, not a pattern; also a part of a word, and letters beyond ASCII.
    assert_eq!(found(&client, "%25_", 50).await, (vec!["third".to_owned()], 1));
    assert_eq!(
        found(&client, "ibssl", 50).await.0,
        ["fourth", "About LibSSL3", "first"]
    );
    assert_eq!(
        found(&client, "gr%C3%B6%C3%9Fe", 50).await,
        (vec!["fifth".to_owned()], 1)
    );
    assert_eq!(found(&client, "nowhere", 50).await, (vec![], 1));
    for query in ["", "%20", &"x".repeat(201), "%00"] {
        let (status, problem) = client.get(&format!("/api/conversations?q={query}")).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_query")),
            "{query}"
        );
    }
}

#[tokio::test]
async fn a_search_goes_on_behind_those_one_request_covers() {
    let app = quiet().await;
    let client = app.client();
    client.post("/api/conversations", json!({"title": "newest"})).await;
    sqlx::query(
        "with older as (select gen_random_uuid() as id, n from generate_series(1, 2 * $1 + 1) n),
              logs as (insert into stream.logs (log_id) select id from older)
         insert into kb.chat_conversations (id, project_id, owner_user_id, title, updated_at)
         select older.id, project_id, owner_user_id,
                case when n = 2 * $1 + 1 then 'needle' else 'hay' end, now() - n * interval '1 minute'
         from older, (select project_id, owner_user_id from kb.chat_conversations limit 1) mine",
    )
    .bind(rejoin_runs::conversations::SEARCHED_MAX)
    .execute(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(found(&client, "needle", 10).await, (vec!["needle".to_owned()], 3));
}

#[tokio::test]
async fn a_search_goes_on_behind_the_messages_one_request_covers() {
    let app = quiet().await;
    let client = app.client();
    client.post("/api/conversations", json!({"title": "newest"})).await;
    // More messages than one request reads, the needle in the oldest chat.
    sqlx::query(
        "with older as (select gen_random_uuid() as id, n from generate_series(1, 60) n),
              logs as (insert into stream.logs (log_id) select id from older),
              chats as (
                  insert into kb.chat_conversations (id, project_id, owner_user_id, title, updated_at)
                  select older.id, project_id, owner_user_id, 'chat ' || n, now() - n * interval '1 minute'
                  from older, (select project_id, owner_user_id from kb.chat_conversations limit 1) mine
              )
         insert into kb.chat_messages (id, conversation_id, role, content, seq)
         select gen_random_uuid(), older.id, 'user', case when n = 60 and m = 1 then 'Needle' else 'hay' end, m
         from older, generate_series(1, $1 / 40) m",
    )
    .bind(rejoin_runs::conversations::SEARCHED_MESSAGES_MAX)
    .execute(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(found(&client, "needle", 10).await, (vec!["chat 60".to_owned()], 2));
    assert_eq!(found(&client, "hay", 10).await.0.len(), 60);
}
