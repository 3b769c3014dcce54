//! Products: manifests installed, reinstalled, in another version, side by side, and uninstalled.

use rejoin_graph::objects::{self, NewObject};
use rejoin_graph::{Actor, ActorKind};
use rejoin_tests::app::{AppOptions, TestApp, binary};
use rejoin_tests::model_server::Reply;
use reqwest::StatusCode;
use serde_json::{Value, json};

struct Site {
    app: TestApp,
}

impl Site {
    async fn new(workers: usize) -> Self {
        let app = TestApp::with(AppOptions {
            workers,
            ..AppOptions::default()
        })
        .await;
        Self { app }
    }

    fn products(&self) -> String {
        format!("/api/admin/projects/{}/products", self.app.db.workspace_id)
    }

    async fn install(&self, manifest: &Value) -> (StatusCode, Value) {
        self.app
            .client()
            .post(&self.products(), json!({ "manifest": manifest }))
            .await
    }

    async fn installed(&self, manifest: &Value) -> Vec<String> {
        let (status, done) = self.install(manifest).await;
        assert_eq!(status, StatusCode::OK, "{done}");
        told(&done)
    }

    /// Returns the content of all tables that a product may change.
    async fn state(&self) -> Value {
        sqlx::query_scalar(
            "select jsonb_build_object(
                 'agents', (select jsonb_agg(to_jsonb(a) - 'updated_at' order by name) from kb.agent_definitions a),
                 'servers', (select jsonb_agg(to_jsonb(s) - 'updated_at' order by name) from kb.project_mcp_servers s),
                 'packs', (select jsonb_agg(p.name || '@' || p.version order by p.name, p.version)
                           from kb.template_assignments a join kb.template_packs p on p.id = a.pack_id),
                 'products', (select jsonb_agg(to_jsonb(p) order by name) from kb.products p))",
        )
        .fetch_one(&self.app.db.pool)
        .await
        .unwrap()
    }

    async fn errand(&self) {
        let mut connection = self.app.db.pool.acquire().await.unwrap();
        let new = NewObject {
            object_type: "Errand".to_owned(),
            key: Some("milk".to_owned()),
            ..NewObject::default()
        };
        let actor = Actor {
            kind: ActorKind::System,
            id: None,
        };
        objects::create(&mut connection, self.app.db.workspace_id, &new, actor)
            .await
            .unwrap();
    }
}

/// Returns `action kind name` of each change.
fn told(done: &Value) -> Vec<String> {
    let changes = done["changes"].as_array().unwrap();
    let told = changes.iter().map(|change| {
        let part = |name: &str| change[name].as_str().unwrap().to_owned();
        format!("{} {} {}", part("action"), part("kind"), part("name"))
    });
    told.collect()
}

fn errands(version: &str) -> Value {
    json!({
        "name": "errands", "version": version, "description": "Things to do.", "license": "Apache-2.0",
        "template_packs": [{"name": "errands", "version": "1", "object_types": {"Errand": {"type": "object"}, "Shop": {"type": "object"}}}],
        "agents": [
            {"name": "runner", "system_prompt": "Run errands.", "tools": ["search_*"], "model": {"name": "openai:scripted"}},
            {"name": "planner", "system_prompt": "Plan errands.", "visibility": "internal"}
        ],
        "mcp": {
            "servers": [{"name": "maps", "url": "https://maps.example/mcp", "headers": {"Authorization": "Bearer ${MAPS_TOKEN}"}}],
            "prompts": [{"name": "shop", "text": "Shop for {{what}}."}],
            "tool_filter": ["find_*"]
        },
        "jobs": [{"name": "nightly", "cron": "0 3 * * *", "agent": "planner"}]
    })
}

#[tokio::test]
async fn a_product_installs_whole_and_again_without_change() {
    let site = Site::new(1).await;
    assert_eq!(
        site.installed(&errands("1.0.0")).await,
        [
            "create template_pack errands",
            "create agent runner",
            "create agent planner",
            "create mcp_server maps",
            "create prompt shop",
            "create job nightly"
        ]
    );
    let state = site.state().await;
    assert_eq!(state["servers"][0]["tools"], json!(["find_*"]));
    assert_eq!(state["servers"][0]["product"], "errands");
    let again = site.installed(&errands("1.0.0")).await;
    assert!(again.iter().all(|change| change.starts_with("keep ")), "{again:?}");
    assert_eq!(site.state().await, state, "nothing was touched");

    let client = site.app.client();
    let definitions = format!("/api/admin/projects/{}/agent-definitions", site.app.db.workspace_id);
    let (_, listed) = client.get(&definitions).await;
    let runner = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "runner")
        .unwrap()
        .clone();
    site.app.model.script([Reply::text("done")]);
    let posted = json!({"message": "Buy milk.", "agentDefinitionId": runner["id"]});
    let frames = client.chat(posted).await;
    assert_eq!(frames.last().unwrap().json()["status"], "completed");
}

