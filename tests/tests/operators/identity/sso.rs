//! Browsers that sign in at an identity provider: the flow, and forged responses. (Who gets in: `sso_access`; with a provider that
//! others have written: `sso_provider`; tokens of programs: `oidc`.)

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rejoin_api::Server;
use rejoin_http::oidc::settings::{NewUsersArg, OidcArgs};
use rejoin_tests::issuer::{Issuer, SigningKey, now, unsigned};
use rejoin_tests::support::{self, TestDatabase};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::browser::{Browser, query};
use super::oidc::{KNOWN, users};

/// Our client at the issuer.
pub(super) const CLIENT: &str = "web";

/// An API, and a provider at which browsers sign in.
pub(super) struct Site {
    pub(super) db: TestDatabase,
    pub(super) issuer: Issuer,
    pub(super) key: SigningKey,
    pub(super) server: Server,
}

impl Site {
    pub(super) async fn start(change: impl FnOnce(&mut OidcArgs, &TestDatabase)) -> Self {
        let db = support::database().await;
        let key = SigningKey::ec("one");
        let issuer = Issuer::start(&[&key]).await;
        let server = super::oidc::api(&db, &issuer.url, |args| {
            args.sso.sso_client_id = Some(CLIENT.to_owned());
            args.sso.sso_client_secret = Some("s3cret & more".to_owned());
            change(args, &db);
        })
        .await;
        Self {
            db,
            issuer,
            key,
            server,
        }
    }

    pub(super) fn browser(&self) -> Browser {
        Browser::new(self.server.url())
    }

    /// The claims of a good ID token.
    fn claims(&self, subject: &str, nonce: &str) -> Value {
        let mut claims = self.issuer.claims(subject);
        claims["aud"] = json!(CLIENT);
        claims["nonce"] = json!(nonce);
        claims
    }

    fn answers(&self, token: &str) {
        let body = json!({"access_token": "opaque", "token_type": "Bearer", "id_token": token});
        self.issuer.answer_codes(StatusCode::OK, body);
    }

    fn callback(&self, state: &str) -> String {
        format!("{}/api/sign-in/sso/callback?code=c-1&state={state}", self.server.url())
    }

    /// Signs a user in, with these changes of the ID token, and returns where it leads.
    pub(super) async fn sign_in(
        &self,
        browser: &mut Browser,
        subject: &str,
        change: impl FnOnce(&mut Value),
    ) -> String {
        self.sign_in_from(browser, "", subject, change).await
    }

    pub(super) async fn sign_in_from(
        &self,
        browser: &mut Browser,
        start: &str,
        subject: &str,
        change: impl FnOnce(&mut Value),
    ) -> String {
        let asked = query(&browser.start(start).await);
        let mut claims = self.claims(subject, &asked["nonce"]);
        change(&mut claims);
        self.answers(&self.key.token(&claims));
        browser.come_back(&self.callback(&asked["state"])).await
    }
}

/// The page that explains why a sign-in has failed.
pub(super) fn failed(code: &str) -> String {
    format!("/#sign-in-error={code}")
}

/// Creates users, as members of the test's project.
pub(super) fn open(args: &mut OidcArgs, db: &TestDatabase) {
    args.oidc_new_users = NewUsersArg::Create;
    args.oidc_default_project = Some(db.workspace_id.to_string());
}

