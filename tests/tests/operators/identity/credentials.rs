//! Rights of keys, tokens and tickets, condition by condition, in the database alone (invariant I14). Over HTTP:
//! `auth`, `keys`, `members` and `oidc`.

use rejoin_identity::auth::{self, AuthError, Caller, Credential, Expiry, Kind, SessionBasis};
use rejoin_identity::workspaces;
use rejoin_types::access::Scope;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use rejoin_tests::support::{self, TestDatabase};

async fn run(db: &TestDatabase, sql: String) {
    sqlx::query(AssertSqlSafe(sql.clone()))
        .execute(&db.pool)
        .await
        .unwrap_or_else(|error| panic!("{sql}: {error}"));
}

/// A key of the test's user for `project`; None: for all of the user's projects.
async fn key(db: &TestDatabase, project: Option<Uuid>) -> (Uuid, String) {
    let mut connection = db.pool.acquire().await.expect("a connection");
    auth::create_key(&mut connection, db.user_id, project, "test", &Scope::ALL, None)
        .await
        .expect("a key")
}

/// Another project of the test's user.
async fn second_workspace(db: &TestDatabase) -> Uuid {
    let mut connection = db.pool.acquire().await.expect("a connection");
    let id = workspaces::create(&mut connection, "second").await.expect("a project");
    workspaces::add_member(&mut connection, id, db.user_id, workspaces::Role::Owner)
        .await
        .expect("a member");
    id
}

async fn caller(db: &TestDatabase, key: &str) -> Result<Caller, AuthError> {
    auth::authenticate(&db.pool, Kind::Key, key, None).await
}

#[tokio::test]
async fn a_key_is_good_until_it_is_revoked_or_expires() {
    let db = support::database().await;
    let (id, shown) = key(&db, Some(db.workspace_id)).await;
    let found = caller(&db, &shown).await.expect("a good key");
    assert_eq!(
        (found.credential, found.shown_in, found.workspace_id, found.user_id),
        (Credential::Key(id), Kind::Key, db.workspace_id, db.user_id)
    );
    let as_session = auth::authenticate(&db.pool, Kind::Session, &shown, None).await;
    assert!(matches!(as_session, Err(AuthError::UnknownKey)), "{as_session:?}");
    let elsewhere = auth::authenticate(&db.pool, Kind::Key, &shown, Some(Uuid::now_v7())).await;
    assert!(matches!(elsewhere, Err(AuthError::UnknownWorkspace)), "{elsewhere:?}");
    for end in ["revoked_at = now()", "expires_at = now() - interval '1 second'"] {
        let (id, shown) = key(&db, Some(db.workspace_id)).await;
        caller(&db, &shown).await.expect("a good key");
        run(&db, format!("update kb.api_keys set {end} where id = '{id}'")).await;
        let over = caller(&db, &shown).await;
        assert!(matches!(over, Err(AuthError::UnknownKey)), "{end}: {over:?}");
    }
}

#[tokio::test]
async fn a_key_of_one_project_opens_no_other_of_its_users() {
    let db = support::database().await;
    let second = second_workspace(&db).await;
    let (_, of_one) = key(&db, Some(db.workspace_id)).await;
    assert_eq!(
        caller(&db, &of_one).await.expect("no choice is left").workspace_id,
        db.workspace_id
    );
    let other = auth::authenticate(&db.pool, Kind::Key, &of_one, Some(second)).await;
    assert!(matches!(other, Err(AuthError::UnknownWorkspace)), "{other:?}");
    let (_, of_all) = key(&db, None).await;
    assert!(matches!(caller(&db, &of_all).await, Err(AuthError::WorkspaceNeeded)));
    let chosen = auth::authenticate(&db.pool, Kind::Key, &of_all, Some(second)).await;
    assert_eq!(chosen.expect("it is named").workspace_id, second);
}

