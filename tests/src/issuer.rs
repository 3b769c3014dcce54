//! A fake identity provider: discovery, keys and a token endpoint on 127.0.0.1, and valid or forged tokens. It builds tokens by
//! hand, including those that no library would create.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{self, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256,
    UnparsedPublicKey,
};
use aws_lc_rs::{encoding::AsDer, hmac};
use axum::extract::State;
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The audience of the tokens.
pub const AUDIENCE: &str = "rejoin";

/// A provider, stopped when dropped.
pub struct Issuer {
    pub url: String,
    published: Arc<Published>,
    server: JoinHandle<()>,
}

struct Published {
    issuer: String,
    keys: Mutex<Vec<Value>>,
    fetches: AtomicUsize,
    away: AtomicBool,
    /// The answer of the token endpoint.
    answer: Mutex<(StatusCode, Value)>,
    redemptions: Mutex<Vec<Redemption>>,
}

/// A request to the token endpoint.
#[derive(Debug, Clone)]
pub struct Redemption {
    /// The header with the client's secret.
    pub authorization: Option<String>,
    pub form: HashMap<String, String>,
}

impl Issuer {
    /// Publishes these keys.
    pub async fn start(keys: &[&SigningKey]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("its number"));
        let published = Arc::new(Published {
            issuer: url.clone(),
            keys: Mutex::new(keys.iter().map(|key| key.jwk()).collect()),
            fetches: AtomicUsize::new(0),
            away: AtomicBool::new(false),
            answer: Mutex::new((StatusCode::BAD_REQUEST, json!({"error": "invalid_grant"}))),
            redemptions: Mutex::default(),
        });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(configuration))
            .route("/keys", get(published_keys))
            .route("/token", post(token))
            .with_state(published.clone());
        let server = tokio::spawn(async move {
            axum::serve(listener, routes).await.expect("it serves");
        });
        Self { url, published, server }
    }

    /// Publishes exactly these keys.
    pub fn publish(&self, keys: &[&SigningKey]) {
        *self.published.keys.lock().expect("no panic") = keys.iter().map(|key| key.jwk()).collect();
    }

    /// Returns how often its keys were fetched.
    pub fn fetches(&self) -> usize {
        self.published.fetches.load(Ordering::SeqCst)
    }

    /// Makes it unreachable, or reachable again.
    pub fn set_away(&self, away: bool) {
        self.published.away.store(away, Ordering::SeqCst);
    }

    /// Sets the answer to the next codes.
    pub fn answer_codes(&self, status: StatusCode, body: Value) {
        *self.published.answer.lock().expect("no panic") = (status, body);
    }

    /// Returns the codes that were redeemed, oldest first.
    pub fn redemptions(&self) -> Vec<Redemption> {
        self.published.redemptions.lock().expect("no panic").clone()
    }

    /// Returns the claims of a valid token of `subject`, for ten minutes.
    pub fn claims(&self, subject: &str) -> Value {
        let now = now();
        json!({"iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 600})
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn configuration(State(published): State<Arc<Published>>) -> Result<Json<Value>, StatusCode> {
    if published.away.load(Ordering::SeqCst) {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let issuer = &published.issuer;
    Ok(Json(json!({
        "issuer": issuer,
        "jwks_uri": format!("{issuer}/keys"),
        "authorization_endpoint": format!("{issuer}/authorize?tenant=one"),
        "token_endpoint": format!("{issuer}/token"),
        "end_session_endpoint": format!("{issuer}/logout"),
    })))
}

async fn token(State(published): State<Arc<Published>>, headers: HeaderMap, body: String) -> (StatusCode, Json<Value>) {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let redemption = Redemption {
        authorization: authorization.map(str::to_owned),
        form: url::form_urlencoded::parse(body.as_bytes()).into_owned().collect(),
    };
    published.redemptions.lock().expect("no panic").push(redemption);
    let (status, answer) = published.answer.lock().expect("no panic").clone();
    (status, Json(answer))
}

async fn published_keys(State(published): State<Arc<Published>>) -> Json<Value> {
    published.fetches.fetch_add(1, Ordering::SeqCst);
    Json(json!({"keys": *published.keys.lock().expect("no panic")}))
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("before the end of time")
}

enum Kind {
    Rsa(rsa::KeyPair),
    Ec(EcdsaKeyPair),
}

/// A key of an issuer, or of an attacker.
pub struct SigningKey {
    id: String,
    kind: Kind,
}

impl SigningKey {
    pub fn rsa(id: &str) -> Self {
        let pair = rsa::KeyPair::generate(KeySize::Rsa2048).expect("a key");
        Self {
            id: id.to_owned(),
            kind: Kind::Rsa(pair),
        }
    }

    pub fn ec(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self {
            id: id.to_owned(),
            kind: Kind::Ec(pair),
        }
    }

    pub fn algorithm(&self) -> &'static str {
        match self.kind {
            Kind::Rsa(_) => "RS256",
            Kind::Ec(_) => "ES256",
        }
    }

    /// Returns its public key, as published by an issuer.
    pub fn jwk(&self) -> Value {
        let mut key = match &self.kind {
            Kind::Rsa(pair) => {
                let public = pair.public_key();
                let number = |number: &[u8]| URL_SAFE_NO_PAD.encode(number);
                json!({
                    "kty": "RSA",
                    "n": number(public.modulus().big_endian_without_leading_zero()),
                    "e": number(public.exponent().big_endian_without_leading_zero()),
                })
            }
            Kind::Ec(pair) => {
                // An uncompressed point: 4, x, y.
                let point = pair.public_key().as_ref();
                let half = |range: std::ops::Range<usize>| URL_SAFE_NO_PAD.encode(&point[range]);
                json!({"kty": "EC", "crv": "P-256", "x": half(1..33), "y": half(33..65)})
            }
        };
        key["kid"] = json!(self.id);
        key["use"] = json!("sig");
        key["alg"] = json!(self.algorithm());
        key
    }

    /// Returns its public key in all encodings that a verifier might take for a shared secret.
    pub fn public_forms(&self) -> Vec<Vec<u8>> {
        let der = match &self.kind {
            Kind::Rsa(pair) => AsDer::<aws_lc_rs::encoding::PublicKeyX509Der>::as_der(pair.public_key()).expect("DER"),
            Kind::Ec(pair) => AsDer::<aws_lc_rs::encoding::PublicKeyX509Der>::as_der(pair.public_key()).expect("DER"),
        };
        let pem = pem("PUBLIC", der.as_ref());
        let jwk = self.jwk();
        let parts = ["n", "x", "y"].iter().filter_map(|name| jwk[*name].as_str());
        let raw = parts.map(|part| URL_SAFE_NO_PAD.decode(part).expect("ours"));
        let mut forms: Vec<Vec<u8>> = raw.collect();
        forms.extend([
            der.as_ref().to_vec(),
            pem.clone().into_bytes(),
            pem.trim_end().as_bytes().to_vec(),
            jwk.to_string().into_bytes(),
        ]);
        forms
    }

    /// Returns its private key, as in credentials files.
    pub fn private_pem(&self) -> String {
        let Kind::Rsa(pair) = &self.kind else {
            panic!("only keys of RSA are asked for");
        };
        let der = AsDer::<aws_lc_rs::encoding::Pkcs8V1Der>::as_der(pair).expect("DER");
        pem("PRIVATE", der.as_ref())
    }

    /// Returns header and claims of a token signed with this key. None: it was not.
    pub fn opened(&self, token: &str) -> Option<(Value, Value)> {
        let Kind::Rsa(pair) = &self.kind else {
            panic!("only keys of RSA are asked for");
        };
        let (message, signature) = token.rsplit_once('.')?;
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref());
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        public.verify(message.as_bytes(), &signature).ok()?;
        let (header, claims) = message.split_once('.')?;
        let part = |text: &str| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok();
        Some((part(header)?, part(claims)?))
    }

    /// Returns a valid token.
    pub fn token(&self, claims: &Value) -> String {
        self.signed(&json!({"typ": "JWT", "alg": self.algorithm(), "kid": self.id}), claims)
    }

    /// Returns a token with any header, signed with this key.
    pub fn signed(&self, header: &Value, claims: &Value) -> String {
        let message = message(header, claims);
        let signature = match &self.kind {
            Kind::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(
                    &RSA_PKCS1_SHA256,
                    &SystemRandom::new(),
                    message.as_bytes(),
                    &mut signature,
                )
                .expect("a signature");
                signature
            }
            Kind::Ec(pair) => {
                let signature = pair
                    .sign(&SystemRandom::new(), message.as_bytes())
                    .expect("a signature");
                signature.as_ref().to_vec()
            }
        };
        format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// Returns an unsigned token.
pub fn unsigned(header: &Value, claims: &Value) -> String {
    format!("{}.", message(header, claims))
}

/// Returns a token "signed" with a secret, by HMAC.
pub fn signed_with_secret(header: &Value, claims: &Value, secret: &[u8]) -> String {
    let message = message(header, claims);
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), message.as_bytes());
    format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
}

fn message(header: &Value, claims: &Value) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    format!("{}.{}", part(header), part(claims))
}

/// Encodes a key as PEM: base64 in lines of 64 characters.
fn pem(kind: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).expect("ASCII"))
        .collect();
    format!(
        "-----BEGIN {kind} KEY-----\n{}\n-----END {kind} KEY-----\n",
        lines.join("\n")
    )
}
