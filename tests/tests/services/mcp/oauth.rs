//! MCP servers that require OAuth tokens: how tokens are obtained and replaced, and where they must not appear.

use rejoin_secrets::MasterKeys;
use rejoin_tests::app::Process;
use rejoin_tests::mcp::guarded::{CLIENT_ID, CLIENT_SECRET, Guarded, SCOPE};
use rejoin_tests::mcp::{self, Shop};
use rejoin_tests::support::{set_secret, wait_for};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;

async fn secret(shop: &Shop, value: &str) {
    let keys = MasterKeys::parse(mcp::SECRET_KEYS).unwrap();
    set_secret(&shop.app.db, &keys, "CRM_SECRET", value).await;
}

fn oauth() -> Value {
    json!({"clientId": CLIENT_ID, "clientSecret": "${CRM_SECRET}"})
}

/// Counts rows of all tables that contain it.
async fn stored(shop: &Shop, value: &str) -> i64 {
    sqlx::query_scalar(
        "select count(*) from (select e::text as row from stream.each_event e union all select m::text from kb.agent_run_messages m
           union all select c::text from kb.agent_run_tool_calls c union all select s::text from kb.project_mcp_servers s
           union all select t::text from kb.mcp_tools t union all select j::text from queue.jobs j) rows
         where position($1 in row) > 0",
    )
    .bind(value)
    .fetch_one(&shop.app.db.pool)
    .await
    .unwrap()
}

#[tokio::test]
async fn a_run_uses_a_tool_with_a_discovered_hidden_token() {
    if !mcp::are_there() {
        return;
    }
    let (shop, guarded) = (Shop::with(0).await, Guarded::start().await);
    let log = mcp::ledger();
    let worker = Process::worker_logging(
        &shop.app,
        &[
            ("REJOIN_SECRET_KEYS_FILE", mcp::secret_keys_file().display().to_string()),
            ("REJOIN_MCP_PRIVATE_HOSTS", "127.0.0.1".to_owned()),
            ("RUST_LOG", "trace".to_owned()),
        ],
        std::fs::File::create(&log).unwrap(),
    );
    secret(&shop, CLIENT_SECRET).await;
    let url = format!("{}?key=${{CRM_SECRET}}", guarded.url);
    let id = shop.add(json!({"name": "crm", "url": url, "oauth": oauth()})).await;
    let agent = shop.app.agent("user", &["crm_*"]).await;
    let called = shop.call(agent, "crm_whoami", json!({})).await;
    assert_eq!(
        (called.status.as_str(), &called.output),
        ("completed", &json!("you sent Bearer [secret]"))
    );
    let form = guarded.state().asked.clone();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        form,
        [vec![
            field("grant_type", "client_credentials"),
            field("scope", SCOPE),
            field("resource", &guarded.url),
        ]],
        "one token for all, and the URL's query is nobody's business"
    );

    // An invalidated token is replaced once, and the call succeeds.
    guarded.revoke();
    let refused = guarded.counts().1;
    let called = shop.call(agent, "crm_whoami", json!({})).await;
    assert_eq!(called.status, "completed", "{called:?}");
    assert_eq!(guarded.counts(), (2, refused + 1));

    // Nor does it retry endlessly: one other token, then the model gets the error.
    guarded.state().accepts_none = true;
    let called = shop.call(agent, "crm_whoami", json!({})).await;
    assert_eq!(called.status, "error");
    for words in [
        &guarded.url,
        "401 Unauthorized to a new token",
        "invalid_token",
        "[secret] is not good",
    ] {
        assert!(called.error.contains(words), "{words}: {called:?}");
    }
    assert_eq!(guarded.counts().0, 3);
    guarded.state().accepts_none = false;

    let told = shop.server(&id).await;
    assert_eq!(told["serverInfo"]["instructions"], "You sent Bearer [secret].");
    assert_eq!(told["oauth"], oauth());
    let issued = guarded.state().issued.clone();
    worker.kill();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains("connected to an MCP server") && text.contains("fetched a token"));
    for value in issued.iter().map(String::as_str).chain([CLIENT_SECRET]) {
        assert_eq!(stored(&shop, value).await, 0, "{value} is in a table");
        let line = text.lines().find(|line| line.contains(value));
        assert_eq!(line, None, "{value} is in the log");
        let read = shop
            .app
            .model
            .requests()
            .iter()
            .any(|request| request.to_string().contains(value));
        assert!(!read, "{value} was given to the model");
    }
}

