//! Client tools: functions that the client executes. Their run waits meanwhile, and holds no worker.

use rejoin_commands::{AnswerError, CancelRun, CloseQuestion, Closing, PostMessage, Posted, answer_client_tool};
use rejoin_db::rls;
use rejoin_runs::client_calls::{self, CallsOf, ClientCall};
use rejoin_runs::client_tools::{ClientOutput, ClientTool};
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{Client, json_of, of_kind, text};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::support;
use rejoin_types::owner::Owner;
use serde_json::{Value, json};
use sqlx::PgPool;
use uuid::Uuid;

use super::client_threads::{as_api, post, refusal};

fn weather() -> ClientTool {
    ClientTool {
        name: "get_weather".to_owned(),
        description: "Returns the weather of a city.".to_owned(),
        parameters: json!({
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
        }),
    }
}

fn time() -> ClientTool {
    ClientTool {
        name: "get_time".to_owned(),
        description: "Returns the time.".to_owned(),
        parameters: json!({"type": "object", "properties": {}}),
    }
}

fn with_tools(app: &TestApp, agent: Uuid, text: &str) -> PostMessage {
    PostMessage {
        agent_definition_id: Some(agent),
        client_tools: vec![weather(), time()],
        ..PostMessage::new(app.db.owner(), text)
    }
}

/// Returns the calls that wait, once there are this many.
async fn waiting(api: &PgPool, owner: Owner, posted: &Posted, count: usize) -> Vec<ClientCall> {
    support::wait_for("calls of client tools", async || {
        let mut tx = rls::begin(api, rls::Scope::User(owner)).await.unwrap();
        let calls = client_calls::pending(&mut *tx, owner, CallsOf::Run(posted.run_id)).await;
        calls.ok().filter(|calls| calls.len() == count)
    })
    .await
}

async fn events_of(client: &Client, posted: &Posted) -> Vec<Value> {
    let path = format!("/api/runs/{}/events", posted.run_id);
    json_of(&client.stream(&path).await.rest().await)
}

fn position(events: &[Value], is: impl Fn(&Value) -> bool) -> usize {
    events.iter().position(is).expect("the event")
}

#[tokio::test]
async fn a_run_waits_for_the_clients_output_without_a_worker() {
    let mut app = TestApp::start().await;
    let agent = app.agent("guide", &["schema_version"]).await;
    let api = as_api(&app);
    let owner = app.db.owner();
    app.model.script([
        Reply::text("Let me look. ").then_tool("get_weather", json!({"city": "Paris"})),
        Reply::text("It is sunny."),
    ]);
    let posted = post(&api, &with_tools(&app, agent, "weather in Paris?")).await;
    let call = waiting(&api, owner, &posted, 1).await.remove(0);
    assert_eq!(
        (call.tool.as_str(), &call.input),
        ("get_weather", &json!({"city": "Paris"}))
    );
    let held: (i64, String) = sqlx::query_as(
        "select (select count(*) from queue.jobs where state = 'running'), state from kb.agent_runs where id = $1",
    )
    .bind(posted.run_id)
    .fetch_one(&app.db.pool)
    .await
    .unwrap();
    assert_eq!(held, (0, "waiting".to_owned()));
    let offered: Vec<Value> = app.model.requests()[0]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["function"]["name"].clone())
        .collect();
    assert_eq!(
        offered,
        ["schema_version", "get_weather", "get_time"],
        "the stable part first"
    );

    // Whatever dies meanwhile: nothing is lost.
    app.crash_workers();
    app.restart_api().await;
    let of = CallsOf::Conversation(posted.conversation_id);
    let output = r#"{"sky":"clear"}"#;
    let answered = answer_client_tool(&api, owner, of, &call.call_id, ClientOutput::Text(output))
        .await
        .unwrap();
    assert_eq!(
        (answered.run_id, answered.question_id),
        (posted.run_id, call.question_id)
    );
    app.add_worker();

    let client = app.client();
    let path = format!("/api/runs/{}/events", posted.run_id);
    let frames = client.stream(&path).await.rest().await;
    assert_eq!(text(&frames), "Let me look. \n\nIt is sunny.");
    let events = json_of(&frames);
    let question = of_kind(&events, "question")[0];
    assert_eq!(
        question,
        &json!({
            "type": "question", "runId": posted.run_id, "questionId": call.question_id,
            "question": "Waits for the client to run get_weather", "options": [], "interactionType": "client_tool",
            "callId": call.call_id, "tool": "get_weather", "input": {"city": "Paris"},
        })
    );
    let started = position(&events, |event| {
        event["type"] == "mcp_tool" && event["status"] == "started"
    });
    let asked = position(&events, |event| event["type"] == "question");
    let closed = position(&events, |event| event["type"] == "question_answered");
    let ended = position(&events, |event| {
        event["type"] == "mcp_tool" && event["status"] == "completed"
    });
    assert!(started < asked && asked < closed && closed < ended, "{events:?}");
    assert_eq!(events[ended]["result"], json!({"sky": "clear"}));
    assert_eq!(events.last().unwrap()["status"], "completed");
    let after = client.stream_after(&path, answered.cursor).await.rest().await;
    assert_eq!(after[0].kind(), "question_answered", "its cursor is just before");
    let given = sent(&app.model.requests()[1]).last().unwrap().clone();
    assert_eq!(given, ("tool".to_owned(), output.to_owned()));
    assert_eq!(app.model.violations(), Vec::<String>::new());
    let again = answer_client_tool(&api, owner, of, &call.call_id, ClientOutput::Text("late")).await;
    assert!(matches!(again, Err(AnswerError::Closed { status }) if status == "answered"));
}

