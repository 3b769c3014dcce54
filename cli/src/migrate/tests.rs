//! The numbers of migrations, and the way up and down.

use super::*;
use crate::dev::postgres::{PostgresOptions, PrivatePostgres};

#[test]
fn every_migration_has_its_way_back_and_a_unique_number() {
    let mut versions: Vec<i64> = Vec::new();
    for up in MIGRATOR
        .iter()
        .filter(|migration| migration.migration_type.is_up_migration())
    {
        let down = MIGRATOR
            .iter()
            .any(|down| down.version == up.version && down.migration_type.is_down_migration());
        assert!(down, "{:04} {} has no .down.sql", up.version, up.description);
        versions.push(up.version);
    }
    let count = versions.len();
    versions.dedup();
    assert_eq!(versions.len(), count, "two migrations have the same number");
}

#[tokio::test]
async fn the_schema_goes_up_a_step_down_all_down_and_up_again() {
    let postgres = PrivatePostgres::start(PostgresOptions::ephemeral()).await.unwrap();
    let url = postgres.url();
    let states = |lines: &[Line]| lines.iter().map(|line| line.state).collect::<Vec<_>>();
    let before = status(&url).await.unwrap();
    assert!(states(&before).iter().all(|state| *state == State::Pending));
    let all = up(&url).await.unwrap();
    assert_eq!(all, before.iter().map(|line| line.version).collect::<Vec<_>>());
    assert_eq!(up(&url).await.unwrap(), Vec::<i64>::new());
    assert!(
        states(&status(&url).await.unwrap())
            .iter()
            .all(|state| *state == State::Applied)
    );

    assert_eq!(down(&url, 1).await.unwrap(), [*all.last().unwrap()]);
    assert_eq!(states(&status(&url).await.unwrap()).last(), Some(&State::Pending));
    assert_eq!(down(&url, usize::MAX).await.unwrap().len(), all.len() - 1);
    assert_eq!(up(&url).await.unwrap(), all);

    let mut connection = connect(&url).await.unwrap();
    sqlx::raw_sql(
        "update _sqlx_migrations set checksum = 'x' where version = (select min(version) from _sqlx_migrations)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    sqlx::raw_sql("insert into _sqlx_migrations values (9999, 'of tomorrow', now(), true, 'y', 1)")
        .execute(&mut connection)
        .await
        .unwrap();
    let lines = status(&url).await.unwrap();
    assert_eq!(lines.first().unwrap().state, State::Changed);
    assert_eq!(
        (lines.last().unwrap().state, lines.last().unwrap().name.as_str()),
        (State::Newer, "of_tomorrow")
    );
    assert!(format!("{:#}", down(&url, 1).await.unwrap_err()).contains("newer binary"));
}
