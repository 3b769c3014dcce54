//! Limits of agent trees: steps, time, tokens, money, counts; and flows, which use the same spawning.

use std::sync::Arc;

use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::{Reply, sent};
use rejoin_tests::replies::spawn;
use rejoin_tools::registry::Registry;
use rejoin_tools::{SharedTool, Tool, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};

use super::spawning::{results, runs};

/// Requirements: C20, C21.
#[tokio::test]
async fn a_sub_agent_has_its_own_time_limit_and_pauses_at_it() {
    let app = TestApp::with(AppOptions {
        worker: |config| config.run_grace_s = 0,
        ..AppOptions::default()
    })
    .await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("slow", &[]).await;
    let arguments = json!({"agents": [{"agent_name": "slow", "task": "take long", "timeout": 1}]});
    app.model.on(
        "go",
        [Reply::tool("spawn_agents", arguments), Reply::text("It was too slow.")],
    );
    app.model.on("take long", [Reply::hang_after(1)]);
    let events = json_of(&app.client().ask(Some(boss), "go").await);
    let found = results(&events);
    assert_eq!(found[0]["status"], "paused");
    assert!(found[0]["error"].as_str().unwrap().contains("timeout"), "{found:?}");
    assert_eq!(events.last().unwrap()["status"], "completed");
}

/// Requirements: C18, C19.
#[tokio::test]
async fn a_sub_agent_without_a_limit_has_fifty_steps() {
    let app = TestApp::start().await;
    let boss = app
        .agent_with("boss", &["spawn_agents"], |content| content.max_steps = None)
        .await;
    app.agent_with("endless", &["find_path", "schema_version"], |content| {
        content.max_steps = None
    })
    .await;
    app.model
        .on("go", [spawn(&[("endless", "forever")]), Reply::text("enough")]);
    let number = std::sync::atomic::AtomicUsize::new(0);
    app.model.answer_by(move |_| {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Some(Reply::tool(
            "find_path",
            json!({"from_entity": format!("a{number}"), "to_entity": "b"}),
        ))
    });
    let events = json_of(&app.client().ask(Some(boss), "go").await);
    let found = results(&events);
    assert_eq!(found[0]["status"], "paused", "{found:?}");
    assert_eq!(found[0]["steps"], 51, "fifty, and one to sum up");
    let limits: Vec<&Value> = of_kind(&events, "limit").iter().map(|event| &event["limit"]).collect();
    assert_eq!(limits, ["step_limit"]);
}

/// Requirements: C06.
#[tokio::test]
async fn flows_are_made_of_the_same_spawning() {
    let app = TestApp::start().await;
    for name in ["draft", "review"] {
        app.agent(name, &[]).await;
    }
    let flow = |flow_type: &str, flow: Value| {
        let flow_type = flow_type.to_owned();
        move |content: &mut DefinitionContent| {
            content.flow_type = flow_type;
            content.config = json!({ "flow": flow });
        }
    };
    let line = app
        .agent_with("line", &[], flow("sequential", json!({"agents": ["draft", "review"]})))
        .await;
    let round = json!({"agents": ["draft", "review"], "maxIterations": 5, "exitWhen": "GOOD"});
    let round = app.agent_with("round", &[], flow("loop", round)).await;
    let both = app
        .agent_with("both", &[], flow("parallel", json!({"agents": ["draft", "review"]})))
        .await;
    let none = app.agent_with("none", &[], flow("sequential", json!({}))).await;
    app.model
        .script([Reply::text("A draft."), Reply::text("A reviewed draft.")]);
    let client = app.client();
    let frames = client.ask(Some(line), "write").await;
    let events = json_of(&frames);
    assert_eq!(of_kind(&events, "meta")[0]["model"], "flow:sequential");
    let root = &events[1]["runId"];
    let own: String = of_kind(&events, "token")
        .iter()
        .filter(|event| event["runId"] == *root)
        .map(|event| event["token"].as_str().unwrap())
        .collect();
    assert_eq!(own, "A reviewed draft.");
    let second = sent(&app.model.requests()[1]).last().unwrap().1.clone();
    assert!(second.contains("write") && second.contains("A draft."), "{second}");

    app.model.script(["one", "bad", "two", "GOOD now"].map(Reply::text));
    let events = json_of(&client.ask(Some(round), "write").await);
    assert_eq!(of_kind(&events, "sub_agent").len(), 8, "two rounds of two");
    assert_eq!(events.last().unwrap()["status"], "completed");

    app.model.always("write both", Reply::text("mine"));
    let events = json_of(&client.ask(Some(both), "write both").await);
    assert_eq!(of_kind(&events, "mcp_tool").len(), 2, "one call");
    assert_eq!(results(&events).len(), 2);

    let events = json_of(&client.ask(Some(none), "write").await);
    assert_eq!(of_kind(&events, "error")[0]["code"], "flow_empty");
}