#[tokio::test]
async fn a_browser_signs_in_by_the_code_flow_with_pkce() {
    let site = Site::start(|_, _| {}).await;
    let mut browser = site.browser();
    let (status, ways) = browser.send(Method::GET, "/api/sign-in", None).await;
    assert_eq!(
        (status, ways),
        (
            StatusCode::OK,
            json!({"sso": {"name": "SSO", "url": "/api/sign-in/sso"}})
        )
    );
    let begun = browser
        .navigate(
            &format!("{}/api/sign-in/sso?returnTo=/chat/1%3Fa%3Db", site.server.url()),
            "none",
        )
        .await;
    let set = begun.headers()["set-cookie"].to_str().unwrap().to_owned();
    for needed in ["rejoin_sign_in=", "Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=600"] {
        assert!(set.contains(needed), "{set}");
    }
    let url = super::browser::location(&begun);
    assert!(
        url.starts_with(&format!("{}/authorize?tenant=one&", site.issuer.url)),
        "{url}"
    );
    let asked = query(&url);
    let redirect_uri = format!("{}/api/sign-in/sso/callback", site.server.url());
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("redirect_uri", redirect_uri.as_str()),
        ("scope", "openid profile email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(asked[name], value, "{name}");
    }
    site.answers(&site.key.token(&site.claims(KNOWN, &asked["nonce"])));
    assert_eq!(browser.come_back(&site.callback(&asked["state"])).await, "/chat/1?a=b");
    let redeemed = site.issuer.redemptions();
    let [redeemed] = redeemed.as_slice() else {
        panic!("{redeemed:?}");
    };
    let form = |name: &str| redeemed.form[name].as_str();
    assert_eq!(
        [form("grant_type"), form("code"), form("redirect_uri")],
        ["authorization_code", "c-1", redirect_uri.as_str()]
    );
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(form("code_verifier").as_bytes()));
    assert_eq!(asked["code_challenge"], challenge);
    let basic = STANDARD.encode(format!("{CLIENT}:s3cret+%26+more"));
    assert_eq!(
        redeemed.authorization.as_deref(),
        Some(format!("Basic {basic}").as_str())
    );
    assert_eq!(browser.cookie("rejoin_sign_in"), None, "it is used up");
    let me = browser.me().await.expect("signed in");
    assert_eq!(me["userId"], json!(site.db.user_id));
    assert_eq!(
        me["scopes"],
        json!(["read", "write", "admin"]),
        "those of an owner in a browser"
    );
    let (_, sessions) = browser.send(Method::GET, "/api/sessions", None).await;
    let [session] = sessions["items"].as_array().unwrap().as_slice() else {
        panic!("{sessions}");
    };
    assert_eq!(
        (&session["begunBy"], &session["isCurrent"]),
        (&json!("sso"), &json!(true))
    );
    // Nothing of it is a credential of programs.
    let token = site.key.token(&site.claims(KNOWN, &asked["nonce"]));
    assert_eq!(
        super::oidc::me(&site.server, &token).await.0,
        StatusCode::UNAUTHORIZED,
        "its audience is the client, not the API"
    );
    // Signing out leads to the provider.
    let (status, out) = browser.send(Method::POST, "/api/sign-in/sso/sign-out", None).await;
    assert_eq!(status, StatusCode::OK, "{out}");
    let leads = out["providerUrl"].as_str().unwrap();
    assert!(leads.starts_with(&format!("{}/logout?", site.issuer.url)), "{leads}");
    assert_eq!(
        query(leads)["post_logout_redirect_uri"],
        format!("{}/", site.server.url())
    );
    assert_eq!(browser.me().await, None);
    let told: Vec<String> = sqlx::query_scalar(
        "select action || ' ' || credential from audit.entries where target like 'session:%' order by id",
    )
    .fetch_all(&site.db.pool)
    .await
    .unwrap();
    assert_eq!(told[0], "session.begun sso");
}

