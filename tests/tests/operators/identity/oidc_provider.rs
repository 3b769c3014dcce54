//! Tokens of a third-party OpenID Connect provider: npm's `oidc-provider`, as a separate process. Without npm or node
//! the test is skipped; in CI it fails. (Browsers that sign in there: `sso_provider`.)

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use rejoin_http::oidc::settings::NewUsersArg;
use rejoin_tests::client::{Client, answer};
use rejoin_tests::support::{self, first_line};
use rejoin_types::access::Scope;
use reqwest::StatusCode;
use serde_json::json;
use uuid::Uuid;

use super::oidc;

/// A process of a third-party provider; killed when dropped.
pub(super) struct Provider {
    child: Child,
    pub(super) url: String,
}

/// Held while its packages are installed: tests run at the same time.
static INSTALLING: Mutex<()> = Mutex::new(());

impl Provider {
    /// Starts it. None: it is unavailable, which was reported.
    pub(super) async fn started(secret: &str) -> Option<Self> {
        let secret = secret.to_owned();
        match tokio::task::spawn_blocking(move || Self::start(&secret)).await.unwrap() {
            Ok(provider) => Some(provider),
            Err(reason) => {
                rejoin_tests::needs::skip(&format!("no real OpenID Connect provider here: {reason}"));
                None
            }
        }
    }

    /// Changes it, as `server.mjs` describes.
    pub(super) async fn control(&self, body: &serde_json::Value) {
        let request = reqwest::Client::new().post(format!("{}/control", self.url)).json(body);
        let response = request.send().await.expect("an answer");
        assert_eq!(response.status(), StatusCode::NO_CONTENT);
    }

    /// Err: why it is unavailable.
    fn start(secret: &str) -> Result<Self, String> {
        let installing = INSTALLING.lock().expect("no panic");
        let sources = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("oidc-provider");
        let folder = sources.join("../../.cache/oidc-provider");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let lock = "package-lock.json";
        let same = std::fs::read(sources.join(lock)).ok() == std::fs::read(folder.join(lock)).ok();
        if !same || !folder.join("node_modules/.package-lock.json").exists() {
            for file in ["package.json", lock] {
                std::fs::copy(sources.join(file), folder.join(file)).map_err(|error| error.to_string())?;
            }
            let mut npm = Command::new("npm");
            npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
                .current_dir(&folder);
            let installed = npm.output().map_err(|error| format!("npm does not run: {error}"))?;
            if !installed.status.success() {
                return Err(format!("npm ci failed: {}", String::from_utf8_lossy(&installed.stderr)));
            }
        }
        // Only if it has changed: another process may be reading it.
        let program = "server.mjs";
        if std::fs::read(sources.join(program)).ok() != std::fs::read(folder.join(program)).ok() {
            std::fs::copy(sources.join(program), folder.join(program)).map_err(|error| error.to_string())?;
        }
        drop(installing);
        let mut child = Command::new("node")
            .args([program, secret])
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("node does not run: {error}"))?;
        let url = first_line("the OpenID Connect provider", &mut child);
        assert!(url.starts_with("http://"), "the provider said {url:?}");
        Ok(Self { child, url })
    }

    async fn token(&self, secret: &str, algorithm: &str) -> String {
        let form = [
            ("grant_type", "client_credentials"),
            ("client_id", "robot"),
            ("client_secret", secret),
            ("scope", "rejoin:read"),
            ("resource", &format!("https://rejoin.example/{algorithm}")),
        ];
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let request = reqwest::Client::new()
            .post(format!("{}/token", self.url))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body);
        let (status, said) = answer(request.send().await.expect("an answer")).await;
        assert_eq!(status, StatusCode::OK, "{said}");
        said["access_token"].as_str().expect("a token").to_owned()
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
async fn a_real_provider_lets_its_clients_in() {
    let secret = Uuid::now_v7().to_string();
    let Some(provider) = Provider::started(&secret).await else {
        return;
    };
    let db = support::database().await;
    let project = db.workspace_id.to_string();
    let server = oidc::api(&db, &provider.url, |args| {
        args.oidc_new_users = NewUsersArg::Create;
        args.oidc_default_project = Some(project);
        args.oidc_scopes = Scope::ALL.to_vec();
    })
    .await;
    for algorithm in ["RS256", "ES256"] {
        let token = provider.token(&secret, algorithm).await;
        let (status, caller) = oidc::me(&server, &token).await;
        assert_eq!(status, StatusCode::OK, "{algorithm}: {caller}");
        assert_eq!(caller["scopes"], json!(["read"]), "the token says so");
        let client = Client::new(server.url(), &token);
        assert_eq!(client.get("/api/conversations").await.0, StatusCode::OK);
        let mut broken = token.clone();
        let within = broken.len() - 10..broken.len() - 9;
        let other = if &broken[within.clone()] == "A" { "B" } else { "A" };
        broken.replace_range(within, other);
        assert_eq!(oidc::me(&server, &broken).await.0, StatusCode::UNAUTHORIZED);
    }
    // For another audience.
    let other = oidc::api(&db, &provider.url, |args| args.oidc_audience = Some("other".to_owned())).await;
    let token = provider.token(&secret, "RS256").await;
    assert_eq!(oidc::me(&other, &token).await.0, StatusCode::UNAUTHORIZED);
}
