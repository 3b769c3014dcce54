//! A database that was made by a version from before the first release, whose migrations were others: every command refuses it with what to do,
//! and changes nothing in it.

use rejoin_cli::migrate::{self, State};
use rejoin_tests::refusals::refuses;
use rejoin_tests::support;
use sqlx::{Connection, PgConnection};

use super::migrations::{shape, states, versions};
use crate::security::row_security;

#[tokio::test]
async fn a_database_from_before_the_first_release_is_refused() {
    let url = support::empty_database().await;
    migrate::up(&url).await.expect("up");
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    // As such a version left it: our numbers have other names and texts there, and there are many more.
    sqlx::raw_sql(
        "update _sqlx_migrations set checksum = 'other';
         update _sqlx_migrations set description = 'other ' || version where version > 1;
         insert into _sqlx_migrations values (67, 'file objects', now(), true, 'other', 1)",
    )
    .execute(&mut connection)
    .await
    .expect("another list");
    let applied = "select array_agg(m::text order by version) from _sqlx_migrations m";
    let before: Vec<String> = sqlx::query_scalar(applied)
        .fetch_one(&mut connection)
        .await
        .expect("the list");
    let first_shape = shape(&mut connection).await;

    for refused in [migrate::up(&url).await, migrate::down(&url, 1).await] {
        let error = refused.expect_err("it is refused");
        assert_eq!(format!("{error:#}"), migrate::UNRELEASED);
    }
    assert_eq!(states(&url).await, vec![State::BeforeRelease; versions().len() + 1]);
    let advice = ["before the first release", "docs/operations/recovery.md"];
    row_security::all_refuse(&url, &advice).await;
    refuses(&url, &["migrate", "up"], &advice).await;
    refuses(&url, &["worker", "--migrate"], &advice).await;

    let after: Vec<String> = sqlx::query_scalar(applied)
        .fetch_one(&mut connection)
        .await
        .expect("the list");
    assert_eq!(after, before, "nothing was applied or reverted");
    assert_eq!(shape(&mut connection).await, first_shape, "nothing was changed");
}
