//! What somebody may do to the API below HTTP's meaning: bodies that do not come, heads that do not end, connections by the hundred,
//! headers that only a proxy may set. (Requests that are what they seem: `attacks`, `rate_limits`, `reliability::stress`.)

use std::net::SocketAddr;

use rejoin_tests::app::{AppOptions, Process, TestApp};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::support::wait_for;
use reqwest::{Method, StatusCode};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

async fn quiet() -> TestApp {
    TestApp::with(AppOptions {
        workers: 0,
        ..AppOptions::default()
    })
    .await
}

fn address(url: &str) -> SocketAddr {
    url.strip_prefix("http://").unwrap().parse().unwrap()
}

/// A connection from another local address, after it has sent `begin`.
async fn connected(to: SocketAddr, from: &str, begin: &[u8]) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(to).await.unwrap();
    stream.write_all(begin).await.unwrap();
    stream
}

/// Returns the server's output until it closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    // A reset counts as the end.
    let _end = stream.read_to_end(&mut said).await;
    String::from_utf8_lossy(&said).into_owned()
}

fn post_without_its_body(key: &str) -> Vec<u8> {
    format!(
        "POST /api/stream-tickets HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n{{"
    )
    .into_bytes()
}

/// A member of another project, with write access there.
async fn stranger(app: &TestApp, url: &str) -> Client {
    use rejoin_identity::auth;
    use rejoin_identity::workspaces::Role;
    use rejoin_types::access::Scope;
    let mut db = app.db.pool.acquire().await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..2 {
        ids.push(uuid::Uuid::now_v7());
    }
    let (project, user) = (ids[0], ids[1]);
    sqlx::query("insert into kb.projects (id, name) values ($1, $2)")
        .bind(project)
        .bind(project.to_string())
        .execute(&mut *db)
        .await
        .unwrap();
    sqlx::query("insert into kb.users (id, handle) values ($1, $2)")
        .bind(user)
        .bind(user.to_string())
        .execute(&mut *db)
        .await
        .unwrap();
    rejoin_identity::workspaces::add_member(&mut db, project, user, Role::Owner)
        .await
        .unwrap();
    let (_, key) = auth::create_key(&mut db, user, Some(project), "test", &Scope::ALL, None)
        .await
        .unwrap();
    Client::new(url.to_owned(), &key)
}

#[tokio::test]
async fn a_key_without_the_scope_is_refused_before_the_body_arrives() {
    use rejoin_types::access::Scope;
    let app = quiet().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let project = Some(app.db.workspace_id);
    let (_, key) = rejoin_identity::auth::create_key(&mut db, app.db.user_id, project, "writes", &[Scope::Write], None)
        .await
        .unwrap();
    let stream = connected(address(&app.url()), "127.0.0.1", &post_without_its_body(&key)).await;
    let said = rest(stream).await;
    // Whoever waits for the body says 408.
    assert!(said.starts_with("HTTP/1.1 403 "), "{said}");
    assert!(said.contains("scope_missing"), "{said}");
}

#[tokio::test]
async fn bodies_that_never_come_do_not_delay_other_clients() {
    let app = quiet().await;
    let (_process, url) = Process::api_with(
        &app,
        None,
        &[("REJOIN_BODY_GRACE_MS", "2000"), ("REJOIN_MAX_IN_FLIGHT", "400")],
    )
    .await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let (_, key) = rejoin_identity::auth::create_key(
        &mut db,
        app.db.user_id,
        Some(app.db.workspace_id),
        "reads",
        &[rejoin_types::access::Scope::Read],
        None,
    )
    .await
    .unwrap();
    let others = [stranger(&app, &url).await, {
        let (user, key) = app.db.another_user().await;
        rejoin_identity::workspaces::set_role(
            &mut db,
            app.db.workspace_id,
            user,
            rejoin_identity::workspaces::Role::Member,
        )
        .await
        .unwrap();
        Client::new(url.clone(), &key)
    }];
    let begun = post_without_its_body(&key);
    let mut ends = JoinSet::new();
    // As many as there are slots.
    for _ in 0..400 {
        let mut stream = TcpStream::connect(address(&url)).await.unwrap();
        stream.write_all(&begun).await.unwrap();
        ends.spawn(rest(stream));
    }
    let mut served = 0;
    // As long as bodies are awaited.
    while !ends.is_empty() {
        for other in &others {
            assert_eq!(other.get("/api/conversations").await.0, StatusCode::OK);
            let (status, made) = other.post("/api/conversations", json!({"title": "served"})).await;
            assert_eq!(status, StatusCode::CREATED, "{made}");
            served += 2;
        }
        while ends.try_join_next().is_some() {}
    }
    assert!(served > 0);
    let stream = connected(address(&url), "127.0.0.1", &begun).await;
    assert!(rest(stream).await.contains("body_too_slow"));
}

