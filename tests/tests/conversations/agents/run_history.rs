//! Whole runs: filtered lists, trees, exports, and forks that continue from another run's records.

use rejoin_identity::{auth, workspaces};
use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::client::{Client, json_of, text};
use rejoin_tests::model_server::Reply;
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

use rejoin_tests::replies::spawn;

fn runs(app: &TestApp) -> String {
    format!("/api/projects/{}/agent-runs", app.db.workspace_id)
}

/// A run of `boss` without a conversation that has started two `digger`s; returns its id.
async fn dug(app: &TestApp) -> String {
    app.agent("boss", &["spawn_agents"]).await;
    app.agent("digger", &["schema_version"]).await;
    app.model.on(
        "dig here",
        [
            spawn(&[("digger", "left side"), ("digger", "right side")]),
            Reply::text("Nothing there."),
        ],
    );
    app.model.on(
        "left side",
        [Reply::tool("schema_version", json!({})), Reply::text("stones")],
    );
    app.model.on("right side", [Reply::text("earth")]);
    let path = format!("/api/projects/{}/agents/boss/trigger", app.db.workspace_id);
    let (status, triggered) = app.client().post(&path, json!({"input": "dig here"})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{triggered}");
    app.wait_until_idle().await;
    triggered["runId"].as_str().unwrap().to_owned()
}

async fn ids(app: &TestApp, query: &str) -> Vec<String> {
    let (status, page) = app.client().get(&format!("{}?{query}", runs(app))).await;
    assert_eq!(status, StatusCode::OK, "{query}: {page}");
    let items = page["items"].as_array().unwrap();
    items.iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
}

/// Returns the messages of a request, unchanged.
fn messages(request: &Value) -> Vec<Value> {
    request["messages"].as_array().unwrap().clone()
}

/// Follows a run to its end.
async fn followed(client: &Client, forked: &Value) -> Vec<rejoin_tests::client::Frame> {
    let path = format!("/api/runs/{}/events", forked["runId"].as_str().unwrap());
    client.stream(&path).await.rest().await
}

/// Requirements: C29.
#[tokio::test]
async fn lists_are_narrowed_by_agent_time_and_tree() {
    let app = TestApp::start().await;
    let root = dug(&app).await;
    assert_eq!(ids(&app, "agent=boss").await, std::slice::from_ref(&root));
    assert_eq!(ids(&app, "agent=digger").await.len(), 2);
    assert_eq!(ids(&app, "agent=nobody").await.len(), 0);
    assert_eq!(ids(&app, "topLevel=true").await, std::slice::from_ref(&root));
    assert_eq!(ids(&app, &format!("rootRunId={root}")).await.len(), 3);
    assert_eq!(ids(&app, &format!("parentRunId={root}&limit=1")).await.len(), 1);
    let (_, run) = app.client().get(&format!("/api/runs/{root}")).await;
    let at = run["createdAt"].as_str().unwrap();
    assert_eq!(ids(&app, &format!("since={at}")).await.len(), 3);
    assert_eq!(ids(&app, &format!("until={at}")).await.len(), 0);
    assert_eq!(ids(&app, "since=2999-01-01T00:00:00Z").await.len(), 0);
    let (status, problem) = app.client().get(&format!("{}?since=yesterday", runs(&app))).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::BAD_REQUEST, &json!("invalid_query"))
    );
}

