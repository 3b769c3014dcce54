//! The projects that a credential opens, and sessions of browsers that go on in another project of their user. (Beginning and ending
//! sessions: `browser_sessions`, `session_list`.)

use rejoin_db::rls;
use rejoin_identity::auth;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::app::TestApp;
use rejoin_tests::client::{Client, Stream, answer};
use rejoin_tests::support::{self, TestDatabase};
use rejoin_types::access::Scope;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use uuid::Uuid;

use super::browser::Browser;
use super::members::{member, quiet};
use super::sso::Site;

/// Another project, of which the user is a member.
async fn another_project(db: &TestDatabase, name: &str, user: Uuid, role: Role) -> Uuid {
    let mut connection = db.pool.acquire().await.unwrap();
    let id = workspaces::create(&mut connection, name).await.unwrap();
    workspaces::add_member(&mut connection, id, user, role).await.unwrap();
    id
}

/// A client with a key for all projects of the user.
async fn key_of_all(app: &TestApp, user: Uuid) -> Client {
    let mut db = app.db.pool.acquire().await.unwrap();
    let (_, key) = auth::create_key(&mut db, user, None, "all", &Scope::ALL, None)
        .await
        .unwrap();
    Client::new(app.url(), &key)
}

/// A browser that is signed in to a project, with a code of this client.
async fn signed_in(client: &Client, project: Uuid) -> Browser {
    let request = client.request(Method::POST, "/api/sign-in-codes");
    let request = request.header("x-project-id", project.to_string());
    let (status, code) = answer(request.send().await.unwrap()).await;
    assert_eq!(status, StatusCode::CREATED, "{code}");
    let mut browser = Browser::new(client.url.clone());
    let body = json!({"code": code["code"]});
    let (status, session) = browser.send(Method::POST, "/api/session", Some(body)).await;
    assert_eq!(status, StatusCode::CREATED, "{session}");
    browser
}

async fn switch(browser: &mut Browser, project: Uuid) -> (StatusCode, Value) {
    let body = json!({"projectId": project});
    browser.send(Method::POST, "/api/session/project", Some(body)).await
}

/// The status and the code of a refusal.
fn refusal((status, problem): (StatusCode, Value)) -> (StatusCode, String) {
    (status, problem["code"].as_str().unwrap_or_default().to_owned())
}

fn refused(status: StatusCode, code: &str) -> (StatusCode, String) {
    (status, code.to_owned())
}

async fn listed(browser: &mut Browser) -> Vec<String> {
    let (status, list) = browser.send(Method::GET, "/api/projects", None).await;
    assert_eq!(status, StatusCode::OK, "{list}");
    shown(&list)
}

/// Name and role of each project, with a mark at the current one.
fn shown(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().unwrap().iter();
    items
        .map(|item| {
            let mark = if item["isCurrent"] == json!(true) { " *" } else { "" };
            let text = |field: &str| item[field].as_str().unwrap().to_owned();
            format!("{} {}{mark}", text("name"), text("role"))
        })
        .collect()
}

