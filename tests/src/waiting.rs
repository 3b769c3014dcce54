//! Waiting for conditions.

use std::io::{BufRead, BufReader};
use std::process::Child;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use sqlx::PgPool;

/// Timeout of any condition that a test waits for.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Polls until `condition` returns something; panics with `what` after [`LIMIT`].
pub async fn wait_for<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(
            began.elapsed() < LIMIT,
            "waited {} s in vain for: {what}",
            LIMIT.as_secs()
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Returns the first line that a program prints, trimmed. After [`LIMIT`] the program is killed, and the test panics with its name. What it
/// prints later meets a closed pipe.
pub fn first_line(program: &str, child: &mut Child) -> String {
    let stdout = child.stdout.take().expect("its output is a pipe");
    let (said, line) = mpsc::channel();
    // It ends with the program.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        // The test may have given up.
        let _ = said.send(read.map(|_| line.trim().to_owned()));
    });
    let Ok(Ok(line)) = line.recv_timeout(LIMIT) else {
        // It may have ended already.
        let _ = child.kill();
        panic!("{program} has printed no line within {} s", LIMIT.as_secs());
    };
    line
}

/// Waits until a statement in the pool's database waits for a lock.
pub async fn wait_for_a_lock(pool: &PgPool) {
    wait_for_locks(pool, 1).await;
}

/// The same with this number of statements.
pub async fn wait_for_locks(pool: &PgPool, statements: i64) {
    wait_for("statements to wait for locks", async || {
        let waiting: i64 = sqlx::query_scalar(
            "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
        )
        .fetch_one(pool)
        .await
        .expect("pg_stat_activity is readable");
        (waiting >= statements).then_some(())
    })
    .await;
}
