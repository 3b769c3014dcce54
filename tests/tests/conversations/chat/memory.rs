//! Compression of long conversations, clarifying questions before a project is created, and proposed messages between
//! agents.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use serde_json::{Value, json};
use uuid::Uuid;

/// A message of this length that contains a fact.
fn long(fact: &str) -> String {
    format!("{fact} {}", "and so on ".repeat(117))
}

async fn versions(app: &TestApp, conversation: &str) -> Vec<(i32, i64, i32)> {
    sqlx::query_as(
        "select version, through_seq, messages from kb.chat_compressions where conversation_id = $1 order by version",
    )
    .bind(Uuid::parse_str(conversation).unwrap())
    .fetch_all(&app.db.pool)
    .await
    .unwrap()
}

/// Requirements: E13, E59.
#[tokio::test]
async fn a_long_conversation_is_summarised_in_the_background() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    // The first matching rule wins.
    app.model
        .always("# New messages", Reply::text("MINUTES: the word is fact-1."));
    app.model.always("fact", Reply::text("Noted."));
    let client = app.client();
    let first = client
        .chat(json!({"message": long("fact-1"), "agentDefinitionId": agent, "contextType": "global"}))
        .await;
    let conversation = json_of(&first)[1]["conversationId"].as_str().unwrap().to_owned();
    for n in 2..=9 {
        client
            .chat(json!({"message": long(&format!("fact-{n}")), "conversationId": conversation}))
            .await;
    }
    let made = support::wait_for("a summary", async || {
        let made = versions(&app, &conversation).await;
        (!made.is_empty()).then_some(made)
    })
    .await;
    let (version, _, messages) = made[0];
    assert_eq!(version, 1);
    assert!(messages >= 2 && messages % 2 == 0, "whole turns: {messages}");
    let summary_of = app
        .model
        .requests()
        .into_iter()
        .find(|request| sent(request)[0].1.contains("You summarize a conversation"))
        .unwrap();
    let given = sent(&summary_of).pop().unwrap().1;
    assert!(
        given.contains("fact-1") && !given.contains("fact-9"),
        "the newest ten are not in it"
    );

    let asked_before = app.model.requests().len();
    let events = json_of(
        &client
            .chat(json!({"message": "which fact was first?", "conversationId": conversation}))
            .await,
    );
    let request = app.model.requests()[asked_before..]
        .iter()
        .find(|request| sent(request).last().unwrap().1.contains("which fact"))
        .unwrap()
        .clone();
    let given = sent(&request);
    assert!(given[0].1.contains("MINUTES: the word is fact-1."), "{}", given[0].1);
    assert!(
        !given[1..].iter().any(|(_, said)| said.contains("fact-1 ")),
        "what is summarised is not sent again"
    );
    assert!(given.iter().any(|(_, said)| said.contains("fact-9")));
    let usage = &of_kind(&events, "context_usage")[0]["usage"];
    assert_eq!(usage["lastCompression"]["version"], 1, "{usage}");
    assert!(!usage["lastCompressedAt"].is_null());
    // Users still see everything.
    let (_, page) = client
        .get(&format!("/api/conversations/{conversation}/messages?limit=100"))
        .await;
    assert_eq!(page["items"].as_array().unwrap().len(), 20);

    // More messages: the next version includes the first one, and covers more.
    for n in 11..=20 {
        client
            .chat(json!({"message": long(&format!("fact-{n}")), "conversationId": conversation}))
            .await;
    }
    let made = support::wait_for("another summary", async || {
        let made = versions(&app, &conversation).await;
        (made.len() > 1).then_some(made)
    })
    .await;
    assert!(
        made.windows(2)
            .all(|two| two[1].0 == two[0].0 + 1 && two[1].1 > two[0].1 && two[1].2 > two[0].2),
        "{made:?}"
    );
    let again = app
        .model
        .requests()
        .into_iter()
        .rfind(|request| sent(request)[0].1.contains("You summarize a conversation"))
        .unwrap();
    assert!(sent(&again).pop().unwrap().1.contains("# Summary so far\nMINUTES"));
}

