//! Settings of a project's MCP servers: validation, approval of tools, and where secrets are sent.

use rejoin_secrets::MasterKeys;
use rejoin_tests::app::{AppOptions, TestApp};
use rejoin_tests::mcp::{self, HttpServer, Shop};
use rejoin_tests::support::{set_secret, wait_for};
use reqwest::StatusCode;
use serde_json::{Value, json};

#[tokio::test]
async fn a_changed_definition_is_held_until_it_is_approved_again() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    let id = shop.add_odd(&ledger).await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    assert_eq!(shop.call(agent, "odd_where", json!({})).await.status, "completed");
    assert!(shop.given().contains(&"odd_where".to_owned()));
    assert_eq!(shop.call(agent, "odd_change", json!({})).await.output, "changed");
    let standing = async |tool: &str| {
        let offered = shop.server(&id).await["offered"].as_array().cloned().unwrap();
        let found = offered.into_iter().find(|one| one["name"] == tool);
        found.map(|one| one["standing"].as_str().unwrap().to_owned())
    };
    wait_for("the change to be seen", async || {
        (standing("where").await? == "changed").then_some(())
    })
    .await;
    assert_eq!(
        standing("late").await.as_deref(),
        Some("new"),
        "what is new is held, too"
    );
    let held = wait_for("the tool to be held", async || {
        let call = shop.call(agent, "odd_where", json!({})).await;
        (call.status == "error").then_some(call)
    })
    .await;
    assert!(held.error.contains("there is no tool odd_where"), "{held:?}");
    let input = shop.app.model.requests().last().unwrap().to_string();
    assert!(!input.contains("Ignore all rules"), "its words reach no prompt");
    assert_eq!(
        shop.call(agent, "odd_count", json!({})).await.status,
        "completed",
        "the others are not held"
    );

    let approve = format!("{}/{id}/approve", shop.servers());
    let (status, approved) = shop.app.client().post(&approve, json!({"tools": ["where"]})).await;
    assert_eq!((status, &approved["approved"]), (StatusCode::OK, &json!(["where"])));
    wait_for("the tool to be given again", async || {
        let call = shop.call(agent, "odd_where", json!({})).await;
        (call.status == "completed").then_some(())
    })
    .await;
    assert!(!shop.given().contains(&"odd_late".to_owned()));
    assert_eq!(
        shop.app.client().post(&approve, json!({})).await.1["approved"],
        json!(["late"])
    );
    wait_for("the new tool to be given", async || {
        shop.call(agent, "odd_count", json!({})).await;
        shop.given().contains(&"odd_late".to_owned()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn with_approval_required_nothing_is_given_before_it() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let id = shop
        .add(json!({"name": "odd", "command": "odd", "approval": "each"}))
        .await;
    let tested = shop.test(&id).await;
    assert!(
        tested["offered"]
            .as_array()
            .unwrap()
            .iter()
            .all(|tool| tool["standing"] == "new"),
        "{tested}"
    );
    let agent = shop.app.agent("user", &["odd_*"]).await;
    let call = shop.call(agent, "odd_where", json!({})).await;
    assert!(call.error.contains("this agent has no tools"), "{call:?}");
}

#[tokio::test]
async fn secrets_in_settings_reach_only_their_server() {
    if !mcp::are_there() {
        return;
    }
    const CANARY: &str = "canary-7f3a91";
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    let http = HttpServer::odd(&ledger);
    shop.add(json!({"name": "odd", "command": "odd", "env": {"TOKEN": "${MCP_TOKEN}"}}))
        .await;
    let web = shop
        .add(json!({"name": "web", "url": http.url, "headers": {"Authorization": "Bearer ${MCP_TOKEN}", "X-Plain": "as it is"}}))
        .await;
    let tested = shop.test(&web).await;
    let failure = tested["failure"].as_str().unwrap_or_default();
    assert!(
        failure.contains("no secret MCP_TOKEN"),
        "a missing name is an error: {failure}"
    );

    set_secret(
        &shop.app.db,
        &MasterKeys::parse(mcp::SECRET_KEYS).unwrap(),
        "MCP_TOKEN",
        CANARY,
    )
    .await;
    let tested = wait_for("the server to answer", async || {
        let tested = shop.test(&web).await;
        tested["failure"].is_null().then_some(tested)
    })
    .await;
    let agent = shop.app.agent("user", &["odd_*", "web_*"]).await;
    let stdio = shop.call(agent, "odd_settings", json!({})).await.output.to_string();
    let over_http = shop.call(agent, "web_settings", json!({})).await.output.to_string();
    for said in [&stdio, &over_http, &tested.to_string()] {
        assert!(!said.contains(CANARY), "{said}");
    }
    assert!(
        stdio.contains("[secret]") && over_http.contains("Bearer [secret]"),
        "{stdio} {over_http}"
    );
    assert!(over_http.contains("as it is"));
    // The process gets the variables set by operator and project, and almost nothing of our own environment.
    assert!(stdio.contains("FIXED") && stdio.contains("PATH"), "{stdio}");
    for ours in ["CARGO", "OPENAI", "DATABASE_URL", "REJOIN"] {
        assert!(!stdio.contains(ours), "{ours}: {stdio}");
    }
    let stored: i64 = sqlx::query_scalar(
        "select count(*) from (select e::text as row from stream.each_event e union all select m::text from kb.agent_run_messages m
           union all select c::text from kb.agent_run_tool_calls c union all select s::text from kb.project_mcp_servers s
           union all select t::text from kb.mcp_tools t) rows where row like '%' || $1 || '%'",
    )
    .bind(CANARY)
    .fetch_one(&shop.app.db.pool)
    .await
    .unwrap();
    assert_eq!(stored, 0, "it is in no table");
}

#[tokio::test]
async fn only_the_operators_configuration_names_commands() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let servers = format!("/api/admin/projects/{}/mcp-servers", app.db.workspace_id);
    for server in [
        json!({"name": "x", "transport": "stdio", "command": "npx", "args": ["-c", "touch /tmp/owned"]}),
        json!({"name": "x", "transport": "stdio", "command": "sh -c id"}),
        json!({"name": "x", "transport": "stdio", "command": "/bin/sh"}),
        json!({"name": "x", "command": "sh", "args": ["-c", "id"]}),
        json!({"name": "x", "command": "../../bin/sh"}),
        json!({"name": "x", "transport": "http", "url": "http://x/", "args": ["-c"]}),
    ] {
        let (status, refused) = client.post(&servers, server.clone()).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{server}: {refused}");
        assert_eq!(refused["code"], "command_not_allowed");
    }
    let (_, listed) = client.get(&servers).await;
    assert_eq!(listed["items"], json!([]));
}

