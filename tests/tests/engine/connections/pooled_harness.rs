//! The tests' own way through a pooler: `REJOIN_TEST_POOLER=true`, by `make test-pooler`.

use rejoin_tests::app::{Process, TestApp};
use rejoin_tests::client::text;
use rejoin_tests::model_server::Reply;
use rejoin_tests::pooled;

/// Of this test's database: the users of sessions of processes, without those that listen.
const USERS: &str = "select distinct usename::text from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid() and application_name not like '%-listen'
      and usename <> 'rejoin'";

#[tokio::test]
async fn processes_use_the_logins_of_the_pooler_if_asked_to() {
    let mut app = TestApp::start().await;
    let agent = app.agent("answerer", &[]).await;
    let ask = async |app: &TestApp| {
        app.model.script([Reply::text("Yes.")]);
        let frames = app.client().ask(Some(agent), "Is it so?").await;
        assert_eq!(text(&frames), "Yes.");
        let mut users: Vec<String> = sqlx::query_scalar(USERS)
            .fetch_all(&app.db.pool)
            .await
            .expect("sessions");
        users.sort();
        users
    };
    let logins: &[&str] = if pooled::is_wanted() {
        &["rejoin_api", "rejoin_api_hot", "rejoin_work", "rejoin_work_hot"]
    } else {
        &[]
    };
    assert_eq!(ask(&app).await, logins);
    // Separate processes likewise.
    app.crash_workers();
    let _api = app.api_in_a_process().await;
    let _worker = Process::worker(&app);
    assert_eq!(ask(&app).await, logins);
}
