//! Secrets: values decrypt for their owner only; they are nowhere in plain text.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use rejoin_db::{Db, Role, rls};
use rejoin_identity::audit::{self, Actor};
use rejoin_integrations::key_rotation;
use rejoin_secrets::{MasterKeys, Plaintext, SecretError, keys};
use rejoin_tests::app::binary;
use rejoin_tests::support::{self, TestDatabase, set_secret};
use rejoin_types::digest;
use serde_json::{Value, json};
use sqlx::AssertSqlSafe;
use tracing::instrument::WithSubscriber;
use uuid::Uuid;

/// A unique value.
pub(super) const CANARY: &str = "canary-9b1c44d07e5f";

pub(super) fn master(listed: &str) -> MasterKeys {
    MasterKeys::parse(listed).unwrap()
}

/// A fresh key with this id.
pub(super) fn key(id: &str) -> String {
    let generated = keys::generate();
    format!("{id}:{}", generated.split_once(':').unwrap().1)
}

pub(super) async fn opened(db: &TestDatabase, keys: &MasterKeys, name: &str) -> Result<Option<String>, SecretError> {
    let value = rejoin_secrets::open(&db.pool, keys, db.workspace_id, name).await?;
    Ok(value.map(|value| value.expose_text().unwrap().to_owned()))
}

pub(super) async fn execute(db: &TestDatabase, sql: String) -> u64 {
    let done = sqlx::query(AssertSqlSafe(sql)).execute(&db.pool).await.unwrap();
    done.rows_affected()
}

/// Runs `rejoin secrets …`.
pub(super) fn rejoin(db: &TestDatabase, keys: Option<&str>, arguments: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(binary());
    command
        .arg("secrets")
        .args(arguments)
        .env("DATABASE_URL", &db.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(keys) = keys {
        command.env("REJOIN_SECRET_KEYS", keys);
    }
    let mut child = command.spawn().unwrap();
    // It may have ended without reading it.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    child.wait_with_output().unwrap()
}

pub(super) fn said(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

pub(super) fn printed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

/// Returns tables that contain this text, verbatim or in hexadecimal.
async fn tables_with(db: &TestDatabase, text: &str) -> Vec<String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname in ('kb', 'queue', 'stream', 'audit')",
    )
    .fetch_all(&db.pool)
    .await
    .unwrap();
    assert!(tables.len() > 15, "{tables:?}");
    let mut found = Vec::new();
    for table in tables {
        let sql = format!(
            "select exists (select from {table} t where t::text like '%' || $1 || '%' or t::text like '%' || $2 || '%')"
        );
        let holds: bool = sqlx::query_scalar(AssertSqlSafe(sql))
            .bind(text)
            .bind(digest::hex(text.as_bytes()))
            .fetch_one(&db.pool)
            .await
            .unwrap();
        if holds {
            found.push(table);
        }
    }
    found
}

