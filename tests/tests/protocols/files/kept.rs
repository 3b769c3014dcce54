//! Storage of files: ownership, quotas, retention, and availability to runs.

use rejoin_db::rls;
use rejoin_db::{Db, Role};
use rejoin_models::Ability;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::mcp::{self, Shop};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::files::{content, decoded, parts, png, stored, upload};

#[tokio::test]
async fn only_its_owner_reads_attaches_or_deletes_a_file() {
    let app = TestApp::start().await;
    let mine = app.client();
    let (_, key) = app.db.another_user().await;
    let theirs = Client::new(app.url(), &key);
    let id = stored(&mine, "secret.txt", b"secret".to_vec()).await;
    let path = format!("/api/files/{id}");
    assert_eq!(theirs.get(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(theirs.get(&format!("{path}/content")).await.0, StatusCode::NOT_FOUND);
    assert_eq!(theirs.delete(&path).await.0, StatusCode::NOT_FOUND);
    assert_eq!(theirs.get("/api/files").await.1["items"], json!([]));
    let body = json!({"message": "Read it.", "attachments": [{"fileId": id}]});
    let (status, problem) = theirs.post_for_json("/api/chat/stream", body.clone()).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("file_not_found")),
        "{problem}"
    );
    let conversations: i64 = sqlx::query_scalar("select count(*) from kb.chat_conversations")
        .fetch_one(&app.db.pool)
        .await
        .expect("a count");
    assert_eq!(
        conversations, 0,
        "nothing is stored of a message whose files are not there"
    );
    assert_eq!(mine.get(&path).await.1["name"], "secret.txt");
    mine.post_message(body).await;

    // Statements without an owner see no more than that.
    let pool = Db::connect_lazy(&app.db.args(), "rejoin-test-app", Role::App)
        .expect("a URL")
        .pool_sqlx;
    let (stranger, _) = app.db.another_user().await;
    let mut other = app.db.owner();
    other.user_id = stranger;
    for (owner, rows) in [(app.db.owner(), 1), (other, 0)] {
        for table in ["kb.files", "kb.file_chunks", "kb.message_files"] {
            let mut tx = rls::begin(&pool, rls::Scope::User(owner)).await.expect("a transaction");
            let seen: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from {table}")))
                .fetch_one(&mut *tx)
                .await
                .expect("a count");
            assert_eq!(seen, rows, "{table}");
        }
    }
    let mut tx = rls::begin(&pool, rls::Scope::User(other)).await.expect("a transaction");
    let id: Uuid = id.parse().expect("an id");
    let changed = sqlx::query("update kb.files set owner_user_id = $2 where id = $1")
        .bind(id)
        .bind(stranger)
        .execute(&mut *tx)
        .await
        .expect("it runs");
    assert_eq!(changed.rows_affected(), 0);
    let mut tx = rls::begin(&pool, rls::Scope::User(other)).await.expect("a transaction");
    let put = sqlx::query("insert into kb.file_chunks (file_id, position, content) values ($1, 1, 'x')").bind(id);
    assert!(put.execute(&mut *tx).await.is_err(), "a piece of another's file");
}

#[tokio::test]
async fn limits_of_messages_and_projects_are_named_in_errors() {
    let app = TestApp::with(AppOptions {
        api: |config| {
            config.chat.files.max_message_files = 2;
            config.chat.files.max_message_files_bytes = 10;
            config.chat.files.max_project_files_bytes = 30;
        },
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(json!({"fileId": stored(&client, name, b"12345678".to_vec()).await}));
    }
    let (status, problem) = upload(&client, "d", None, b"12345678".to_vec()).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (507, &json!("files_full")),
        "{problem}"
    );
    let post = async |attachments: &[Value]| {
        let body = json!({"message": "x", "attachments": attachments});
        client.post_for_json("/api/chat/stream", body).await
    };
    let (status, problem) = post(&ids).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("too_many_attachments"))
    );
    let (status, problem) = post(&ids[..2]).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("attachments_too_large"))
    );
    let (status, problem) = post(&[json!({"fileId": "nonsense"})]).await;
    assert_eq!((status.as_u16(), &problem["code"]), (400, &json!("file_not_found")));
    assert_eq!(
        post(&[ids[0].clone(), ids[0].clone()]).await.0,
        StatusCode::ACCEPTED,
        "the same file twice is one"
    );
    // Deleting frees space.
    client
        .delete(&format!("/api/files/{}", ids[1]["fileId"].as_str().expect("an id")))
        .await;
    assert_eq!(
        upload(&client, "d", None, b"12345678".to_vec()).await.0,
        StatusCode::CREATED
    );
}