#[tokio::test]
async fn a_tree_that_spawns_without_end_is_bounded() {
    let app = TestApp::with(AppOptions {
        worker: |config| {
            config.tree_runs = 5;
            config.parallel_sub_agents = 3;
        },
        ..AppOptions::default()
    })
    .await;
    let boss = app.agent("boss", &["spawn_agents"]).await;
    app.agent("leaf", &[]).await;
    let four = [("leaf", "little"); 4];
    app.model
        .on("go", [spawn(&four), spawn(&four), spawn(&four), Reply::text("enough")]);
    app.model.always("little", Reply::text("ok"));
    let events = json_of(&app.client().ask(Some(boss), "go").await);
    let limits: Vec<&str> = of_kind(&events, "limit")
        .iter()
        .map(|event| event["limit"].as_str().unwrap())
        .collect();
    assert_eq!(limits[0], "parallel_sub_agents", "the fourth of the first call");
    assert_eq!(limits[1..], ["tree_runs"; 6], "two more were started");
    assert_eq!(runs(&app).await.len(), 1 + 5);
    assert_eq!(events.last().unwrap()["status"], "completed");
}

#[tokio::test]
async fn a_tree_has_a_budget_of_tokens_and_money_beside_its_steps() {
    let app = TestApp::start().await;
    let limits = |key: &'static str, value: f64| {
        move |content: &mut DefinitionContent| {
            let value = if value.fract() == 0.0 {
                json!(value as i64)
            } else {
                json!(value)
            };
            content.config = json!({"limits": {key: value}});
            content.max_steps = None;
        }
    };
    let burner = app
        .agent_with("burner", &["spawn_agents"], limits("tokens", 20.0))
        .await;
    let spender = app
        .agent_with("spender", &["schema_version", "list_tags"], limits("costUsd", 0.5))
        .await;
    app.agent("leaf", &[]).await;
    app.model
        .on("burn", [spawn(&[("leaf", "little")]), Reply::text("Summed up.")]);
    app.model.on("little", [Reply::tokens(200)]);
    let events = json_of(&app.client().ask(Some(burner), "burn").await);
    assert_eq!(of_kind(&events, "limit")[0]["limit"], "token_budget");
    assert_eq!(events.last().unwrap()["status"], "paused");
    let prices = format!("/api/admin/projects/{}/model-prices", app.db.workspace_id);
    let put = async |price: Value| {
        let request = app.client().request(reqwest::Method::PUT, &prices).json(&price);
        rejoin_tests::client::answer(request.send().await.unwrap()).await
    };
    let dear = json!({"model": "openai:scripted", "inputUsd": 100_000, "outputUsd": 100_000});
    assert_eq!(put(dear).await.0, 200);
    let (status, problem) = put(json!({"model": "openai:[", "inputUsd": 1, "outputUsd": 1})).await;
    assert_eq!(
        (status.as_u16(), &problem["code"]),
        (400, &json!("invalid_model_price"))
    );
    app.model.on(
        "spend",
        [
            Reply::tool("schema_version", json!({})),
            Reply::tool("list_tags", json!({})),
            Reply::text("Summed up."),
        ],
    );
    let events = json_of(&app.client().ask(Some(spender), "spend").await);
    assert_eq!(of_kind(&events, "limit")[0]["limit"], "cost_budget");
    assert!(events.last().unwrap()["usage"]["costUsd"].as_f64().unwrap() > 0.5);
    let (_, listed) = app.client().get(&prices).await;
    let (own, built_in) = (&listed["items"][0], &listed["items"][1]);
    assert_eq!(
        (&own["model"], &own["builtIn"]),
        (&json!("openai:scripted"), &json!(false))
    );
    assert_eq!(built_in["builtIn"], true);
    let path = format!("{prices}?model=openai:scripted");
    assert_eq!(app.client().delete(&path).await.0, 204);
    assert_eq!(app.client().delete(&path).await.0, 404);
    let told: Vec<String> =
        sqlx::query_scalar("select action from audit.entries where action like 'model_price%' order by id")
            .fetch_all(&app.db.pool)
            .await
            .unwrap();
    assert_eq!(told, ["model_price.set", "model_price.removed"]);
}

/// A tool that returns this many bytes.
struct Large(ToolSpec);

