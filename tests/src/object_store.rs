//! A real S3 server for tests of files: Ceph's RADOS Gateway, started by `tests/object-store/radosgw.sh`.
//! `scripts/setup-test.sh` installs it; without it a test fails in CI and is skipped elsewhere.
//!
//! The tests' own requests use curl, which signs requests itself: a different client from the one being tested.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::Mutex;

use tokio::process::Command;
use tokio::sync::OnceCell;
use uuid::Uuid;

use crate::needs;
use crate::ports::free_port;

pub const ACCESS_KEY: &str = "rejoin-test";
pub const SECRET_KEY: &str = "rejoin-test-secret";
/// An existing bucket.
pub const BUCKET: &str = "rejoin-files";

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/object-store/radosgw.sh");
const PROGRAMS: [&str; 4] = ["radosgw", "ceph-mon", "ceph-osd", "curl"];
/// Another process may take a port between its choice and its use.
const TRIES: u32 = 3;

static SHARED: OnceCell<Option<ObjectServer>> = OnceCell::const_new();

/// A server of this process. Its script ends with this process, which closes its standard input.
pub struct ObjectServer {
    /// Its URL.
    pub endpoint: String,
    _script: Mutex<Child>,
}

impl ObjectServer {
    /// The server shared by all tests of this process. None: it is not installed.
    pub async fn shared() -> Option<&'static Self> {
        SHARED.get_or_init(Self::start).await.as_ref()
    }

    async fn start() -> Option<Self> {
        if let Some(missing) = PROGRAMS.iter().find(|program| !is_installed(program)) {
            needs::skip(&format!(
                "{missing} is not installed: files in an object store are not tried"
            ));
            return None;
        }
        let started = tokio::task::spawn_blocking(|| (0..TRIES).find_map(|_| start_once()));
        Some(started.await.expect("it does not panic").expect("radosgw starts"))
    }

    /// Returns the keys of the bucket's objects with this prefix, in order.
    pub async fn keys(&self, prefix: &str) -> Vec<String> {
        // The server signs the query with encoded slashes, and curl as given.
        let prefix = prefix.replace('/', "%2F");
        let list = self.ask(&["--get"], &format!("?list-type=2&prefix={prefix}")).await;
        elements(&String::from_utf8_lossy(&list), "Key")
    }

    /// Returns the keys of unfinished multipart uploads.
    pub async fn uploads(&self) -> Vec<String> {
        let list = self.ask(&["--get"], "?uploads=").await;
        elements(&String::from_utf8_lossy(&list), "Key")
    }

    pub async fn get(&self, key: &str) -> Vec<u8> {
        self.ask(&["--get"], &format!("/{key}")).await
    }

    pub async fn put(&self, key: &str, content: &[u8]) {
        let file = std::env::temp_dir().join(format!("rejoin-object-{}", Uuid::now_v7()));
        std::fs::write(&file, content).expect("a file");
        let upload = file.display().to_string();
        self.ask(&["--upload-file", &upload], &format!("/{key}")).await;
        std::fs::remove_file(&file).expect("it was there");
    }

    pub async fn delete(&self, key: &str) {
        self.ask(&["--request", "DELETE"], &format!("/{key}")).await;
    }

    async fn ask(&self, arguments: &[&str], place: &str) -> Vec<u8> {
        let output = Command::new("curl")
            .args(["--silent", "--show-error", "--fail-with-body", "--noproxy", "*"])
            .args(["--aws-sigv4", "aws:amz:us-east-1:s3"])
            .args(["--user", &format!("{ACCESS_KEY}:{SECRET_KEY}")])
            .args(["--header", "x-amz-content-sha256: UNSIGNED-PAYLOAD"])
            .args(arguments)
            .arg(format!("{}/{BUCKET}{place}", self.endpoint))
            .output()
            .await
            .expect("curl runs");
        let (printed, failed) = (&output.stdout, &output.stderr);
        let printed = [printed, failed].map(|text| String::from_utf8_lossy(text));
        assert!(output.status.success(), "{arguments:?} {place}: {printed:?}");
        output.stdout
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/bin"), PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(program)).any(|file| file.is_file())
}

fn start_once() -> Option<ObjectServer> {
    let port = free_port();
    let folder = std::env::temp_dir().join(format!("rejoin-radosgw-{}", Uuid::now_v7()));
    let mut script = std::process::Command::new(SCRIPT)
        .arg(&folder)
        .arg(port.to_string())
        .env("ACCESS_KEY", ACCESS_KEY)
        .env("SECRET_KEY", SECRET_KEY)
        .env("BUCKET", BUCKET)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the script runs");
    let mut said = String::new();
    let stdout = script.stdout.take().expect("it is piped");
    let is_read = BufReader::new(stdout).read_line(&mut said).is_ok();
    if !is_read || said.trim() != "ready" {
        let _ = script.wait();
        return None;
    }
    Some(ObjectServer {
        endpoint: format!("http://127.0.0.1:{port}"),
        _script: Mutex::new(script),
    })
}

/// The texts of all elements of this name.
fn elements(xml: &str, name: &str) -> Vec<String> {
    let (begin, end) = (format!("<{name}>"), format!("</{name}>"));
    let parts = xml.split(begin.as_str()).skip(1);
    parts
        .filter_map(|part| Some(part.split_once(end.as_str())?.0.to_owned()))
        .collect()
}