#[tokio::test]
async fn runs_are_searched_by_words_and_sorted() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &[]).await;
    let mut made = Vec::new();
    for (input, answer) in [
        ("Which PACKAGE?", "It is libssl3."),
        ("100%_sure", "Yes."),
        ("a package", "None."),
    ] {
        app.model.script([Reply::text(answer)]);
        let frames = app.client().ask(Some(agent), input).await;
        made.push(frames[1].json()["runId"].as_str().unwrap().to_owned());
    }
    let [first, second, third] = &made[..] else { panic!() };
    assert_eq!(ids(&app, "q=package").await, [third.clone(), first.clone()]);
    assert_eq!(ids(&app, "q=package+LIBSSL+asker").await, std::slice::from_ref(first));
    assert_eq!(ids(&app, "q=%25_").await, std::slice::from_ref(second));
    assert_eq!(ids(&app, &format!("q={second}")).await, std::slice::from_ref(second));
    assert_eq!(ids(&app, "q=package+nowhere").await.len(), 0);
    assert_eq!(ids(&app, "q=package&state=failed").await.len(), 0);

    for (run, took_s, cost) in [(first, 5, "0.25"), (second, 9, "null"), (third, 1, "0.5")] {
        sqlx::query(
            "update kb.agent_runs
             set finished_at = started_at + make_interval(secs => $2), usage = jsonb_build_object('costUsd', $3::jsonb)
             where id = $1::uuid",
        )
        .bind(run)
        .bind(f64::from(took_s))
        .bind(cost)
        .execute(&app.db.pool)
        .await
        .unwrap();
    }
    for (order, expected) in [
        ("newest", [third, second, first]),
        ("longest", [second, first, third]),
        ("mostExpensive", [third, first, second]),
    ] {
        assert_eq!(ids(&app, &format!("order={order}")).await, expected.map(Clone::clone));
        let mut paged = Vec::new();
        let mut cursor = String::new();
        loop {
            let query = format!("{}?order={order}&limit=1{cursor}", runs(&app));
            let (_, page) = app.client().get(&query).await;
            paged.push(page["items"][0]["id"].as_str().unwrap().to_owned());
            let Some(next) = page["nextCursor"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(paged, expected.map(Clone::clone), "{order}, page by page");
    }
    assert_eq!(
        ids(&app, "order=longest&q=package").await,
        [first.clone(), third.clone()]
    );
    for query in [
        "q=",
        "q=%20",
        "q=%00",
        "order=oldest",
        &format!("q={}", "x".repeat(201)),
    ] {
        let (status, problem) = app.client().get(&format!("{}?{query}", runs(&app))).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::BAD_REQUEST, &json!("invalid_query")),
            "{query}"
        );
    }
    // Of another member's run outside of conversations, only its id and agent are searched.
    let path = format!("/api/projects/{}/agents/{agent}/trigger", app.db.workspace_id);
    app.model.script([Reply::text("Hidden.")]);
    let (_, triggered) = app.client().post(&path, json!({"input": "a secret package"})).await;
    followed(&app.client(), &triggered).await;
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    for (words, count) in [("package", 0), ("hidden", 0), ("asker", 1)] {
        let (_, page) = other.get(&format!("{}?q={words}", runs(&app))).await;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{words}: {page}");
    }
}

#[tokio::test]
async fn a_search_of_runs_goes_on_behind_those_one_request_covers() {
    let app = TestApp::start().await;
    let agent = app.agent("asker", &[]).await;
    app.model.script([Reply::text("Found.")]);
    app.client().ask(Some(agent), "the needle").await;
    sqlx::query(
        "insert into kb.agent_runs (id, project_id, conversation_id, user_id, root_run_id, log_id, input, state, first_seq, created_at)
         select made.id, project_id, conversation_id, user_id, made.id, log_id, 'hay', 'completed', first_seq,
                created_at + n * interval '1 second'
         from kb.agent_runs r
         cross join generate_series(1, 2000) n
         cross join lateral (select gen_random_uuid() as id where n > 0) made
         where r.input = 'the needle'",
    )
    .execute(&app.db.pool)
    .await
    .unwrap();
    let first = format!("{}?q=needle&limit=2", runs(&app));
    let (_, page) = app.client().get(&first).await;
    assert_eq!(page["items"], json!([]));
    let next = format!("{first}&cursor={}", page["nextCursor"].as_str().unwrap());
    let (_, page) = app.client().get(&next).await;
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["nextCursor"]),
        (1, &Value::Null)
    );
}

