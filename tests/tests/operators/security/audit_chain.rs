//! The hash chain of the audit log: who may write it, and detection of tampering in the database.

use std::process::Output;

use rejoin_db::rls;
use rejoin_db::{Db, Role};
use rejoin_identity::audit::{self, Broken, Fault};
use rejoin_tests::support::{self, TestDatabase};
use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection};
use uuid::Uuid;

use super::audit::{json_of, rejoin, tell, verify};

/// What an owner can do by dropping and recreating the trigger.
async fn forge(db: &TestDatabase, sql: &str) {
    let whole = format!(
        "begin; alter table audit.entries disable trigger all; {sql}; alter table audit.entries enable always trigger only_grows; commit"
    );
    sqlx::raw_sql(AssertSqlSafe(whole)).execute(&db.pool).await.unwrap();
}

#[tokio::test]
async fn entries_are_written_by_the_function_only_and_never_changed() {
    let db = support::database().await;
    tell(&db.pool, Some(db.workspace_id), "one").await;
    let before = verify(&db, None).await;
    let rewrites = [
        "update audit.entries set target = 'x'",
        "update audit.entries set target = 'x' where false",
        "delete from audit.entries",
        "truncate audit.entries",
        "insert into audit.entries select 2, at, project_id, actor, credential, action, target, detail, hash, hash from audit.entries",
    ];
    let refused = |done: Result<sqlx::postgres::PgQueryResult, sqlx::Error>, what: &str| {
        let code = done
            .expect_err(what)
            .into_database_error()
            .and_then(|error| error.code().map(String::from));
        assert_eq!(code.as_deref(), Some("42501"), "{what}");
    };
    for role in ["rejoin_app", "rejoin_gate", "rejoin_worker"] {
        for statement in rewrites {
            let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
            let opening = format!(
                "set local role {role}; set local rejoin.project = '{}'; set local rejoin.owner = '{}'",
                db.workspace_id, db.user_id
            );
            sqlx::raw_sql(AssertSqlSafe(opening)).execute(&mut *tx).await.unwrap();
            refused(
                sqlx::query(statement).execute(&mut *tx).await,
                &format!("{role}: {statement}"),
            );
        }
    }
    // The owner, also with triggers off for the session.
    for statement in &rewrites[..4] {
        for setting in ["origin", "replica"] {
            let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
            let opening = format!("set local session_replication_role = '{setting}'");
            sqlx::raw_sql(AssertSqlSafe(opening)).execute(&mut *tx).await.unwrap();
            refused(
                sqlx::query(*statement).execute(&mut *tx).await,
                &format!("the owner, {setting}: {statement}"),
            );
        }
    }
    assert_eq!(verify(&db, None).await, before);
    // A user's transaction can't record entries of another user, or another project.
    let pool = Db::connect_lazy(&db.args(), "rejoin-test-app", Role::App)
        .unwrap()
        .pool_sqlx;
    let append = "select audit.append($1, $2, null, 'x', 'y', '{}')";
    let me = format!("user:{}", db.user_id);
    for (project, actor, allowed) in [
        (Some(db.workspace_id), me.as_str(), true),
        (Some(Uuid::now_v7()), me.as_str(), false),
        (None, me.as_str(), false),
        (Some(db.workspace_id), "operator", false),
    ] {
        let mut tx = rls::begin(&pool, rls::Scope::User(db.owner())).await.unwrap();
        let done = sqlx::query(append).bind(project).bind(actor).execute(&mut *tx).await;
        if allowed {
            done.unwrap();
        } else {
            refused(done, &format!("{project:?} {actor}"));
        }
    }
}

#[tokio::test]
async fn an_entry_that_was_changed_taken_out_or_cut_off_is_found() {
    let db = support::database().await;
    for n in 1..=5 {
        assert_eq!(
            tell(&db.pool, (n % 2 == 0).then_some(db.workspace_id), &format!("t{n}")).await,
            n
        );
    }
    let whole = verify(&db, None).await;
    assert!(whole.holds());
    assert_eq!(whole.entries, 5);
    let head = whole.head;
    let broken = async |sql: &str| {
        let mut tx = rejoin_db::begin(&db.pool).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(format!(
            "alter table audit.entries disable trigger all; {sql}"
        )))
        .execute(&mut *tx)
        .await
        .unwrap();
        audit::verify(&mut tx, None).await.unwrap().broken
    };
    for (sql, entry, how) in [
        ("update audit.entries set target = 't9' where id = 3", 3, Fault::Changed),
        (
            "update audit.entries set actor = 'user:x' where id = 5",
            5,
            Fault::Changed,
        ),
        (
            "update audit.entries set at = at + interval '1 microsecond' where id = 1",
            1,
            Fault::Changed,
        ),
        (
            "update audit.entries set project_id = null where id = 2",
            2,
            Fault::Changed,
        ),
        (
            "update audit.entries set credential = 'token' where id = 2",
            2,
            Fault::Changed,
        ),
        (
            "update audit.entries set detail = detail || '{\"n\": 2}' where id = 4",
            4,
            Fault::Changed,
        ),
        // From one column into the next one.
        (
            "update audit.entries set action = action || 't4', target = 'x' where id = 4",
            4,
            Fault::Changed,
        ),
        (
            "update audit.entries set hash = sha256('x') where id = 2",
            2,
            Fault::Changed,
        ),
        (
            "update audit.entries set prev_hash = sha256('x') where id = 2",
            2,
            Fault::WrongLink,
        ),
        ("delete from audit.entries where id = 3", 4, Fault::Gap),
        ("delete from audit.entries where id = 1", 2, Fault::Gap),
        (
            "delete from audit.entries where id = 3; update audit.entries set id = id - 1 where id > 3",
            3,
            Fault::WrongLink,
        ),
    ] {
        assert_eq!(broken(sql).await, Some(Broken { entry, how }), "{sql}");
    }
    // Only a stored head reveals missing entries.
    forge(&db, "delete from audit.entries where id = 5").await;
    let cut = verify(&db, None).await;
    assert!(cut.holds(), "a cut chain looks whole");
    assert!(!verify(&db, head).await.holds());
    assert!(verify(&db, cut.head).await.holds());
    // Entries appended later do not repair it.
    tell(&db.pool, None, "t5").await;
    assert_eq!(verify(&db, None).await.entries, 5);
    assert!(!verify(&db, head).await.holds());
}

