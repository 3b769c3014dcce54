//! A user's next message answers the open questions of the conversation's runs; approvals take their exact word.

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, Stream, json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use reqwest::Method;
use serde_json::{Value, json};

const TWO_QUESTIONS: &str = "{\"clear\": false, \"questions\": [{\"question\": \"By when?\", \"options\": []}, \
                             {\"question\": \"For whom?\", \"options\": [\"kids\", \"adults\"]}]}";

async fn pending(client: &Client, count: usize) -> Vec<Value> {
    support::wait_for("questions", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await
}

async fn runs(app: &TestApp) -> Vec<String> {
    sqlx::query_scalar("select state from kb.agent_runs where parent_run_id is null order by created_at, id")
        .fetch_all(&app.db.pool)
        .await
        .unwrap()
}

/// Requirements: E28.
#[tokio::test]
async fn the_next_message_answers_all_questions_of_the_run_that_waits() {
    let app = TestApp::start().await;
    let agent = app.agent("creator", &["ask_user", "agent_create_plan"]).await;
    app.model.script([
        Reply::text(TWO_QUESTIONS),
        Reply::text("{\"clear\": true}"),
        Reply::text("Then I know enough."),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "a podcast", "agentDefinitionId": agent, "contextType": "project_create"}))
        .await;
    let conversation = &posted["conversationId"];
    pending(&client, 2).await;
    let frames = client
        .chat(json!({"message": "in May, for kids", "conversationId": conversation}))
        .await;
    let events = json_of(&frames);
    assert_eq!(
        events[0]["message"]["content"], "in May, for kids",
        "the stream begins with the reply"
    );
    assert_eq!(text(&frames), "Then I know enough.");
    assert_eq!(events.last().unwrap()["type"], "done");
    let answers: Vec<&Value> = of_kind(&events, "question_answered")
        .iter()
        .map(|event| &event["answer"])
        .collect();
    assert_eq!(answers, ["in May, for kids", "in May, for kids"]);
    assert!(
        events.iter().all(|event| event["runId"] == posted["runId"]),
        "one run: {events:?}"
    );
    assert_eq!(runs(&app).await, ["completed"]);
    let (_, page) = client
        .get(&format!(
            "/api/conversations/{}/messages",
            conversation.as_str().unwrap()
        ))
        .await;
    let said: Vec<(&Value, &Value)> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (&message["role"], &message["content"]))
        .collect();
    assert_eq!(
        said,
        [
            (&json!("user"), &json!("a podcast")),
            (&json!("user"), &json!("in May, for kids")),
            (&json!("assistant"), &json!("Then I know enough.")),
        ]
    );
    assert_eq!(
        page["items"][1]["metadata"]["answers"].as_array().unwrap().len(),
        2,
        "the message says which questions it answered"
    );
    let planner: Vec<String> = sent(&app.model.requests()[2])
        .into_iter()
        .map(|(_, said)| said)
        .collect();
    assert_eq!(
        planner.iter().filter(|said| said.contains("in May, for kids")).count(),
        2,
        "as the results of both calls, and not as a message of its own: {planner:?}"
    );
}

/// Requirements: E28.
#[tokio::test]
async fn a_dialect_page_gets_all_questions_and_replies_by_message() {
    let app = TestApp::start().await;
    let agent = app.agent("creator", &["ask_user", "agent_create_plan"]).await;
    app.model.script([
        Reply::text(TWO_QUESTIONS),
        Reply::text("{\"clear\": true}"),
        Reply::text("Off we go."),
    ]);
    let client = app.client();
    let post = async |body: Value| {
        let request = client.request(Method::POST, "/api/agent/stream").json(&body);
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Stream::of(response)
    };
    let mut first =
        post(json!({"message": "a podcast", "agentDefinitionId": agent, "contextType": "project_create"})).await;
    let before = json_of(&first.until("agent_state").await);
    let session = of_kind(&before, "session")[0]["sessionId"].clone();
    let asked = json_of(&first.until("agent_state").await);
    assert_eq!(asked.last().unwrap()["state"], "waiting_on_user");
    let events = of_kind(&asked, "clarifying_questions");
    assert_eq!(events.len(), 1, "{asked:?}");
    let questions: Vec<&Value> = events[0]["questions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|question| &question["question"])
        .collect();
    assert_eq!(questions, ["By when?", "For whom?"]);
    let reply = json_of(
        &post(json!({"message": "adults", "session_id": session, "stream_run_id": "reply"}))
            .await
            .rest()
            .await,
    );
    let published: String = of_kind(&reply, "text")
        .iter()
        .map(|event| event["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        (published.as_str(), &reply.last().unwrap()["type"]),
        ("Off we go.", &json!("done"))
    );
    // The asking stream ends with the same turn.
    assert_eq!(json_of(&first.rest().await).last(), reply.last());
    // Sent again with its key, it is the same turn, and answers nothing twice.
    let again = json_of(
        &post(json!({"message": "adults", "session_id": session, "stream_run_id": "reply"}))
            .await
            .rest()
            .await,
    );
    assert_eq!(again.last(), reply.last());
    assert_eq!(runs(&app).await, ["completed"]);
    assert_eq!(app.model.left(), 0);
}

/// Requirements: E28.
#[tokio::test]
async fn a_reply_names_an_option_by_its_label_or_says_something_else() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &["ask_user"]).await;
    let options = json!([{"label": "Dark red", "value": "r"}, {"label": "Blue", "value": "b"}]);
    for (reply, heard) in [
        (" dark RED. ", "r"),
        ("b", "b"),
        ("neither, paint it green", "neither, paint it green"),
    ] {
        app.model.script([
            Reply::tool("ask_user", json!({"question": "Which colour?", "options": options})),
            Reply::text("Done."),
        ]);
        let client = app.client();
        let posted = client
            .post_message(json!({"message": "paint it", "agentDefinitionId": agent}))
            .await;
        pending(&client, 1).await;
        let events = json_of(
            &client
                .chat(json!({"message": reply, "conversationId": posted["conversationId"]}))
                .await,
        );
        assert_eq!(of_kind(&events, "question_answered")[0]["answer"], heard);
        let given = sent(app.model.requests().last().unwrap()).pop().unwrap().1;
        assert_eq!(given, json!({"answer": heard}).to_string());
    }
}