/// Requirements: C30, C34.
#[tokio::test]
async fn a_tree_is_shown_and_exported_whole() {
    let app = TestApp::start().await;
    let root = dug(&app).await;
    let client = app.client();
    let (_, tree) = client.get(&format!("{}/{root}/tree", runs(&app))).await;
    let told: Vec<(i64, &str, &str)> = tree["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| {
            let words = |field: &str| run[field].as_str().unwrap();
            (run["depth"].as_i64().unwrap(), words("agent"), words("state"))
        })
        .collect();
    assert_eq!(
        told,
        [
            (0, "boss", "completed"),
            (1, "digger", "completed"),
            (1, "digger", "completed")
        ]
    );
    assert_eq!(
        (&tree["items"][0]["stepCount"], &tree["truncated"]),
        (&json!(2), &json!(false))
    );
    assert!(tree["items"][1]["usage"].is_object());

    let (_, whole) = client.get(&format!("{}/{root}/export", runs(&app))).await;
    assert_eq!(
        (&whole["run"]["id"], &whole["run"]["summary"]),
        (&json!(root), &json!("Nothing there."))
    );
    assert_eq!(whole["toolCalls"][0]["tool"], "spawn_agents");
    assert_eq!(whole["toolCalls"][0]["input"]["agents"].as_array().unwrap().len(), 2);
    assert!(
        whole["toolCalls"][0]["output"].is_object() && whole["questions"] == json!([]),
        "{whole}"
    );
    let children = whole["children"].as_array().unwrap();
    let left = children
        .iter()
        .find(|child| child["run"]["input"] == "left side")
        .unwrap();
    assert_eq!(
        (children.len(), &left["toolCalls"][0]["status"]),
        (2, &json!("completed"))
    );
    let roles: Vec<&str> = left["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool_result", "assistant"]);
    // A subtree.
    let child = left["run"]["id"].as_str().unwrap();
    let (_, part) = client.get(&format!("{}/{child}/tree", runs(&app))).await;
    assert_eq!(part["items"].as_array().unwrap().len(), 1);
}

