//! MCP servers in agents' runs: real third-party ones, over stdio and HTTP, and one of ours that hangs and dies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rejoin_tests::app::Process;
use rejoin_tests::mcp::{self, HttpServer, Shop, count, lines, lives};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

#[tokio::test]
async fn third_party_servers_list_and_run_their_tools_in_runs() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let http = HttpServer::everything().await;
    shop.add(json!({"name": "everything", "transport": "stdio", "command": "everything"}))
        .await;
    shop.add(json!({"name": "web", "transport": "http", "url": http.url}))
        .await;
    shop.add(json!({"name": "memory", "command": "memory"})).await;
    let time = shop.add(json!({"name": "time", "command": "time"})).await;
    let agent = shop
        .app
        .agent("everybody", &["everything_*", "web_*", "memory_*", "time_*"])
        .await;

    let echo = shop
        .call(agent, "everything_echo", json!({"message": "by stdio"}))
        .await;
    assert_eq!(
        (echo.status.as_str(), &echo.output),
        ("completed", &json!("Echo: by stdio"))
    );
    let given = shop.given();
    for tool in [
        "everything_get-sum",
        "web_get-sum",
        "memory_create_entities",
        "time_get_current_time",
    ] {
        assert!(given.contains(&tool.to_owned()), "{tool} is not among {given:?}");
    }
    let sum = shop.call(agent, "web_get-sum", json!({"a": 2, "b": 40})).await;
    assert!(sum.output.to_string().contains("42"), "{sum:?}");
    let image = shop.call(agent, "web_get-tiny-image", json!({})).await;
    assert!(image.output.to_string().contains("image/png"), "{image:?}");
    assert!(
        !image.output.to_string().contains("iVBOR"),
        "pictures are told of, not shown: {image:?}"
    );

    let entity = json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote programs"]}]});
    assert_eq!(
        shop.call(agent, "memory_create_entities", entity).await.status,
        "completed"
    );
    let graph = shop.call(agent, "memory_read_graph", json!({})).await;
    assert!(graph.output.to_string().contains("wrote programs"), "{graph:?}");

    let now = shop
        .call(agent, "time_get_current_time", json!({"timezone": "Europe/Berlin"}))
        .await;
    assert!(now.output.to_string().contains("Europe/Berlin"), "{now:?}");
    // Arguments that violate the server's own schema are not sent.
    let wrong = shop.call(agent, "time_get_current_time", json!({"zone": 1})).await;
    assert_eq!(wrong.status, "error");
    assert!(wrong.error.contains("timezone"), "{wrong:?}");
    // Errors known only to the server are passed on in its words.
    let unknown = shop
        .call(agent, "time_get_current_time", json!({"timezone": "Mars/Olympus"}))
        .await;
    assert_eq!(unknown.status, "error");
    assert!(unknown.error.contains("Mars/Olympus"), "{unknown:?}");

    let told = shop.server(&time).await;
    assert_eq!(told["failure"], Value::Null, "{told}");
    assert!(told["serverInfo"]["protocolVersion"].is_string(), "{told}");
}

#[tokio::test]
async fn a_server_is_connected_on_demand_and_shared_by_all_runs() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    shop.add_odd(&ledger).await;
    let other = shop.app.agent("other", &["list_tags", "oddly_*"]).await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    assert_eq!(shop.call(other, "list_tags", json!({})).await.status, "completed");
    assert!(lines(&ledger).is_empty(), "nobody wanted it yet");

    let client = shop.app.client();
    let asked = (0..10).map(|n| {
        let (client, model) = (client.clone(), &shop.app.model);
        let question = format!("where {n}");
        model.on(&question, [Reply::tool("odd_where", json!({})), Reply::text("there")]);
        async move { client.ask(Some(agent), &question).await }
    });
    let mut pids = Vec::new();
    for frames in futures::future::join_all(asked).await {
        let run = frames[1].json()["runId"].as_str().unwrap().to_owned();
        let call = shop.calls(&run).await.remove(0);
        assert_eq!(call.status, "completed", "{call:?}");
        pids.push(call.output["pid"].as_i64().unwrap());
    }
    pids.dedup();
    assert_eq!(pids.len(), 1, "one process for all");
    assert_eq!(count(&ledger, "start"), 1);
}

