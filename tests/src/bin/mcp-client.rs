//! The worker's MCP client as a program, for the official client conformance tests: connects to the URL in the last
//! argument, lists the tools, calls each of those that the tests offer, and exits. A client's id and secret are given
//! as in the tests.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::mcp::{Server, Settings, Transport};
use rejoin_mcp_client::connection::Connection;
use rejoin_mcp_client::net;
use rejoin_mcp_client::oauth::Grant;
use rejoin_mcp_client::redact::Redactor;
use rejoin_mcp_client::secrets::ResolvedSettings;
use rejoin_mcp_client::transport::{ConnectorDeps, Processes};
use serde_json::{Value, json};
use tokio::sync::Notify;
use uuid::Uuid;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let url = std::env::args().next_back().unwrap_or_default();
    let hosts = Hosts::new(
        "REJOIN_MCP_PRIVATE_HOSTS",
        &["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()],
    );
    let means = ConnectorDeps {
        commands: Default::default(),
        http: net::client(&hosts)?,
        hosts,
        processes: Processes::default(),
        max_result_bytes: 1024 * 1024,
    };
    let server = Server {
        id: Uuid::now_v7(),
        workspace_id: Uuid::now_v7(),
        settings: Settings::new("conformance", Transport::Http),
        product: None,
        revision: 1,
        seen_at: None,
        server_info: None,
        left_out: json!([]),
        failed_at: None,
        failure: None,
        created_at: DateTime::UNIX_EPOCH,
        updated_at: DateTime::UNIX_EPOCH,
    };
    let context: Value = std::env::var("MCP_CONFORMANCE_CONTEXT")
        .map(|context| serde_json::from_str(&context))
        .unwrap_or(Ok(Value::Null))?;
    let oauth = context["client_secret"].as_str().map(|secret| Grant {
        client_id: context["client_id"].as_str().unwrap_or_default().to_owned(),
        client_secret: secret.to_owned(),
        scopes: Vec::new(),
        token_url: None,
    });
    let filled = ResolvedSettings {
        url: Some(url),
        headers: Vec::new(),
        env: Vec::new(),
        redactor: Redactor::new(oauth.iter().flat_map(Grant::hidden)),
        oauth,
        registered: None,
        user: None,
    };
    let said = anyhow::Error::msg::<String>;
    let connection = Connection::open(&means, &server, filled, Arc::new(Notify::new())).await?;
    for tool in connection.list().await.map_err(said)?.found {
        let arguments = json!({"a": 5, "b": 3}).as_object().cloned().unwrap_or_default();
        let answer = connection
            .call(&tool.name, arguments, None, Duration::from_secs(20), None)
            .await;
        eprintln!("{}: {answer:?}", tool.name);
    }
    connection.close();
    connection.ended().await;
    Ok(())
}
