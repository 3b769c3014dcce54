//! What a valid token opens: for which users, in which projects, and until when.

use rejoin_api::Server;
use rejoin_http::oidc::settings::{NewUsersArg, OidcArgs};
use rejoin_identity::workspaces;
use rejoin_tests::client::Client;
use rejoin_tests::issuer::{Issuer, SigningKey, now};
use rejoin_tests::support;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::oidc::{KNOWN, api, me, users, with};

#[tokio::test]
async fn only_known_users_get_in_unless_settings_say_otherwise() {
    let db = support::database().await;
    let key = SigningKey::ec("one");
    let issuer = Issuer::start(&[&key]).await;
    let by_mail = |args: &mut OidcArgs| args.oidc_user_claim = "email".to_owned();
    let strict = api(&db, &issuer.url, by_mail).await;
    let token = |subject: &str, mail: &str, verified: bool| {
        let claims = with(&issuer.claims(subject), "email", json!(mail));
        key.token(&with(&claims, "email_verified", json!(verified)))
    };
    let before = users(&db).await;
    let (status, problem) = me(&strict, &token("s-1", "stranger@example.org", true)).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::FORBIDDEN, &json!("user_unknown"))
    );
    assert_eq!(me(&strict, &token("s-2", KNOWN, false)).await.0, StatusCode::FORBIDDEN);
    assert_eq!(users(&db).await, before);
    let (status, caller) = me(&strict, &token("s-3", KNOWN, true)).await;
    assert_eq!((status, &caller["userId"]), (StatusCode::OK, &json!(db.user_id)));
    // From now on the subject counts, whatever its name; and the name alone grants nothing.
    assert_eq!(
        me(&strict, &token("s-3", "renamed@example.org", true)).await.0,
        StatusCode::OK
    );
    assert_eq!(me(&strict, &token("s-4", KNOWN, true)).await.0, StatusCode::FORBIDDEN);

    let project = db.workspace_id.to_string();
    let open = api(&db, &issuer.url, |args| {
        by_mail(args);
        args.oidc_new_users = NewUsersArg::Create;
        args.oidc_default_project = Some(project);
    })
    .await;
    // Where anyone may sign up, taking the name of an existing user does not authenticate as them.
    db.another_user().await;
    let taken: String =
        sqlx::query_scalar("select handle from kb.users where id not in (select user_id from kb.identities)")
            .fetch_one(&db.pool)
            .await
            .unwrap();
    assert_eq!(me(&open, &token("s-5", &taken, true)).await.0, StatusCode::FORBIDDEN);
    let fresh = token("s-6", "fresh@example.org", true);
    let at_once = futures::future::join_all((0..20).map(|_| me(&open, &fresh))).await;
    for (status, caller) in &at_once {
        assert_eq!(*status, StatusCode::OK, "{caller}");
        assert_eq!(caller["userId"], at_once[0].1["userId"]);
        assert_eq!(caller["projectId"], json!(db.workspace_id));
    }
    assert_eq!(users(&db).await, before + 2);
}

#[tokio::test]
async fn a_token_opens_the_projects_that_it_names_and_no_other() {
    let db = support::database().await;
    let key = SigningKey::ec("one");
    let issuer = Issuer::start(&[&key]).await;
    let mut connection = db.pool.acquire().await.unwrap();
    let second = workspaces::create(&mut connection, "second").await.unwrap();
    let foreign = workspaces::create(&mut connection, "foreign").await.unwrap();
    workspaces::add_member(&mut connection, second, db.user_id, workspaces::Role::Owner)
        .await
        .unwrap();
    drop(connection);
    let claims = |user: &str, named: Value| with(&issuer.claims(user), "projects", named);
    let in_workspace = async |server: &Server, claims: Value, project: Uuid| {
        let request = Client::new(server.url(), &key.token(&claims)).request(Method::GET, "/api/me");
        let response = request
            .header("x-project-id", project.to_string())
            .send()
            .await
            .unwrap();
        response.status()
    };
    let named = |args: &mut OidcArgs| args.oidc_project_claim = Some("projects".to_owned());

    let strict = api(&db, &issuer.url, named).await;
    let one = claims(KNOWN, json!(second));
    assert_eq!(me(&strict, &key.token(&one)).await.1["projectId"], json!(second));
    assert_eq!(in_workspace(&strict, one, db.workspace_id).await, StatusCode::NOT_FOUND);
    let both = claims(KNOWN, json!([second, db.workspace_id, foreign]));
    assert_eq!(me(&strict, &key.token(&both)).await.1["code"], "project_needed");
    assert_eq!(
        in_workspace(&strict, both.clone(), db.workspace_id).await,
        StatusCode::OK
    );
    assert_eq!(
        in_workspace(&strict, both.clone(), foreign).await,
        StatusCode::NOT_FOUND,
        "not a member"
    );
    for none in [Value::Null, json!([]), json!("nonsense"), json!(Uuid::now_v7())] {
        let (status, _) = me(&strict, &key.token(&claims(KNOWN, none.clone()))).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{none}");
    }

    // If users are created, the issuer determines memberships.
    let open = api(&db, &issuer.url, |args| {
        named(args);
        args.oidc_new_users = NewUsersArg::Create;
    })
    .await;
    let fresh = claims("fresh", json!([foreign, Uuid::now_v7()]));
    assert_eq!(me(&open, &key.token(&fresh)).await.1["projectId"], json!(foreign));
    assert_eq!(in_workspace(&open, fresh, second).await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_tokens_streams_and_tickets_end_with_it() {
    let db = support::database().await;
    let key = SigningKey::ec("one");
    let issuer = Issuer::start(&[&key]).await;
    let server = api(&db, &issuer.url, |_| {}).await;
    let short = key.token(&with(&issuer.claims(KNOWN), "exp", json!(now() + 3)));
    let client = Client::new(server.url(), &short);
    let posted = client.post_message(json!({"message": "hello"})).await;
    let path = format!(
        "/api/conversations/{}/events",
        posted["conversationId"].as_str().unwrap()
    );
    let ticket = async || {
        let body = json!({"conversationId": posted["conversationId"]});
        let (status, made) = client.post("/api/stream-tickets", body).await;
        assert_eq!(status, StatusCode::CREATED, "{made}");
        format!("{path}?ticket={}", made["ticket"].as_str().unwrap())
    };
    let (now_used, kept) = (ticket().await, ticket().await);
    let nobody = Client::new(server.url(), "nobody");
    let (by_token, by_ticket) = (client.stream(&path).await, nobody.stream(&now_used).await);
    by_token.rest().await;
    by_ticket.rest().await;
    let (status, problem) = client.get("/api/conversations").await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNAUTHORIZED, &json!("token_expired"))
    );
    assert_eq!(nobody.stream_status(&kept).await, StatusCode::UNAUTHORIZED);
}
