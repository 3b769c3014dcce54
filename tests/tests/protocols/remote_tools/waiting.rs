//! Claims that wait, one after another: what they cost, and what is known of their programs meanwhile.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::Client;
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{Program, asked, hasty, tool, tool_with};

const REGISTRATIONS: &str = "/api/workers/default/registrations";

/// The same program, at this address.
fn same(program: &Program, url: String) -> Program {
    Program {
        client: Client::new(url, &program.client.key),
        id: program.id.clone(),
        queue: program.queue,
    }
}

/// A claim that waits, and its calls.
async fn waits(program: &Program, wait_s: u32) -> JoinHandle<Vec<Value>> {
    let path = format!("/api/workers/{}/claims", program.queue);
    let claim = json!({"workerId": program.id, "waitS": wait_s});
    let request = program.client.request(reqwest::Method::POST, &path).json(&claim);
    // The head of the response comes when the claim begins to wait.
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    tokio::spawn(async move {
        let claimed: Value = response.json().await.unwrap();
        claimed["calls"].as_array().expect("calls").clone()
    })
}

async fn is_alive(app: &TestApp, id: &str) -> bool {
    let (_, workers) = app.client().get("/api/workers").await;
    let workers = workers["items"].as_array().expect("workers").clone();
    let program = workers.iter().find(|worker| worker["workerId"] == id);
    program.is_some_and(|worker| worker["alive"] == true)
}

#[tokio::test]
async fn a_program_that_waits_stays_registered() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    for _ in 0..2 {
        // Longer than the lease.
        let claim = waits(&program, 3).await;
        while !claim.is_finished() {
            assert!(is_alive(&app, &program.id).await);
        }
        assert_eq!(claim.await.unwrap(), Vec::<Value>::new());
    }
    support::wait_for("the end of the registration", async || {
        (!is_alive(&app, &program.id).await).then_some(())
    })
    .await;
}

/// Counts looks for calls.
const COUNT_LOOKS: &str = "
    create sequence kb.looks;
    grant usage on sequence kb.looks to rejoin_app;
    alter function kb.poll_remote_calls rename to poll_without_counting;
    create function kb.poll_remote_calls(text, uuid, interval, interval, interval, int)
    returns table (revision int, queues text[], calls json) language plpgsql as $$
    begin
        perform nextval('kb.looks');
        return query select * from kb.poll_without_counting($1, $2, $3, $4, $5, $6);
    end $$;";

#[tokio::test]
async fn a_program_that_claims_again_need_not_look() {
    let app = TestApp::start().await;
    sqlx::raw_sql(COUNT_LOOKS).execute(&app.db.pool).await.unwrap();
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    for _ in 0..4 {
        assert!(program.claim(1, 1).await.is_empty());
    }
    let looks: i64 = sqlx::query_scalar("select last_value from kb.looks")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    // And one more, if a look for all claims came between the first one and its wait.
    assert!((1..=2).contains(&looks), "{looks} looks");
}

#[tokio::test]
async fn a_call_between_two_claims_is_taken_by_the_next() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    assert!(program.claim(1, 1).await.is_empty());
    asked(&app, json!({"order": "A-7"})).await;
    support::wait_for("the call", async || {
        sqlx::query("select from kb.remote_calls")
            .fetch_optional(&app.db.pool)
            .await
            .unwrap()
    })
    .await;
    let call = program.next().await;
    assert_eq!(call["input"], json!({"order": "A-7"}));
    program.complete(&call, json!("refunded")).await;
}

#[tokio::test]
async fn a_program_that_is_killed_while_it_waits_is_gone_at_once() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let claim = waits(&program, 25).await;
    let changed = tool_with("refund", json!({"description": "Refunds an order, twice."}));
    let body = json!({"name": "changed", "slots": 1, "tools": [changed]});
    let (status, _) = app.client().post(REGISTRATIONS, body.clone()).await;
    assert_eq!(status, StatusCode::CONFLICT, "it serves this version");
    claim.abort();
    // Long before its registration ends by itself.
    support::wait_for("its end", async || (!is_alive(&app, &program.id).await).then_some(())).await;
    let until = sqlx::query_scalar::<_, f64>(
        "select extract(epoch from alive_until - seen_at)::float8 from kb.remote_workers where id = $1::uuid",
    );
    let lasted_s = until.bind(&program.id).fetch_one(&app.db.pool).await.unwrap();
    assert!(lasted_s < 15.0, "{lasted_s}");
    let (status, registered) = app.client().post(REGISTRATIONS, body).await;
    assert_eq!(status, StatusCode::CREATED, "{registered}");
}

#[tokio::test]
async fn a_program_that_goes_on_at_another_api_is_not_gone() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    let claim = waits(&program, 25).await;
    let other = app.another_api().await;
    let there = same(&program, other.url());
    claim.abort();
    // Longer than it takes until a program is gone that has closed its connection.
    let claim = waits(&there, 5).await;
    while !claim.is_finished() {
        assert!(is_alive(&app, &program.id).await);
    }
    assert_eq!(claim.await.unwrap(), Vec::<Value>::new());
}

#[tokio::test]
async fn a_claim_ends_when_another_api_replaces_its_registration() {
    let app = hasty().await;
    let program = Program::register(app.client(), json!([tool("notify")])).await;
    let other = app.another_api().await;
    let claim = waits(&program, 25).await;
    let body = json!({"workerId": program.id, "name": "billing", "slots": 1, "tools": [tool("refund")]});
    let there = same(&program, other.url());
    let (status, replaced) = there.client.post(REGISTRATIONS, body).await;
    assert_eq!(status, StatusCode::OK, "{replaced}");
    assert_eq!(claim.await.unwrap(), Vec::<Value>::new());
    // It waits for what the new registration names.
    let claim = waits(&program, 25).await;
    asked(&app, json!({"order": "A-7"})).await;
    let call = claim.await.unwrap().remove(0);
    assert_eq!(call["tool"], "refund");
    program.complete(&call, json!("refunded")).await;
}

#[tokio::test]
async fn a_claim_ends_when_its_program_is_unregistered() {
    let app = TestApp::start().await;
    let program = Program::register(app.client(), json!([tool("refund")])).await;
    assert!(program.claim(1, 1).await.is_empty());
    let claim = waits(&program, 25).await;
    let path = format!("{REGISTRATIONS}/{}", program.id);
    let (status, _) = app.client().delete(&path).await;
    assert_eq!(status, StatusCode::NO_CONTENT);
    let (status, refused) = program.send("claims", json!({"waitS": 25})).await;
    assert_eq!(
        (status, &refused["code"]),
        (StatusCode::NOT_FOUND, &json!("worker_unknown"))
    );
    assert_eq!(claim.await.unwrap(), Vec::<Value>::new());
}
