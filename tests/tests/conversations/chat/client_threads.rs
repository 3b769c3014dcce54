//! Conversations that clients name themselves, and the earlier messages that they bring along.

use futures::future::join_all;
use rejoin_commands::{HistoryMessage, PostError, PostMessage, Posted};
use rejoin_db::{Db, Role, rls};
use rejoin_runs::conversations;
use rejoin_runs::messages::Role as Speaker;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_types::owner::Owner;
use serde_json::json;
use sqlx::PgPool;

/// Connections with the API's role: row-level security applies.
pub fn as_api(app: &TestApp) -> PgPool {
    Db::connect_lazy(&app.db.args(), "rejoin-test-app", Role::App)
        .expect("a readable URL")
        .pool_sqlx
}

pub async fn try_post(app: &PgPool, command: &PostMessage) -> Result<Posted, PostError> {
    rejoin_commands::execute_for(app, rls::Scope::User(command.owner), command).await
}

pub async fn post(app: &PgPool, command: &PostMessage) -> Posted {
    try_post(app, command).await.expect("it is posted")
}

/// Returns the code of a refused message, and the reason.
pub async fn refusal(app: &PgPool, command: &PostMessage) -> (&'static str, String) {
    match try_post(app, command).await {
        Err(PostError::Unfit { code, detail }) => (code, detail),
        other => panic!("it is not refused: {other:?}"),
    }
}

fn in_thread(owner: Owner, thread: &str, text: &str) -> PostMessage {
    PostMessage {
        client_thread: Some(thread.to_owned()),
        ..PostMessage::new(owner, text)
    }
}

async fn without_workers() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

#[tokio::test]
async fn twenty_first_messages_of_one_thread_make_one_conversation() {
    let app = without_workers().await;
    let api = as_api(&app);
    let commands: Vec<PostMessage> = (0..20)
        .map(|nth| in_thread(app.db.owner(), "chat-1", &format!("hello {nth}")))
        .collect();
    let posted = join_all(commands.iter().map(|command| post(&api, command))).await;
    let conversation = posted[0].conversation_id;
    assert!(posted.iter().all(|posted| posted.conversation_id == conversation));
    let counts: (i64, i64, i64) = sqlx::query_as(
        "select (select count(*) from kb.chat_conversations), (select count(*) from stream.logs),
                (select count(*) from kb.agent_runs where conversation_id = $1)",
    )
    .bind(conversation)
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(counts, (1, 1, 20));
    let mut cursors: Vec<i64> = posted.iter().map(|posted| posted.cursor).collect();
    cursors.sort_unstable();
    assert_eq!(
        cursors,
        (0..20).collect::<Vec<i64>>(),
        "each message has its own place in the log"
    );
}

#[tokio::test]
async fn a_thread_is_its_users_until_its_conversation_is_deleted() {
    let app = without_workers().await;
    let api = as_api(&app);
    let mine = app.db.owner();
    let (user_id, _) = app.db.another_user().await;
    let theirs = Owner { user_id, ..mine };
    let first = post(&api, &in_thread(mine, "chat", "hello")).await;
    let other = post(&api, &in_thread(theirs, "chat", "hello")).await;
    let again = post(&api, &in_thread(mine, "chat", "again")).await;
    assert_ne!(first.conversation_id, other.conversation_id);
    assert_eq!(first.conversation_id, again.conversation_id);
    for (owner, posted) in [(mine, &first), (theirs, &other)] {
        let mut tx = rls::begin(&api, rls::Scope::User(owner)).await.unwrap();
        let known = conversations::by_client_thread(&mut tx, owner, "chat").await.unwrap();
        assert_eq!(known.unwrap().id, posted.conversation_id);
        let unknown = conversations::by_client_thread(&mut tx, owner, "another")
            .await
            .unwrap();
        assert_eq!(unknown, None);
    }
    let path = format!("/api/conversations/{}", first.conversation_id);
    assert_eq!(app.client().delete(&path).await.0, 204);
    let fresh = post(&api, &in_thread(mine, "chat", "a new start")).await;
    assert_ne!(fresh.conversation_id, first.conversation_id);
    assert_eq!(fresh.cursor, 0);
}