#[tokio::test]
async fn a_credential_lists_the_projects_that_it_opens() {
    let app = quiet().await;
    let (user, first) = (app.db.user_id, app.db.workspace_id);
    let second = another_project(&app.db, "Zoo", user, Role::Viewer).await;
    another_project(&app.db, "robots", user, Role::Service).await;
    let (stranger, _) = app.db.another_user().await;
    another_project(&app.db, "foreign", stranger, Role::Owner).await;

    let all = key_of_all(&app, user).await;
    let get = async |path: &str| {
        let request = all.request(Method::GET, path);
        let request = request.header("x-project-id", second.to_string());
        let (status, list) = answer(request.send().await.unwrap()).await;
        assert_eq!(status, StatusCode::OK, "{list}");
        list
    };
    let list = get("/api/projects").await;
    assert_eq!(shown(&list), ["robots service", "test owner", "Zoo viewer *"]);
    assert_eq!(list["items"][1]["id"], json!(first));
    let page = get("/api/projects?limit=2").await;
    assert_eq!(shown(&page), ["robots service", "test owner"]);
    let cursor = page["nextCursor"].as_str().expect("another page");
    let page = get(&format!("/api/projects?limit=2&cursor={cursor}")).await;
    assert_eq!(
        (shown(&page), &page["nextCursor"]),
        (vec!["Zoo viewer *".to_owned()], &json!(null))
    );

    let mut browser = signed_in(&all, first).await;
    assert_eq!(
        listed(&mut browser).await,
        ["test owner *", "Zoo viewer"],
        "a service account is never signed in with a browser"
    );
    let (status, list) = app.client().get("/api/projects").await;
    assert_eq!(status, StatusCode::OK, "{list}");
    assert_eq!(shown(&list), ["test owner *"], "a key of one project");
    let mut browser = signed_in(&app.client(), first).await;
    assert_eq!(listed(&mut browser).await, ["test owner *"], "a session of that key");
}

#[tokio::test]
async fn a_session_goes_on_in_another_project_and_back() {
    let app = quiet().await;
    let (user, first) = (app.db.user_id, app.db.workspace_id);
    let second = another_project(&app.db, "second", user, Role::Viewer).await;
    let all = key_of_all(&app, user).await;
    let (mut browser, mut other) = (signed_in(&all, first).await, signed_in(&all, first).await);
    let (status, chat) = browser.send(Method::POST, "/api/conversations", Some(json!({}))).await;
    assert_eq!(status, StatusCode::CREATED, "{chat}");
    let of_chat = format!("/api/conversations/{}", chat["id"].as_str().unwrap());

    let (status, there) = switch(&mut browser, second).await;
    assert_eq!(status, StatusCode::OK, "{there}");
    assert_eq!(browser.me().await.as_ref(), Some(&there), "the same as GET /api/me");
    assert_eq!(
        (&there["userId"], &there["projectId"], &there["role"], &there["scopes"]),
        (&json!(user), &json!(second), &json!("viewer"), &json!(["read"]))
    );
    assert_eq!(listed(&mut browser).await, ["second viewer *", "test owner"]);
    let (_, list) = browser.send(Method::GET, "/api/conversations", None).await;
    assert_eq!(list["items"], json!([]));
    assert_eq!(browser.send(Method::GET, &of_chat, None).await.0, StatusCode::NOT_FOUND);
    let posted = browser.send(Method::POST, "/api/conversations", Some(json!({}))).await;
    assert_eq!(refusal(posted), refused(StatusCode::FORBIDDEN, "scope_missing"));
    let (_, sessions) = browser.send(Method::GET, "/api/sessions", None).await;
    let current = sessions["items"].as_array().unwrap().iter();
    let current: Vec<&Value> = current.filter(|session| session["isCurrent"] == json!(true)).collect();
    let [session] = current.as_slice() else {
        panic!("{sessions}");
    };
    assert_eq!(
        (&session["project"], &session["scopes"], &session["begunBy"]),
        (&json!("second"), &json!(["read"]), &json!("code"))
    );
    let me = other.me().await.expect("signed in");
    assert_eq!(me["projectId"], json!(first), "another session of the user stays");

    // What is repeated changes nothing more.
    assert_eq!(switch(&mut browser, second).await, (StatusCode::OK, there));
    let (status, back) = switch(&mut browser, first).await;
    assert_eq!(
        (status, &back["role"], &back["scopes"]),
        (
            StatusCode::OK,
            &json!("owner"),
            &json!(["read", "write", "admin", "worker"])
        )
    );
    assert_eq!(browser.send(Method::GET, &of_chat, None).await.0, StatusCode::OK);
    let told: Vec<(Uuid, String, String)> = sqlx::query_as(
        "select project_id, action, actor from audit.entries where target = 'session:' || $1
         and action in ('session.left', 'session.entered') order by id",
    )
    .bind(session["id"].as_str().unwrap())
    .fetch_all(&app.db.pool)
    .await
    .unwrap();
    let entry = |project: Uuid, action: &str| (project, action.to_owned(), format!("user:{user}"));
    assert_eq!(
        told,
        [
            entry(first, "session.left"),
            entry(second, "session.entered"),
            entry(second, "session.left"),
            entry(first, "session.entered"),
        ]
    );
}

