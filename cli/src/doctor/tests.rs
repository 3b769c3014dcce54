//! The findings about keys, transactions, migrations and an absent API.

use super::*;
use crate::dev::postgres::{PostgresOptions, PrivatePostgres};

#[test]
fn a_missing_model_key_names_variables_and_a_key_is_not_shown() {
    let none = models(|_| None);
    assert_eq!(none.verdict, Verdict::Note);
    assert!(none.todo.unwrap().contains("OPENAI_API_KEY"));
    let one = models(|name| (name == "ANTHROPIC_API_KEY").then(|| "secret".to_owned()));
    assert_eq!(
        (one.verdict, one.found.as_str()),
        (Verdict::Good, "model providers: anthropic")
    );
}

#[test]
fn a_long_open_transaction_is_reported_with_its_owner() {
    let blocker = |age_s| vacuum_blockers::Blocker {
        what: "pid 7 (psql)".to_owned(),
        age_s,
    };
    assert!(open_for_long(&blocker(299.0)).is_none());
    let note = open_for_long(&blocker(301.0)).unwrap();
    assert!(
        note.verdict == Verdict::Note && note.found.contains("301 s: pid 7"),
        "{note:?}"
    );
}

#[tokio::test]
async fn an_unmigrated_database_is_bad_and_an_absent_one_is_explained() {
    let postgres = PrivatePostgres::start(PostgresOptions::ephemeral()).await.unwrap();
    let url = postgres.url();
    let bad = |findings: &[Finding]| {
        findings
            .iter()
            .filter(|finding| finding.verdict == Verdict::Bad)
            .map(|f| f.todo.clone().unwrap())
            .collect()
    };
    let before: Vec<String> = bad(&database(Some(&url), false).await);
    assert_eq!(before, ["rejoin migrate up"]);
    migrate::up(&url).await.unwrap();
    let after: Vec<String> = bad(&database(Some(&url), false).await);
    assert_eq!(after, Vec::<String>::new());
    postgres.stop().await.unwrap();
    let gone = database(Some(&url), false).await;
    assert_eq!(gone.len(), 1);
    assert!(gone[0].found.contains("cannot be reached"), "{gone:?}");
}

#[tokio::test]
async fn an_api_that_is_not_there_is_a_note_unless_it_was_asked_for() {
    assert_eq!(api("http://127.0.0.1:9", false).await.verdict, Verdict::Note);
    assert_eq!(api("http://127.0.0.1:9", true).await.verdict, Verdict::Bad);
}
