//! Tokens of an identity provider: who is authenticated, forged tokens, and the keys of issuers. (What a
//! valid one opens: `oidc_access`.)

use rejoin_api::{ApiConfig, Server};
use rejoin_http::oidc::settings::{NewUsersArg, OidcArgs};
use rejoin_tests::client::{Client, answer};
use rejoin_tests::issuer::{AUDIENCE, Issuer, SigningKey, now, signed_with_secret, unsigned};
use rejoin_tests::support::{self, TestDatabase};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// An API that trusts this issuer.
pub async fn api(db: &TestDatabase, issuer: &str, change: impl FnOnce(&mut OidcArgs)) -> Server {
    let mut config = ApiConfig::new(db.args());
    config.listen = "127.0.0.1:0".parse().expect("an address");
    config.drain_grace_ms = 0;
    config.http.oidc = OidcArgs {
        oidc_issuer: Some(issuer.to_owned()),
        oidc_audience: Some(AUDIENCE.to_owned()),
        ..OidcArgs::default()
    };
    change(&mut config.http.oidc);
    Server::start(config, CancellationToken::new())
        .await
        .expect("the API starts")
}

/// The test's user, known by this name.
pub const KNOWN: &str = "user@example.org";

pub async fn me(server: &Server, token: &str) -> (StatusCode, Value) {
    Client::new(server.url(), token).get("/api/me").await
}

pub(super) async fn users(db: &TestDatabase) -> i64 {
    sqlx::query_scalar("select count(*) from kb.users")
        .fetch_one(&db.pool)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_token_of_the_trusted_issuer_speaks_for_its_user() {
    let db = support::database().await;
    let (rsa, ec) = (SigningKey::rsa("one"), SigningKey::ec("two"));
    let issuer = Issuer::start(&[&rsa, &ec]).await;
    let server = api(&db, &issuer.url, |_| {}).await;
    for key in [&rsa, &ec] {
        let mut claims = issuer.claims(KNOWN);
        let (status, caller) = me(&server, &key.token(&claims)).await;
        assert_eq!(status, StatusCode::OK, "{caller}");
        assert_eq!(caller["userId"], json!(db.user_id));
        assert_eq!(caller["projectId"], json!(db.workspace_id));
        assert_eq!(caller["scopes"], json!(["read", "write"]));
        assert!(
            caller["tokenExpiresAt"].is_string() && caller["keyId"].is_null(),
            "{caller}"
        );
        claims["aud"] = json!(["somebody-else", AUDIENCE]);
        let client = Client::new(server.url(), &key.token(&claims));
        assert_eq!(
            client.post("/api/conversations", json!({})).await.0,
            StatusCode::CREATED
        );
        let definitions = format!("/api/admin/projects/{}/agent-definitions", db.workspace_id);
        assert_eq!(client.get(&definitions).await.0, StatusCode::FORBIDDEN);
        claims["scope"] = json!("openid rejoin:read rejoin:admin");
        let reader = Client::new(server.url(), &key.token(&claims));
        assert_eq!(reader.get("/api/conversations").await.0, StatusCode::OK);
        assert_eq!(
            reader.post("/api/conversations", json!({})).await.1["code"],
            "scope_missing"
        );
    }
    // The same user with an API key sees the same conversations.
    let (_, listed) = Client::new(server.url(), &db.api_key).get("/api/conversations").await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 2);
}

/// Returns claims with one of them changed; null: removed.
pub fn with(claims: &Value, name: &str, value: Value) -> Value {
    let mut claims = claims.clone();
    let all = claims.as_object_mut().expect("an object");
    if value.is_null() {
        all.remove(name);
    } else {
        all.insert(name.to_owned(), value);
    }
    claims
}