#[tokio::test]
async fn a_killed_process_is_an_error_and_is_started_again() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    shop.add_odd(&ledger).await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    let first = shop.call(agent, "odd_where", json!({})).await.output["pid"]
        .as_i64()
        .unwrap();
    let killing = async {
        wait_for("the call to hang", async || {
            (count(&ledger, "call hang") == 1).then_some(())
        })
        .await;
        let killed = std::process::Command::new("kill")
            .args(["-9", &first.to_string()])
            .status();
        assert!(killed.unwrap().success());
    };
    let (hung, ()) = tokio::join!(shop.call(agent, "odd_hang", json!({})), killing);
    assert_eq!(hung.status, "error");
    assert!(hung.error.contains("ended during the call"), "{hung:?}");
    let next = shop.call(agent, "odd_where", json!({})).await;
    assert_eq!(next.status, "completed", "{next:?}");
    assert_ne!(next.output["pid"].as_i64().unwrap(), first);
    assert_eq!(count(&ledger, "start"), 2);
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_cancelled_at_the_server() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let ledger = mcp::ledger();
    let http = HttpServer::odd(&ledger);
    let stdio_ledger = mcp::ledger();
    shop.add(json!({"name": "odd", "command": "odd", "env": {"LEDGER": stdio_ledger}, "timeoutS": 1}))
        .await;
    shop.add(json!({"name": "web", "url": http.url, "timeoutS": 1})).await;
    let agent = shop.app.agent("user", &["odd_*", "web_*"]).await;
    for (tool, ledger) in [("odd_hang", &stdio_ledger), ("web_hang", &ledger)] {
        let hung = shop.call(agent, tool, json!({})).await;
        assert_eq!(hung.status, "error");
        assert!(hung.error.contains("did not respond within 1 s"), "{hung:?}");
        wait_for("the server to hear of it", async || {
            (count(ledger, "cancelled") == 1).then_some(())
        })
        .await;
    }
}

/// Requirements: C47.
#[tokio::test]
async fn a_silent_server_is_asked_again_before_the_agent_knows() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let server = HttpServer::odd(&mcp::ledger());
    // A proxy that closes the first connection.
    let behind: SocketAddr = url::Url::parse(&server.url).unwrap().socket_addrs(|| None).unwrap()[0];
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = front.local_addr().unwrap();
    let dropped = Arc::new(AtomicUsize::new(0));
    let seen = dropped.clone();
    let proxy = tokio::spawn(async move {
        loop {
            let (mut reader, _) = front.accept().await.unwrap();
            if seen.fetch_add(1, Ordering::Relaxed) == 0 {
                continue;
            }
            tokio::spawn(async move {
                let mut server = TcpStream::connect(behind).await.unwrap();
                // Either side may disconnect.
                let _ = tokio::io::copy_bidirectional(&mut reader, &mut server).await;
            });
        }
    });
    let id = shop
        .add(json!({"name": "odd", "url": format!("http://{address}/mcp")}))
        .await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    let call = shop.call(agent, "odd_where", json!({})).await;
    assert_eq!(call.status, "completed", "{call:?}");
    assert!(dropped.load(Ordering::Relaxed) > 1);
    assert_eq!(shop.server(&id).await["failure"], Value::Null);
    proxy.abort();
}

#[tokio::test]
async fn a_repeatedly_failing_server_is_retried_after_a_while() {
    if !mcp::are_there() {
        return;
    }
    // Long enough for the pause to last during this test, on a slow machine, too.
    let shop = Shop::of(1, |config| {
        mcp::allow(config);
        config.mcp.mcp_pause_s = 5;
    })
    .await;
    let ledger = mcp::ledger();
    shop.add_odd(&ledger).await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    for _ in 0..3 {
        let died = shop.call(agent, "odd_die", json!({})).await;
        assert!(died.error.contains("ended during the call"), "{died:?}");
    }
    let starts = count(&ledger, "start");
    let refused = shop.call(agent, "odd_where", json!({})).await;
    assert!(refused.error.contains("is paused for"), "{refused:?}");
    assert_eq!(count(&ledger, "start"), starts, "nothing was started for it");
    wait_for("the server to be tried again", async || {
        let call = shop.call(agent, "odd_where", json!({})).await;
        (call.status == "completed").then_some(())
    })
    .await;
    assert_eq!(
        shop.call(agent, "odd_where", json!({})).await.status,
        "completed",
        "and it stays so"
    );
}

#[tokio::test]
async fn an_unavailable_server_costs_its_tools_and_says_why() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    let broken = shop.add(json!({"name": "broken", "command": "broken"})).await;
    let missing = shop.add(json!({"name": "missing", "command": "missing"})).await;
    let nobody = shop
        .add(json!({"name": "nobody", "url": "http://127.0.0.1:9/mcp"}))
        .await;
    let private = shop
        .add(json!({"name": "private", "url": "http://10.255.255.1/mcp"}))
        .await;
    let agent = shop.app.agent("user", &["*"]).await;
    let call = shop.call(agent, "list_tags", json!({})).await;
    assert_eq!(call.status, "completed", "the agent goes on without them");
    assert!(shop.given().iter().all(|tool| !tool.starts_with("broken_")));
    for (id, words) in [
        (broken, "does not speak MCP"),
        (missing, "starting its process failed"),
        (nobody, "127.0.0.1:9"),
        (private, "REJOIN_MCP_PRIVATE_HOSTS"),
    ] {
        let failure = shop.server(&id).await["failure"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        assert!(failure.contains(words), "{words}: {failure}");
    }
}

