//! The catalogue of tables is complete: a new table says what a move does with it.

use std::collections::BTreeSet;

use rejoin_identity::cells::catalogue::{Kept, TABLES};
use rejoin_tests::support;
use sqlx::AssertSqlSafe;
use uuid::Uuid;

#[tokio::test]
async fn every_table_says_what_a_move_does_with_it() {
    let db = support::database().await;
    let there: Vec<String> = sqlx::query_scalar(
        "select schemaname || '.' || tablename from pg_tables
         where schemaname not in ('pg_catalog', 'information_schema', 'public') order by 1",
    )
    .fetch_all(&db.pool)
    .await
    .expect("the schema");
    let there: BTreeSet<&str> = there.iter().map(String::as_str).collect();
    let named: BTreeSet<&str> = TABLES.iter().map(|table| table.name).collect();
    assert_eq!(named, there, "shared/identity/src/cells/catalogue.rs names every table");
    assert_eq!(named.len(), TABLES.len(), "each once");
    // A table with projects stays only with a reason that is about identity, or the database.
    for table in TABLES {
        if let Kept::Stays(why) = table.kept {
            assert!(!why.is_empty(), "{}", table.name);
            continue;
        }
        let statement = format!(
            "select count(*) from {} where {}",
            table.name,
            table.rows_of(Uuid::nil())
        );
        let rows: i64 = sqlx::query_scalar(AssertSqlSafe(statement))
            .fetch_one(&db.pool)
            .await
            .unwrap_or_else(|error| panic!("the condition of {}: {error}", table.name));
        assert_eq!(rows, 0, "{}", table.name);
    }
}

#[tokio::test]
async fn columns_that_others_number_are_left_to_the_new_cell() {
    let db = support::database().await;
    let identities: Vec<(String, String)> = sqlx::query_as(
        "select n.nspname || '.' || c.relname, a.attname::text
         from pg_attribute a join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
         where a.attidentity <> '' order by 1",
    )
    .fetch_all(&db.pool)
    .await
    .expect("the schema");
    assert!(!identities.is_empty());
    for (name, column) in identities {
        let table = TABLES
            .iter()
            .find(|table| table.name == name)
            .expect("it is in the catalogue");
        if !matches!(table.kept, Kept::Stays(_)) {
            assert_eq!(table.numbered, Some(column.as_str()), "{name}");
        }
    }
}
