//! The queue and the event log without the rest of the product: their examples run on databases that have their migrations and no
//! others, and their READMEs show what they print.

use rejoin_event_log::rows::StoredEvent;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::layout::{read, sources};
use rejoin_tests::support;

#[path = "../../../../shared/event-log/examples/append_and_read.rs"]
#[expect(dead_code, reason = "a program has a main function")]
mod append_and_read;
#[path = "../../../../shared/event-log/examples/first_events.rs"]
#[expect(dead_code, reason = "a program has a main function")]
mod first_events;
#[path = "../../../../shared/queue/examples/first_job.rs"]
#[expect(dead_code, reason = "a program has a main function")]
mod first_job;
#[path = "../../../../shared/event-log/examples/group_commit.rs"]
#[expect(dead_code, reason = "a program has a main function")]
mod group_commit;
#[path = "../../../../shared/queue/examples/jobs.rs"]
#[expect(dead_code, reason = "a program has a main function")]
mod jobs;

const QUEUE: &str = "0001_queue";
const EVENT_LOG: &str = "0002_event_log";
const WRITE_FLUSH: &str = "0024_write_flush";
const NUMBERED_FLUSH: &str = "0031_numbered_flush";
const README_OF_QUEUE: &str = "shared/queue/README.md";
const README_OF_EVENT_LOG: &str = "shared/event-log/README.md";

/// A fresh database with these migrations and no others, applied by the text of their files.
async fn database_with(migrations: &[&str]) -> String {
    let url = support::empty_database().await;
    let mut connection = PgConnection::connect(&url).await.expect("a connection");
    for migration in migrations {
        let sql = read(format!("migrations/{migration}.up.sql"));
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&mut connection)
            .await
            .unwrap_or_else(|error| panic!("{migration}: {error}"));
    }
    url
}

fn text(output: Vec<u8>) -> String {
    String::from_utf8(output).expect("text")
}

/// Asserts that a README has this text in a block of its own, in this language.
fn assert_shown(readme: &str, language: &str, block: &str) {
    assert!(
        read(readme).contains(&format!("```{language}\n{block}```\n")),
        "{readme} does not show:\n{block}"
    );
}

/// The code of an example without the lines that say what it is.
fn code_of_example(path: &str) -> String {
    let text = read(path);
    let lines = text
        .lines()
        .skip_while(|line| line.starts_with("//!") || line.is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn jobs_need_the_migration_of_the_queue_alone() {
    let url = database_with(&[QUEUE]).await;
    let mut output = Vec::new();
    jobs::run(&url, &mut output).await.expect("the example");
    let printed = text(output);
    assert_eq!(
        printed,
        "claimed: busy report 1 (attempt 1), quiet report 1 (attempt 1)\n\
         leases renewed: 2\n\
         settled: 2\n\
         claimed: busy report 2 (attempt 1), busy report 3 (attempt 1), busy import 1 (attempt 1), busy report 1 (attempt 2)\n\
         last error: the printer has no paper\n\
         settled by the lost attempt: 0\n\
         settled: 4\n\
         completed: busy import 2 (attempt 1)\n\
         dead: import, the file is empty\n\
         completed: busy import 1 (attempt 1)\n\
         completed: 6, left: 0\n"
    );
    assert_shown(README_OF_QUEUE, "text", &printed);
}

#[tokio::test]
async fn the_queue_s_readme_shows_an_example_that_runs() {
    let url = database_with(&[QUEUE]).await;
    assert_eq!(first_job::run(&url).await.expect("the example"), 1);
    let code = code_of_example("shared/queue/examples/first_job.rs");
    assert_shown(README_OF_QUEUE, "rust", &code);
}

#[tokio::test]
async fn appending_and_reading_need_one_migration() {
    let url = database_with(&[EVENT_LOG]).await;
    let mut output = Vec::new();
    append_and_read::run(&url, &mut output).await.expect("the example");
    let printed = text(output);
    assert_eq!(
        printed,
        "appended up to 2\n\
         read 1 created {\"items\":2}\n\
         read 2 paid {\"euros\":30}\n\
         followed 3 sent {\"parcel\":\"A7\"}\n\
         removed 2, the oldest is 3\n"
    );
    assert_shown(README_OF_EVENT_LOG, "text", &printed);
}

#[tokio::test]
async fn the_event_log_s_readme_shows_an_example_that_runs() {
    let url = database_with(&[EVENT_LOG]).await;
    let events = first_events::run(&url).await.expect("the example");
    let event = |seq, kind: &str, data: &'static str| StoredEvent {
        seq,
        run_id: None,
        kind: kind.to_owned(),
        data: data.into(),
    };
    assert_eq!(
        events,
        [
            event(2, "paid", r#"{"euros":30}"#),
            event(3, "sent", r#"{"parcel":"A7"}"#)
        ]
    );
    let code = code_of_example("shared/event-log/examples/first_events.rs");
    assert_shown(README_OF_EVENT_LOG, "rust", &code);
}

#[tokio::test]
async fn group_commit_needs_the_migration_of_the_queue_too() {
    let url = database_with(&[QUEUE, EVENT_LOG, WRITE_FLUSH, NUMBERED_FLUSH]).await;
    let mut output = Vec::new();
    group_commit::run(&url, &mut output).await.expect("the example");
    let printed = text(output);
    assert_eq!(
        printed,
        "committed: 1 {\"percent\":25}, 2 {\"percent\":50}, 3 {\"percent\":75}, 4 {\"percent\":10}\n\
         after 2: 3 {\"percent\":75}, 4 {\"percent\":10}\n\
         not written: the lease of the run was lost\n\
         committed: 1 {\"percent\":25}, 2 {\"percent\":50}, 3 {\"percent\":75}, 4 {\"percent\":10}, 5 {\"percent\":20}\n"
    );
    assert_shown(README_OF_EVENT_LOG, "text", &printed);
}

/// Files of a crate that name this schema in their statements.
fn files_that_name(member: &str, schema: &str) -> Vec<String> {
    let files = sources(&format!("{member}/src")).into_iter();
    let names = |text: &str| text.lines().any(|line| line.contains(&format!(" {schema}.")));
    files.filter(|(_, text)| names(text)).map(|(file, _)| file).collect()
}

#[test]
fn only_files_that_the_readmes_list_name_product_tables() {
    assert_eq!(files_that_name("shared/queue", "kb"), [""; 0]);
    assert_eq!(files_that_name("shared/queue", "stream"), [""; 0]);
    let listed = ["retention", "snapshot", "upkeep"].map(|name| format!("shared/event-log/src/{name}.rs"));
    assert_eq!(files_that_name("shared/event-log", "kb"), listed);
    for file in listed {
        let name = file.trim_start_matches("shared/event-log/");
        let is_listed = read(README_OF_EVENT_LOG).contains(&format!("`{name}`"));
        assert!(is_listed, "{README_OF_EVENT_LOG} does not list {name}");
    }
}
