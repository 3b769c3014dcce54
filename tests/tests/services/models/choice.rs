//! Model selection: a definition's model, the successor of a retired one, the override, or the substitute under
//! `rejoin dev`.

use std::collections::HashMap;

use chrono::NaiveDate;
use rejoin_model_client::ModelError;
use rejoin_model_client::name::ModelSettings;
use rejoin_model_client::registry::{Models, Replaced, Resolved};
use rejoin_models::choice::ModelChoice;
use rejoin_models::{DEFAULT_MODEL, catalogue, today};
use rejoin_runs::agents;
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

fn models(vars: &[(&str, &str)]) -> Models {
    let vars = vars
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Models::new(ModelSettings::from_map(&vars.collect::<HashMap<_, _>>())).expect("the models")
}

fn resolve(models: &Models, model: &str) -> Result<Resolved, ModelError> {
    models.resolve(Some(model))
}

fn shipped() -> Vec<agents::DefinitionContent> {
    [agents::defaults(), agents::specialists(), agents::planners()].concat()
}

fn day(text: &str) -> Option<NaiveDate> {
    text.parse().ok()
}

#[tokio::test]
async fn under_dev_a_provider_with_a_key_goes_before_the_demo() {
    let settings = ModelSettings {
        demo_fallback: true,
        ..ModelSettings::openai_compatible("http://127.0.0.1:9/v1")
    };
    let resolved = |settings: ModelSettings| {
        let models = Models::new(settings).expect("the models");
        resolve(&models, "gemini-2.0-flash").expect("a stand-in").name
    };
    assert_eq!(resolved(settings.clone()), "openai:gpt-6-luna");
    // An override for all gets that model, or the demo.
    let chosen = ModelSettings {
        model_override: Some("anthropic:claude-x".to_owned()),
        ..settings
    };
    assert_eq!(resolved(chosen), "demo:graph");
}

#[tokio::test]
async fn the_override_replaces_every_definitions_model() {
    let settings = ModelSettings {
        model_override: Some("demo:graph".to_owned()),
        ..ModelSettings::default()
    };
    let models = Models::new(settings).expect("the models");
    assert_eq!(resolve(&models, "openai:gpt-4o").expect("the demo").name, "demo:graph");
    assert_eq!(models.resolve(None).expect("the demo").name, "demo:graph");
}

#[tokio::test]
async fn any_one_key_gives_every_shipped_agent_a_priced_model() {
    for (variable, provider) in [
        ("GEMINI_API_KEY", "gemini"),
        ("OPENAI_API_KEY", "openai"),
        ("ANTHROPIC_API_KEY", "anthropic"),
    ] {
        let models = models(&[(variable, "a-key")]);
        let of = |model: Option<&ModelChoice>| models.of_definition(model).expect(variable).name;
        let names = shipped().into_iter().map(|definition| of(definition.model.as_ref()));
        for name in names.chain([models.resolve(None).expect(variable).name]) {
            let model = catalogue().find(&name).expect(&name);
            assert_eq!((model.provider(), &model.name), (provider, &name), "{variable}");
            assert!(!model.is_retired(today()), "{name}");
            assert!(model.price(today()).is_some_and(|price| !price.is_free()), "{name}");
        }
    }
}

#[tokio::test]
async fn without_any_key_the_error_names_the_models_variable() {
    let models = models(&[]);
    for definition in shipped() {
        let error = models.of_definition(definition.model.as_ref()).err().expect("no key");
        assert_eq!(error.code, "model_key_missing");
        assert!(error.message.contains("GEMINI_API_KEY"), "{}", error.message);
    }
}

#[tokio::test]
async fn only_the_default_agent_names_a_model_with_a_live_successor() {
    for definition in shipped() {
        let model = definition.model.expect("a model");
        if definition.name != agents::GRAPH_QUERY_AGENT {
            assert_eq!(model.name, DEFAULT_MODEL, "{}", definition.name);
            continue;
        }
        let resolved = catalogue().resolve(&model.name, today());
        let live = catalogue().find(&resolved.name).expect("a model of the catalogue");
        assert!(
            !live.is_retired(today()) && !live.retires_soon(today()),
            "{}",
            live.name
        );
        assert!(model.or_default, "another provider's key is enough");
    }
}