#[async_trait::async_trait]
impl Tool for Large {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    async fn call(&self, _: &ToolContext, arguments: Value) -> Result<Value, ToolError> {
        let bytes = usize::try_from(arguments["bytes"].as_u64().unwrap()).unwrap();
        Ok(json!({ "text": "x".repeat(bytes) }))
    }
}

/// Requirements: A32.
#[tokio::test]
async fn a_huge_tool_result_is_an_error_and_a_large_one_is_cut() {
    let parameters = json!({"type": "object", "properties": {"bytes": {"type": "integer"}}, "required": ["bytes"], "additionalProperties": false});
    let large = Large(ToolSpec {
        name: "large".to_owned(),
        description: "Returns much.".to_owned(),
        parameters: parameters.into(),
        read_only: true,
        idempotent: true,
        destructive: false,
    });
    let app = TestApp::with(AppOptions {
        tools: Registry::new([Arc::new(large) as SharedTool]),
        ..AppOptions::default()
    })
    .await;
    let agent = app.agent("reader", &["large"]).await;
    app.model.script([
        Reply::tool("large", json!({"bytes": 17_000_000})),
        Reply::tool("large", json!({"bytes": 1_000_000})),
        Reply::text("Too much."),
    ]);
    let frames = app.client().ask(Some(agent), "go").await;
    let events = json_of(&frames);
    let ends: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .filter(|event| event["status"] != "started")
        .collect();
    assert!(
        ends[0]["error"].as_str().unwrap().contains("Narrow the call down"),
        "{}",
        ends[0]
    );
    assert_eq!(
        (&ends[1]["result"]["cut"], ends[1]["status"].as_str()),
        (&json!(true), Some("completed"))
    );
    let longest = frames
        .iter()
        .filter_map(|frame| frame.data.as_ref())
        .map(String::len)
        .max()
        .unwrap();
    assert!(longest < 10_000, "{longest}");
    let kept: i64 = sqlx::query_scalar("select max(length(output ->> 'text'))::bigint from kb.agent_run_tool_calls")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(kept, 1_000_000, "the whole is kept with the call");
    let whole = ends[1]["result"]["whole"].as_str().unwrap();
    let (status, call) = app.client().get(whole).await;
    assert_eq!(status, 200, "{whole}");
    assert_eq!(
        call["output"],
        json!({"text": "x".repeat(1_000_000)}),
        "and is read there"
    );
    let given = sent(&app.model.requests()[2]).last().unwrap().1.clone();
    assert!(
        given.len() < 70_000 && given.contains("[truncated: "),
        "the model reads the beginning"
    );
}

#[tokio::test]
async fn runs_that_would_never_stop_end_at_their_limits() {
    let app = TestApp::with(AppOptions {
        worker: |config| {
            config.run_grace_s = 1;
            // Its other calls are sent back with each step: this limit would apply first.
            config.tree_tokens = u64::MAX;
        },
        ..AppOptions::default()
    })
    .await;
    let endless = |content: &mut DefinitionContent| {
        content.max_steps = None;
        content.default_timeout = Some(120);
    };
    let tools = ["find_path", "schema_version", "list_tags"];
    let agent = app.agent_with("endless", &tools, endless).await;
    let talker = app
        .agent_with("talker", &[], |content| content.default_timeout = Some(1))
        .await;
    app.model.on("talk", [Reply::tokens(5_000).words_every(2)]);
    let numbers = [0, 0].map(std::sync::atomic::AtomicUsize::new);
    app.model.answer_by(move |request| {
        let asked = sent(request).iter().find(|(role, _)| role == "user").unwrap().1.clone();
        // Counted for each run by itself: both are running.
        let number = &numbers[usize::from(asked == "alternate")];
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Some(match asked.as_str() {
            "alternate" => Reply::tool(["schema_version", "list_tags"][number % 2], json!({})),
            // Always another call, even when told to stop.
            _ => Reply::tool(
                "find_path",
                json!({"from_entity": format!("a{number}"), "to_entity": "b"}),
            ),
        })
    });
    let client = app.client();
    let (calls, alternates, talk) = tokio::join!(
        client.ask(Some(agent), "call"),
        client.ask(Some(agent), "alternate"),
        client.ask(Some(talker), "talk")
    );
    for (frames, limit) in [
        (calls, "total_step_limit"),
        (alternates, "total_step_limit"),
        (talk, "timeout"),
    ] {
        let events = json_of(&frames);
        assert_eq!(events.last().unwrap()["status"], "paused", "{limit}");
        assert_eq!(of_kind(&events, "error")[0]["code"], limit);
    }
    let steps: Vec<i32> = sqlx::query_scalar("select total_steps from kb.agent_runs order by total_steps")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(steps, [0, 501, 501], "five hundred, and a last word");
}