#[tokio::test]
async fn upgrades_and_manual_changes_follow_the_manifest() {
    let site = Site::new(0).await;
    site.installed(&errands("1.0.0")).await;
    let client = site.app.client();
    let definitions = format!("/api/admin/projects/{}/agent-definitions", site.app.db.workspace_id);
    let (_, listed) = client.get(&format!("{definitions}?visibility=all")).await;
    let planner = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "planner")
        .unwrap()
        .clone();
    let path = format!("{definitions}/{}", planner["id"].as_str().unwrap());
    client
        .patch(&path, json!({"systemPrompt": "Do nothing.", "maxSteps": 3}))
        .await;

    let mut next = errands("1.1.0");
    next["agents"] = json!([next["agents"][1], {"name": "buyer", "system_prompt": "Buy."}]);
    next["mcp"]["servers"][0]["url"] = json!("https://maps.example/v2/mcp");
    next["mcp"]["prompts"][0]["text"] = json!("Go and shop for {{what}}.");
    next["template_packs"][0]["version"] = json!("2");
    next["jobs"] = json!([]);
    let before = site.state().await;
    let (status, dry) = client
        .post(&site.products(), json!({"manifest": next, "dryRun": true}))
        .await;
    assert_eq!(
        (status, &dry["dryRun"], &dry["previousVersion"]),
        (StatusCode::OK, &json!(true), &json!("1.0.0"))
    );
    assert_eq!(site.state().await, before, "a dry run changes nothing");

    let done = site.installed(&next).await;
    assert_eq!(done, told(&dry), "and says what is done");
    assert_eq!(
        done,
        [
            "update template_pack errands",
            "update agent planner",
            "create agent buyer",
            "update mcp_server maps",
            "update prompt shop",
            "remove job nightly",
            "remove agent runner"
        ]
    );
    let fields = dry["changes"]
        .as_array()
        .unwrap()
        .iter()
        .find(|change| change["name"] == "planner")
        .unwrap();
    assert_eq!(fields["detail"], json!(["systemPrompt", "maxSteps"]));
    assert_eq!(client.get(&path).await.1["systemPrompt"], "Plan errands.");
    assert_eq!(site.state().await["packs"], json!(["errands@2"]));
}

#[tokio::test]
async fn what_somebody_else_made_is_not_touched_unless_it_is_adopted() {
    let site = Site::new(0).await;
    site.app.agent("runner", &["*"]).await;
    let before = site.state().await;
    let (status, refused) = site.install(&errands("1.0.0")).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::CONFLICT, &json!("product_conflict"))
    );
    assert!(
        refused["detail"].as_str().unwrap().contains("agent runner"),
        "{refused}"
    );
    assert_eq!(site.state().await, before, "nothing of it was installed");
    let (status, done) = site
        .app
        .client()
        .post(&site.products(), json!({"manifest": errands("1.0.0"), "adopt": true}))
        .await;
    assert_eq!(status, StatusCode::OK, "{done}");
    assert!(told(&done).contains(&"update agent runner".to_owned()));

    let rival = json!({"name": "rival", "version": "1.0.0", "agents": [{"name": "runner", "system_prompt": "Mine."}]});
    let (status, refused) = site.install(&rival).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("belongs to the product errands"),
        "{refused}"
    );
}