/// Requirements: E59.
#[tokio::test]
async fn a_general_conversation_is_summarised_too() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    app.model
        .always("# New messages", Reply::text("MINUTES: the word is fact-1."));
    app.model.always("fact", Reply::text("Noted."));
    let client = app.client();
    // With an agent and without one; long by its text, and long by its number of messages.
    for (agent, turns, message) in [
        (Some(agent), 9, (|n| long(&format!("fact-{n}"))) as fn(i32) -> String),
        (None, 10, |n| format!("fact-{n} is short")),
    ] {
        let mut body = json!({"message": message(1)});
        if let Some(agent) = agent {
            body["agentDefinitionId"] = json!(agent);
        }
        let events = json_of(&client.chat(body).await);
        assert!(of_kind(&events, "context_usage").is_empty(), "it has no context");
        let conversation = events[1]["conversationId"].as_str().unwrap().to_owned();
        for n in 2..=turns {
            client
                .chat(json!({"message": message(n), "conversationId": conversation}))
                .await;
        }
        support::wait_for("a summary", async || {
            (!versions(&app, &conversation).await.is_empty()).then_some(())
        })
        .await;
        app.wait_until_idle().await;
        let made = versions(&app, &conversation).await;
        let newest = made.last().expect("a summary");
        let before = app.model.requests().len();
        client
            .chat(json!({"message": "which fact was first?", "conversationId": conversation}))
            .await;
        let request = app.model.requests()[before..]
            .iter()
            .find(|request| sent(request).last().unwrap().1.contains("which fact"))
            .unwrap()
            .clone();
        let given = sent(&request);
        assert!(given[0].1.contains("MINUTES: the word is fact-1."), "{}", given[0].1);
        // The messages after the summary, each once, and the new one.
        let whole = usize::try_from(turns * 2 - newest.2).unwrap();
        assert_eq!(given.len(), 1 + whole + 1, "{given:?}");
        assert!(whole >= 10, "the newest ten are given as they were said");
    }
}

/// Requirements: E59.
#[tokio::test]
async fn a_summary_that_fails_costs_no_answer() {
    let app = TestApp::start().await;
    let agent = app.agent("helper", &[]).await;
    app.model.always("# New messages", Reply::status(400));
    app.model.always("fact", Reply::text("Noted."));
    let client = app.client();
    let first = client
        .chat(json!({"message": long("fact-1"), "agentDefinitionId": agent, "contextType": "global"}))
        .await;
    let conversation = json_of(&first)[1]["conversationId"].as_str().unwrap().to_owned();
    for n in 2..=10 {
        let frames = client
            .chat(json!({"message": long(&format!("fact-{n}")), "conversationId": conversation}))
            .await;
        assert_eq!(text(&frames), "Noted.");
    }
    let newest = app
        .model
        .requests()
        .into_iter()
        .rfind(|request| sent(request).last().unwrap().1.contains("fact-10"))
        .unwrap();
    assert_eq!(
        sent(&newest).iter().filter(|(role, _)| role != "system").count(),
        10,
        "without one, the newest ten"
    );
    assert!(versions(&app, &conversation).await.is_empty());
}

async fn creator(app: &TestApp) -> Uuid {
    app.agent("creator", &["ask_user", "agent_create_plan"]).await
}

async fn questions(app: &TestApp, count: usize) -> Vec<Value> {
    support::wait_for("questions", async || {
        let (_, page) = app.client().get("/api/questions?status=pending").await;
        let items = page["items"].as_array().unwrap().clone();
        (items.len() == count).then_some(items)
    })
    .await
}

async fn answer(app: &TestApp, question: &Value, with: &str) {
    let path = format!("/api/questions/{}/answer", question["id"].as_str().unwrap());
    let (status, said) = app.client().post(&path, json!({"answer": with})).await;
    assert_eq!(status, 200, "{said}");
}

