//! The kill-and-resume suite, by its program: over this build's native events, over programs of users, and over the example of its README.

use std::path::{Path, PathBuf};
use std::process::Output;

use rejoin_tests::app::{binary, resume_suite_binary};
use rejoin_tests::needs;
use serde_json::Value;

/// Cases that wait for no lease.
const QUICK: &str = "leave-and-return,cut-any-byte,cut-in-character,cut-in-frame,cut-between-frames,cursor-before,cursor-ahead,\
cursor-foreign,reads-to-the-end,late-joiner,after-the-end,memory-of-readers,sub-agent,post-twice,second-message-while-busy,cancel-between-words,end-once";

/// Whether the example's language is here. Otherwise that was reported.
fn is_python_there() -> bool {
    let asked = std::process::Command::new("python3").arg("--version").output();
    let is_there = asked.is_ok_and(|output| output.status.success());
    if !is_there {
        needs::skip("the example of the kill-and-resume suite needs python3");
    }
    is_there
}

/// A new folder for results.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("resume-suite-test-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

async fn suite(arguments: &[&str], out: &Path) -> Output {
    let adapters = concat!(env!("CARGO_MANIFEST_DIR"), "/../conformance/adapters");
    tokio::process::Command::new(resume_suite_binary())
        .args(arguments)
        .arg("--out")
        .arg(out)
        .args(["--adapters", adapters])
        .arg("--cache")
        .arg(out.join("cache"))
        .env("RESUME_SUITE_REJOIN", binary())
        .env_remove("DATABASE_URL")
        .kill_on_drop(true)
        .output()
        .await
        .unwrap()
}

/// Case, seed and verdict of each run.
fn verdicts(out: &Path, target: &str) -> Vec<(String, u64, String)> {
    let text = std::fs::read_to_string(out.join(format!("{target}.json"))).unwrap();
    let results: Value = serde_json::from_str(&text).unwrap();
    let text = |run: &Value, name: &str| run[name].as_str().unwrap().to_owned();
    let runs = results["runs"].as_array().unwrap().iter();
    runs.map(|run| (text(run, "case"), run["seed"].as_u64().unwrap(), text(run, "verdict")))
        .collect()
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

#[tokio::test]
async fn the_suite_finds_native_streams_exact() {
    let out = folder("native");
    let output = suite(&["run", "--target", "rejoin", "--seeds", "2", "--case", QUICK], &out).await;
    assert!(output.status.success(), "{}", said(&output));
    let verdicts = verdicts(&out, "rejoin");
    assert!(verdicts.len() >= 25, "{verdicts:?}");
    for (case, seed, verdict) in &verdicts {
        assert!(
            ["exact", "exact-by-rules"].contains(&verdict.as_str()),
            "{case} {seed}: {verdict}"
        );
    }
    std::fs::remove_dir_all(&out).unwrap();
}

#[tokio::test]
async fn turns_and_tools_of_users_programs_are_exact() {
    if !is_python_there() {
        return;
    }
    for target in ["rejoin-program", "rejoin-program-tool"] {
        let out = folder(target);
        let cases = "reads-to-the-end,leave-and-return";
        let output = suite(&["run", "--target", target, "--case", cases], &out).await;
        assert!(output.status.success(), "{target}: {}", said(&output));
        std::fs::remove_dir_all(&out).unwrap();
    }
}

#[tokio::test]
async fn the_example_of_sixty_lines_has_the_same_verdicts_twice() {
    if !is_python_there() {
        return;
    }
    let mut found = Vec::new();
    for round in ["first", "second"] {
        let out = folder(round);
        let cases = format!("{QUICK},killed-between-words");
        let output = suite(&["run", "--target", "plain-sse", "--seed", "3", "--case", &cases], &out).await;
        assert_eq!(
            output.status.code(),
            Some(1),
            "it forgets all when it is killed: {}",
            said(&output)
        );
        found.push(verdicts(&out, "plain-sse"));
        std::fs::remove_dir_all(&out).unwrap();
    }
    assert_eq!(found[0], found[1]);
    let verdict = |case: &str| {
        let run = found[0].iter().find(|(name, _, _)| name == case).unwrap();
        run.2.as_str()
    };
    assert_eq!(verdict("cut-in-character"), "exact");
    assert_eq!(verdict("cursor-before"), "exact");
    assert_eq!(verdict("cancel-between-words"), "unsupported");
    assert_eq!(verdict("killed-between-words"), "error");
}

#[tokio::test]
async fn builds_that_break_a_promise_are_noticed() {
    let out = folder("broken");
    let output = suite(
        &[
            "broken",
            "--target",
            "rejoin",
            "done-twice",
            "idempotency-ignored",
            "readers-keep",
        ],
        &out,
    )
    .await;
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.matches("caught").count(), 3, "{said}");
    std::fs::remove_dir_all(&out).unwrap();
}
