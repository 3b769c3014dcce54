//! MCP servers that act for each user by itself: users connect accounts, and calls wait until they have.

use rejoin_tests::client::{Client, json_of, of_kind};
use rejoin_tests::mcp::personal::{PAY, Personal, READ};
use rejoin_tests::mcp::{self, Called, Shop};
use rejoin_tests::model_server::Reply;
use rejoin_tests::support::wait_for;
use reqwest::StatusCode;
use serde_json::{Value, json};
use uuid::Uuid;

/// A project with such a server, and an agent that uses it.
struct Place {
    shop: Shop,
    personal: Personal,
    /// Of the server.
    id: String,
    agent: Uuid,
}

/// The tools are listed, by an account that is disconnected again.
async fn place() -> Place {
    let shop = Shop::open().await;
    let personal = Personal::start().await;
    let id = shop
        .add(json!({"name": "tracker", "url": personal.url, "oauth": {"perUser": true}}))
        .await;
    let agent = shop.app.agent("host", &["tracker_*"]).await;
    let client = shop.app.client();
    connect(&client, &personal, &id).await;
    wait_for("the tools", async || {
        let server = shop.server(&id).await;
        (server["offered"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    let (status, _) = client.delete(&format!("/api/mcp-accounts/{id}")).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    wait_for("the revocation", async || (personal.state().revoked == 1).then_some(())).await;
    Place {
        shop,
        personal,
        id,
        agent,
    }
}

/// Returns the URL at which a user agrees.
async fn begin(client: &Client, id: &str) -> String {
    let (status, begun) = client.post(&format!("/api/mcp-accounts/{id}"), json!({})).await;
    assert_eq!(status, StatusCode::CREATED, "{begun}");
    begun["url"].as_str().unwrap().to_owned()
}

/// Connects the account of the user who is signed in at the authorization server.
async fn connect(client: &Client, personal: &Personal, id: &str) -> Value {
    let url = begin(client, id).await;
    let answer = personal.agree(&url).await;
    let (status, account) = client.post("/api/mcp-consents", answer).await;
    assert_eq!(status, StatusCode::OK, "{account}");
    account
}

impl Place {
    /// Begins a run that calls a tool.
    async fn ask(&self, client: &Client, tool: &str) -> Value {
        let question = format!("{tool} {}", Uuid::now_v7());
        let replies = [Reply::tool(tool, json!({})), Reply::text("done")];
        self.shop.app.model.on(&question, replies);
        client
            .post_message(json!({"message": question, "agentDefinitionId": self.agent}))
            .await
    }

    /// Returns the events of a run, once it has ended.
    async fn events(&self, client: &Client, posted: &Value) -> Vec<Value> {
        let path = format!("/api/runs/{}/events", posted["runId"].as_str().unwrap());
        json_of(&client.stream(&path).await.rest().await)
    }

    /// Returns the call of a run that was begun by the project's first user, once it has ended.
    async fn called(&self, posted: &Value) -> Called {
        self.events(&self.shop.app.client(), posted).await;
        self.shop.calls(posted["runId"].as_str().unwrap()).await.remove(0)
    }
}

/// Returns the open question of a client, once there is one.
async fn open(client: &Client) -> Value {
    wait_for("a question", async || {
        let (_, page) = client.get("/api/questions?status=pending").await;
        page["items"].as_array().unwrap().first().cloned()
    })
    .await
}

#[tokio::test]
async fn a_call_waits_until_its_user_has_connected() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    let posted = place.ask(&client, "tracker_whoami").await;
    let asked = open(&client).await;
    let text = asked["question"].as_str().unwrap();
    assert!(text.contains("The MCP server tracker asks"), "{text}");
    assert!(text.contains(&format!("/mcp/connect?server={}", place.id)), "{text}");
    assert_eq!(asked["options"][0]["label"], "Continue");
    // Saying so is not enough: it is asked again.
    let answer = format!("/api/questions/{}/answer", asked["id"].as_str().unwrap());
    let (status, answered) = client.post(&answer, json!({"answer": "accept_form"})).await;
    assert_eq!(status, StatusCode::OK, "{answered}");
    wait_for("another question", async || {
        let again = open(&client).await;
        (again["id"] != asked["id"]).then_some(())
    })
    .await;

    let account = connect(&client, &place.personal, &place.id).await;
    assert_eq!(
        (&account["connected"], &account["serverName"]),
        (&json!(true), &json!("tracker"))
    );
    let events = place.events(&client, &posted).await;
    assert_eq!(events.last().unwrap()["status"], "completed");
    let statuses: Vec<&Value> = of_kind(&events, "mcp_tool")
        .into_iter()
        .map(|event| &event["status"])
        .collect();
    assert_eq!(statuses, ["started", "completed"], "the call is shown once");
    let called = place.called(&posted).await;
    assert_eq!(called.output, "you are anna", "{called:?}");
    let (_, listed) = client.get("/api/mcp-accounts").await;
    assert_eq!(listed["items"][0]["connected"], true, "{listed}");
    assert!(place.personal.state().refused.is_empty(), "nothing was refused");
}

#[tokio::test]
async fn each_user_acts_with_their_own_account() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let (_, key) = place.shop.app.db.another_user().await;
    let other = Client::new(place.shop.app.url(), &key);
    let client = place.shop.app.client();
    connect(&client, &place.personal, &place.id).await;
    place.personal.state().account = "ben".to_owned();
    connect(&other, &place.personal, &place.id).await;
    for (client, account) in [(&client, "anna"), (&other, "ben"), (&client, "anna")] {
        let posted = place.ask(client, "tracker_whoami").await;
        let events = place.events(client, &posted).await;
        let end = of_kind(&events, "mcp_tool").pop().unwrap().clone();
        assert_eq!(end["result"], format!("you are {account}"), "{end}");
    }
    let (status, _) = other.delete(&format!("/api/mcp-accounts/{}", place.id)).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let posted = place.ask(&client, "tracker_whoami").await;
    assert_eq!(
        place.called(&posted).await.output,
        "you are anna",
        "the other's end changes nothing"
    );
    place.ask(&other, "tracker_whoami").await;
    open(&other).await;
}

#[tokio::test]
async fn a_user_may_decline_to_connect_an_account() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    let posted = place.ask(&client, "tracker_whoami").await;
    let asked = open(&client).await;
    let answer = format!("/api/questions/{}/answer", asked["id"].as_str().unwrap());
    let (status, _) = client.post(&answer, json!({"answer": "decline_form"})).await;
    assert_eq!(status, StatusCode::OK);
    let called = place.called(&posted).await;
    assert_eq!(called.status, "error");
    assert!(
        called.error.contains("has not connected an account at tracker"),
        "{called:?}"
    );
}

#[tokio::test]
async fn tokens_are_renewed_by_one_call_at_a_time() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    place.personal.state().expires_in_s = 0;
    connect(&client, &place.personal, &place.id).await;
    let mut posted = Vec::new();
    for _ in 0..4 {
        posted.push(place.ask(&client, "tracker_whoami").await);
    }
    for posted in &posted {
        let called = place.called(posted).await;
        assert_eq!(called.output, "you are anna", "{called:?}");
    }
    let state = place.personal.state();
    assert!(state.renewed >= 1, "tokens were renewed");
    // A refresh token that is used twice would have ended the grant.
    assert!(state.refused.is_empty(), "{:?}", state.refused);
}

