//! Tests of the supervisor over `sh`: children that die, that drain, that don't, and a parent that is killed.
use std::os::unix::process::ExitStatusExt;

use tokio::time::{Instant, sleep};

use super::*;
use crate::dev::process;

/// Timeout of any wait in a test.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn output(&self) -> Output {
        let lines = self.clone();
        Arc::new(move |line| lines.0.lock().unwrap().push(line.to_owned()))
    }

    async fn wait_for(&self, wanted: impl Fn(&str) -> bool) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let lines = self.0.lock().unwrap().clone();
            if let Some(line) = lines.iter().find(|line| wanted(line)) {
                return line.clone();
            }
            assert!(Instant::now() < end, "the line did not come; there are: {lines:#?}");
            sleep(Duration::from_millis(10)).await;
        }
    }
}

async fn wait_until_gone(pid: u32) {
    let end = Instant::now() + LIMIT;
    // A zombie counts as ended.
    while process::exists(pid) && process::command_line(pid).is_some() {
        assert!(Instant::now() < end, "process {pid} is still there");
        sleep(Duration::from_millis(10)).await;
    }
}

fn supervisor(drain_limit: Duration) -> (Supervisor, Lines) {
    let lines = Lines::default();
    (Supervisor::with("/bin/sh", drain_limit, lines.output()).unwrap(), lines)
}

const NO_ENV: [(&str, &str); 0] = [];
/// Reports its start, waits for SIGTERM, reports it, and exits.
const DRAINS: &str = "trap 'echo drained; exit 0' TERM; echo up; while :; do sleep 0.05; done";
/// Ignores SIGTERM.
const STUBBORN: &str = "trap '' TERM; echo up; while :; do sleep 0.05; done";

#[tokio::test]
async fn a_killed_worker_is_restarted_and_its_new_pid_is_printed() {
    let (mut supervisor, lines) = supervisor(LIMIT);
    let first = supervisor.spawn(Role::Worker(2), ["-c", DRAINS], NO_ENV).unwrap();
    lines.wait_for(|line| line == "[worker 2] up").await;
    process::send(first, Signal::Kill).unwrap();
    let logged = lines.wait_for(|line| line.starts_with("worker 2 died")).await;
    let second = supervisor.pids()[0].1;
    assert_eq!(logged, format!("worker 2 died (signal 9); restarted with pid {second}"));
    assert_ne!(first, second);
    supervisor.stop(std::future::pending()).await;
    wait_until_gone(second).await;
}

#[tokio::test]
async fn a_child_that_dies_at_once_is_started_less_and_less_often() {
    let (mut supervisor, lines) = supervisor(LIMIT);
    let began = Instant::now();
    supervisor.spawn(Role::Api, ["-c", "exit 7"], NO_ENV).unwrap();
    let end = Instant::now() + LIMIT;
    while lines.0.lock().unwrap().len() < 4 {
        assert!(Instant::now() < end);
        sleep(Duration::from_millis(10)).await;
    }
    // 0.1 + 0.2 + 0.4 + 0.8 s
    assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
    lines
        .wait_for(|line| line.starts_with("api died (exit code 7); restarted with pid "))
        .await;
    supervisor.stop(std::future::pending()).await;
}

#[tokio::test]
async fn stopping_drains_all_children_and_prints_their_last_lines() {
    let (mut supervisor, lines) = supervisor(LIMIT);
    for role in [Role::Api, Role::Worker(1)] {
        supervisor.spawn(role, ["-c", DRAINS], [("NAME", "value")]).unwrap();
        lines.wait_for(|line| line == format!("[{role}] up")).await;
    }
    assert_eq!(supervisor.pids().len(), 2);
    supervisor
        .run_until(std::future::ready(()), std::future::pending())
        .await;
    for role in [Role::Api, Role::Worker(1)] {
        lines.wait_for(|line| line == format!("[{role}] drained")).await;
    }
}

#[tokio::test]
async fn a_child_that_does_not_drain_is_killed_at_the_limit() {
    let (mut supervisor, lines) = supervisor(Duration::from_millis(300));
    let pid = supervisor.spawn(Role::Api, ["-c", STUBBORN], NO_ENV).unwrap();
    lines.wait_for(|line| line == "[api] up").await;
    supervisor.stop(std::future::pending()).await;
    lines
        .wait_for(|line| line == "api did not drain within 300ms; killed")
        .await;
    wait_until_gone(pid).await;
}

#[tokio::test]
async fn a_second_ctrl_c_does_not_wait_for_the_drain() {
    let (mut supervisor, lines) = supervisor(LIMIT * 10);
    let pid = supervisor.spawn(Role::Worker(1), ["-c", STUBBORN], NO_ENV).unwrap();
    lines.wait_for(|line| line == "[worker 1] up").await;
    supervisor.stop(sleep(Duration::from_millis(50))).await;
    lines
        .wait_for(|line| line == "worker 1 was killed before it drained")
        .await;
    wait_until_gone(pid).await;
}

#[tokio::test]
async fn a_program_starts_again_when_its_code_changes() {
    let (mut supervisor, lines) = supervisor(LIMIT);
    let (changes, changed) = watch::channel(0);
    let command = format!("sh -c \"{DRAINS}\"");
    let first = supervisor
        .spawn_program(Role::Program(1), &command, [("NAME", "value")], changed)
        .unwrap();
    lines.wait_for(|line| line == "[program 1] up").await;
    changes.send_modify(|count| *count += 1);
    lines.wait_for(|line| line == "[program 1] drained").await;
    let logged = lines.wait_for(|line| line.starts_with("program 1 was stopped")).await;
    let second = supervisor.pids()[0].1;
    assert_eq!(
        logged,
        format!("program 1 was stopped, since its code has changed; restarted with pid {second}")
    );
    wait_until_gone(first).await;
    supervisor.stop(std::future::pending()).await;
    wait_until_gone(second).await;
}

/// Not a test: the parent killed by the next test, in a separate process.
#[tokio::test]
async fn parent_for_the_next_test() {
    let Some(pid_file) = std::env::var_os("REJOIN_TEST_SUPERVISOR_PID_FILE") else {
        return;
    };
    let mut supervisor = Supervisor::with("/bin/sh", LIMIT, Arc::new(|_| ())).unwrap();
    let pid = supervisor.spawn(Role::Api, ["-c", DRAINS], NO_ENV).unwrap();
    std::fs::write(pid_file, pid.to_string()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn children_end_with_a_parent_that_is_killed() {
    let pid_file = std::env::temp_dir().join(format!("rejoin-supervisor-{}", uuid::Uuid::now_v7().simple()));
    let mut parent = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dev::supervise::tests::parent_for_the_next_test"])
        .env("REJOIN_TEST_SUPERVISOR_PID_FILE", &pid_file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + LIMIT;
    let pid: u32 = loop {
        if let Ok(pid) = std::fs::read_to_string(&pid_file).unwrap_or_default().parse() {
            break pid;
        }
        assert!(Instant::now() < end, "the parent did not start its child");
        sleep(Duration::from_millis(10)).await;
    };
    assert!(process::exists(pid));
    parent.start_kill().unwrap();
    assert_eq!(parent.wait().await.unwrap().signal(), Some(libc::SIGKILL));
    wait_until_gone(pid).await;
    std::fs::remove_file(pid_file).unwrap();
}
