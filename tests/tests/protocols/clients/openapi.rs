//! The OpenAPI document in other people's programs: linters, and generators of clients. `scripts/setup-clients.sh` installs them; without them a
//! test fails in CI and is skipped elsewhere.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rejoin_tests::app::TestApp;
use rejoin_tests::model_server::Reply;
use rejoin_tests::{mcp, needs};
use serde_json::{Value, json};
use tokio::process::Command;

const ANSWER: &str = "Hello there";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The installation folder of the packages from npm.
fn packages() -> PathBuf {
    root().join(".cache/clients/openapi")
}

/// A file of the programs' sources.
fn source(name: &str) -> PathBuf {
    root().join("tests/clients/openapi").join(name)
}

/// Returns Node.js, if it and the packages from npm are there; otherwise reports why a test is skipped.
fn node() -> Option<PathBuf> {
    let node = mcp::recent_node();
    if !packages().join("node_modules/.package-lock.json").exists() {
        needs::skip("the OpenAPI programs are not installed: scripts/setup-clients.sh fetches them");
        return None;
    }
    if node.is_none() {
        needs::skip("there is no recent Node.js: scripts/setup-mcp.sh fetches it");
    }
    node
}

/// A folder with the document, removed at the end. Below the packages, so that imports resolve.
struct Workshop(PathBuf);

impl Workshop {
    fn below(folder: &Path) -> Self {
        let path = folder.join(uuid::Uuid::now_v7().simple().to_string());
        std::fs::create_dir(&path).expect("a folder");
        let document = rejoin_api::routes::document().to_json().expect("plain data");
        std::fs::write(path.join("openapi.json"), document).expect("the document is written");
        Self(path)
    }

    fn copy(&self, name: &str) {
        std::fs::copy(source(name), self.0.join(name)).expect("a driver is copied");
    }
}

impl Drop for Workshop {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs a program in a folder, and returns what it prints.
///
/// # Panics
/// If it fails.
async fn run(folder: &Path, program: &Path, arguments: &[impl AsRef<OsStr>]) -> String {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    // Scripts that start Node.js find the recent one.
    if let (Some(node), Some(path)) = (mcp::recent_node(), std::env::var_os("PATH")) {
        let folder = node.parent().expect("a program is in a folder").to_owned();
        let folders = std::iter::once(folder).chain(std::env::split_paths(&path));
        command.env("PATH", std::env::join_paths(folders).expect("paths without colons"));
    }
    let output = command.kill_on_drop(true).output().await.expect("the program starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let reported = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {printed}{reported}", program.display());
    printed
}

/// What both drivers print of a conversation with one answer.
fn expected() -> Value {
    json!({
        "text": ANSWER,
        "messages": [["user", "Hi"], ["assistant", ANSWER]],
        "conversations": [true],
    })
}

async fn app() -> (TestApp, String) {
    let app = TestApp::start().await;
    app.agent("speaker", &[]).await;
    app.model.script([Reply::text(ANSWER)]);
    let task = json!({ "url": app.url(), "key": app.db.api_key, "message": "Hi" }).to_string();
    (app, task)
}

#[tokio::test]
async fn the_document_passes_redocly_and_spectral() {
    if node().is_none() {
        return;
    }
    let workshop = Workshop::below(&packages());
    let document = workshop.0.join("openapi.json");
    run(&root(), &root().join("scripts/openapi-lint.sh"), &[document]).await;
}

#[tokio::test]
async fn a_client_by_openapi_ts_holds_a_conversation() {
    let Some(node) = node() else { return };
    let workshop = Workshop::below(&packages());
    workshop.copy("driver.ts");
    let folder = &workshop.0;
    let modules = packages().join("node_modules");
    let tool = async |program: &str, arguments: &str| {
        let program = modules.join(program).to_string_lossy().into_owned();
        let arguments: Vec<&str> = [program.as_str()].into_iter().chain(arguments.split(' ')).collect();
        run(folder, &node, &arguments).await
    };
    tool(
        "@hey-api/openapi-ts/bin/run.js",
        "--input openapi.json --output generated --client @hey-api/client-fetch",
    )
    .await;
    tool(
        "typescript/bin/tsc",
        "--noEmit --strict --skipLibCheck --target es2022 --module preserve --lib es2023,dom,dom.iterable driver.ts",
    )
    .await;
    tool(
        "esbuild/bin/esbuild",
        "driver.ts --bundle --platform=node --format=esm --outfile=driver.mjs",
    )
    .await;
    let (_app, task) = app().await;
    let printed = run(folder, &node, &["driver.mjs", &task]).await;
    assert_eq!(serde_json::from_str::<Value>(&printed).expect("JSON"), expected());
}

#[tokio::test]
async fn a_client_by_openapi_python_client_holds_a_conversation() {
    let programs = root().join(".cache/openapi-client/venv/bin");
    if !programs.join("openapi-python-client").exists() {
        needs::skip("openapi-python-client is not installed: scripts/setup-clients.sh fetches it");
        return;
    }
    let workshop = Workshop::below(&root().join(".cache/openapi-client"));
    workshop.copy("driver.py");
    workshop.copy("python.yaml");
    let folder = &workshop.0;
    let arguments = "generate --path openapi.json --meta none --config python.yaml --output-path generated";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    run(folder, &programs.join("openapi-python-client"), &arguments).await;
    let (_app, task) = app().await;
    let printed = run(folder, &programs.join("python"), &["driver.py", &task]).await;
    assert_eq!(serde_json::from_str::<Value>(&printed).expect("JSON"), expected());
}