#[tokio::test]
async fn uninstalling_keeps_data_and_what_it_depends_on() {
    let site = Site::new(1).await;
    site.installed(&errands("1.0.0")).await;
    site.errand().await;
    let client = site.app.client();
    let definitions = format!("/api/admin/projects/{}/agent-definitions", site.app.db.workspace_id);
    let (_, listed) = client.get(&definitions).await;
    let runner = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|agent| agent["name"] == "runner")
        .unwrap()
        .clone();
    site.app.model.script([Reply::text("done")]);
    client
        .chat(json!({"message": "Buy milk.", "agentDefinitionId": runner["id"]}))
        .await;

    let (_, dry) = client.delete(&format!("{}/errands?dryRun=true", site.products())).await;
    let (status, done) = client.delete(&format!("{}/errands", site.products())).await;
    assert_eq!(status, StatusCode::OK, "{done}");
    assert_eq!(told(&done), told(&dry));
    let mut changes = told(&done);
    changes.sort();
    assert_eq!(
        changes,
        [
            "release agent runner",
            "release template_pack errands",
            "remove agent planner",
            "remove job nightly",
            "remove mcp_server maps",
            "remove prompt shop"
        ]
    );
    let state = site.state().await;
    assert_eq!((&state["products"], &state["servers"]), (&Value::Null, &Value::Null));
    assert_eq!(
        state["agents"].as_array().unwrap().len(),
        1,
        "a conversation is bound to it"
    );
    assert_eq!(state["packs"], json!(["errands@1"]), "objects are of its types");
    let (status, _) = client.delete(&format!("{}/errands", site.products())).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_newer_pack_that_lacks_a_type_in_use_is_a_conflict() {
    let site = Site::new(0).await;
    site.installed(&errands("1.0.0")).await;
    site.errand().await;
    let mut next = errands("2.0.0");
    next["template_packs"][0] =
        json!({"name": "errands", "version": "2", "object_types": {"Shop": {"type": "object"}}});
    let (status, refused) = site.install(&next).await;
    assert_eq!(status, StatusCode::CONFLICT);
    assert!(
        refused["detail"].as_str().unwrap().contains("has no Errand"),
        "{refused}"
    );
    assert_eq!(site.state().await["packs"], json!(["errands@1"]));
    next["template_packs"][0]["object_types"]["Errand"] = json!({"type": "object"});
    site.installed(&next).await;
    assert_eq!(site.state().await["packs"], json!(["errands@2"]));
}

#[tokio::test]
async fn a_manifest_that_makes_no_sense_installs_nothing() {
    let site = Site::new(0).await;
    let mut stdio = errands("1.0.0");
    stdio["mcp"]["servers"][0] = json!({"name": "shell", "transport": "stdio", "command": "sh"});
    let (status, refused) = site.install(&stdio).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::FORBIDDEN, &json!("command_not_allowed"))
    );
    let mut newer = errands("1.0.0");
    newer["min_core_version"] = json!("99.0.0");
    let mut pack = errands("1.0.0");
    pack["template_packs"] = json!([{"name": "nowhere", "version": "1"}]);
    let mut schema = errands("1.0.0");
    schema["template_packs"][0]["object_types"]["Errand"] = json!({"type": "no such type"});
    for (manifest, words) in [
        (newer, "99.0.0"),
        (pack, "nowhere"),
        (schema, "schema"),
        (json!([]), "schema"),
    ] {
        let (status, refused) = site.install(&manifest).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains(words),
            "{words}: {refused}"
        );
    }
    let state = site.state().await;
    assert_eq!(
        (&state["agents"], &state["products"], &state["packs"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn two_who_install_at_once_take_turns() {
    let site = Site::new(0).await;
    let manifest = errands("1.0.0");
    let (one, other) = tokio::join!(site.install(&manifest), site.install(&manifest));
    assert_eq!(
        (one.0, other.0),
        (StatusCode::OK, StatusCode::OK),
        "{} {}",
        one.1,
        other.1
    );
    assert_eq!(site.state().await["agents"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn the_command_line_previews_applies_and_undoes_a_product() {
    let site = Site::new(0).await;
    let path = std::env::temp_dir().join(format!("manifest-{}.json", uuid::Uuid::now_v7()));
    std::fs::write(&path, errands("1.0.0").to_string()).unwrap();
    let rejoin = |args: Vec<String>| {
        let (url, key, project) = (
            site.app.url(),
            site.app.db.api_key.clone(),
            site.app.db.workspace_id.to_string(),
        );
        tokio::task::spawn_blocking(move || {
            let output = std::process::Command::new(binary())
                .args(args)
                .env("REJOIN_URL", url)
                .env("REJOIN_API_KEY", key)
                .env("REJOIN_PROJECT_ID", project)
                .output()
                .unwrap();
            let printed =
                String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            (output.status.code(), printed)
        })
    };
    let file = path.display().to_string();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let (code, printed) = rejoin(words(&["install", &file, "--dry-run"])).await.unwrap();
    assert!(
        code == Some(0) && printed.contains("+ agent") && printed.contains("would be installed"),
        "{printed}"
    );
    let (code, printed) = rejoin(words(&["install", &file])).await.unwrap();
    assert!(
        code == Some(0) && printed.contains("errands 1.0.0 installed"),
        "{printed}"
    );
    let (_, printed) = rejoin(words(&["install", "--list"])).await.unwrap();
    assert!(printed.contains("errands 1.0.0"), "{printed}");
    let (code, printed) = rejoin(words(&["uninstall", "errands"])).await.unwrap();
    assert!(code == Some(0) && printed.contains("- agent"), "{printed}");
    let (_, schema) = rejoin(words(&["install", "--schema"])).await.unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(schema["required"], json!(["name", "version"]));
}