#[tokio::test]
async fn the_streams_of_the_project_that_a_session_leaves_end() {
    let app = quiet().await;
    let (user, first) = (app.db.user_id, app.db.workspace_id);
    let second = another_project(&app.db, "second", user, Role::Owner).await;
    let mut browser = signed_in(&key_of_all(&app, user).await, first).await;
    let posted = app.client().post_message(json!({"message": "hello"})).await;
    let conversation = posted["conversationId"].as_str().unwrap();
    let events = format!("{}/api/conversations/{conversation}/events", app.url());
    let cookie = format!("rejoin_session={}", browser.cookie("rejoin_session").unwrap());
    let request = reqwest::Client::new().get(&events).header("cookie", &cookie);
    let stream = request.send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let body = Some(json!({"conversationId": conversation}));
    let (status, ticket) = browser.send(Method::POST, "/api/stream-tickets", body).await;
    assert_eq!(status, StatusCode::CREATED, "{ticket}");
    assert_eq!(switch(&mut browser, second).await.0, StatusCode::OK);
    let with_ticket = format!("{events}?ticket={}", ticket["ticket"].as_str().unwrap());
    assert_eq!(
        reqwest::get(with_ticket).await.unwrap().status(),
        StatusCode::UNAUTHORIZED
    );
    Stream::of(stream).rest().await;
    let request = reqwest::Client::new().get(&events).header("cookie", &cookie);
    assert_eq!(request.send().await.unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_session_enters_no_project_that_its_key_does_not_open() {
    let app = quiet().await;
    let (user, first) = (app.db.user_id, app.db.workspace_id);
    let second = another_project(&app.db, "second", user, Role::Member).await;
    let robots = another_project(&app.db, "robots", user, Role::Service).await;
    let (stranger, _) = app.db.another_user().await;
    let foreign = another_project(&app.db, "foreign", stranger, Role::Owner).await;
    let all = key_of_all(&app, user).await;
    let mut browser = signed_in(&all, first).await;
    for project in [foreign, robots, Uuid::now_v7()] {
        assert_eq!(
            refusal(switch(&mut browser, project).await),
            refused(StatusCode::NOT_FOUND, "project_not_found")
        );
    }
    // A key of one project opens no other, and neither does a session of it, whether the other one exists or not.
    let mut bound = signed_in(&app.client(), first).await;
    for project in [second, foreign, Uuid::now_v7()] {
        assert_eq!(
            refusal(switch(&mut bound, project).await),
            refused(StatusCode::CONFLICT, "session_stays")
        );
    }
    assert_eq!(switch(&mut bound, first).await.0, StatusCode::OK, "it is there");
    // Keys are not moved.
    let body = json!({"projectId": second});
    assert_eq!(
        refusal(app.client().post("/api/session/project", body.clone()).await),
        refused(StatusCode::CONFLICT, "not_a_session")
    );
    let request = all.request(Method::POST, "/api/session/project").json(&body);
    let request = request.header("x-project-id", first.to_string());
    assert_eq!(
        refusal(answer(request.send().await.unwrap()).await),
        refused(StatusCode::CONFLICT, "not_a_session")
    );
    // Nor by pages of other sites.
    let cookie = format!("rejoin_session={}", browser.cookie("rejoin_session").unwrap());
    let request = reqwest::Client::new()
        .post(format!("{}/api/session/project", app.url()))
        .header("cookie", cookie)
        .header("sec-fetch-site", "cross-site")
        .json(&body);
    assert_eq!(
        refusal(answer(request.send().await.unwrap()).await),
        refused(StatusCode::FORBIDDEN, "cross_site")
    );
    for browser in [&mut browser, &mut bound] {
        assert_eq!(browser.me().await.unwrap()["projectId"], json!(first));
    }
    let moved: i64 = sqlx::query_scalar("select count(*) from audit.entries where action = 'session.entered'")
        .fetch_one(&app.db.pool)
        .await
        .unwrap();
    assert_eq!(moved, 0);
}

#[tokio::test]
async fn a_removed_member_does_not_get_back_by_a_session_elsewhere() {
    let app = quiet().await;
    let first = app.db.workspace_id;
    let (user, _) = member(&app, Role::Member).await;
    let second = another_project(&app.db, "second", user, Role::Owner).await;
    let mut browser = signed_in(&key_of_all(&app, user).await, first).await;
    assert_eq!(switch(&mut browser, second).await.0, StatusCode::OK);
    let member = format!("/api/admin/projects/{first}/members/{user}");
    assert_eq!(app.client().delete(&member).await.0, StatusCode::NO_CONTENT);
    assert_eq!(
        refusal(switch(&mut browser, first).await),
        refused(StatusCode::NOT_FOUND, "project_not_found")
    );
    assert_eq!(listed(&mut browser).await, ["second owner *"]);
    assert_eq!(browser.me().await.unwrap()["projectId"], json!(second));
}

#[tokio::test]
async fn a_session_of_a_provider_opens_what_its_token_opened() {
    let site = Site::start(|_, _| {}).await;
    let (user, first) = (site.db.user_id, site.db.workspace_id);
    let second = another_project(&site.db, "second", user, Role::Viewer).await;
    let mut browser = site.browser();
    // The role there allows little; the one in the other project allows more.
    let start = format!("?projectId={second}");
    let known = super::oidc::KNOWN;
    assert_eq!(site.sign_in_from(&mut browser, &start, known, |_| {}).await, "/");
    assert_eq!(browser.me().await.unwrap()["scopes"], json!(["read"]));
    let (status, me) = switch(&mut browser, first).await;
    assert_eq!(
        (status, &me["role"], &me["scopes"]),
        (StatusCode::OK, &json!("owner"), &json!(["read", "write", "admin"]))
    );
    // Also after it has accepted an invitation, and the provider can still end it.
    let third = another_project(&site.db, "third", site.db.another_user().await.0, Role::Owner).await;
    let mut db = site.db.pool.acquire().await.unwrap();
    sqlx::query(
        "insert into kb.invitations (id, project_id, hash, role, max_uses, made_by, expires_at)
         select gen_random_uuid(), m.project_id, sha256('token'), 'member', 1, m.user_id, now() + interval '1 minute'
         from kb.project_members m where m.project_id = $1",
    )
    .bind(third)
    .execute(&mut *db)
    .await
    .unwrap();
    let body = Some(json!({"invitation": "token"}));
    let (status, joined) = browser.send(Method::POST, "/api/invitations/accept", body).await;
    assert_eq!(status, StatusCode::CREATED, "{joined}");
    assert_eq!(
        listed(&mut browser).await,
        ["second viewer", "test owner", "third member *"]
    );
    let (status, me) = switch(&mut browser, first).await;
    assert_eq!(
        (status, &me["scopes"]),
        (StatusCode::OK, &json!(["read", "write", "admin"]))
    );
    let its_provider: i64 = sqlx::query_scalar(
        "select count(*) from kb.sso_sessions s join kb.api_keys k on k.id = s.session_id where k.begun_by = 'invitation'",
    )
    .fetch_one(&mut *db)
    .await
    .unwrap();
    assert_eq!(its_provider, 1);
    drop(db);

    let site = Site::start(|args, _| args.oidc_project_claim = Some("projects".to_owned())).await;
    let second = another_project(&site.db, "second", site.db.user_id, Role::Viewer).await;
    let first = site.db.workspace_id;
    let mut browser = site.browser();
    let named = |claims: &mut Value| claims["projects"] = json!([first]);
    assert_eq!(site.sign_in(&mut browser, known, named).await, "/");
    assert_eq!(
        refusal(switch(&mut browser, second).await),
        refused(StatusCode::CONFLICT, "session_stays"),
        "its token opened one project"
    );
}

#[tokio::test]
async fn an_invitation_lets_no_session_of_one_key_out_of_its_project() {
    let app = quiet().await;
    let (user, first) = (app.db.user_id, app.db.workspace_id);
    let (maker, _) = app.db.another_user().await;
    let second = another_project(&app.db, "second", maker, Role::Owner).await;
    let mut db = app.db.pool.acquire().await.unwrap();
    let made = auth::create_key(&mut db, maker, Some(second), "owner", &Scope::ALL, None).await;
    let reads = auth::create_key(&mut db, user, Some(first), "reads", &[Scope::Read], None).await;
    drop(db);
    let owner = Client::new(app.url(), &made.unwrap().1);
    let invitations = format!("/api/admin/projects/{second}/invitations");
    let (status, made) = owner.post(&invitations, json!({"role": "owner"})).await;
    assert_eq!(status, StatusCode::CREATED, "{made}");
    let mut browser = signed_in(&Client::new(app.url(), &reads.unwrap().1), first).await;
    let body = Some(json!({"invitation": made["token"]}));
    let (status, joined) = browser.send(Method::POST, "/api/invitations/accept", body).await;
    assert_eq!(status, StatusCode::CREATED, "{joined}");
    assert_eq!(
        refusal(switch(&mut browser, first).await),
        refused(StatusCode::CONFLICT, "session_stays"),
        "the key only reads there"
    );
}

#[tokio::test]
async fn the_database_moves_sessions_to_projects_of_their_users_alone() {
    let db = support::database().await;
    let foreign = {
        let mut connection = db.pool.acquire().await.unwrap();
        workspaces::create(&mut connection, "foreign").await.unwrap()
    };
    let (key, _) = {
        let mut connection = db.pool.acquire().await.unwrap();
        auth::create_key(&mut connection, db.user_id, None, "all", &Scope::ALL, None)
            .await
            .unwrap()
    };
    let session = Uuid::now_v7();
    sqlx::query(
        "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, scopes, kind, expires_at, scopes_anywhere)
         values ($1, $2, $3, '', '', sha256('session'), '{read}', 'session', now() + interval '1 minute', '{read}')",
    )
    .bind(session)
    .bind(db.user_id)
    .bind(db.workspace_id)
    .execute(&db.pool)
    .await
    .unwrap();
    for (id, project, moves) in [
        (session, db.workspace_id, true),
        (session, foreign, false),
        (key, db.workspace_id, false),
    ] {
        let mut tx = rls::begin(&db.pool, rls::Scope::Login).await.unwrap();
        let moved = sqlx::query("select left_project from kb.switch_session($1, $2)")
            .bind(id)
            .bind(project)
            .fetch_all(&mut *tx)
            .await
            .unwrap();
        assert_eq!(!moved.is_empty(), moves, "{id} to {project}");
    }
    for statement in [
        "update kb.api_keys set project_id = null",
        "update kb.api_keys set scopes = '{admin}'",
        "update kb.api_keys set scopes_anywhere = '{admin}'",
    ] {
        let mut tx = rls::begin(&db.pool, rls::Scope::Login).await.unwrap();
        let error = sqlx::query(statement).execute(&mut *tx).await.unwrap_err();
        let error = error.into_database_error().expect("an error of the database");
        assert_eq!(error.code().as_deref(), Some("42501"), "{statement}");
    }
}