#[tokio::test]
async fn results_are_limited_and_failures_quote_the_server() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::open().await;
    shop.add(json!({"name": "odd", "command": "odd"})).await;
    let agent = shop.app.agent("user", &["odd_*"]).await;
    let failed = shop.call(agent, "odd_fail", json!({})).await;
    assert_eq!(
        (failed.status.as_str(), failed.error.as_str()),
        ("error", "the disk is full")
    );
    // It logs more than we accept, and is not blocked by that.
    let chatty = shop.call(agent, "odd_chatter", json!({})).await;
    assert_eq!((chatty.status.as_str(), &chatty.output), ("completed", &json!("said")));
    let large = shop.call(agent, "odd_big", json!({"bytes": 200_000})).await;
    assert_eq!(
        large.output.as_str().map(str::len),
        Some(200_000),
        "the whole of it is stored"
    );
    let read = shop.app.model.requests().last().unwrap().to_string();
    assert!(
        read.contains("[truncated: 60000 of "),
        "the model reads the beginning, and that there is more"
    );
    let too_large = shop.call(agent, "odd_big", json!({"bytes": 2_000_000})).await;
    assert!(too_large.error.contains("Request less"), "{too_large:?}");
}

/// Requirements: C49.
#[tokio::test]
async fn a_change_of_servers_reaches_every_worker_without_polling() {
    if !mcp::are_there() {
        return;
    }
    // No cache expires within the test: only notifications make workers reload.
    let shop = Shop::of(2, |config| {
        mcp::allow(config);
        config.mcp.tools_kept_s = 3_600;
    })
    .await;
    let ledger = mcp::ledger();
    let id = shop.add_odd(&ledger).await;
    let agent = shop.app.agent("user", &["odd_*", "list_tags"]).await;
    let pid = shop.call(agent, "odd_where", json!({})).await.output["pid"]
        .as_i64()
        .unwrap();
    let path = format!("{}/{id}", shop.servers());
    let client = shop.app.client();
    let has = async |tool: &str| {
        shop.call(agent, "list_tags", json!({})).await;
        shop.given().contains(&tool.to_owned())
    };
    client.patch(&path, json!({"tools": ["count"]})).await;
    wait_for("one tool to be left", async || (!has("odd_where").await).then_some(())).await;
    assert!(has("odd_count").await);
    client.patch(&path, json!({"enabled": false})).await;
    wait_for("no tool to be left", async || (!has("odd_count").await).then_some(())).await;
    wait_for("its process to end", async || (!lives(pid)).then_some(())).await;
    client.patch(&path, json!({"enabled": true, "tools": ["*"]})).await;
    wait_for("all to be there", async || has("odd_where").await.then_some(())).await;
    assert_eq!(client.delete(&path).await.0, StatusCode::NO_CONTENT);
    wait_for("none to be left", async || (!has("odd_where").await).then_some(())).await;
}

#[tokio::test]
async fn processes_end_with_their_worker_even_if_it_is_killed() {
    if !mcp::are_there() {
        return;
    }
    let mut shop = Shop::open().await;
    shop.add(json!({"name": "odd", "command": "odd"})).await;
    shop.add(json!({"name": "stubborn", "command": "stubborn"})).await;
    let agent = shop.app.agent("user", &["odd_*", "stubborn_*"]).await;
    let pid = async |shop: &Shop, tool: &str| {
        let output = shop.call(agent, tool, json!({})).await.output;
        output["pid"].as_i64().unwrap()
    };
    let drained = [pid(&shop, "odd_where").await, pid(&shop, "stubborn_where").await];
    shop.app.workers.remove(0).drain().await;
    assert!(drained.iter().all(|pid| !lives(*pid)), "a drain ends them all");

    let worker = Process::worker_with(
        &shop.app,
        &[
            ("REJOIN_MCP_COMMANDS_FILE", mcp::commands_file().display().to_string()),
            ("REJOIN_SECRET_KEYS_FILE", mcp::secret_keys_file().display().to_string()),
        ],
    );
    let killed = [pid(&shop, "odd_where").await, pid(&shop, "stubborn_where").await];
    let children = mcp::children(worker.id());
    // The image has no shell: the program itself is the watchdog.
    assert!(
        children.iter().any(|words| words.ends_with(&["__watchdog".to_owned()])),
        "{children:?}"
    );
    worker.kill();
    wait_for("the processes to end", async || {
        killed.iter().all(|pid| !lives(*pid)).then_some(())
    })
    .await;
}
