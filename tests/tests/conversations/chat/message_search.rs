//! Full-text search over the messages of a user's conversations: what is found, by whom, in which order.

use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::Client;
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use super::conversations::quiet;

async fn search(client: &Client, query: &str) -> Vec<Value> {
    let (status, page) = client.get(&format!("/api/messages/search?{query}")).await;
    assert_eq!(status, StatusCode::OK, "{query}: {page}");
    page["items"].as_array().unwrap().clone()
}

/// The texts of the found words.
fn marked(hit: &Value) -> Vec<String> {
    let text: Vec<u16> = hit["snippet"]["text"].as_str().unwrap().encode_utf16().collect();
    let marks = hit["snippet"]["marks"].as_array().unwrap();
    let at = |mark: &Value, name: &str| usize::try_from(mark[name].as_u64().unwrap()).unwrap();
    marks
        .iter()
        .map(|mark| String::from_utf16(&text[at(mark, "start")..at(mark, "end")]).unwrap())
        .collect()
}

async fn found(client: &Client, query: &str) -> usize {
    search(client, query).await.len()
}

#[tokio::test]
async fn a_message_is_found_by_its_words_as_soon_as_stored() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model
        .script([Reply::text("The 😀 Upgrades of libssl3 <b>failed</b>.")]);
    client.chat(json!({"message": "What is broken?"})).await;
    let hits = search(&client, "q=upgrade").await;
    assert_eq!(hits.len(), 1, "another form of the word: {hits:?}");
    assert_eq!(
        (&hits[0]["role"], &hits[0]["title"]),
        (&json!("assistant"), &json!("What is broken?"))
    );
    assert_eq!(marked(&hits[0]), ["Upgrades"]);
    let text = hits[0]["snippet"]["text"].as_str().unwrap();
    assert!(text.contains("<b>failed"), "the snippet is the text: {text}");
    assert_eq!(found(&client, "q=broken&role=user").await, 1);
    assert_eq!(found(&client, "q=broken&role=assistant").await, 0);
    assert_eq!(found(&client, "q=upgrade%20-libssl3").await, 0);
    assert_eq!(found(&client, "q=%22of%20libssl3%22").await, 1);
    assert_eq!(found(&client, "q=nowhere%20or%20broken").await, 1);
    assert_eq!(found(&client, "q=!!!").await, 0);
}

#[tokio::test]
async fn a_search_is_narrowed_and_a_deleted_message_is_gone() {
    let app = quiet().await;
    let client = app.client();
    let mut conversations = Vec::new();
    for _ in 0..2 {
        let posted = client.post_message(json!({"message": "Count the needles."})).await;
        conversations.push(posted["conversationId"].as_str().unwrap().to_owned());
    }
    assert_eq!(found(&client, "q=needle").await, 2);
    let one = format!("q=needle&conversationId={}", conversations[0]);
    assert_eq!(found(&client, &one).await, 1);
    let path = format!("/api/conversations/{}", conversations[0]);
    let (_, folder) = client.post("/api/conversation-folders", json!({"name": "Work"})).await;
    client
        .patch(&path, json!({"archived": true, "folderId": folder["id"]}))
        .await;
    assert_eq!(found(&client, "q=needle&archived=true").await, 1);
    assert_eq!(found(&client, "q=needle&archived=false").await, 1);
    let folder = format!("q=needle&folderId={}", folder["id"].as_str().unwrap());
    assert_eq!(found(&client, &folder).await, 1);
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    assert_eq!(found(&client, "q=needle").await, 1);
    let long = format!("q={}", "x".repeat(501));
    for query in ["q=", "q=%20", "q=%00", "q=a&role=tool", "q=a&other=1", long.as_str()] {
        let (status, problem) = client.get(&format!("/api/messages/search?{query}")).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_query")),
            "{query}"
        );
    }
}

