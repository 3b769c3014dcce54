//! Each dialect's own syntax, and SQL within prose.

use super::dialects::MSSQL;
use super::*;
use crate::databases::Database;

fn about(source: &str, is_code: bool, databases: Databases) -> f32 {
    let mut evidence = Evidence::default();
    read(source, &Words::of(source), is_code, &mut evidence);
    evidence.about(databases)
}

#[test]
fn every_shape_is_written_as_it_is_looked_for() {
    for text in SHAPES.iter().flat_map(|(_, _, _, list)| list.split(", ")) {
        assert_eq!(super::super::words::normal(text), text);
        assert!(text.split(' ').count() <= MAX_PHRASE, "{text}");
    }
}

#[test]
fn each_dialect_is_recognized_by_its_own_syntax() {
    for (source, databases) in [
        ("db.orders.aggregate([{ $match: { paid: true } }])", MONGO),
        ("[{\"$lookup\": {\"from\": \"users\"}}]", MONGO),
        ("db.users.find({ _id: ObjectId(\"65\") })", MONGO),
        ("SELECT * FROM `shop-prod.core.orders`", BIGQUERY),
        ("SELECT SAFE_DIVIDE(a, b) FROM core.orders", BIGQUERY),
        ("SELECT x FROM t, UNNEST(items) AS x", BIGQUERY),
        ("SELECT ARRAY_AGG(STRUCT(a, b)) FROM t", BIGQUERY),
        ("SELECT DATE_TRUNC(d, MONTH) FROM t", BIGQUERY),
        ("select total::numeric from orders", POSTGRES),
        ("select date_trunc('month', d) from orders", POSTGRES),
        ("SELECT * FROM a WHERE name ILIKE 'x%'", POSTGRES),
        ("SELECT d->>'k' FROM a WHERE d @> '{}'", POSTGRES),
        ("SELECT `id` FROM `users` LIMIT 5, 10", MYSQL),
        ("INSERT INTO a VALUES (1) ON DUPLICATE KEY UPDATE n = 1", MYSQL),
        ("PRAGMA table_info(users)", SQLITE),
        ("SELECT * FROM read_parquet('a.parquet')", DUCKDB),
        ("SELECT TOP 10 * FROM [dbo].[users] WITH (NOLOCK)", MSSQL),
        ("SELECT uniqExact(id) FROM t PREWHERE d = today()", CLICKHOUSE),
    ] {
        let others = Database::ALL
            .into_iter()
            .map(Databases::just)
            .filter(|other| !(other.meets(databases) || databases.meets(KIN) && other.meets(KIN)));
        let next = others.map(|other| about(source, true, other)).fold(0.0, f32::max);
        let ours = about(source, true, databases);
        assert!(ours >= next + 1.0, "{source}: {ours} against {next}");
    }
}

#[test]
fn any_sql_is_distinguished_from_prose() {
    for source in [
        "SELECT a FROM b",
        "why is select * from users slow",
        "DELETE FROM a WHERE b",
        "update users set a = 1 where b",
        "select count(x) from users",
    ] {
        assert!(about(source, false, SQL) > 0.0, "{source}");
        assert_eq!(about(source, false, MONGO), 0.0, "{source}");
    }
    for source in [
        "Select the best from the list and tell me where they live",
        "delete from the list who left",
        "update us set by set",
        "Insert a page into the report",
        "the C++ type std::string, and a:text",
        "it costs $5, or $group",
        "the field timestamp_utc",
    ] {
        assert_eq!(about(source, false, SQL), 0.0, "{source}");
    }
}