/// Requirements: E28.
#[tokio::test]
async fn a_message_that_is_to_wait_its_turn_answers_nothing() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &["ask_user"]).await;
    app.model.on(
        "paint it",
        [
            Reply::tool("ask_user", json!({"question": "Which colour?", "options": []})),
            Reply::text("Blue it is."),
        ],
    );
    app.model.on("and the roof", [Reply::text("The roof, too.")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "paint it", "agentDefinitionId": agent}))
        .await;
    let conversation = &posted["conversationId"];
    pending(&client, 1).await;
    let (status, waits) = client
        .post_for_json(
            "/api/chat/stream?onBusy=enqueue",
            json!({"message": "and the roof", "conversationId": conversation}),
        )
        .await;
    assert_eq!(status, 202);
    assert_ne!(waits["runId"], posted["runId"]);
    let (status, problem) = client
        .post(
            "/api/chat/stream?onBusy=reject",
            json!({"message": "blue", "conversationId": conversation}),
        )
        .await;
    assert_eq!(status, 409, "{problem}");
    pending(&client, 1).await;
    let reply = client
        .post_message(json!({"message": "blue", "conversationId": conversation}))
        .await;
    assert_eq!(reply["runId"], posted["runId"]);
    app.wait_until_idle().await;
    assert_eq!(runs(&app).await, ["completed", "completed"]);
}

/// Requirements: E28.
#[tokio::test]
async fn an_approval_is_given_by_its_own_word_alone() {
    let app = TestApp::start().await;
    let confirmed = |content: &mut DefinitionContent| content.config = json!({"confirm": ["create_entity"]});
    let agent = app.agent_with("maker", &["create_entity"], confirmed).await;
    let create = |key: &str| {
        Reply::tool(
            "create_entity",
            json!({"type": "Note", "key": key, "properties": {"name": key}}),
        )
    };
    app.model.on("make one", [create("one"), Reply::text("Made.")]);
    app.model.on("yes, but call it two", [Reply::text("Later.")]);
    app.model.on("make three", [create("three"), Reply::text("Not made.")]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "make one", "agentDefinitionId": agent}))
        .await;
    let conversation = &posted["conversationId"];
    pending(&client, 1).await;
    let other = client
        .post_message(json!({"message": "yes, but call it two", "conversationId": conversation}))
        .await;
    assert_ne!(other["runId"], posted["runId"], "it waits its turn");
    pending(&client, 1).await;
    let approved = client
        .post_message(json!({"message": "Approve", "conversationId": conversation}))
        .await;
    assert_eq!(approved["runId"], posted["runId"]);
    app.wait_until_idle().await;
    let refused = client
        .post_message(json!({"message": "make three", "conversationId": conversation}))
        .await;
    pending(&client, 1).await;
    let frames = client
        .chat(json!({"message": "refuse", "conversationId": conversation}))
        .await;
    assert_eq!(
        (json_of(&frames)[0]["runId"].clone(), text(&frames)),
        (refused["runId"].clone(), "Not made.".to_owned())
    );
    let keys: Vec<String> = sqlx::query_scalar("select key from kb.graph_objects order by key")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(keys, ["one"]);
}
