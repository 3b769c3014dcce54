//! Transactions whose caller goes away, while they begin or within a statement: the next one is not affected.

use std::time::Duration;

use rejoin_db::{Db, Role, rls, transactions};
use rejoin_tests::support::wait_for;
use sqlx::{PgPool, Row};

/// Waits until a statement of this database waits for an advisory lock.
async fn a_lock_is_waited_for(pool: &PgPool) {
    let waiting = "select true from pg_locks where locktype = 'advisory' and not granted and database = \
                   (select oid from pg_database where datname = current_database())";
    wait_for("a statement to wait for the lock", async || {
        sqlx::query_scalar::<_, bool>(waiting)
            .fetch_optional(pool)
            .await
            .unwrap()
    })
    .await;
}

#[tokio::test]
async fn an_abandoned_begin_does_not_affect_the_next_transaction() {
    let db = rejoin_tests::support::database().await;
    let mut args = db.args();
    args.db_connections = 1;
    let pool = Db::connect_lazy(&args, "rejoin-test-app", Role::App).unwrap().pool_sqlx;
    let mut in_the_way = rejoin_db::begin(&db.pool).await.unwrap();
    let lock = "select pg_advisory_xact_lock(1)";
    sqlx::query(lock).execute(&mut *in_the_way).await.unwrap();
    let begins = tokio::spawn({
        let pool = pool.clone();
        async move {
            transactions::begin_with(
                &pool,
                "set local role rejoin_gate; select pg_advisory_xact_lock(1); begin",
            )
            .await
        }
    });
    a_lock_is_waited_for(&db.pool).await;
    begins.abort();
    assert!(begins.await.is_err(), "it was given up");
    in_the_way.rollback().await.unwrap();
    // A single statement's transaction begins with it.
    let look = "select now() = statement_timestamp(), current_user::text";
    let seen = sqlx::raw_sql(look).fetch_one(&pool).await.unwrap();
    assert_eq!((seen.get(0), seen.get(1)), (true, "rejoin_app"));
    // Nor does one remain that failed while it began.
    assert!(transactions::begin_with(&pool, "select 1 / 0; begin").await.is_err());
    let seen = sqlx::raw_sql(look).fetch_one(&pool).await.unwrap();
    assert_eq!((seen.get(0), seen.get(1)), (true, "rejoin_app"));
}

#[tokio::test]
async fn an_abandoned_statement_does_not_hold_its_connection() {
    let db = rejoin_tests::support::database().await;
    let mut args = db.args();
    args.db_hot_connections = 1;
    let pool = Db::connect_lazy(&args, "rejoin-test-app", Role::App).unwrap().pool_pg;
    let mut in_the_way = rejoin_db::begin(&db.pool).await.unwrap();
    let lock = "select pg_advisory_xact_lock(1)";
    sqlx::query(lock).execute(&mut *in_the_way).await.unwrap();
    let looks = tokio::spawn({
        let pool = pool.clone();
        async move {
            rls::query_one_scoped(&pool, rls::Scope::System, lock, &[])
                .await
                .map(drop)
        }
    });
    a_lock_is_waited_for(&db.pool).await;
    looks.abort();
    assert!(looks.await.is_err(), "it was given up");
    let next = rls::query_one_scoped(&pool, rls::Scope::System, "select 1", &[]);
    // Less than the pool's timeout for an unresponsive connection.
    let row = tokio::time::timeout(Duration::from_secs(5), next).await;
    assert!(row.expect("it waits for nobody").unwrap().is_some());
    in_the_way.rollback().await.unwrap();
}