#[tokio::test]
async fn a_value_comes_back_and_is_found_in_no_table_and_no_output() {
    let db = support::database().await;
    let listed = keys::generate();
    let material = listed.split_once(':').unwrap().1.to_owned();
    let mut outputs = vec![
        rejoin(&db, Some(&listed), &["set", "TOKEN"], &format!("{CANARY}\n")),
        rejoin(
            &db,
            Some(&listed),
            &["set", "TOKEN", "--json"],
            &format!("{CANARY} again\r\n"),
        ),
        rejoin(
            &db,
            Some(&listed),
            &["set", "OTHER"],
            &format!("two\nlines, and {CANARY}"),
        ),
        rejoin(&db, None, &["list"], ""),
        rejoin(&db, None, &["list", "--json"], ""),
    ];
    for output in &outputs {
        assert_eq!(output.status.code(), Some(0), "{}", said(output));
    }
    assert_eq!(printed(&outputs[1])["version"], json!(2));
    let list = printed(&outputs[4]);
    let key_id = listed.split_once(':').unwrap().0;
    let shown: Vec<Value> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|secret| {
            json!([
                secret["name"],
                secret["version"],
                secret["keyId"],
                secret.as_object().unwrap().len()
            ])
        })
        .collect();
    assert_eq!(shown, [json!(["OTHER", 1, key_id, 5]), json!(["TOKEN", 2, key_id, 5])]);

    let keys = master(&listed);
    assert_eq!(
        opened(&db, &keys, "TOKEN").await.unwrap(),
        Some(format!("{CANARY} again"))
    );
    assert_eq!(
        opened(&db, &keys, "OTHER").await.unwrap(),
        Some(format!("two\nlines, and {CANARY}"))
    );
    assert_eq!(opened(&db, &keys, "NONE").await.unwrap(), None);
    assert_eq!(tables_with(&db, CANARY).await, Vec::<String>::new());
    assert_eq!(tables_with(&db, &material).await, Vec::<String>::new());
    // The search finds existing text.
    assert!(tables_with(&db, "TOKEN").await.contains(&"kb.secrets".to_owned()));

    outputs.push(rejoin(&db, None, &["remove", "TOKEN"], ""));
    assert_eq!(outputs.last().unwrap().status.code(), Some(0));
    outputs.push(rejoin(&db, None, &["remove", "TOKEN"], ""));
    assert_eq!(outputs.last().unwrap().status.code(), Some(4), "there is none any more");
    assert_eq!(opened(&db, &keys, "TOKEN").await.unwrap(), None);
    for output in &outputs {
        let said = said(output);
        assert!(!said.contains(CANARY) && !said.contains(&material), "{said}");
    }
    let mut connection = db.pool.acquire().await.unwrap();
    let entries = audit::newest(&mut connection, 10).await.unwrap();
    let told: Vec<(String, String, Option<Uuid>)> = entries
        .into_iter()
        .rev()
        .map(|entry| (entry.action, entry.target, entry.workspace_id))
        .collect();
    let told: Vec<(&str, &str, Option<Uuid>)> = told.iter().map(|(a, t, p)| (a.as_str(), t.as_str(), *p)).collect();
    let project = Some(db.workspace_id);
    assert_eq!(
        told,
        [
            ("secret.set", "secret:TOKEN", project),
            ("secret.set", "secret:TOKEN", project),
            ("secret.set", "secret:OTHER", project),
            ("secret.removed", "secret:TOKEN", project),
        ]
    );
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_said_and_nothing_is_stored() {
    let db = support::database().await;
    let listed = keys::generate();
    let big = "x".repeat(rejoin_secrets::VALUE_MAX_BYTES + 1);
    for (keys, arguments, stdin, code, word) in [
        (None, ["set", "TOKEN"], CANARY, 1, "no master key"),
        (Some("nonsense"), ["set", "TOKEN"], CANARY, 1, "master key 1"),
        (Some(listed.as_str()), ["set", "TOKEN"], "", 1, "1 to 65536 bytes"),
        (Some(listed.as_str()), ["set", "TOKEN"], "\n", 1, "1 to 65536 bytes"),
        (
            Some(listed.as_str()),
            ["set", "TOKEN"],
            big.as_str(),
            1,
            "1 to 65536 bytes",
        ),
        (Some(listed.as_str()), ["set", "a b"], CANARY, 1, "name"),
        (None, ["rotate", "--check"], "", 1, "no master key"),
    ] {
        let output = rejoin(&db, keys, &arguments, stdin);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?}: {said}");
        assert!(!said.contains(CANARY), "{said}");
    }
    assert!(
        rejoin_secrets::list(&db.pool, db.workspace_id)
            .await
            .unwrap()
            .is_empty()
    );
    // The maximum size.
    let output = rejoin(&db, Some(&listed), &["set", "TOKEN"], &format!("{}\n", &big[1..]));
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let value = opened(&db, &master(&listed), "TOKEN").await.unwrap().unwrap();
    assert_eq!(value.len(), rejoin_secrets::VALUE_MAX_BYTES);
}

/// The log output, at the most detailed level.
#[derive(Clone, Default)]
struct Logged(Arc<Mutex<Vec<u8>>>);