#[tokio::test]
async fn a_run_goes_on_when_both_calls_of_a_step_are_answered() {
    let app = TestApp::start().await;
    let agent = app.agent("guide", &["schema_version"]).await;
    let api = as_api(&app);
    let owner = app.db.owner();
    app.model.script([
        Reply::tools([
            ("get_weather", json!({"city": "Oslo"})),
            ("schema_version", json!({})),
            ("get_time", json!({})),
            ("get_weather", json!({"town": "Oslo"})),
        ]),
        Reply::text("Half of it."),
    ]);
    let posted = post(&api, &with_tools(&app, agent, "what is it like in Oslo?")).await;
    // Wrong arguments are told to the model, not to the client.
    let calls = waiting(&api, owner, &posted, 2).await;
    assert_eq!([&calls[0].tool, &calls[1].tool], ["get_weather", "get_time"]);
    let of = CallsOf::Run(posted.run_id);
    answer_client_tool(&api, owner, of, &calls[1].call_id, ClientOutput::Text("half past nine"))
        .await
        .unwrap();
    waiting(&api, owner, &posted, 1).await;
    assert_eq!(app.model.counts().requests, 1, "the other one is awaited");
    answer_client_tool(&api, owner, of, &calls[0].call_id, ClientOutput::Error("no network"))
        .await
        .unwrap();
    let events = events_of(&app.client(), &posted).await;
    assert_eq!(events.last().unwrap()["status"], "completed");
    assert_eq!(of_kind(&events, "question").len(), 2);
    let given: Vec<(String, String)> = sent(&app.model.requests()[1]);
    let results: Vec<&str> = given
        .iter()
        .filter(|(role, _)| role == "tool")
        .map(|(_, content)| content.as_str())
        .collect();
    assert_eq!(results.len(), 4);
    assert!(
        results.contains(&"half past nine") && results.contains(&"Error: no network"),
        "{results:?}"
    );
    assert!(
        results.iter().any(|result| result.contains("wrong arguments")),
        "{results:?}"
    );
    let ended: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "mcp_tool" && event["tool"] == "get_time")
        .collect();
    assert_eq!(ended[1]["result"], "half past nine");
}

