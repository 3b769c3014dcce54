//! Limits of new keys: no more rights than their maker's, and the database's restrictions of the API (invariant I14).

use rejoin_db::rls;
use rejoin_identity::keys::MAX_KEYS;
use rejoin_identity::workspaces::{self, Role};
use rejoin_tests::client::{Client, answer};
use rejoin_types::access::Scope;
use rejoin_types::owner::Owner;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use uuid::Uuid;

use super::keys::{given, path, quiet, sign_in, with_cookie};

#[tokio::test]
async fn what_makes_no_sense_as_a_key_is_refused() {
    let app = quiet().await;
    for body in [
        json!({"name": " ", "scopes": ["read"]}),
        json!({"name": "x".repeat(101), "scopes": ["read"]}),
        json!({"name": "a\nb", "scopes": ["read"]}),
        json!({"name": "x", "scopes": []}),
        json!({"name": "x", "scopes": ["root"]}),
        json!({"name": "x", "scopes": ["read"], "expiresInDays": 0}),
        json!({"name": "x", "scopes": ["read"], "expiresInDays": i64::MAX}),
        json!({"name": "x", "scopes": ["read"], "userId": Uuid::now_v7()}),
    ] {
        let (status, problem) = app.client().post(&path(&app), body.clone()).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}: {problem}");
    }
    sqlx::query(
        "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash)
         select gen_random_uuid(), $1, $2, 'many', '', sha256(n::text::bytea) from generate_series(1, $3) n",
    )
    .bind(app.db.user_id)
    .bind(app.db.workspace_id)
    .bind(i32::try_from(MAX_KEYS).unwrap())
    .execute(&app.db.pool)
    .await
    .unwrap();
    let body = json!({"name": "one more", "scopes": ["read"]});
    let (status, problem) = app.client().post(&path(&app), body).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::CONFLICT, &json!("too_many_keys"))
    );
}

#[tokio::test]
async fn no_key_makes_a_key_with_more_rights_or_a_longer_life() {
    let app = quiet().await;
    let (project, user) = (app.db.workspace_id, app.db.user_id);
    let (_, writer) = given(&app, user, project, &[Scope::Read, Scope::Write], None).await;
    let asked = json!({"name": "x", "scopes": ["read"]});
    for (status, problem) in [
        writer.post(&path(&app), asked.clone()).await,
        writer.get(&path(&app)).await,
        writer.delete(&format!("{}/{}", path(&app), Uuid::now_v7())).await,
    ] {
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing"))
        );
    }
    // An admin's key without `write`; and an operator's key, whose scopes exceed the role.
    let (_, admin) = given(&app, user, project, &[Scope::Read, Scope::Admin], Some(3600)).await;
    let (operator, key) = app.db.another_user().await;
    let mut db = app.db.pool.acquire().await.unwrap();
    workspaces::set_role(&mut db, project, operator, Role::Operator)
        .await
        .unwrap();
    drop(db);
    for client in [&admin, &Client::new(app.url(), &key)] {
        let (status, problem) = client
            .post(&path(&app), json!({"name": "x", "scopes": ["read", "write"]}))
            .await;
        assert_eq!(
            (status, &problem["code"]),
            (StatusCode::FORBIDDEN, &json!("scope_missing"))
        );
    }
    // Keys created with it expire with it, also via a browser's session.
    let ends = |made: &Value| made["expiresAt"].as_str().map(str::to_owned);
    let (_, made) = admin
        .post(
            &path(&app),
            json!({"name": "x", "scopes": ["admin"], "expiresInDays": 9}),
        )
        .await;
    let listed = admin.get(&path(&app)).await.1;
    let own = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["name"] == "given" && !item["expiresAt"].is_null());
    assert_eq!(ends(&made), ends(own.unwrap()));
    let cookie = sign_in(&admin).await;
    let (status, made) = answer(
        with_cookie(&app, Method::POST, &path(&app), &cookie)
            .json(&asked)
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(
        (status, ends(&made)),
        (StatusCode::CREATED, ends(own.unwrap())),
        "{made}"
    );
}

#[tokio::test]
async fn the_database_limits_the_api_to_keys_of_the_named_project() {
    let app = quiet().await;
    let (project, user) = (app.db.workspace_id, app.db.user_id);
    let mut db = app.db.pool.acquire().await.unwrap();
    let other = workspaces::create(&mut db, "other").await.unwrap();
    drop(db);
    let (theirs, _) = given(&app, user, other, &[Scope::Read], None).await;
    let (mine, _) = given(&app, user, project, &[Scope::Read], None).await;
    let here = rls::Scope::UserLogin(Owner {
        workspace_id: project,
        user_id: user,
    });
    let run = async |scope, sql: String| {
        let mut tx = rls::begin(&app.db.pool, scope).await.unwrap();
        let done = sqlx::query(AssertSqlSafe(sql))
            .execute(&mut *tx)
            .await
            .map(|done| done.rows_affected());
        drop(tx);
        done
    };
    let (somebody, _) = app.db.another_user().await;
    let insert_of = |user: Uuid, by: Uuid, project: Uuid| {
        format!(
            "insert into kb.api_keys (id, user_id, project_id, name, prefix, hash, made_by)
             values (gen_random_uuid(), '{user}', '{project}', 'x', '', '\\x00', '{by}')"
        )
    };
    let insert = |project: Uuid, user: Uuid| insert_of(user, user, project);
    let revoke = |id: Uuid| format!("update kb.api_keys set revoked_at = now() where id = '{id}'");
    assert_eq!(run(here, insert(project, user)).await.unwrap(), 1);
    for (scope, sql) in [
        (here, insert(other, user)),
        (here, insert(project, somebody)),
        (here, insert_of(somebody, user, project)),
        (here, insert_of(user, somebody, project)),
        (rls::Scope::Login, insert(project, user)),
        // Nothing else of a key can change, and a revoked one stays revoked.
        (
            here,
            format!("update kb.api_keys set scopes = '{{admin}}' where id = '{mine}'"),
        ),
        (
            here,
            format!("update kb.api_keys set revoked_at = null where id = '{mine}'"),
        ),
        (
            rls::Scope::Login,
            format!("update kb.api_keys set last_used_at = null where id = '{mine}'"),
        ),
    ] {
        let error = run(scope, sql.clone()).await.expect_err(&sql);
        let error = error.into_database_error().expect("an error of the database");
        assert_eq!(error.code().as_deref(), Some("42501"), "{sql}: {error}");
    }
    assert_eq!(run(here, revoke(mine)).await.unwrap(), 1);
    assert_eq!(run(here, revoke(theirs)).await.unwrap(), 0);
    assert_eq!(run(rls::Scope::Login, revoke(mine)).await.unwrap(), 0);
    let delete = format!("delete from kb.api_keys where id = '{mine}'");
    assert_eq!(run(here, delete).await.unwrap(), 0, "keys are never deleted");
}