#[tokio::test]
async fn history_reaches_the_model_once_and_in_order() {
    let app = TestApp::start().await;
    let agent = app.agent("talker", &[]).await;
    let api = as_api(&app);
    app.model.script([Reply::text("Six."), Reply::text("Seven.")]);
    let earlier = |role, text: &str| HistoryMessage {
        role,
        text: text.to_owned(),
    };
    let command = PostMessage {
        agent_definition_id: Some(agent),
        history: vec![
            earlier(Speaker::System, "Count in words."),
            earlier(Speaker::User, "four?"),
            earlier(Speaker::Assistant, "Four."),
            earlier(Speaker::User, "five?"),
            earlier(Speaker::Assistant, "Five."),
        ],
        ..in_thread(app.db.owner(), "count", "and then?")
    };
    let first = post(&api, &command).await;
    assert_eq!(first.cursor, 5, "its turn begins after the history");
    let client = app.client();
    let turn = client
        .stream(&format!("/api/runs/{}/events", first.run_id))
        .await
        .rest()
        .await;
    assert_eq!(text(&turn), "Six.");
    assert_eq!(
        turn[0].json()["message"]["content"],
        "and then?",
        "history is not of the turn"
    );
    // A client that sends its history each time: it is known by now.
    let second = post(
        &api,
        &PostMessage {
            message: "after that?".to_owned(),
            ..command.clone()
        },
    )
    .await;
    assert_eq!(second.conversation_id, first.conversation_id);
    let path = format!("/api/runs/{}/events", second.run_id);
    assert_eq!(text(&client.stream(&path).await.rest().await), "Seven.");
    let given: Vec<Vec<(String, String)>> = app
        .model
        .requests()
        .iter()
        .map(|request| sent(request)[1..].to_vec())
        .collect();
    let pair = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let mut expected = vec![
        pair("user", "Instructions of the application:\nCount in words."),
        pair("user", "four?"),
        pair("assistant", "Four."),
        pair("user", "five?"),
        pair("assistant", "Five."),
        pair("user", "and then?"),
    ];
    assert_eq!(given[0], expected);
    expected.extend([pair("assistant", "Six."), pair("user", "after that?")]);
    assert_eq!(given[1], expected);
    // The log and the messages have it, too.
    let path = format!("/api/conversations/{}/events", first.conversation_id);
    let mut log = client.stream(&path).await;
    let events = json_of(&log.until("done").await);
    let published: Vec<&str> = of_kind(&events, "message")
        .iter()
        .map(|event| event["message"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        published,
        [
            "Count in words.",
            "four?",
            "Four.",
            "five?",
            "Five.",
            "and then?",
            "Six."
        ]
    );
    assert_eq!(events[1]["runId"], json!(null), "no run answers it");
    let path = format!("/api/conversations/{}", first.conversation_id);
    assert_eq!(client.get(&path).await.1["title"], "four?");
}

#[tokio::test]
async fn what_a_client_brings_along_has_limits() {
    let app = without_workers().await;
    let api = as_api(&app);
    let owner = app.db.owner();
    let conversation_id = Some(post(&api, &PostMessage::new(owner, "hello")).await.conversation_id);
    let one = HistoryMessage {
        role: Speaker::User,
        text: "hi".to_owned(),
    };
    let long = PostMessage {
        history: vec![one.clone(); 201],
        ..PostMessage::new(owner, "hello")
    };
    let nul = PostMessage {
        history: vec![HistoryMessage {
            text: "a\0b".to_owned(),
            ..one
        }],
        ..PostMessage::new(owner, "hello")
    };
    let both = PostMessage {
        conversation_id,
        ..in_thread(owner, "chat", "hello")
    };
    let body = PostMessage {
        instructions: Some("x".repeat(100_001)),
        ..PostMessage::new(owner, "hello")
    };
    for (command, code) in [
        (long, "history_too_long"),
        (nul, "invalid_text"),
        (both, "invalid_client_thread"),
        (in_thread(owner, "", "hello"), "invalid_client_thread"),
        (in_thread(owner, &"x".repeat(256), "hello"), "invalid_client_thread"),
        (body, "instructions_too_long"),
    ] {
        assert_eq!(refusal(&api, &command).await.0, code);
    }
}