#[tokio::test]
async fn a_token_that_is_about_to_expire_is_not_used() {
    if !mcp::are_there() {
        return;
    }
    let (shop, guarded) = (Shop::open().await, Guarded::start().await);
    secret(&shop, CLIENT_SECRET).await;
    let mut settings = oauth();
    settings["tokenUrl"] = json!(guarded.token_url());
    settings["scopes"] = json!([SCOPE]);
    shop.add(json!({"name": "crm", "url": guarded.url, "oauth": settings}))
        .await;
    let agent = shop.app.agent("user", &["crm_*"]).await;
    assert_eq!(shop.call(agent, "crm_whoami", json!({})).await.status, "completed");
    assert_eq!(
        guarded.counts(),
        (1, 0),
        "where the endpoint is known, the first request has a token"
    );
    guarded.state().expires_in_s = Some(0);
    guarded.revoke();
    let mut before = 1;
    for _ in 0..3 {
        assert_eq!(shop.call(agent, "crm_whoami", json!({})).await.status, "completed");
        let issued = guarded.counts().0;
        assert!(issued > before);
        before = issued;
    }
    assert_eq!(guarded.counts().1, 1, "only the token that was revoked");
}

#[tokio::test]
async fn wrong_credentials_are_reported_once_without_the_secret() {
    if !mcp::are_there() {
        return;
    }
    const WRONG: &str = "wrong canary 77%+a1";
    let (shop, guarded) = (Shop::open().await, Guarded::start().await);
    let id = shop
        .add(json!({"name": "crm", "url": guarded.url, "oauth": oauth()}))
        .await;
    let missing = shop.test(&id).await["failure"].as_str().unwrap_or_default().to_owned();
    assert!(missing.contains("no secret CRM_SECRET"), "{missing}");

    secret(&shop, WRONG).await;
    let tested = shop.test(&id).await;
    let failure = tested["failure"].as_str().unwrap_or_default().to_owned();
    assert_eq!(guarded.state().asked.len(), 1, "what is wrong stays wrong");
    let agent = shop.app.agent("user", &["crm_*", "list_tags"]).await;
    let reply = shop.call(agent, "list_tags", json!({})).await;
    assert_eq!(reply.status, "completed", "the agent goes on without it");
    let expected = format!(
        "the token endpoint {} responded with 401 Unauthorized: invalid_client (who is Basic [secret], and what is Some((\"rejoin tests\", \
         \"[secret]\"))?)",
        guarded.token_url()
    );
    assert_eq!(failure, expected);
    assert_eq!(stored(&shop, WRONG).await, 0);

    // A model that already has the tools gets the error, too, when the secret changes at the other end.
    secret(&shop, CLIENT_SECRET).await;
    wait_for("the server to answer", async || {
        shop.test(&id).await["failure"].is_null().then_some(())
    })
    .await;
    assert_eq!(shop.call(agent, "crm_whoami", json!({})).await.status, "completed");
    guarded.revoke();
    guarded.state().moved_to = Some("http://127.0.0.1:9/token".to_owned());
    let called = shop.call(agent, "crm_whoami", json!({})).await;
    let expected = format!(
        "the MCP server crm: the token endpoint {} responded with 307 Temporary Redirect (redirects are not followed)",
        guarded.token_url()
    );
    assert!(called.error.starts_with(&expected), "{called:?}");
}

#[tokio::test]
async fn a_token_with_too_few_rights_names_the_missing_scope() {
    if !mcp::are_there() {
        return;
    }
    let (shop, guarded) = (Shop::open().await, Guarded::start().await);
    secret(&shop, CLIENT_SECRET).await;
    // This one does not name the endpoint, either: its well-known location does.
    guarded.state().is_silent = true;
    let mut settings = oauth();
    settings["scopes"] = json!(["mcp:other"]);
    let id = shop
        .add(json!({"name": "crm", "url": guarded.url, "oauth": settings}))
        .await;
    let failure = shop.test(&id).await["failure"].as_str().unwrap_or_default().to_owned();
    assert!(
        failure.contains("403 Forbidden") && failure.contains("requires the scope mcp:tools"),
        "{failure}"
    );
    // Other settings make it a different server, which is listed again.
    let path = format!("{}/{id}", shop.servers());
    let (status, changed) = shop.app.client().patch(&path, json!({"oauth": oauth()})).await;
    assert_eq!(
        (status, &changed["failure"]),
        (StatusCode::OK, &Value::Null),
        "{changed}"
    );
    let tested = shop.test(&id).await;
    assert_eq!(tested["failure"], Value::Null, "{tested}");
    assert_eq!(tested["offered"][0]["standing"], "approved");
    let (_, without) = shop.app.client().patch(&path, json!({"oauth": null})).await;
    assert_eq!(
        (&without["oauth"], &without["seenAt"], &without["offered"]),
        (&Value::Null, &Value::Null, &json!([]))
    );
    let failure = shop.test(&id).await["failure"].as_str().unwrap_or_default().to_owned();
    assert!(failure.contains("401"), "{failure}");
    guarded.state().is_silent = false;
    let failure = shop.test(&id).await["failure"].as_str().unwrap_or_default().to_owned();
    assert!(failure.contains("`oauth`"), "{failure}");
}

