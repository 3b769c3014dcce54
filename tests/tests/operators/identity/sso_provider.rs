//! Browsers that sign in at a third-party OpenID Connect provider: npm's `oidc-provider`, as a separate process. Without npm or
//! node the tests are skipped; in CI they fail. (Forged responses: `sso`.)

use rejoin_api::Server;
use rejoin_http::oidc::settings::{NewUsersArg, OidcArgs};
use rejoin_tests::support::{self, TestDatabase};
use reqwest::StatusCode;
use serde_json::{Value, json};
use url::Url;
use uuid::Uuid;

use super::browser::{Browser, query};
use super::oidc;
use super::oidc_provider::Provider;
use super::sso::failed;

/// An API, and the provider that knows its address.
struct Site {
    db: TestDatabase,
    provider: Provider,
    server: Server,
}

impl Site {
    /// None: there is no provider here.
    async fn start(change: impl FnOnce(&mut OidcArgs)) -> Option<Self> {
        let secret = Uuid::now_v7().to_string();
        let provider = Provider::started(&secret).await?;
        let db = support::database().await;
        let project = db.workspace_id.to_string();
        let server = oidc::api(&db, &provider.url, |args| {
            args.oidc_audience = None;
            args.oidc_user_claim = "preferred_username".to_owned();
            args.oidc_new_users = NewUsersArg::Create;
            args.oidc_default_project = Some(project);
            args.oidc_keys_refetch_ms = 0;
            args.sso.sso_client_id = Some("web".to_owned());
            args.sso.sso_client_secret = Some(secret);
            args.sso.sso_group_roles = vec!["admins=owner".to_owned(), "staff=member".to_owned()];
            change(args);
        })
        .await;
        let site = Self { db, provider, server };
        let url = site.server.url();
        site.provider
            .control(&json!({
                "redirectUri": format!("{url}/api/sign-in/sso/callback"),
                "logoutUri": format!("{url}/api/sign-in/sso/back-channel-logout"),
                "afterLogout": format!("{url}/"),
            }))
            .await;
        Some(site)
    }

    fn browser(&self) -> Browser {
        Browser::new(self.server.url())
    }

    /// Signs a user in, and returns where it leads.
    async fn sign_in(&self, browser: &mut Browser, user: &str) -> String {
        let begun = browser.start("").await;
        let back = browser.authorize(&begun, user).await;
        browser.come_back(&back).await
    }
}

/// An address with another value in its query.
fn with(url: &str, name: &str, value: &str) -> String {
    let mut url: Url = url.parse().expect("a URL");
    let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    url.query_pairs_mut()
        .clear()
        .extend_pairs(pairs.iter().filter(|(known, _)| known != name))
        .append_pair(name, value);
    url.into()
}

#[tokio::test]
async fn users_of_a_real_provider_sign_in_with_their_groups() {
    let Some(site) = Site::start(|_| {}).await else { return };
    for (user, role) in [("ann", "member"), ("ada", "owner")] {
        let mut browser = site.browser();
        assert_eq!(site.sign_in(&mut browser, user).await, "/", "{user}");
        let me = browser.me().await.expect("signed in");
        assert_eq!(
            (&me["handle"], &me["role"], &me["projectId"]),
            (&json!(user), &json!(role), &json!(site.db.workspace_id))
        );
        // Again, without being asked by the provider.
        let begun = browser.start("?silent=true").await;
        assert_eq!(query(&begun)["prompt"], "none");
        let back = browser.authorize(&begun, "is not asked").await;
        assert_eq!(browser.come_back(&back).await, "/");
    }
    let known = oidc::users(&site.db).await;
    let mut browser = site.browser();
    assert_eq!(
        site.sign_in(&mut browser, "zed").await,
        failed("no_project"),
        "an unknown group"
    );
    assert_eq!(browser.me().await, None);
    assert_eq!(oidc::users(&site.db).await, known);
    // Asked nothing, the provider refuses who is not signed in there.
    let mut stranger = site.browser();
    let begun = stranger.start("?silent=true").await;
    let back = stranger.authorize(&begun, "ann").await;
    assert_eq!(query(&back)["error"], "login_required");
    assert_eq!(stranger.come_back(&back).await, failed("provider_refused"));
}