/// An ended run of an agent with two tool calls in two steps, and its answer in the third.
async fn stepped(app: &TestApp) -> String {
    app.agent("walker", &["schema_version", "list_entity_types"]).await;
    app.model.on(
        "walk",
        [
            Reply::tool("schema_version", json!({})),
            Reply::tool("list_entity_types", json!({})),
            Reply::text("Walked."),
        ],
    );
    let path = format!("/api/projects/{}/agents/walker/trigger", app.db.workspace_id);
    let (_, triggered) = app.client().post(&path, json!({"input": "walk"})).await;
    app.wait_until_idle().await;
    triggered["runId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_fork_goes_on_from_the_exact_records_of_a_step() {
    let app = TestApp::start().await;
    let (source, client) = (stepped(&app).await, app.client());
    let before = app.model.requests();
    assert_eq!(before.len(), 3);
    let (_, original) = client.get(&format!("{}/{source}/export", runs(&app))).await;
    let fork = async |body: Value| client.post(&format!("/api/runs/{source}/fork"), body).await;

    // Without a message: the model gets the original request verbatim.
    app.model.script([Reply::text("Walked otherwise.")]);
    let (status, forked) = fork(json!({"step": 1})).await;
    assert_eq!(
        (status, &forked["cursor"]),
        (StatusCode::ACCEPTED, &json!(0)),
        "{forked}"
    );
    let frames = followed(&client, &forked).await;
    assert_eq!(text(&frames), "Walked otherwise.");
    assert_eq!(json_of(&frames).last().unwrap()["status"], "completed");
    assert_eq!(messages(&app.model.requests()[3]), messages(&before[1]));
    let (_, detail) = client
        .get(&format!("/api/runs/{}", forked["runId"].as_str().unwrap()))
        .await;
    assert_eq!(detail["forkedFrom"], json!({"runId": source, "step": 1}));
    assert_eq!(
        (
            &detail["stepCount"],
            &detail["conversationId"],
            &detail["parentRunId"],
            &detail["agent"]
        ),
        (&json!(2), &Value::Null, &Value::Null, &json!("walker"))
    );
    let (_, copy) = client
        .get(&format!("{}/{}/export", runs(&app), forked["runId"].as_str().unwrap()))
        .await;
    assert_eq!(copy["toolCalls"].as_array().unwrap().len(), 1);
    assert_eq!(copy["toolCalls"][0]["output"], original["toolCalls"][0]["output"]);
    for n in 0..4 {
        assert_eq!(copy["messages"][n]["content"], original["messages"][n]["content"]);
    }

    // With another message, after the step.
    app.model.script([Reply::text("Sat down.")]);
    let (_, forked) = fork(json!({"step": 2, "message": "Sit down instead."})).await;
    assert_eq!(text(&followed(&client, &forked).await), "Sat down.");
    let asked = messages(&app.model.requests()[4]);
    let earlier = messages(&before[2]);
    assert_eq!(asked[..earlier.len()], earlier[..], "word for word");
    assert_eq!(
        (asked.len(), asked.last().unwrap()["content"].as_str()),
        (earlier.len() + 1, Some("Sit down instead."))
    );

    // From the beginning, with another task.
    app.model.script([Reply::text("Ran.")]);
    let (_, forked) = fork(json!({"step": 0, "message": "run"})).await;
    assert_eq!(text(&followed(&client, &forked).await), "Ran.");
    let asked = messages(&app.model.requests()[5]);
    assert_eq!((asked.len(), &asked[0]), (2, &messages(&before[0])[0]));
    assert_eq!(asked[1]["content"].as_str(), Some("run"));

    // The original run is unchanged.
    assert_eq!(client.get(&format!("{}/{source}/export", runs(&app))).await.1, original);
}

#[tokio::test]
async fn a_forked_conversation_belongs_to_the_same_owner() {
    let app = TestApp::start().await;
    let agent = app.agent("talker", &[]).await;
    app.model.script([Reply::text("Hello."), Reply::text("Good evening.")]);
    let client = app.client();
    let first = json_of(&client.ask(Some(agent), "greet me").await);
    let source = first[0]["runId"].as_str().unwrap();
    let path = format!("/api/runs/{source}/fork");
    let (status, forked) = client
        .post(&path, json!({"step": 0, "message": "greet me formally"}))
        .await;
    assert_eq!(status, StatusCode::ACCEPTED, "{forked}");
    assert_eq!(text(&followed(&client, &forked).await), "Good evening.");
    let run = format!("/api/runs/{}", forked["runId"].as_str().unwrap());
    let (_, detail) = client.get(&run).await;
    let conversation = detail["conversationId"].as_str().unwrap();
    assert_ne!(Some(conversation), first[1]["conversationId"].as_str());
    let (_, page) = client.get(&format!("/api/conversations/{conversation}/messages")).await;
    let said: Vec<&str> = page["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(said, ["greet me formally", "Good evening."]);
    let other = Client::new(app.url(), &app.db.another_user().await.1);
    assert_eq!(other.get(&run).await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_fork_without_anything_to_go_on_from_is_refused() {
    let app = TestApp::start().await;
    let (source, client) = (stepped(&app).await, app.client());
    let path = format!("/api/runs/{source}/fork");
    for (body, words) in [
        (json!({"step": 4}), "has 3 steps"),
        (json!({"step": 3}), "it has answered"),
    ] {
        let (status, problem) = client.post(&path, body).await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::CONFLICT, &json!("run_fork_unfit"))
        );
        assert!(problem["detail"].as_str().unwrap().contains(words), "{problem}");
    }
    assert_eq!(client.post(&path, json!({"step": -1})).await.0, StatusCode::BAD_REQUEST);
    assert_eq!(
        client.post(&path, json!({"step": 1, "message": " "})).await.0,
        StatusCode::BAD_REQUEST
    );
    // After its answer, another question can be asked.
    app.model.script([Reply::text("Further.")]);
    let (status, forked) = client.post(&path, json!({"step": 3, "message": "And now?"})).await;
    assert_eq!(status, StatusCode::ACCEPTED, "{forked}");
    assert_eq!(text(&followed(&client, &forked).await), "Further.");
    sqlx::query("delete from kb.agent_definitions where name = 'walker'")
        .execute(&app.db.pool)
        .await
        .unwrap();
    let (_, problem) = client.post(&path, json!({"step": 1})).await;
    assert!(
        problem["detail"].as_str().unwrap().contains("has been deleted"),
        "{problem}"
    );
}

#[tokio::test]
async fn what_is_not_ones_own_is_neither_exported_nor_forked() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let posted = app.client().post_message(json!({"message": "a secret"})).await;
    let run = posted["runId"].as_str().unwrap();
    let (user, colleague) = app.db.another_user().await;
    let mut connection = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut connection, "other").await.unwrap();
    workspaces::add_member(&mut connection, other, user, workspaces::Role::Owner)
        .await
        .unwrap();
    let (_, foreign) = auth::create_key(&mut connection, user, Some(other), "test", &Scope::ALL, None)
        .await
        .unwrap();
    for key in [colleague, foreign] {
        let client = Client::new(app.url(), &key);
        for end in ["tree", "export"] {
            assert_eq!(
                client.get(&format!("{}/{run}/{end}", runs(&app))).await.0,
                StatusCode::NOT_FOUND
            );
        }
        let (status, _) = client.post(&format!("/api/runs/{run}/fork"), json!({"step": 0})).await;
        assert_eq!(status, StatusCode::NOT_FOUND);
    }
    // Its own, but not begun yet.
    let (status, problem) = app
        .client()
        .post(&format!("/api/runs/{run}/fork"), json!({"step": 0}))
        .await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("run_fork_unfit"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_exports_forks_steers_and_answers() {
    let app = TestApp::start().await;
    let source = stepped(&app).await;
    let rejoin = |line: &[&str]| {
        let output = tokio::task::block_in_place(|| {
            std::process::Command::new(binary())
                .args(line)
                .env("REJOIN_URL", app.url())
                .env("REJOIN_API_KEY", &app.db.api_key)
                .env("REJOIN_PROJECT_ID", app.db.workspace_id.to_string())
                .output()
                .unwrap()
        });
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let whole: Value = serde_json::from_str(&rejoin(&["runs", "export", &source])).unwrap();
    assert_eq!(whole["run"]["id"], json!(source));
    assert!(rejoin(&["runs", "list", "--agent", "walker", "--since", "2020-01-01T00:00:00Z"]).contains(&source));
    assert!(rejoin(&["runs", "tree", &source]).contains("walker"));
    app.model.script([Reply::text("Again.")]);
    let forked: Value = serde_json::from_str(&rejoin(&["runs", "fork", &source, "--step", "1", "--json"])).unwrap();
    followed(&app.client(), &forked).await;
    assert!(rejoin(&["runs", "tell", &source, "hurry"]).contains("accepts no more messages"));
    assert!(rejoin(&["runs", "resume", &source]).contains("only paused runs"));

    let asker = app.agent("asker", &["ask_user"]).await;
    app.model.script([
        Reply::tool("ask_user", json!({"question": "Which one?", "options": []})),
        Reply::text("That one."),
    ]);
    let posted = app
        .client()
        .post_message(json!({"message": "choose", "agentDefinitionId": asker}))
        .await;
    let question = rejoin_tests::support::wait_for("the question", async || {
        let (_, page) = app.client().get("/api/questions?status=pending").await;
        page["items"].as_array().unwrap().first().cloned()
    })
    .await;
    assert!(rejoin(&["questions", "list"]).contains("Which one?"));
    let id: Uuid = question["id"].as_str().unwrap().parse().unwrap();
    assert!(rejoin(&["questions", "answer", &id.to_string(), "the left"]).contains("is answered"));
    let frames = followed(&app.client(), &posted).await;
    assert_eq!(text(&frames), "That one.");
}