#[tokio::test]
async fn the_server_ends_a_stall_between_an_entry_and_its_commit() {
    let db = support::database().await;
    let mut connection = db.pool.acquire().await.unwrap();
    let limit = "select current_setting('idle_in_transaction_session_timeout')";
    let before: String = sqlx::query_scalar(limit).fetch_one(&mut *connection).await.unwrap();
    let mut tx = connection.begin().await.unwrap();
    let append = "select audit.append(null, 'operator', null, 'x', 'y', '{}')";
    sqlx::query(append).execute(&mut *tx).await.unwrap();
    let within: String = sqlx::query_scalar(limit).fetch_one(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    let after: String = sqlx::query_scalar(limit).fetch_one(&mut *connection).await.unwrap();
    assert_eq!((within.as_str(), after), ("10s", before));
}

#[tokio::test]
async fn twenty_who_append_at_once_make_one_chain_without_a_gap() {
    let db = support::database().await;
    let begun = std::sync::Arc::new(tokio::sync::Barrier::new(20));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let (url, begun) = (db.args(), begun.clone());
        tasks.spawn(async move {
            let pool = Db::connect_lazy(&url, "rejoin-test-audit", Role::Worker)
                .unwrap()
                .pool_sqlx;
            begun.wait().await;
            for m in 0..5 {
                if m == 3 {
                    // What is rolled back leaves no gap.
                    let mut tx = rejoin_db::begin(&pool).await.unwrap();
                    let append = "select audit.append(null, 'operator', null, 'x', 'undone', '{}')";
                    sqlx::query(append).execute(&mut *tx).await.unwrap();
                    tx.rollback().await.unwrap();
                }
                tell(&pool, None, &format!("{n} {m}")).await;
            }
            pool.close().await;
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let report = verify(&db, None).await;
    assert!(report.holds(), "{report:?}");
    assert_eq!(report.entries, 100);
    let in_order: bool = sqlx::query_scalar("select bool_and(at >= before) from (select at, lag(at, 1, at) over (order by id) as before from audit.entries) e")
        .fetch_one(&db.pool)
        .await
        .unwrap();
    assert!(in_order, "the times go with the numbers");
}

#[tokio::test]
async fn the_command_fails_where_the_chain_is_broken_and_says_why() {
    let db = support::database().await;
    let (empty, code) = json_of(&rejoin(&db, &["audit", "verify", "--json"]));
    assert_eq!(
        (empty, code),
        (
            json!({"entries": 0, "head": null, "broken": null, "expectedFound": null}),
            Some(0)
        )
    );
    for n in 1..=3 {
        tell(&db.pool, None, &format!("t{n}")).await;
    }
    let (report, code) = json_of(&rejoin(&db, &["audit", "verify", "--json"]));
    assert_eq!(
        (&report["entries"], &report["broken"], code),
        (&json!(3), &Value::Null, Some(0))
    );
    let head = report["head"].as_str().unwrap();
    assert_eq!(
        rejoin(&db, &["audit", "verify", "--expect", head]).status.code(),
        Some(0)
    );
    let printed = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let plain = rejoin(&db, &["audit", "verify"]);
    assert!(String::from_utf8_lossy(&plain.stdout).contains(head));
    assert!(printed(&plain).contains("--expect"), "{}", printed(&plain));
    assert_eq!(
        rejoin(&db, &["audit", "verify", "--expect", "00"]).status.code(),
        Some(2)
    );

    forge(&db, "delete from audit.entries where id = 3").await;
    assert_eq!(rejoin(&db, &["audit", "verify"]).status.code(), Some(0));
    let cut = rejoin(&db, &["audit", "verify", "--json", "--expect", head]);
    assert_eq!(
        (&json_of(&cut).0["expectedFound"], cut.status.code()),
        (&json!(false), Some(1))
    );
    assert!(printed(&cut).contains(head), "{}", printed(&cut));
    forge(&db, "update audit.entries set target = 'x' where id = 2").await;
    let changed = rejoin(&db, &["audit", "verify", "--json"]);
    assert_eq!(
        (&json_of(&changed).0["broken"], changed.status.code()),
        (&json!({"entry": 2, "how": "changed"}), Some(1))
    );
    assert!(printed(&changed).contains("entry 2"), "{}", printed(&changed));
}