#[tokio::test]
async fn a_real_providers_response_counts_once_and_in_its_flow() {
    let Some(site) = Site::start(|_| {}).await else { return };
    let mut browser = site.browser();
    // Another nonce.
    let begun = browser.start("").await;
    let back = browser.authorize(&with(&begun, "nonce", "other"), "ann").await;
    assert_eq!(browser.come_back(&back).await, failed("token_invalid"));
    // Another state.
    let begun = browser.start("").await;
    let back = browser.authorize(&begun, "ann").await;
    assert_eq!(
        browser.come_back(&with(&back, "state", "other")).await,
        failed("sign_in_unknown")
    );
    // Another issuer: this one names itself (RFC 9207).
    let mut other = site.browser();
    other.takes_cookies_of(&browser);
    let elsewhere = with(&back, "iss", "https://evil.example");
    assert_eq!(other.come_back(&elsewhere).await, failed("sign_in_unknown"));
    // A code that was asked for with another challenge: stolen from another browser.
    let mut thief = site.browser();
    let begun = thief.start("").await;
    let stolen = with(&begun, "code_challenge", "0123456789012345678901234567890123456789012");
    let stolen = thief.authorize(&stolen, "ann").await;
    assert_eq!(thief.come_back(&stolen).await, failed("code_refused"));
    // The good one, once.
    let mut replay = site.browser();
    replay.takes_cookies_of(&browser);
    assert_eq!(browser.come_back(&back).await, "/");
    assert_eq!(replay.come_back(&back).await, failed("code_refused"));
    assert_eq!(replay.me().await, None);
}

#[tokio::test]
async fn new_keys_of_a_real_provider_are_found() {
    let Some(site) = Site::start(|_| {}).await else { return };
    assert_eq!(site.sign_in(&mut site.browser(), "ann").await, "/");
    site.provider.control(&json!({"rotate": true})).await;
    assert_eq!(site.sign_in(&mut site.browser(), "ann").await, "/");
}

#[tokio::test]
async fn a_disabled_user_of_a_real_provider_stays_out() {
    let Some(site) = Site::start(|args| args.sso.sso_email_domains = vec!["example.com".to_owned()]).await else {
        return;
    };
    assert_eq!(
        site.sign_in(&mut site.browser(), "eve").await,
        failed("email_not_allowed")
    );
    let mut browser = site.browser();
    let begun = browser.start("").await;
    let back = browser.authorize(&begun, "ann").await;
    // Disabled before the code is redeemed.
    site.provider.control(&json!({"disable": "ann"})).await;
    assert_eq!(browser.come_back(&back).await, failed("code_refused"));
    assert_eq!(browser.me().await, None);
    site.provider.control(&json!({"enable": "ann"})).await;
    assert_eq!(site.sign_in(&mut site.browser(), "ann").await, "/");
}

#[tokio::test]
async fn signing_out_at_a_real_provider_ends_sessions_here() {
    let Some(site) = Site::start(|_| {}).await else { return };
    let mut browser = site.browser();
    assert_eq!(site.sign_in(&mut browser, "ann").await, "/");
    let mut elsewhere = site.browser();
    assert_eq!(site.sign_in(&mut elsewhere, "ann").await, "/");
    // The page of the provider asks; its form signs out, and the provider notifies our API.
    let logout = format!(
        "{}/session/end?client_id=web&post_logout_redirect_uri={}/",
        site.provider.url,
        site.server.url()
    );
    let page = browser.navigate(&logout, "cross-site").await;
    assert_eq!(page.status(), StatusCode::OK);
    let page = page.text().await.unwrap();
    let (_, rest) = page.split_once("name=\"xsrf\" value=\"").expect("a form");
    let (xsrf, _) = rest.split_once('"').expect("a value");
    let confirm = format!("{}/session/end/confirm", site.provider.url);
    let done = browser.submit(&confirm, &[("xsrf", xsrf), ("logout", "yes")]).await;
    assert_eq!(done.headers()["location"], format!("{}/", site.server.url()).as_str());
    assert_eq!(browser.me().await, None, "it has ended with the provider's");
    assert_ne!(elsewhere.me().await, None, "another browser has another session there");
    // From here: the address leads to that page.
    let (status, out): (StatusCode, Value) = elsewhere
        .send(reqwest::Method::POST, "/api/sign-in/sso/sign-out", None)
        .await;
    assert_eq!(status, StatusCode::OK);
    let provider_url = out["providerUrl"].as_str().expect("it has one");
    assert!(
        provider_url.starts_with(&format!("{}/session/end?", site.provider.url)),
        "{provider_url}"
    );
    assert_eq!(
        elsewhere.navigate(provider_url, "cross-site").await.status(),
        StatusCode::OK
    );
}