#[tokio::test]
async fn no_secret_goes_to_an_address_that_projects_may_not_reach() {
    if !mcp::are_there() {
        return;
    }
    // These tests' operator allows 127.0.0.1, and no other address of this machine.
    let (shop, guarded) = (Shop::open().await, Guarded::start().await);
    secret(&shop, CLIENT_SECRET).await;
    let inner = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let private = format!("http://{}/token", inner.local_addr().unwrap());
    let mut named = oauth();
    named["tokenUrl"] = json!(private);
    let named = shop
        .add(json!({"name": "named", "url": guarded.url, "oauth": named}))
        .await;
    let found = shop
        .add(json!({"name": "found", "url": guarded.url, "oauth": oauth()}))
        .await;
    guarded.state().token_endpoint = Some(private.clone());
    let mut plain = oauth();
    plain["tokenUrl"] = json!("http://login.example/token");
    let plain = shop
        .add(json!({"name": "plain", "url": guarded.url, "oauth": plain}))
        .await;
    for (id, words) in [
        (&named, ["REJOIN_MCP_PRIVATE_HOSTS", private.as_str()]),
        (&found, ["REJOIN_MCP_PRIVATE_HOSTS", private.as_str()]),
        (&plain, ["must start with https://", "http://login.example/token"]),
    ] {
        let failure = shop.test(id).await["failure"].as_str().unwrap_or_default().to_owned();
        for words in words {
            assert!(failure.contains(words), "{words}: {failure}");
        }
    }
    let nobody = futures::FutureExt::now_or_never(inner.accept());
    assert!(nobody.is_none(), "nobody came");
    // An address allowed by the operator is used.
    guarded.state().token_endpoint = None;
    assert_eq!(shop.test(&found).await["failure"], Value::Null);
}

#[tokio::test]
async fn the_command_line_adds_a_server_and_refuses_a_bad_secret() {
    if !mcp::are_there() {
        return;
    }
    let (shop, guarded) = (Shop::open().await, Guarded::start().await);
    secret(&shop, CLIENT_SECRET).await;
    let rejoin = |args: &[&str]| {
        let mut command = tokio::process::Command::new(rejoin_tests::app::binary());
        command
            .args(args)
            .env("REJOIN_URL", shop.app.url())
            .env("REJOIN_API_KEY", &shop.app.db.api_key)
            .env("REJOIN_PROJECT_ID", shop.app.db.workspace_id.to_string());
        async move {
            let output = command.output().await.unwrap();
            let printed =
                String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
            (output.status.code(), printed)
        }
    };
    let client = [
        "mcp",
        "add",
        "crm",
        "--server-url",
        &guarded.url,
        "--oauth-client-id",
        CLIENT_ID,
        "--oauth-client-secret",
    ];
    let plain = [&client[..], &["s3cret"]].concat();
    let (code, printed) = rejoin(&plain).await;
    assert!(
        code != Some(0) && printed.contains("oauth.clientSecret is a credential"),
        "{printed}"
    );
    let url = guarded.token_url();
    let more = ["${CRM_SECRET}", "--oauth-scope", SCOPE, "--oauth-token-url", &url];
    let (code, printed) = rejoin(&[&client[..], &more].concat()).await;
    assert_eq!(code, Some(0), "{printed}");
    let (code, printed) = rejoin(&["mcp", "test", "crm"]).await;
    assert!(code == Some(0) && printed.contains("whoami"), "{printed}");
    let (code, printed) = rejoin(&[
        "mcp",
        "add",
        "other",
        "--server-url",
        &guarded.url,
        "--oauth-scope",
        SCOPE,
    ])
    .await;
    assert!(code != Some(0) && printed.contains("--oauth-client-id"), "{printed}");
}