#[tokio::test]
async fn a_retired_models_successor_has_the_same_provider() {
    let with_gemini = models(&[("GEMINI_API_KEY", "a-key")]);
    for name in ["gemini-2.0-flash", "gemini:gemini-2.0-flash-001"] {
        let resolved = resolve(&with_gemini, name).expect(name);
        assert_eq!(resolved.name, "gemini:gemini-3.8-flash");
        let replaced = Replaced {
            requested: name.to_owned(),
            retired_on: day("2026-06-01"),
        };
        assert_eq!(resolved.replaced, Some(replaced));
    }
    let live = resolve(&with_gemini, "gemini-3.8-flash").expect("a model");
    assert_eq!((live.name.as_str(), live.replaced), ("gemini:gemini-3.8-flash", None));
    // A definition with an explicit provider is not sent to another one.
    let error = resolve(&models(&[("OPENAI_API_KEY", "a-key")]), "gemini-2.0-flash")
        .err()
        .expect("no key");
    assert!(error.message.contains("GEMINI_API_KEY"), "{}", error.message);
}

#[tokio::test]
async fn a_server_of_ones_own_serves_names_that_openai_has_retired() {
    let own = models(&[("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")]);
    let resolved = resolve(&own, "openai:o1").expect("a model");
    assert_eq!((resolved.name.as_str(), resolved.replaced), ("openai:o1", None));
    for url in ["https://api.openai.com/v1", ""] {
        let openai = models(&[("OPENAI_API_KEY", "a-key"), ("OPENAI_BASE_URL", url)]);
        assert_eq!(
            resolve(&openai, "openai:o1").expect("a model").name,
            "openai:gpt-5.6-sol"
        );
    }
}

#[tokio::test]
async fn the_turn_reports_the_named_model_and_its_retirement() {
    let app = TestApp::start().await;
    let client = app.client();
    let path = format!("/api/admin/projects/{}/install-default-agents", app.db.workspace_id);
    assert!(client.post(&path, json!({})).await.0.is_success());
    let path = format!("/api/admin/projects/{}/agent-definitions", app.db.workspace_id);
    let (_, listed) = client.get(&path).await;
    assert_eq!(listed["items"][0]["model"]["name"], "gemini-2.0-flash");
    let agent = listed["items"][0]["id"].as_str().unwrap().parse().unwrap();
    app.model.script([Reply::text("Nothing was found.")]);
    let events = json_of(&client.ask(Some(agent), "what is there?").await);
    let meta = of_kind(&events, "meta")[0];
    let told = |field: &str| meta[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        ["model", "modelRequested", "modelRetiredOn"].map(told),
        ["openai:gpt-6-luna", "gemini-2.0-flash", "2026-06-01"]
    );
    assert_eq!(app.model.requests()[0]["model"], "gpt-6-luna");
    let plain = json_of(&client.ask(None, "hello").await);
    assert_eq!(of_kind(&plain, "meta")[0].get("modelRequested"), None::<&Value>);
}

#[tokio::test]
async fn the_catalogue_is_listed_by_provider_ability_and_name() {
    let app = TestApp::start().await;
    let client = app.client();
    let names = async |query: &str| {
        let (status, listed) = client.get(&format!("/api/models{query}")).await;
        assert_eq!(status, 200, "{listed}");
        let items = listed["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|model| model["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let all = names("").await;
    assert!(all.len() > 500 && all.is_sorted(), "{}", all.len());
    let gemini = names("?provider=gemini&can=tools,audio&q=flash").await;
    assert!(gemini.contains(&"gemini:gemini-3.8-flash".to_owned()), "{gemini:?}");
    assert!(gemini.iter().all(|name| name.starts_with("gemini:")), "{gemini:?}");
    let (_, listed) = client
        .get("/api/models?q=gemini-2.0-flash-001&retired=true&provider=gemini")
        .await;
    let gone = &listed["items"][0];
    assert_eq!(
        [
            &gone["name"],
            &gone["isRetired"],
            &gone["retiresOn"],
            &gone["successor"]
        ],
        [
            &json!("gemini:gemini-2.0-flash"),
            &json!(true),
            &json!("2026-06-01"),
            &json!("gemini:gemini-3.8-flash")
        ]
    );
    let (_, listed) = client.get("/api/models?provider=openai&q=gpt-6-luna").await;
    let luna = &listed["items"][0];
    assert_eq!(
        (&luna["isDefault"], &luna["takesTemperature"]),
        (&json!(true), &json!(false))
    );
    assert!(luna["contextTokens"].as_u64().unwrap() > 100_000, "{luna}");
    assert!(
        luna["price"]["cachedUsd"].as_f64() < luna["price"]["inputUsd"].as_f64(),
        "{luna}"
    );
    assert!(luna["price"]["longPrompt"]["aboveTokens"].as_u64().is_some(), "{luna}");
    for wrong in ["?can=flying", "?colour=red"] {
        assert_eq!(client.get(&format!("/api/models{wrong}")).await.0, 400, "{wrong}");
    }
}
