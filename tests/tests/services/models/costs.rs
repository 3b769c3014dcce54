//! Costs of runs: by the catalogue's prices or the project's own, step by step.

use std::time::Duration;

use rejoin_models::choice::ModelChoice;
use rejoin_models::{Tokens, catalogue, today};
use rejoin_runs::agents::DefinitionContent;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

const LIMIT: Duration = Duration::from_secs(20);

fn asks(model: &str) -> impl FnOnce(&mut DefinitionContent) {
    let name = model.to_owned();
    move |content| {
        content.model = Some(ModelChoice::named(name));
    }
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[tokio::test]
async fn a_run_costs_the_sum_of_its_steps_over_all_workers() {
    const MODEL: &str = "openai:gpt-6-luna";
    let mut app = TestApp::start().await;
    let agent = app.agent_with("counter", &["schema_version"], asks(MODEL)).await;
    // A prompt above the model's limit costs more per token; the second step's does not.
    let steps = [Tokens::new(300_000, 1_000), Tokens::new(1_000, 500)];
    app.model.script([
        Reply::tool("schema_version", json!({})).counted(steps[0].input, steps[0].output),
        Reply::hang(),
        Reply::text("Done.").counted(steps[1].input, steps[1].output),
    ]);
    let posted = app
        .client()
        .post_message(json!({"message": "count", "agentDefinitionId": agent}))
        .await;
    app.model
        .wait_for(LIMIT, |counts| counts.requests == 2)
        .await
        .expect("the second step");
    app.crash_workers();
    app.add_worker();
    let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
    let events = json_of(&app.client().stream(&path).await.rest().await);
    let price = catalogue().price(MODEL, today()).expect("a price");
    let [first, second] = steps.map(|step| price.of(&step));
    let usages = of_kind(&events, "usage");
    let told = |event: &Value| event["costUsd"].as_f64().unwrap();
    assert!(near(told(usages[0]), first), "{usages:?}");
    let done = events.last().unwrap();
    assert_eq!(done["status"], "completed");
    assert!(near(told(&done["usage"]), first + second), "{done}");
    let of_sums = price.of(&Tokens::new(301_000, 1_500));
    assert!(
        !near(first + second, of_sums),
        "the sum of the tokens would cost {of_sums}"
    );
    let tree: f64 = sqlx::query_scalar("select tree_cost_usd from kb.agent_runs")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert!(near(tree, first + second), "{tree}");
}

#[tokio::test]
async fn a_projects_price_counts_from_the_next_turn() {
    const MODEL: &str = "openai:gpt-6-luna";
    let app = TestApp::start().await;
    let agent = app.agent_with("counter", &[], |content| {
        asks(MODEL)(content);
        content.max_steps = Some(1);
    });
    let agent = agent.await;
    app.model.script([
        Reply::text("One.").counted(1_000_000, 0),
        Reply::text("Two.").counted(1_000_000, 0),
    ]);
    let cost = async || {
        let events = json_of(&app.client().ask(Some(agent), "go").await);
        events.last().unwrap()["usage"]["costUsd"].as_f64().unwrap()
    };
    let listed = catalogue()
        .price(MODEL, today())
        .unwrap()
        .of(&Tokens::new(1_000_000, 0));
    assert!(near(cost().await, listed));
    let prices = format!("/api/admin/projects/{}/model-prices", app.db.workspace_id);
    let own = json!({"model": "openai:gpt-6*", "inputUsd": 7, "outputUsd": 9});
    assert_eq!(app.client().put(&prices, own).await.0, 200);
    assert!(near(cost().await, 7.0));
    let before: Vec<f64> = sqlx::query_scalar("select tree_cost_usd from kb.agent_runs order by id")
        .fetch_all(&app.db.pool)
        .await
        .unwrap();
    assert!(near(before[0], listed) && near(before[1], 7.0), "{before:?}");
}

#[tokio::test]
async fn a_model_without_a_price_has_no_cost() {
    let app = TestApp::start().await;
    let agent = app.agent_with("counter", &[], asks("openai:scripted")).await;
    app.model.script([Reply::text("One.")]);
    let events = json_of(&app.client().ask(Some(agent), "go").await);
    assert_eq!(events.last().unwrap()["usage"].get("costUsd"), None);
}

#[tokio::test]
async fn a_budget_that_can_not_count_says_so_once_in_a_run() {
    let app = TestApp::start().await;
    let budget = |model: &'static str| {
        move |content: &mut DefinitionContent| {
            asks(model)(content);
            content.config = json!({"limits": {"costUsd": 0.5}});
        }
    };
    let unpriced = app
        .agent_with("unpriced", &["schema_version"], budget("openai:scripted"))
        .await;
    let priced = app.agent_with("priced", &[], budget("openai:gpt-6-luna")).await;
    let unbound = app.agent_with("unbound", &[], asks("openai:scripted")).await;
    app.model.script([
        Reply::tool("schema_version", json!({})),
        Reply::text("One."),
        Reply::text("Two."),
        Reply::text("Three."),
    ]);
    let limits = async |agent| {
        let events = json_of(&app.client().ask(Some(agent), "go").await);
        assert_eq!(events.last().unwrap()["status"], "completed");
        of_kind(&events, "limit").into_iter().cloned().collect::<Vec<Value>>()
    };
    let told = limits(unpriced).await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0]["limit"], "cost_budget_uncounted");
    let message = told[0]["message"].as_str().unwrap();
    for word in ["openai:scripted", "0.5 dollars", "rejoin prices set"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(limits(priced).await, Vec::<Value>::new());
    assert_eq!(limits(unbound).await, Vec::<Value>::new());
}

#[tokio::test]
async fn tokens_are_estimated_for_servers_that_count_none() {
    let app = TestApp::start().await;
    let agent = app.agent_with("counter", &["schema_version"], |content| {
        asks("openai:gpt-6-luna")(content);
        content.config = json!({"limits": {"tokens": 40}});
    });
    let agent = agent.await;
    app.model.script([
        Reply::tool("schema_version", json!({})).counted(0, 0),
        Reply::text("Summed up.").counted(0, 0),
    ]);
    let events = json_of(
        &app.client()
            .ask(Some(agent), "昨日の夜にシステムの更新が終わりましたか")
            .await,
    );
    assert_eq!(of_kind(&events, "limit")[0]["limit"], "token_budget");
    let usage = &events.last().unwrap()["usage"];
    assert!(
        usage["inputTokens"].as_u64().unwrap() > 100,
        "the prompt is counted: {usage}"
    );
    assert!(usage["costUsd"].as_f64().unwrap() > 0.0, "{usage}");
}