#[tokio::test]
async fn an_unknown_call_is_refused_and_another_user_sees_none() {
    let app = TestApp::start().await;
    let agent = app.agent("guide", &[]).await;
    let api = as_api(&app);
    let owner = app.db.owner();
    app.model
        .script([Reply::tool("get_time", json!({})), Reply::text("Noon.")]);
    let posted = post(&api, &with_tools(&app, agent, "time?")).await;
    let call = waiting(&api, owner, &posted, 1).await.remove(0);
    let of = CallsOf::Conversation(posted.conversation_id);
    let wrong = answer_client_tool(&api, owner, of, "call_x", ClientOutput::Text("noon"))
        .await
        .unwrap_err();
    assert_eq!(
        wrong.to_string(),
        format!(
            "no call call_x of a client's tool is known here; these wait for their output: {}",
            call.call_id
        )
    );
    let (user_id, key) = app.db.another_user().await;
    let other = Owner { user_id, ..owner };
    let refused = answer_client_tool(&api, other, of, &call.call_id, ClientOutput::Text("noon")).await;
    match refused {
        Err(AnswerError::NoSuchCall { waiting, .. }) => assert_eq!(waiting, Vec::<String>::new()),
        other => panic!("{other:?}"),
    }
    let path = format!("/api/questions/{}/answer", call.question_id);
    let theirs = Client::new(app.url(), &key);
    assert_eq!(theirs.post(&path, json!({"answer": "noon"})).await.0, 404);
    answer_client_tool(&api, owner, of, &call.call_id, ClientOutput::Text("noon"))
        .await
        .unwrap();
    assert_eq!(
        events_of(&app.client(), &posted).await.last().unwrap()["status"],
        "completed"
    );
}