#[tokio::test]
async fn files_that_no_message_names_are_removed_and_others_stay() {
    let app = TestApp::start().await;
    let client = app.client();
    let kept = stored(&client, "kept.txt", b"kept".to_vec()).await;
    let forgotten = stored(&client, "forgotten.txt", b"forgotten".to_vec()).await;
    let posted = client
        .post_message(json!({"message": "x", "attachments": [{"fileId": kept}]}))
        .await;
    app.wait_until_idle().await;
    let sweep = async || while rejoin_files::sweep(&app.db.pool, 24.0 * 3600.0).await.expect("a sweep") {};
    sweep().await;
    assert_eq!(
        client.get(&format!("/api/files/{forgotten}")).await.0,
        StatusCode::OK,
        "it is not old"
    );
    let age = "update kb.files set created_at = created_at - interval '25 hours'";
    sqlx::query(age).execute(&app.db.pool).await.expect("they are old");
    sweep().await;
    assert_eq!(
        client.get(&format!("/api/files/{forgotten}")).await.0,
        StatusCode::NOT_FOUND
    );
    assert_eq!(content(&client, &kept).await, b"kept");
    // With its message, its reference is removed; then the file.
    let conversation = posted["conversationId"].as_str().expect("an id");
    client.delete(&format!("/api/conversations/{conversation}")).await;
    sweep().await;
    assert_eq!(client.get(&format!("/api/files/{kept}")).await.0, StatusCode::NOT_FOUND);
    let left: i64 = sqlx::query_scalar("select count(*) from kb.file_chunks")
        .fetch_one(&app.db.pool)
        .await
        .expect("a count");
    assert_eq!(left, 0);
}

#[tokio::test]
async fn a_model_that_reads_no_such_file_names_some_that_do() {
    let app = TestApp::start().await;
    let client = app.client();
    let today = rejoin_models::today();
    let blind = rejoin_models::catalogue().all().iter().find(|model| {
        model.provider() == "openai" && model.can(Ability::Images) == Some(false) && !model.is_retired(today)
    });
    let blind = blind.expect("a model that reads no images");
    let agent = app
        .agent_with("blind", &[], |content| {
            content.model.as_mut().expect("a model").name = blind.name.clone();
        })
        .await;
    let photo = stored(&client, "photo.png", png()).await;
    let body = json!({"message": "Look.", "agentDefinitionId": agent, "attachments": [{"fileId": photo}]});
    let events = json_of(&client.chat(body).await);
    let error = of_kind(&events, "error")[0];
    assert_eq!(error["code"], "model_cannot_read_file", "{error}");
    let words = error["error"].as_str().expect("words");
    assert!(
        words.starts_with(&format!(
            "The model {} does not read images (`photo.png`, image/png). Choose",
            blind.name
        )) && words.contains("gemini:"),
        "{words}"
    );
    assert_eq!(app.model.counts().requests, 0, "nothing was sent");
    // Audio of a type that the protocol lacks.
    let agent = app.agent("hears", &[]).await;
    let flac = stored(&client, "a.flac", b"fLaC\0\0\0\x22".to_vec()).await;
    let body = json!({"message": "Listen.", "agentDefinitionId": agent, "attachments": [{"fileId": flac}]});
    let events = json_of(&client.chat(body).await);
    assert_eq!(of_kind(&events, "error")[0]["code"], "model_cannot_read_file");
}