#[tokio::test]
async fn the_best_message_is_first_on_pages_without_repeats() {
    let app = quiet().await;
    let client = app.client();
    for text in [
        "one needle in the hay of a field",
        "needle needle needle",
        "a needle and hay",
    ] {
        client.post_message(json!({"message": text})).await;
    }
    let (mut ids, mut cursor) = (Vec::new(), String::new());
    loop {
        let (_, page) = client
            .get(&format!("/api/messages/search?q=needle&limit=1{cursor}"))
            .await;
        let items = page["items"].as_array().unwrap();
        ids.extend(items.iter().map(|item| item["messageId"].clone()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => break,
        }
    }
    let all: Vec<Value> = search(&client, "q=needle").await;
    let order: Vec<Value> = all.iter().map(|hit| hit["messageId"].clone()).collect();
    assert_eq!((ids.len(), &ids), (3, &order));
    assert!(
        all[0]["snippet"]["text"].as_str().unwrap().contains("needle needle"),
        "{all:?}"
    );
}

#[tokio::test]
async fn no_search_finds_messages_of_another_user() {
    let app = quiet().await;
    let posted = app.client().post_message(json!({"message": "a secret needle"})).await;
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(found(&other, "q=needle").await, 0);
    let of = format!("q=needle&conversationId={}", posted["conversationId"].as_str().unwrap());
    assert_eq!(found(&other, &of).await, 0);
    // The lexeme of an owner is not a word that a query can contain.
    let lexeme = format!("q=%22{}%20{}%22", app.db.workspace_id, app.db.user_id);
    assert_eq!(found(&other, &lexeme).await, 0);
    assert_eq!(found(&app.client(), "q=needle").await, 1);
    // Without a scope there is nothing, either.
    let rows: i64 = sqlx::query_scalar(
        "select count(*) from kb.search_messages('needle', 9, null, null, null, null, null, null, 9)",
    )
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn messages_are_indexed_again_for_another_language() {
    let app = TestApp::start().await;
    let client = app.client();
    app.model.always("Häuser", Reply::text("Gut."));
    client.chat(json!({"message": "Wie viele Häuser gibt es?"})).await;
    assert_eq!(found(&client, "q=Haus").await, 0);
    let path = format!("/api/admin/projects/{}/search-language", app.db.workspace_id);
    let (_, before) = client.get(&path).await;
    assert_eq!(before["language"], "english");
    assert!(before["available"].as_array().unwrap().contains(&json!("german")));
    let (status, problem) = client.put(&path, json!({"language": "klingon"})).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("unknown_language"))
    );
    let (status, set) = client.put(&path, json!({"language": "german"})).await;
    assert_eq!((status, &set["language"]), (StatusCode::OK, &json!("german")));
    assert_eq!(found(&client, "q=H%C3%A4user").await, 1, "as it is, at any time");
    wait_for("the messages to be indexed again", async || {
        (found(&client, "q=Haus").await == 1).then_some(())
    })
    .await;
    let left: i64 = sqlx::query_scalar("select count(*) from kb.message_words_backlog")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(left, 0);
    let (_, audit) = client
        .get(&format!("/api/admin/projects/{}/audit", app.db.workspace_id))
        .await;
    assert_eq!(audit["items"][0]["action"], "search_language.set");
}

#[tokio::test]
async fn a_message_of_any_length_and_shape_is_stored() {
    let app = quiet().await;
    let client = app.client();
    let addresses: String = (0..3_000).map(|n| format!("https://h{n}.example/päth/{n} ")).collect();
    let without_spaces = ["x", "ab-cd-", "a.a/", "a@b.", "1.2e", "<a>", "https://a.b/"];
    let long = without_spaces.map(|piece| piece.repeat(100_000 / piece.len()));
    for text in long.into_iter().chain([addresses]) {
        client.post_message(json!({ "message": text })).await;
    }
    assert_eq!(found(&client, "q=h7.example").await, 1);
}

#[tokio::test]
async fn rare_and_frequent_words_are_found_among_many_messages() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    client.post_message(json!({"message": "the first needle"})).await;
    for n in 0..20 {
        sqlx::query(
            "with log as (insert into stream.logs (log_id) values ($1)),
                  conversation as (insert into kb.chat_conversations (id, project_id, owner_user_id, title)
                                   select $1, c.project_id, c.owner_user_id, 'Conversation ' || $2
                                   from kb.chat_conversations c limit 1)
             select",
        )
        .bind(conversation(n))
        .bind(n)
        .execute(&app.db.pool)
        .await
        .unwrap();
        sqlx::query(
            "insert into kb.chat_messages (id, conversation_id, role, content, seq)
             select gen_random_uuid(), $1, case when m % 2 = 0 then 'assistant' else 'user' end,
                    'Package ' || m || ' of ' || $2 || ' depends on libssl3 and needs an upgrade of the kernel'
                        || case when m % 100 = 0 then ', says the needle' else '' end,
                    m
             from generate_series(1, 500) m",
        )
        .bind(conversation(n))
        .bind(n)
        .execute(&app.db.pool)
        .await
        .unwrap();
    }
    sqlx::raw_sql("analyze kb.chat_messages; analyze kb.chat_conversations; analyze kb.message_words")
        .execute(&app.db.pool)
        .await
        .unwrap();
    // A rare word, one of a hundredth of all messages, and those that are in all of them.
    for query in ["q=first", "q=needle", "q=upgrade", "q=%22needs%20an%20upgrade%22"] {
        assert!(found(&client, query).await > 0, "{query}");
    }
}

fn conversation(n: i32) -> Uuid {
    Uuid::from_u128(u128::from(n.unsigned_abs()) + 1)
}