#[tokio::test]
async fn a_missing_scope_is_asked_for_with_those_granted() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    connect(&client, &place.personal, &place.id).await;
    let posted = place.ask(&client, "tracker_pay").await;
    let asked = open(&client).await;
    assert!(asked["question"].as_str().unwrap().contains(PAY), "{asked}");
    let (_, listed) = client.get("/api/mcp-accounts").await;
    assert_eq!(listed["items"][0]["missingScopes"], json!([PAY]), "{listed}");
    connect(&client, &place.personal, &place.id).await;
    assert_eq!(place.called(&posted).await.output, "paid by anna");
    let scopes = place.personal.state().asked.last().unwrap().clone();
    for scope in [READ, PAY, "offline_access"] {
        assert!(scopes.split(' ').any(|own| own == scope), "{scope} is not in {scopes}");
    }
}

#[tokio::test]
async fn a_scope_that_is_not_granted_is_not_asked_for_again() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    place.personal.state().withheld.insert(PAY.to_owned());
    connect(&client, &place.personal, &place.id).await;
    let posted = place.ask(&client, "tracker_pay").await;
    open(&client).await;
    connect(&client, &place.personal, &place.id).await;
    let called = place.called(&posted).await;
    assert_eq!(called.status, "error");
    assert!(
        called.error.contains("were not granted") && called.error.contains(PAY),
        "{called:?}"
    );
}

