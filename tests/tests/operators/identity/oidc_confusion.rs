//! Confusion of tokens and providers: types, audiences, names. (Forged tokens: `oidc`.)

use rejoin_tests::issuer::{AUDIENCE, Issuer, SigningKey};
use rejoin_tests::support;
use reqwest::StatusCode;
use serde_json::{Value, json};

use super::oidc::{KNOWN, api, me, with};

#[tokio::test]
async fn access_tokens_of_each_customary_type_and_audience_are_taken() {
    let db = support::database().await;
    let rsa = SigningKey::rsa("one");
    let issuer = Issuer::start(&[&rsa]).await;
    let server = api(&db, &issuer.url, |_| {}).await;
    let claims = issuer.claims(KNOWN);
    for kind in [
        json!("JWT"),
        json!("jwt"),
        json!("at+jwt"),
        json!("application/at+jwt"),
        Value::Null,
    ] {
        let header = json!({"alg": "RS256", "kid": "one", "typ": kind});
        assert_eq!(
            me(&server, &rsa.signed(&header, &claims)).await.0,
            StatusCode::OK,
            "{kind}"
        );
    }
    // The client (`azp`, `client_id`) is the issuer's concern; the audience is ours.
    let mut shared = with(&claims, "aud", json!([AUDIENCE, "another"]));
    shared["azp"] = json!("another");
    assert_eq!(me(&server, &rsa.token(&shared)).await.0, StatusCode::OK);
    let elsewhere = with(&with(&claims, "aud", json!("another")), "azp", json!(AUDIENCE));
    let (status, problem) = me(&server, &rsa.token(&elsewhere)).await;
    assert_eq!(
        (status, &problem["code"]),
        (StatusCode::UNAUTHORIZED, &json!("token_invalid"))
    );
}

#[tokio::test]
async fn a_provider_that_calls_itself_another_is_not_believed() {
    let db = support::database().await;
    let key = SigningKey::rsa("one");
    let issuer = Issuer::start(&[&key]).await;
    // The same provider by another name: its documents and tokens name the first one.
    let alias = issuer.url.replace("127.0.0.1", "localhost");
    let server = api(&db, &alias, |_| {}).await;
    for claims in [issuer.claims(KNOWN), with(&issuer.claims(KNOWN), "iss", json!(alias))] {
        let (status, problem) = me(&server, &key.token(&claims)).await;
        assert!(
            [StatusCode::UNAUTHORIZED, StatusCode::SERVICE_UNAVAILABLE].contains(&status),
            "{problem}"
        );
    }
    assert_eq!(issuer.fetches(), 0, "its keys were not asked for");
}