#[tokio::test]
async fn no_forged_expired_or_foreign_token_opens_anything() {
    let db = support::database().await;
    let (rsa, ec) = (SigningKey::rsa("one"), SigningKey::ec("two"));
    let (own_rsa, own_ec) = (SigningKey::rsa("one"), SigningKey::ec("evil"));
    let issuer = Issuer::start(&[&rsa, &ec]).await;
    let evil = Issuer::start(&[&own_rsa, &own_ec]).await;
    let server = api(&db, &issuer.url, |args| args.oidc_new_users = NewUsersArg::Create).await;
    let good = issuer.claims("somebody new");
    let header = |algorithm: &str, id: &str| json!({"typ": "JWT", "alg": algorithm, "kid": id});
    let mut forged: Vec<(String, String)> = Vec::new();
    let mut try_it = |what: &str, token: String| forged.push((what.to_owned(), token));

    for algorithm in ["none", "None", "NONE", "nOnE", ""] {
        try_it("no signature", unsigned(&header(algorithm, "one"), &good));
        try_it("no signature, no key", unsigned(&json!({"alg": algorithm}), &good));
        try_it("a signature of none", rsa.signed(&header(algorithm, "one"), &good));
    }
    try_it(
        "an honest algorithm without a signature",
        unsigned(&header("RS256", "one"), &good),
    );
    for key in [&rsa, &ec] {
        for secret in key.public_forms() {
            for id in ["one", "two"] {
                for algorithm in ["HS256", "RS256", "ES256"] {
                    let token = signed_with_secret(&header(algorithm, id), &good, &secret);
                    try_it("the public key as a secret", token);
                }
            }
            try_it(
                "the same without a key's id",
                signed_with_secret(&json!({"alg": "HS256"}), &good, &secret),
            );
        }
    }
    for algorithm in ["ES256", "RS384", "RS512", "PS256", "HS256", "EdDSA"] {
        try_it("RSA under another name", rsa.signed(&header(algorithm, "one"), &good));
        try_it(
            "RSA under another name and key",
            rsa.signed(&header(algorithm, "two"), &good),
        );
    }
    try_it("ECDSA as RSA", ec.signed(&header("RS256", "one"), &good));
    try_it("the other key's id", ec.signed(&header("ES256", "one"), &good));
    try_it(
        "a key of one's own under a known id",
        own_rsa.signed(&header("RS256", "one"), &good),
    );
    try_it("a key of one's own", own_ec.token(&good));
    let mut own_header = header("ES256", "evil");
    own_header["jwk"] = own_ec.jwk();
    try_it("a key of one's own, enclosed", own_ec.signed(&own_header, &good));
    let mut own_address = header("ES256", "evil");
    own_address["jku"] = json!(format!("{}/keys", evil.url));
    own_address["x5u"] = json!(format!("{}/keys", evil.url));
    try_it(
        "a key of one's own, with its address",
        own_ec.signed(&own_address, &good),
    );
    try_it(
        "an id that is a path",
        own_ec.signed(&header("ES256", "../../dev/null"), &good),
    );

    let issuers = [
        json!(evil.url),
        json!(format!("{}/", issuer.url)),
        json!([issuer.url]),
        json!(7),
        Value::Null,
    ];
    for value in issuers {
        try_it("another issuer", rsa.token(&with(&good, "iss", value)));
    }
    try_it(
        "a foreign issuer's own token",
        own_ec.token(&evil.claims("somebody new")),
    );
    for value in [
        json!("other"),
        json!(["a", "b"]),
        json!([]),
        json!({"a": AUDIENCE}),
        Value::Null,
    ] {
        try_it("another audience", rsa.token(&with(&good, "aud", value)));
    }
    for value in [
        json!(now() - 1),
        json!(now() - 100_000),
        json!(0),
        json!(-1),
        json!("tomorrow"),
        Value::Null,
    ] {
        try_it("expired, or without an expiry", rsa.token(&with(&good, "exp", value)));
    }
    try_it("not valid yet", rsa.token(&with(&good, "nbf", json!(now() + 600))));
    for value in [
        json!(""),
        json!(" "),
        json!(7),
        json!("a".repeat(256)),
        json!("a\u{0}b"),
        Value::Null,
    ] {
        try_it("no subject", rsa.token(&with(&good, "sub", value)));
    }
    // Other tokens signed by the issuer for the same audience.
    for kind in [
        "logout+jwt",
        "application/logout+jwt",
        "secevent+jwt",
        "dpop+jwt",
        "JOSE",
        "",
    ] {
        let mut header = header("RS256", "one");
        header["typ"] = json!(kind);
        try_it("a token of another type", rsa.signed(&header, &good));
    }
    for name in ["exp", "made-up", "b64"] {
        let mut header = header("RS256", "one");
        header["crit"] = json!([name]);
        header[name] = json!(false);
        try_it("a header that has to be understood", rsa.signed(&header, &good));
    }
    for value in [
        json!([[AUDIENCE]]),
        json!(format!("{AUDIENCE} other")),
        json!(AUDIENCE.to_uppercase()),
    ] {
        try_it(
            "an audience that only looks like ours",
            rsa.token(&with(&good, "aud", value)),
        );
    }
    let genuine = rsa.token(&good);
    let parts: Vec<&str> = genuine.split('.').collect();
    let other = rsa.token(&issuer.claims("somebody else"));
    let other: Vec<&str> = other.split('.').collect();
    try_it("another's claims", format!("{}.{}.{}", parts[0], other[1], parts[2]));
    try_it("a cut signature", genuine[..genuine.len() - 4].to_owned());
    try_it("nothing but dots", "..".to_owned());
    try_it("no JSON", "a.b.c".to_owned());
    try_it("four parts", format!("{genuine}.{}", parts[2]));
    try_it("too long", rsa.token(&with(&good, "more", json!("x".repeat(20_000)))));

    let before = users(&db).await;
    for (what, token) in &forged {
        let (status, problem) = me(&server, token).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{what}: {problem}: {token}");
        let code = problem["code"].as_str().unwrap();
        assert!(
            ["token_invalid", "token_expired", "unauthorized"].contains(&code),
            "{what}: {code}"
        );
    }
    assert_eq!(users(&db).await, before, "nobody was made for any of them");
    assert_eq!(evil.fetches(), 0, "nobody asks where a token says");
    // Valid tokens are accepted.
    assert_ne!(me(&server, &genuine).await.0, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn without_a_trusted_issuer_no_token_opens_anything() {
    let db = support::database().await;
    let key = SigningKey::ec("one");
    let issuer = Issuer::start(&[&key]).await;
    let server = api(&db, "", |_| {}).await;
    assert_eq!(
        me(&server, &key.token(&issuer.claims(KNOWN))).await.0,
        StatusCode::UNAUTHORIZED
    );
    assert_eq!(issuer.fetches(), 0);
}

#[tokio::test]
async fn a_new_key_is_found_and_a_withdrawn_one_opens_nothing() {
    let db = support::database().await;
    let (old, new) = (SigningKey::ec("old"), SigningKey::rsa("new"));
    let issuer = Issuer::start(&[&old]).await;
    let server = api(&db, &issuer.url, |args| {
        args.oidc_keys_max_age_s = 1;
        args.oidc_keys_refetch_ms = 0;
    })
    .await;
    let claims = issuer.claims(KNOWN);
    assert_eq!(me(&server, &old.token(&claims)).await.0, StatusCode::OK);
    issuer.publish(&[&old, &new]);
    assert_eq!(me(&server, &new.token(&claims)).await.0, StatusCode::OK);
    issuer.publish(&[&new]);
    support::wait_for("the withdrawn key to be forgotten", async || {
        let (status, _) = me(&server, &old.token(&issuer.claims(KNOWN))).await;
        (status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
    assert_eq!(me(&server, &new.token(&claims)).await.0, StatusCode::OK);
}

#[tokio::test]
async fn unknown_keys_are_fetched_again_but_not_often() {
    let db = support::database().await;
    let (key, stranger) = (SigningKey::ec("one"), SigningKey::ec("stranger"));
    let issuer = Issuer::start(&[&key]).await;
    let server = api(&db, &issuer.url, |_| {}).await;
    let claims = issuer.claims(KNOWN);
    let tokens: Vec<String> = (0..100)
        .map(|n| stranger.signed(&json!({"alg": "ES256", "kid": format!("unknown-{n}")}), &claims))
        .collect();
    let asked = tokens.iter().map(|token| me(&server, token));
    for (status, _) in futures::future::join_all(asked).await {
        assert_eq!(status, StatusCode::UNAUTHORIZED);
    }
    // Nor does an invalid one, whatever its key.
    me(&server, &unsigned(&json!({"alg": "none"}), &claims)).await;
    assert_eq!(me(&server, &key.token(&claims)).await.0, StatusCode::OK);
    assert_eq!(issuer.fetches(), 1);
}

#[tokio::test]
async fn an_issuer_outage_keeps_known_keys_and_calls_no_token_forged() {
    let db = support::database().await;
    let key = SigningKey::ec("one");
    let issuer = Issuer::start(&[&key]).await;
    issuer.set_away(true);
    let server = api(&db, &issuer.url, |args| {
        args.oidc_keys_max_age_s = 1;
        args.oidc_keys_refetch_ms = 0;
    })
    .await;
    let token = key.token(&issuer.claims(KNOWN));
    let request = Client::new(server.url(), &token).request(Method::GET, "/api/me");
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key("retry-after"));
    assert_eq!(answer(response).await.1["code"], "issuer_unavailable");
    assert_eq!(
        me(&server, &db.api_key).await.0,
        StatusCode::OK,
        "API keys need no issuer"
    );
    issuer.set_away(false);
    assert_eq!(me(&server, &token).await.0, StatusCode::OK);
    issuer.set_away(true);
    // Past the keys' lifetime, and past the API's cache of this token: each time with a new one.
    let began = std::time::Instant::now();
    support::wait_for("the keys to be old", async || {
        let (status, _) = me(&server, &key.token(&issuer.claims(KNOWN))).await;
        assert_eq!(status, StatusCode::OK);
        (began.elapsed().as_secs() >= 2).then_some(())
    })
    .await;
}