#[tokio::test]
async fn one_users_unfinished_bodies_fill_their_share_alone() {
    let app = quiet().await;
    let variables = [("REJOIN_MAX_IN_FLIGHT", "8"), ("REJOIN_BODY_GRACE_MS", "20000")];
    let (_process, url) = Process::api_with(&app, None, &variables).await;
    let begun = post_without_its_body(&app.db.api_key);
    let mut held = Vec::new();
    for _ in 0..2 {
        held.push(connected(address(&url), "127.0.0.1", &begun).await);
    }
    let own = Client::new(url.clone(), &app.db.api_key);
    let refused = wait_for("both bodies to be awaited", async || {
        let (status, problem) = own.post("/api/conversations", json!({})).await;
        (status != StatusCode::CREATED).then_some((status, problem))
    })
    .await;
    assert_eq!(refused.0, StatusCode::TOO_MANY_REQUESTS, "{}", refused.1);
    assert_eq!(refused.1["code"], json!("too_many_requests"));
    // Requests without a body don't wait.
    assert_eq!(own.get("/api/conversations").await.0, StatusCode::OK);
    let other = stranger(&app, &url).await;
    assert_eq!(other.post("/api/conversations", json!({})).await.0, StatusCode::CREATED);
    drop(held);
    wait_for("the places to be free again", async || {
        (own.post("/api/conversations", json!({})).await.0 == StatusCode::CREATED).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_endless_head_is_cut_and_an_idle_connection_is_kept() {
    let app = quiet().await;
    let variables = [("REJOIN_HEAD_TIMEOUT_MS", "1000"), ("REJOIN_KEEP_ALIVE_S", "600")];
    let (_process, url) = Process::api_with(&app, None, &variables).await;
    let to = address(&url);
    let whole = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut idle = connected(to, "127.0.0.1", whole).await;
    let mut head = vec![0; 4096];
    assert!(idle.read(&mut head).await.unwrap() > 0);
    // Begun immediately, begun after another request, and not begun at all.
    let half = connected(to, "127.0.0.1", b"GET /livez HTTP/1.1\r\nhost: loc").await;
    let mut second = connected(to, "127.0.0.1", whole).await;
    assert!(second.read(&mut head).await.unwrap() > 0);
    second.write_all(b"GET /livez HTT").await.unwrap();
    let silent = connected(to, "127.0.0.1", b"").await;
    for stream in [half, second, silent] {
        let said = rest(stream).await;
        assert!(said.is_empty() || said.starts_with("HTTP/1.1 408"), "{said}");
    }
    // The one that was idle between two requests is still open.
    idle.write_all(whole).await.unwrap();
    let read = idle.read(&mut head).await.unwrap();
    assert!(String::from_utf8_lossy(&head[..read]).starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn one_addresss_connections_leave_room_for_others() {
    let app = quiet().await;
    let variables = [
        ("REJOIN_TRUSTED_PROXIES", "none"),
        ("REJOIN_HEAD_TIMEOUT_MS", "600000"),
        ("REJOIN_MAX_CONNECTIONS_PER_ADDRESS", "20"),
    ];
    let (_process, url) = Process::api_with(&app, Some(256), &variables).await;
    let mut held = Vec::new();
    for _ in 0..300 {
        held.push(connected(address(&url), "127.0.0.2", b"GET /livez HTTP/1.1\r\nhost: loc").await);
    }
    let client = Client::new(url.clone(), &app.db.api_key);
    for _ in 0..20 {
        let (status, made) = client.post("/api/conversations", json!({})).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
    }
    // Those within the limit wait for the rest of their heads.
    wait_for("those beyond the bound to be closed", async || {
        held.retain(|stream| {
            let waits = |error: std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
            stream.try_read(&mut [0]).is_err_and(waits)
        });
        (held.len() <= 20).then_some(())
    })
    .await;
    assert_eq!(held.len(), 20);
}

#[tokio::test]
async fn connections_of_many_addresses_leave_files_to_the_database() {
    let app = quiet().await;
    let variables = [
        ("REJOIN_TRUSTED_PROXIES", "none"),
        ("REJOIN_HEAD_TIMEOUT_MS", "600000"),
        ("REJOIN_RESERVED_FILES", "100"),
    ];
    let (_process, url) = Process::api_with(&app, Some(200), &variables).await;
    let client = Client::new(url.clone(), &app.db.api_key);
    let mut held = Vec::new();
    // The client's own connection existed before.
    assert_eq!(client.get("/livez").await.0, StatusCode::OK);
    for last in 2..22 {
        for _ in 0..15 {
            held.push(
                connected(
                    address(&url),
                    &format!("127.0.0.{last}"),
                    b"GET /livez HTTP/1.1\r\nhost: loc",
                )
                .await,
            );
        }
    }
    for _ in 0..20 {
        let (status, made) = client.post("/api/conversations", json!({})).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
    }
}

#[tokio::test]
async fn only_a_trusted_proxy_says_under_which_address_we_are_reached() {
    let app = quiet().await;
    let card = async |url: &str| {
        let client = Client::new(url.to_owned(), &app.db.api_key);
        let request = client.request(Method::GET, "/.well-known/agent-card.json");
        let request = request
            .header("x-forwarded-host", "evil.example")
            .header("x-forwarded-proto", "https");
        let (status, card) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{card}");
        card["supportedInterfaces"][0]["url"].as_str().unwrap().to_owned()
    };
    let (_direct, direct) = Process::api_with(&app, None, &[("REJOIN_TRUSTED_PROXIES", "none")]).await;
    assert_eq!(card(&direct).await, format!("{direct}/mcp"));
    let (_elsewhere, elsewhere) = Process::api_with(&app, None, &[("REJOIN_TRUSTED_PROXIES", "192.0.2.0/24")]).await;
    assert_eq!(card(&elsewhere).await, format!("{elsewhere}/mcp"));
    let (_proxied, proxied) = Process::api_with(&app, None, &[]).await;
    assert_eq!(
        card(&proxied).await,
        "https://evil.example/mcp",
        "this machine is trusted by default"
    );
    let (_public, public) = Process::api_with(&app, None, &[("REJOIN_PUBLIC_URL", "https://chat.example/")]).await;
    assert_eq!(card(&public).await, "https://chat.example/mcp");
}

#[tokio::test]
async fn no_answer_of_the_api_is_kept_or_taken_for_something_else() {
    let app = quiet().await;
    let client = app.client();
    let (_, calendar) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Europe/Berlin"}))
        .await;
    let export = format!("/api/calendars/{}/export.ics", calendar["id"].as_str().unwrap());
    for (path, status) in [
        ("/api/conversations", StatusCode::OK),
        ("/api/me", StatusCode::OK),
        (&export, StatusCode::OK),
        ("/api/conversations?limit=x", StatusCode::BAD_REQUEST),
        ("/api/nothing", StatusCode::NOT_FOUND),
    ] {
        let response = client.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        let headers = ["cache-control", "x-content-type-options", "referrer-policy"].map(|name| {
            response
                .headers()
                .get(name)
                .map(|value| value.to_str().unwrap().to_owned())
        });
        assert_eq!(
            headers,
            ["no-store", "nosniff", "no-referrer"].map(|value| Some(value.to_owned())),
            "{path}"
        );
    }
}

#[tokio::test]
async fn the_audit_log_cannot_be_flooded() {
    let app = quiet().await;
    let (_process, url) = Process::api_with(&app, None, &[("REJOIN_AUDITED_PER_MINUTE", "5")]).await;
    let client = Client::new(url.clone(), &app.db.api_key);
    let (_, calendar) = client
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Europe/Berlin"}))
        .await;
    let feed = format!("/api/calendars/{}/feed", calendar["id"].as_str().unwrap());
    let count = async || -> i64 {
        sqlx::query_scalar("select count(*) from audit.entries where action = 'calendar_feed.made'")
            .fetch_one(&app.db.pool)
            .await
            .unwrap()
    };
    let mut refused = None;
    for _ in 0..50 {
        let response = client.request(Method::POST, &feed).send().await.unwrap();
        if response.status() != StatusCode::CREATED {
            refused.get_or_insert(response);
        }
    }
    let refused = refused.expect("fifty changes in a row are too many");
    assert!(refused.headers().contains_key("retry-after"));
    let (status, problem) = answer(refused).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::TOO_MANY_REQUESTS, &json!("too_many_requests"))
    );
    assert!((5..=10).contains(&count().await), "{}", count().await);
    // Unaudited requests continue, and so do others' changes.
    assert_eq!(
        client.post("/api/conversations", json!({})).await.0,
        StatusCode::CREATED
    );
    let other = stranger(&app, &url).await;
    let (_, theirs) = other
        .post("/api/calendars", json!({"name": "Work", "timeZone": "Europe/Berlin"}))
        .await;
    let feed = format!("/api/calendars/{}/feed", theirs["id"].as_str().unwrap());
    assert_eq!(other.post(&feed, json!({})).await.0, StatusCode::CREATED);
}