impl Write for Logged {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn no_log_holds_a_value_or_a_key_whatever_happens_to_them() {
    let db = support::database().await;
    let listed = format!("{},{}", key("new"), key("old"));
    let logged = Logged::default();
    let writer = logged.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let all = async {
        let keys = master(&listed);
        let old = master(listed.split_once(',').unwrap().1);
        set_secret(&db, &old, "TOKEN", CANARY).await;
        set_secret(&db, &keys, "OTHER", CANARY).await;
        let value = rejoin_secrets::open(&db.pool, &keys, db.workspace_id, "TOKEN")
            .await
            .unwrap();
        tracing::info!(?keys, ?value, "opened");
        let refused = rejoin_secrets::open(&db.pool, &old, db.workspace_id, "OTHER")
            .await
            .unwrap_err();
        tracing::warn!(%refused, ?refused, "refused");
        let rotated = key_rotation::rotate(&db.pool, &keys, &Actor::operator()).await.unwrap();
        tracing::info!(?rotated, "rotated");
    };
    all.with_subscriber(subscriber).await;
    let text = String::from_utf8(logged.0.lock().unwrap().clone()).unwrap();
    for there in ["opened", "refused", "rotated"] {
        assert!(text.contains(there), "{there} is not logged:\n{text}");
    }
    assert!(!text.contains(CANARY), "{text}");
    for key in listed.split(',') {
        assert!(!text.contains(key.split_once(':').unwrap().1), "{text}");
    }
}

#[tokio::test]
async fn the_api_sets_secrets_that_only_workers_open() {
    let db = support::database().await;
    let other = support::populated(db.url.clone()).await;
    let keys = master(&key("a"));
    set_secret(&db, &keys, "MINE", CANARY).await;
    set_secret(&other, &keys, "THEIRS", CANARY).await;
    let api = Db::connect_lazy(&db.args(), "rejoin-test-app", Role::App)
        .unwrap()
        .pool_sqlx;
    let begin = async || rls::begin(&api, rls::Scope::User(db.owner())).await.unwrap();
    let names = async |project: Uuid| {
        let listed = rejoin_secrets::list(&mut *begin().await, project).await.unwrap();
        listed.into_iter().map(|secret| secret.name).collect::<Vec<_>>()
    };
    assert_eq!(names(db.workspace_id).await, ["MINE"]);
    assert_eq!(names(other.workspace_id).await, Vec::<String>::new());
    let user = Actor::token_holder(db.user_id);
    let value = Plaintext::new(b"new".to_vec());
    for expected in [2, 3] {
        let mut tx = begin().await;
        let version = rejoin_secrets::set(&mut tx, &keys, &user, db.workspace_id, "MINE", &value)
            .await
            .unwrap();
        tx.commit().await.unwrap();
        assert_eq!(version, expected);
    }
    let mut tx = begin().await;
    let foreign = rejoin_secrets::set(&mut tx, &keys, &user, other.workspace_id, "THEIRS", &value).await;
    assert!(matches!(foreign, Err(SecretError::Database(_))), "{foreign:?}");
    drop(tx);
    assert!(
        !rejoin_secrets::remove(&mut *begin().await, &user, other.workspace_id, "THEIRS")
            .await
            .unwrap()
    );
    for column in ["ciphertext", "wrapped_key"] {
        let sql = format!("select {column} from kb.secrets");
        let read = sqlx::query(AssertSqlSafe(sql)).fetch_all(&mut *begin().await).await;
        let code = read
            .unwrap_err()
            .into_database_error()
            .and_then(|error| error.code().map(String::from));
        assert_eq!(code.as_deref(), Some("42501"), "{column}");
    }
    assert!(
        rejoin_secrets::open(&mut *begin().await, &keys, db.workspace_id, "MINE")
            .await
            .is_err()
    );

    let worker = Db::connect_lazy(&db.args(), "rejoin-test-worker", Role::Worker)
        .unwrap()
        .pool_sqlx;
    for (project, name, expected) in [(db.workspace_id, "MINE", "new"), (other.workspace_id, "THEIRS", CANARY)] {
        let value = rejoin_secrets::open(&worker, &keys, project, name)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(value.expose_text(), Some(expected));
    }
    let deleted = sqlx::query("delete from kb.secrets").execute(&worker).await;
    assert!(deleted.is_err(), "a worker only opens them");
    assert!(
        rejoin_secrets::remove(&mut *begin().await, &user, db.workspace_id, "MINE")
            .await
            .unwrap()
    );
}