#[tokio::test]
async fn a_ticket_reads_one_stream_while_its_credential_is_good() {
    let db = support::database().await;
    let target = Uuid::now_v7();
    let redeem = async |ticket: &str, target| {
        auth::redeem_ticket(&db.db.pool_pg, ticket, target)
            .await
            .expect("an answer")
    };
    let ticket_of = async |caller: &Caller| {
        let mut connection = db.pool.acquire().await.expect("a connection");
        auth::create_ticket(&mut connection, caller, target)
            .await
            .expect("a ticket")
            .0
    };
    let (id, shown) = key(&db, Some(db.workspace_id)).await;
    let by_key = caller(&db, &shown).await.expect("a good key");
    let ticket = ticket_of(&by_key).await;
    assert!(redeem(&ticket, Uuid::now_v7()).await.is_none(), "for another stream");
    let reader = redeem(&ticket, target).await.expect("it is good");
    assert_eq!(
        (reader.credential, reader.user_id, reader.workspace_id),
        (Credential::Key(id), db.user_id, db.workspace_id)
    );
    assert_eq!(
        Scope::ALL.map(|scope| reader.may(scope)),
        [true, false, false, false],
        "it reads, whoever made it"
    );
    assert!(redeem(&ticket, target).await.is_none(), "it was used");

    let now = support::later() - chrono::TimeDelta::days(1);
    let expiry = Expiry::of(now + chrono::TimeDelta::hours(1), now).expect("an hour");
    let by_token = Caller {
        credential: Credential::Token(expiry),
        ..by_key.clone()
    };
    let reader = redeem(&ticket_of(&by_token).await, target).await.expect("it is good");
    assert!(reader.credential.key_id().is_none());
    for (of, end, back) in [
        (
            &by_key,
            "update kb.stream_tickets set expires_at = now() - interval '1 second'",
            "select",
        ),
        (
            &by_token,
            "update kb.stream_tickets set token_expires_at = now() - interval '1 second' where key_id is null",
            "select",
        ),
        (
            &by_key,
            "update kb.api_keys set revoked_at = now()",
            "update kb.api_keys set revoked_at = null",
        ),
        (
            &by_key,
            "update kb.api_keys set expires_at = now() - interval '1 second'",
            "update kb.api_keys set expires_at = null",
        ),
        (&by_key, "delete from kb.project_members", "select"),
    ] {
        let ticket = ticket_of(of).await;
        run(&db, end.to_owned()).await;
        assert!(redeem(&ticket, target).await.is_none(), "{end}");
        run(&db, back.to_owned()).await;
    }
}

#[tokio::test]
async fn a_stream_needs_a_good_key_and_a_member_of_its_project() {
    let db = support::database().await;
    let second = second_workspace(&db).await;
    let foreign = {
        let mut connection = db.pool.acquire().await.expect("a connection");
        workspaces::create(&mut connection, "foreign").await.expect("a project")
    };
    let basis = |key_id, workspace_id| SessionBasis {
        key_id,
        user_id: db.user_id,
        workspace_id,
    };
    let of_key = async || basis(Some(key(&db, Some(db.workspace_id)).await.0), db.workspace_id);
    let (good, revoked, expired) = (of_key().await, of_key().await, of_key().await);
    for (basis, end) in [
        (revoked, "revoked_at = now()"),
        (expired, "expires_at = now() - interval '1 second'"),
    ] {
        let id = basis.key_id.expect("of a key");
        run(&db, format!("update kb.api_keys set {end} where id = '{id}'")).await;
    }
    let token = basis(None, db.workspace_id);
    let of_all = basis(Some(key(&db, None).await.0), second);
    let all = [
        good,
        revoked,
        expired,
        basis(Some(Uuid::now_v7()), db.workspace_id),
        token,
        of_all,
        // A member of it, with the key of another one: a session that has moved.
        basis(good.key_id, second),
        // A member of two other projects.
        basis(good.key_id, foreign),
        basis(None, foreign),
    ];
    let mut standing = auth::still_valid(&db.pool, &all).await.expect("an answer");
    standing.sort();
    let mut expected = [good, token, of_all];
    expected.sort();
    assert_eq!(standing, expected);
}

#[tokio::test]
async fn a_projects_list_has_its_keys_and_no_ended_session() {
    let db = support::database().await;
    let second = second_workspace(&db).await;
    let (stranger, strangers) = {
        let mut connection = db.pool.acquire().await.expect("a connection");
        let user = workspaces::ensure_user(&mut connection, "stranger@example.org")
            .await
            .expect("a user");
        workspaces::add_member(&mut connection, second, user, workspaces::Role::Owner)
            .await
            .expect("a member");
        let key = auth::create_key(&mut connection, user, None, "test", &Scope::ALL, None).await;
        (user, key.expect("a key").0)
    };
    let (of_second, _) = key(&db, Some(second)).await;
    let (of_all, _) = key(&db, None).await;
    let (revoked, _) = key(&db, Some(db.workspace_id)).await;
    assert!(auth::revoke_key(&db.pool, revoked).await.expect("an answer"));
    assert!(
        auth::revoke_key(&db.pool, revoked).await.expect("an answer"),
        "once more"
    );
    let nobodys = auth::revoke_key(&db.pool, Uuid::now_v7()).await.expect("an answer");
    assert!(!nobodys, "there is none");
    let (session, _) = key(&db, Some(db.workspace_id)).await;
    let (over, _) = key(&db, Some(db.workspace_id)).await;
    for (id, until) in [
        (session, "now() + interval '1 hour'"),
        (over, "now() - interval '1 hour'"),
    ] {
        run(
            &db,
            format!("update kb.api_keys set kind = 'session', expires_at = {until} where id = '{id}'"),
        )
        .await;
    }
    let listed = async |project| -> Vec<Uuid> {
        let keys = auth::list_keys(&db.pool, project).await.expect("a list");
        keys.iter().map(|key| key.id).collect()
    };
    let here = listed(db.workspace_id).await;
    for (id, is_listed) in [
        (of_all, true),
        (revoked, true),
        (session, true),
        (over, false),
        (of_second, false),
        (strangers, false),
    ] {
        assert_eq!(here.contains(&id), is_listed, "{id}");
    }
    assert!(listed(second).await.contains(&strangers), "{stranger}");
}