#[tokio::test]
async fn an_answer_counts_once_for_its_user_and_from_its_issuer() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    let (_, key) = place.shop.app.db.another_user().await;
    let other = Client::new(place.shop.app.url(), &key);
    let code = |problem: &Value| problem["code"].as_str().unwrap().to_owned();

    let answer = place.personal.agree(&begin(&client, &place.id).await).await;
    let (status, refused) = other.post("/api/mcp-consents", answer.clone()).await;
    assert_eq!(
        (status, code(&refused)),
        (StatusCode::BAD_REQUEST, "consent_unknown".to_owned())
    );
    let (status, _) = client.post("/api/mcp-consents", answer.clone()).await;
    assert_eq!(status, StatusCode::OK);
    let (_, refused) = client.post("/api/mcp-consents", answer).await;
    assert_eq!(code(&refused), "consent_unknown");

    for iss in [json!("https://evil.example"), Value::Null] {
        let mut answer = place.personal.agree(&begin(&client, &place.id).await).await;
        answer["iss"] = iss;
        let (_, refused) = client.post("/api/mcp-consents", answer).await;
        assert_eq!(code(&refused), "consent_of_another_server");
    }

    let mut answer = place.personal.agree(&begin(&client, &place.id).await).await;
    answer["code"] = json!("not a code");
    let (status, refused) = client.post("/api/mcp-consents", answer).await;
    assert_eq!(status, StatusCode::BAD_GATEWAY, "{refused}");
    assert!(
        refused["detail"].as_str().unwrap().contains("invalid_grant"),
        "{refused}"
    );
    let (_, listed) = client.get("/api/mcp-accounts").await;
    assert_eq!(
        listed["items"][0]["connected"], true,
        "the account from before stays connected"
    );
}

#[tokio::test]
async fn a_question_outlives_the_workers_that_wait_for_it() {
    if !mcp::are_there() {
        return;
    }
    let mut place = place().await;
    let client = place.shop.app.client();
    let posted = place.ask(&client, "tracker_whoami").await;
    open(&client).await;
    place.shop.app.crash_workers();
    place.shop.app.add_worker();
    connect(&client, &place.personal, &place.id).await;
    assert_eq!(place.called(&posted).await.output, "you are anna");
}

#[tokio::test]
async fn a_run_without_a_user_gets_an_error() {
    if !mcp::are_there() {
        return;
    }
    let mut place = place().await;
    let client = place.shop.app.client();
    place.shop.app.crash_workers();
    let posted = place.ask(&client, "tracker_whoami").await;
    let run: Uuid = posted["runId"].as_str().unwrap().parse().unwrap();
    sqlx::query("update kb.agent_runs set user_id = null where id = $1")
        .bind(run)
        .execute(&place.shop.app.db.pool)
        .await
        .unwrap();
    place.shop.app.add_worker();
    let called = place.called(&posted).await;
    assert_eq!(called.status, "error");
    assert!(called.error.contains("this run has no user"), "{called:?}");
}

#[tokio::test]
async fn tokens_are_sealed_and_appear_nowhere() {
    if !mcp::are_there() {
        return;
    }
    let place = place().await;
    let client = place.shop.app.client();
    connect(&client, &place.personal, &place.id).await;
    let posted = place.ask(&client, "tracker_whoami").await;
    place.called(&posted).await;
    let rows: Vec<String> = sqlx::query_scalar(
        "select encode(ciphertext, 'escape') from kb.mcp_accounts
         union all select e::text from stream.each_event e union all select c::text from kb.agent_run_tool_calls c
         union all select j::text from queue.jobs j union all select q::text from kb.questions q
         union all select c::text from kb.mcp_consents c",
    )
    .fetch_all(&place.shop.app.db.pool)
    .await
    .unwrap();
    assert!(rows.len() > 3);
    for secret in ["access-0", "refresh-0", "code-0"] {
        assert!(!rows.iter().any(|row| row.contains(secret)), "{secret} is in a table");
    }
}

#[tokio::test]
async fn the_client_document_names_the_redirect_url() {
    if !mcp::are_there() {
        return;
    }
    let shop = Shop::with(0).await;
    let document: Value = reqwest::get(format!("{}/api/mcp-client", shop.app.url()))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(document["client_id"], format!("{}/api/mcp-client", shop.app.url()));
    assert_eq!(
        document["redirect_uris"],
        json!([format!("{}/mcp/connect", shop.app.url())])
    );
    assert_eq!(document["token_endpoint_auth_method"], "none");
}