#[tokio::test]
async fn no_wrong_id_token_signs_anyone_in() {
    let site = Site::start(open).await;
    let own_key = SigningKey::ec("one");
    let before = users(&site.db).await;
    for (what, claim, value) in [
        ("another nonce", "nonce", json!("other")),
        ("no nonce", "nonce", Value::Null),
        ("another audience", "aud", json!("rejoin")),
        ("no audience", "aud", json!([])),
        ("several audiences", "aud", json!([CLIENT, "api"])),
        ("another client", "azp", json!("api")),
        ("another issuer", "iss", json!("https://evil.example")),
        ("expired", "exp", json!(now() - 1)),
        ("no expiry", "exp", Value::Null),
        ("not valid yet", "nbf", json!(now() + 600)),
        ("issued long ago", "iat", json!(now() - 700)),
        ("issued tomorrow", "iat", json!(now() + 86_400)),
        ("no time of issue", "iat", Value::Null),
        ("no subject", "sub", json!(" ")),
    ] {
        let mut browser = site.browser();
        let leads = site
            .sign_in(&mut browser, "fresh", |claims| claims[claim] = value)
            .await;
        assert_eq!(leads, failed("token_invalid"), "{what}");
        assert_eq!(browser.me().await, None, "{what}");
    }
    // Wrong signatures.
    let mut browser = site.browser();
    let asked = query(&browser.start("").await);
    let claims = site.claims("fresh", &asked["nonce"]);
    let header = |algorithm: &str| json!({"typ": "JWT", "alg": algorithm, "kid": "one"});
    for token in [
        own_key.token(&claims),
        unsigned(&header("none"), &claims),
        unsigned(&header("ES256"), &claims),
        site.key.signed(&header("HS256"), &claims),
        site.key
            .signed(&json!({"typ": "logout+jwt", "alg": "ES256", "kid": "one"}), &claims),
        "a.b.c".to_owned(),
    ] {
        let mut browser = {
            let mut same = site.browser();
            same.takes_cookies_of(&browser);
            same
        };
        site.answers(&token);
        let leads = browser.come_back(&site.callback(&asked["state"])).await;
        assert_eq!(leads, failed("token_invalid"), "{token}");
    }
    assert_eq!(users(&site.db).await, before, "no user was made for any of them");
    // The same browser with the good one.
    site.answers(&site.key.token(&claims));
    assert_eq!(browser.come_back(&site.callback(&asked["state"])).await, "/");
    assert!(browser.me().await.is_some());
    assert_eq!(users(&site.db).await, before + 1);
}

#[tokio::test]
async fn a_response_counts_only_in_the_browser_that_asked() {
    let site = Site::start(|_, _| {}).await;
    let mut browser = site.browser();
    let asked = query(&browser.start("").await);
    site.answers(&site.key.token(&site.claims(KNOWN, &asked["nonce"])));
    let unknown = failed("sign_in_unknown");
    // Of another flow, or in another browser.
    let mut other = site.browser();
    let theirs = query(&other.start("").await);
    assert_ne!(asked["state"], theirs["state"]);
    assert_eq!(browser.come_back(&site.callback(&theirs["state"])).await, unknown);
    assert_eq!(browser.come_back(&site.callback("")).await, unknown);
    assert_eq!(site.browser().come_back(&site.callback(&asked["state"])).await, unknown);
    // From another issuer (RFC 9207), without a code, or refused.
    let with = |more: &str| format!("{}&{more}", site.callback(&asked["state"]));
    let mut again = site.browser();
    again.takes_cookies_of(&browser);
    assert_eq!(again.come_back(&with("iss=https://evil.example")).await, unknown);
    let base = format!(
        "{}/api/sign-in/sso/callback?state={}",
        site.server.url(),
        asked["state"]
    );
    let mut again = site.browser();
    again.takes_cookies_of(&browser);
    assert_eq!(again.come_back(&base).await, unknown);
    let mut again = site.browser();
    again.takes_cookies_of(&browser);
    assert_eq!(
        again.come_back(&format!("{base}&error=access_denied")).await,
        failed("provider_refused")
    );
    assert!(
        site.issuer.redemptions().is_empty(),
        "no code was redeemed for any of them"
    );
    // A code that the provider does not take, and settings that it does not take.
    for (error, code) in [("invalid_grant", "code_refused"), ("invalid_client", "client_refused")] {
        let mut again = site.browser();
        again.takes_cookies_of(&browser);
        site.issuer
            .answer_codes(StatusCode::BAD_REQUEST, json!({"error": error}));
        assert_eq!(again.come_back(&site.callback(&asked["state"])).await, failed(code));
    }
    // A sign-in does not begin on other sites, nor end there.
    let url = format!("{}/api/sign-in/sso", site.server.url());
    for foreign in ["cross-site", "same-site"] {
        let mut victim = site.browser();
        let begun = victim.navigate(&url, foreign).await;
        assert_eq!(super::browser::location(&begun), failed("cross_site"));
        assert_eq!(victim.cookie("rejoin_sign_in"), None);
    }
    for path in [
        "https://evil.example",
        "//evil.example",
        "/%5Cevil.example",
        "javascript:alert(1)",
    ] {
        let leads = site.browser().start(&format!("?returnTo={path}")).await;
        assert_eq!(leads, failed("invalid_query"), "{path}");
    }
}