/// Requirements: E28, E45, E46.
#[tokio::test]
async fn missing_facts_are_asked_before_a_project_is_planned() {
    let app = TestApp::start().await;
    let agent = creator(&app).await;
    app.model.script([
        Reply::text("{\"clear\": false, \"questions\": [{\"question\": \"By when?\", \"options\": []}, {\"question\": \"For whom?\", \"options\": [\"kids\", \"adults\"]}]}"),
        Reply::text("{\"clear\": false, \"questions\": [{\"question\": \"What may it cost?\"}]}"),
        Reply::text("Then I know enough."),
    ]);
    let client = app.client();
    let posted = client
        .post_message(json!({"message": "a podcast", "agentDefinitionId": agent, "contextType": "project_create"}))
        .await;
    let open = questions(&app, 2).await;
    for question in &open {
        let with = if question["question"] == "By when?" {
            "in May"
        } else {
            "kids"
        };
        answer(&app, question, with).await;
    }
    let open = questions(&app, 1).await;
    answer(&app, &open[0], "nothing").await;
    let run = posted["runId"].as_str().unwrap();
    let frames = client.stream(&format!("/api/runs/{run}/events")).await.rest().await;
    let events = json_of(&frames);
    assert_eq!(
        text(&frames),
        "Then I know enough.",
        "nothing of the analysis is part of the reply"
    );
    let asked: Vec<Vec<&str>> = of_kind(&events, "clarifying_questions")
        .iter()
        .map(|event| {
            event["questions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|one| one["question"].as_str().unwrap())
                .collect()
        })
        .collect();
    assert_eq!(
        asked,
        [vec!["By when?", "For whom?"], vec!["What may it cost?"]],
        "two rounds, and no third"
    );
    let requests = app.model.requests();
    assert_eq!(requests.len(), 3);
    assert_eq!(
        requests[0]["tools"].as_array().map(Vec::len),
        Some(1),
        "an analysis has no tools but that by which it is given"
    );
    assert_eq!(requests[0]["tools"][0]["function"]["name"], "final_answer");
    assert!(sent(&requests[1]).pop().unwrap().1.contains("in May"));
    let planner: Vec<String> = sent(&requests[2]).into_iter().map(|(_, said)| said).collect();
    assert!(
        planner.iter().any(|said| said.contains("kids")) && planner.iter().any(|said| said.contains("nothing")),
        "{planner:?}"
    );
    assert_eq!(
        of_kind(&events, "last_turn_context")[0]["context"]["strategy_used"],
        "ask_clarifying_questions"
    );
    assert!(app.model.violations().is_empty(), "{:?}", app.model.violations());
}

/// Requirements: E45.
#[tokio::test]
async fn what_is_clear_or_cannot_be_analysed_is_not_asked() {
    let app = TestApp::start().await;
    let agent = creator(&app).await;
    let client = app.client();
    let ask = async |message: &str| {
        json_of(
            &client
                .chat(json!({"message": message, "agentDefinitionId": agent, "contextType": "project_create"}))
                .await,
        )
    };
    // Clear by rules: the model is not asked.
    app.model.script([Reply::text("Off we go.")]);
    let clear = "Launch our second podcast season by 1 March 2027 so that we reach 5,000 listeners: eight episodes, two hosts and one editor, \
                 a budget of 3,000 €, recorded in January, without paid advertising.";
    let events = ask(clear).await;
    assert!(of_kind(&events, "clarifying_questions").is_empty());
    // Clear to the model; an invalid answer; a failing model.
    for analysis in [
        Reply::text("{\"clear\": true}"),
        Reply::text("I would love to help!"),
        Reply::status(500),
    ] {
        app.model.script([analysis, Reply::text("Off we go.")]);
        let events = ask("a podcast").await;
        assert!(of_kind(&events, "clarifying_questions").is_empty());
        assert_eq!(events.last().unwrap()["status"], "completed");
    }
    // An agent without the right to ask is not analysed.
    let silent = app.agent("silent", &["agent_create_plan"]).await;
    app.model.script([Reply::text("Off we go.")]);
    client
        .chat(json!({"message": "a podcast", "agentDefinitionId": silent, "contextType": "project_create"}))
        .await;
    assert_eq!(app.model.left(), 0);
}

/// Requirements: E05.
#[tokio::test]
async fn one_agent_proposes_what_to_say_to_another_and_does_nothing() {
    let app = TestApp::start().await;
    app.agent("seller", &["*"]).await;
    app.model.script([Reply::text("Would Tuesday suit you?")]);
    let body = json!({
        "fromAgent": "seller", "toAgent": "buyer", "goal": "find a day",
        "messages": [{"from": "buyer", "content": "Which day?"}],
    });
    let client = app.client();
    let frames = client.stream_of("/api/agentic-chat/agent-message", body).await;
    let events = json_of(&frames);
    assert_eq!(text(&frames), "Would Tuesday suit you?");
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert!(of_kind(&events, "message").is_empty());
    let request = &app.model.requests()[0];
    assert!(request["tools"].as_array().is_none_or(Vec::is_empty), "{request}");
    let given = sent(request).pop().unwrap().1;
    assert!(
        given.contains("Which day?") && given.contains("find a day") && given.contains("buyer"),
        "{given}"
    );
    let chats: i64 = sqlx::query_scalar("select count(*) from kb.chat_conversations")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(chats, 0);
    for (body, code) in [
        (json!({"fromAgent": "seller"}), "message_empty"),
        (
            json!({"fromAgent": "nobody", "goal": "x"}),
            "agent_definition_not_found",
        ),
        (
            json!({"fromAgent": "seller", "goal": "x", "messages": vec![json!({"from": "a", "content": "b"}); 51]}),
            "too_many_messages",
        ),
    ] {
        let (_, problem) = client.post("/api/agentic-chat/agent-message", body).await;
        assert_eq!(problem["code"], code, "{problem}");
    }
}