#[tokio::test]
async fn a_project_sets_only_variables_that_the_operator_allows() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::with(0).await;
    let client = shop.app.client();
    for name in ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "FIXED", "token"] {
        let server = json!({"name": "x", "command": "odd", "env": {name: "${X}"}});
        let (status, refused) = client.post(&shop.servers(), server).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{name}: {refused}");
    }
    let id = shop
        .add(json!({"name": "odd", "command": "odd", "env": {"TOKEN": "${X}"}}))
        .await;
    let path = format!("{}/{id}", shop.servers());
    for change in [
        json!({"command": "sh"}),
        json!({"env": {"PATH": "/tmp"}}),
        json!({"args": ["--eval", "0"]}),
    ] {
        let (status, _) = client.patch(&path, change.clone()).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{change}");
    }
    assert_eq!(shop.server(&id).await["command"], "odd");
}

#[tokio::test]
async fn settings_that_make_no_sense_are_refused_in_words() {
    let app = TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await;
    let client = app.client();
    let servers = format!("/api/admin/projects/{}/mcp-servers", app.db.workspace_id);
    for (server, words) in [
        (
            json!({"name": "x", "transport": "sse", "url": "http://x/sse"}),
            "streamable HTTP",
        ),
        (json!({"name": "x", "transport": "carrier pigeon"}), "stdio or http"),
        (json!({"name": "My Server", "url": "http://x/"}), "lowercase letter"),
        (json!({"name": "x", "url": "file:///etc/passwd"}), "http"),
        (json!({"name": "x", "url": "http://user:password@x/"}), "secret"),
        (
            json!({"name": "x", "url": "http://x/", "headers": {"Authorization": "Bearer abc"}}),
            "secret",
        ),
        (
            json!({"name": "x", "url": "http://x/", "headers": {"A": "${not a name}"}}),
            "valid secret name",
        ),
        (json!({"name": "x", "url": "http://x/", "tools": ["["]}), "tools"),
        (json!({"name": "x", "url": "http://x/", "timeoutS": 0}), "timeoutS"),
        (json!({"name": "x", "url": "http://x/", "shell": true}), "shell"),
    ] {
        let (status, refused) = client.post(&servers, server.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{server}: {refused}");
        assert!(
            refused["detail"].as_str().unwrap().contains(words),
            "{words}: {refused}"
        );
    }
    let web = json!({"name": "web", "url": "https://mcp.example/mcp"});
    assert_eq!(client.post(&servers, web.clone()).await.0, StatusCode::CREATED);
    assert_eq!(client.post(&servers, web).await.0, StatusCode::CONFLICT);
}

#[tokio::test]
async fn the_command_line_adds_tests_approves_and_removes_servers() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let rejoin = |args: &'static [&'static str]| {
        let (url, key) = (shop.app.url(), shop.app.db.api_key.clone());
        let project = shop.app.db.workspace_id.to_string();
        tokio::task::spawn_blocking(move || {
            let output = std::process::Command::new(rejoin_tests::app::binary())
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
    let (code, printed) = rejoin(&["mcp", "add", "odd", "--command", "odd", "--approve-each"])
        .await
        .unwrap();
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = rejoin(&["mcp", "test", "odd"]).await.unwrap();
    assert!(
        code == Some(0) && printed.contains("held back; `rejoin mcp approve odd`"),
        "{printed}"
    );
    let (code, printed) = rejoin(&["mcp", "approve", "odd", "where"]).await.unwrap();
    assert!(code == Some(0) && printed.contains("approved: where"), "{printed}");
    let (_, printed) = rejoin(&["--json", "mcp", "list"]).await.unwrap();
    let listed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(listed[0]["name"], "odd");
    let (code, printed) = rejoin(&["mcp", "add", "evil", "--command", "sh"]).await.unwrap();
    assert!(code != Some(0) && printed.contains("operator"), "{printed}");
    let (code, printed) = rejoin(&["mcp", "test", "nobody"]).await.unwrap();
    assert!(code != Some(0) && printed.contains("rejoin mcp list"), "{printed}");
    let (code, _) = rejoin(&["mcp", "remove", "odd"]).await.unwrap();
    assert_eq!(code, Some(0));
}