#[tokio::test]
async fn forks_and_answers_to_questions_have_their_files() {
    let app = TestApp::start().await;
    let client = app.client();
    let agent = app.agent("asker", &["ask_user"]).await;
    let photo = stored(&client, "photo.png", png()).await;
    let attachments = json!([{ "fileId": photo }]);
    app.model.script([Reply::text("A pixel.")]);
    let body = json!({"message": "Look.", "agentDefinitionId": agent, "attachments": attachments});
    let frames = client.chat(body).await;
    let run = frames[1].json()["runId"].as_str().expect("an id").to_owned();
    for (fork, words) in [
        (json!({"step": 0}), "Look."),
        (json!({"step": 0, "message": "Look again."}), "Look again."),
    ] {
        app.model.script([Reply::text("Still a pixel.")]);
        let (status, forked) = client.post(&format!("/api/runs/{run}/fork"), fork).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{forked}");
        let path = format!("/api/runs/{}/events", forked["runId"].as_str().expect("an id"));
        let events = json_of(&client.stream(&path).await.rest().await);
        assert_eq!(
            of_kind(&events, "message")[0]["message"]["attachments"][0]["fileId"],
            json!(photo)
        );
        let parts = parts(&app);
        assert_eq!(parts[0]["text"], words);
        assert!(decoded(&parts[2]) == png());
    }

    app.model.script([
        Reply::tool("ask_user", json!({"question": "Which picture?", "options": []})),
        Reply::text("That one."),
    ]);
    let posted = client
        .post_message(json!({"message": "Choose.", "agentDefinitionId": agent}))
        .await;
    let conversation = posted["conversationId"].as_str().expect("an id").to_owned();
    wait_for("the question", async || {
        let (_, listed) = client.get("/api/questions").await;
        listed["items"]
            .as_array()
            .is_some_and(|items| !items.is_empty())
            .then_some(())
    })
    .await;
    let body = json!({"message": "This one.", "conversationId": conversation, "attachments": attachments});
    let answered = client.post_message(body).await;
    let path = format!("/api/runs/{}/events", answered["runId"].as_str().expect("an id"));
    let frames = client.stream(&path).await.rest().await;
    assert_eq!(text(&frames), "That one.");
    let parts = parts(&app);
    assert_eq!(parts[0]["text"], "These files belong to my answer.");
    assert!(decoded(&parts[2]) == png());
    assert_eq!(app.model.violations(), Vec::<String>::new());
}

#[tokio::test]
async fn an_image_that_a_tool_gives_is_a_file_and_reaches_the_model() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    shop.add(json!({"name": "everything", "command": "everything"})).await;
    let agent = shop.app.agent("painter", &["everything_*"]).await;
    let called = shop.call(agent, "everything_get-tiny-image", json!({})).await;
    assert_eq!(called.status, "completed", "{called:?}");
    let blocks = called.output["content"].as_array().cloned().expect("blocks");
    let image = blocks.iter().find(|block| block["type"] == "image").expect("an image");
    assert_eq!(
        image["url"],
        json!(format!(
            "/api/files/{}/content",
            image["fileId"].as_str().expect("an id")
        ))
    );
    let client = shop.app.client();
    let (_, file) = client
        .get(&format!("/api/files/{}", image["fileId"].as_str().expect("an id")))
        .await;
    assert_eq!(
        (&file["mediaType"], &file["kind"]),
        (&json!("image/png"), &json!("image")),
        "{file}"
    );
    assert!(file["runId"].is_string(), "{file}");
    let bytes = content(&client, file["id"].as_str().expect("an id")).await;
    let parts = parts(&shop.app);
    assert_eq!(parts[0]["text"], "These files belong to the results above.");
    assert!(decoded(&parts[2]) == bytes, "the model sees what can be downloaded");
    assert_eq!(shop.app.model.violations(), Vec::<String>::new());
}