#[tokio::test]
async fn a_message_is_never_taken_for_a_tools_output() {
    let app = TestApp::start().await;
    let agent = app.agent("guide", &[]).await;
    let api = as_api(&app);
    let owner = app.db.owner();
    app.model.script([
        Reply::tool("get_time", json!({})),
        Reply::text("Noon."),
        Reply::text("You are welcome."),
    ]);
    let posted = post(&api, &with_tools(&app, agent, "time?")).await;
    let call = waiting(&api, owner, &posted, 1).await.remove(0);
    let client = app.client();
    let queued = client
        .post_message(json!({"message": "thanks", "conversationId": posted.conversation_id}))
        .await;
    assert_ne!(queued["runId"], json!(posted.run_id), "it has a turn of its own");
    waiting(&api, owner, &posted, 1).await;
    let snapshot = format!("/api/conversations/{}/events?from=snapshot", posted.conversation_id);
    let turn = client.stream(&snapshot).await.next_event().await.unwrap().json()["turn"].clone();
    assert_eq!(turn["questions"][0]["callId"], json!(call.call_id), "{turn}");
    let path = format!("/api/questions/{}", call.question_id);
    let (_, question) = client.get(&path).await;
    assert_eq!(question["interactionType"], "client_tool");
    let (status, answered) = client
        .post(&format!("{path}/answer"), json!({"answer": {"hour": 12}}))
        .await;
    assert_eq!((status.as_u16(), &answered["status"]), (200, &json!("answered")));
    let events = events_of(&client, &posted).await;
    assert_eq!(events.last().unwrap()["status"], "completed");
    let given = sent(&app.model.requests()[1]).last().unwrap().1.clone();
    assert_eq!(given, r#"{"hour":12}"#);
    let path = format!("/api/runs/{}/events", queued["runId"].as_str().unwrap());
    assert_eq!(text(&client.stream(&path).await.rest().await), "You are welcome.");
    assert_eq!(
        app.model.requests()[2]["tools"],
        Value::Null,
        "a message brings its own tools"
    );
}

#[tokio::test]
async fn a_run_waiting_for_its_client_is_cancelled_or_goes_on() {
    let app = TestApp::start().await;
    let agent = app.agent("guide", &[]).await;
    let api = as_api(&app);
    let owner = app.db.owner();
    app.model.script([Reply::tool("get_time", json!({}))]);
    let posted = post(&api, &with_tools(&app, agent, "time?")).await;
    waiting(&api, owner, &posted, 1).await;
    let cancel = CancelRun { run_id: posted.run_id };
    rejoin_commands::execute(&app.db.pool, &cancel).await.unwrap();
    let events = events_of(&app.client(), &posted).await;
    assert_eq!(events.last().unwrap()["status"], "cancelled");
    assert_eq!(of_kind(&events, "question_answered")[0]["status"], "cancelled");
    let calls = of_kind(&events, "mcp_tool");
    assert_eq!(calls.last().unwrap()["status"], "error", "each start has an end");

    app.model
        .script([Reply::tool("get_time", json!({})), Reply::text("I do not know.")]);
    let posted = post(&api, &with_tools(&app, agent, "and now?")).await;
    let call = waiting(&api, owner, &posted, 1).await.remove(0);
    let expire = CloseQuestion {
        id: call.question_id,
        closing: Closing::Expire,
    };
    rejoin_commands::execute(&app.db.pool, &expire).await.unwrap();
    let events = events_of(&app.client(), &posted).await;
    assert_eq!(events.last().unwrap()["status"], "completed");
    let given = sent(app.model.requests().last().unwrap()).last().unwrap().1.clone();
    assert!(given.contains("did not return the output in time"), "{given}");
}

#[tokio::test]
async fn tools_that_cannot_be_offered_are_refused_with_the_reason() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("guide", &["list_*", "ask_user", "from_some_extension"]).await;
    let api = as_api(&app);
    let of = |tools: Vec<ClientTool>| PostMessage {
        client_tools: tools,
        ..with_tools(&app, agent, "hello")
    };
    let named = |name: &str| ClientTool {
        name: name.to_owned(),
        ..time()
    };
    for name in ["list_entity_types", "ask_user", "from_some_extension"] {
        let (code, detail) = refusal(&api, &of(vec![time(), named(name)])).await;
        assert_eq!(code, "client_tool_name_taken");
        assert!(detail.contains(name) && !detail.contains("get_time"), "{detail}");
    }
    let extension = PostMessage {
        extension_tools: vec!["list_web_pages".to_owned()],
        ..of(vec![named("list_web_pages")])
    };
    assert_eq!(refusal(&api, &extension).await.0, "client_tool_name_taken");
    for tools in [
        vec![time(); 2],
        vec![named("two words")],
        vec![ClientTool {
            parameters: json!({"type": "array"}),
            ..time()
        }],
    ] {
        assert_eq!(refusal(&api, &of(tools)).await.0, "invalid_client_tool");
    }
    let many = (0..129).map(|nth| named(&format!("tool_{nth}"))).collect();
    let (code, detail) = refusal(&api, &of(many)).await;
    assert_eq!((code, detail.contains("128")), ("invalid_client_tool", true));
    // Not granted to this agent: free.
    post(&api, &of(vec![named("schema_version"), named("search_entities")])).await;
}

#[tokio::test]
async fn instructions_hold_for_their_turn_and_end_the_prompt() {
    let app = TestApp::start().await;
    let agent = app.agent("guide", &[]).await;
    let api = as_api(&app);
    app.model.script([Reply::text("Bonjour."), Reply::text("Hello.")]);
    let body = PostMessage {
        agent_definition_id: Some(agent),
        instructions: Some("Answer in French.".to_owned()),
        ..PostMessage::new(app.db.owner(), "hi")
    };
    let posted = post(&api, &body).await;
    let client = app.client();
    events_of(&client, &posted).await;
    client
        .chat(json!({"message": "again", "conversationId": posted.conversation_id}))
        .await;
    let prompts: Vec<String> = app
        .model
        .requests()
        .iter()
        .map(|request| sent(request)[0].1.clone())
        .collect();
    assert_eq!(
        prompts[0].strip_suffix("\n\nInstructions for this turn:\nAnswer in French."),
        Some(&*prompts[1])
    );
}
