//! The issuer's published keys (JWKS): found by discovery, cached, and refreshed when they are old or when a token
//! names an unknown key.
//!
//! Invariant: whatever tokens arrive, the issuer is asked at most once per [`PublishedKeys::refetch`], by one task at a
//! time; a withdrawn key is rejected after `max_age` or, while the issuer is unreachable, after [`MAX_STALE`].

use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures::StreamExt;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};
use url::Url;

use super::settings::is_safe;

/// One request to the issuer has this long.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest document of an issuer that is read [bytes].
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Keys of an issuer that are kept.
const MAX_KEYS: usize = 100;
/// While the issuer is away, its last keys are good for this long.
const MAX_STALE: Duration = Duration::from_secs(60 * 60);

/// A key that signatures are checked with.
#[derive(Clone)]
pub struct PublishedKey {
    id: Option<String>,
    /// The one algorithm that it is used with.
    pub algorithm: Algorithm,
    pub public: DecodingKey,
}

struct Held {
    keys: Vec<PublishedKey>,
    fetched: Instant,
}

impl Held {
    /// The key of this id; a token without an id means the only key of its algorithm.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<PublishedKey> {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| key.algorithm == algorithm && (id.is_none() || key.id.as_deref() == id));
        match (fitting.next(), fitting.next()) {
            (Some(key), None) => Some(key.clone()),
            (Some(_), Some(_)) | (None, _) => None,
        }
    }
}

/// There are no keys to check with: the issuer did not answer for too long, or never did.
#[derive(Debug, thiserror::Error)]
#[error("the identity provider does not respond")]
pub struct IssuerAway;

pub struct PublishedKeys {
    issuer: String,
    algorithms: Vec<Algorithm>,
    max_age: Duration,
    refetch: Duration,
    http: reqwest::Client,
    // A std lock: nothing awaits while it is held.
    held: RwLock<Option<Arc<Held>>>,
    /// When the issuer was asked last; held while it is asked.
    asked: Arc<Mutex<Option<Instant>>>,
}

impl PublishedKeys {
    pub fn new(
        issuer: String,
        algorithms: Vec<Algorithm>,
        max_age: Duration,
        refetch: Duration,
    ) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .timeout(FETCH_TIMEOUT)
            // The issuer's own word says where its keys are; whoever answers in its place has none.
            .redirect(reqwest::redirect::Policy::none())
            .build()?;
        Ok(Self {
            issuer,
            algorithms,
            max_age,
            refetch,
            http,
            held: RwLock::default(),
            asked: Arc::default(),
        })
    }

    /// The issuer's key of this id and algorithm. None: it has none.
    pub async fn find(
        self: &Arc<Self>,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Option<PublishedKey>, IssuerAway> {
        if let Some(key) = self
            .younger_than(self.max_age)
            .and_then(|held| held.find(id, algorithm))
        {
            return Ok(Some(key));
        }
        self.refresh().await;
        let held = self.younger_than(MAX_STALE.max(self.max_age)).ok_or(IssuerAway)?;
        Ok(held.find(id, algorithm))
    }

    fn younger_than(&self, age: Duration) -> Option<Arc<Held>> {
        let held = self.held.read().expect("nothing panics while it is held");
        held.clone().filter(|held| held.fetched.elapsed() < age)
    }

    /// Asks the issuer, unless somebody has just done so; whoever comes meanwhile waits for the same answer.
    async fn refresh(self: &Arc<Self>) {
        let mut asked = self.asked.clone().lock_owned().await;
        if asked.is_some_and(|at| at.elapsed() < self.refetch) {
            return;
        }
        let keys = self.clone();
        // Spawned: a caller that hangs up must not leave the keys unfetched for those who come next.
        let fetching = tokio::spawn(async move {
            *asked = Some(Instant::now());
            match keys.fetch().await {
                Ok(fetched) => {
                    info!(issuer = keys.issuer, keys = fetched.len(), "fetched the issuer's keys");
                    let held = Held {
                        keys: fetched,
                        fetched: Instant::now(),
                    };
                    *keys.held.write().expect("nothing panics while it is held") = Some(Arc::new(held));
                }
                Err(error) => warn!(issuer = keys.issuer, error, "fetching the issuer's keys failed"),
            }
        });
        // It does not panic, and nobody aborts it.
        let _ = fetching.await;
    }

    async fn fetch(&self) -> Result<Vec<PublishedKey>, String> {
        let discovery = format!("{}/.well-known/openid-configuration", self.issuer.trim_end_matches('/'));
        let discovery = discovery
            .parse()
            .map_err(|_| format!("{discovery} is not a valid URL"))?;
        let configuration: Configuration = self.document(discovery).await?;
        if configuration.issuer != self.issuer {
            return Err(format!("its issuer is {:?}", configuration.issuer));
        }
        let address: Option<Url> = configuration.jwks_uri.parse().ok();
        let address = address.filter(is_safe).ok_or_else(|| {
            let address = &configuration.jwks_uri;
            format!("its keys are at {address:?}, which uses neither TLS nor this machine")
        })?;
        let set: KeySet = self.document(address).await?;
        let usable = set.keys.into_iter().filter_map(|key| usable(key, &self.algorithms));
        Ok(usable.take(MAX_KEYS).collect())
    }

    /// A JSON document of the issuer, in bounds.
    async fn document<T: for<'de> Deserialize<'de>>(&self, url: Url) -> Result<T, String> {
        let failed = |error: reqwest::Error| format!("{url}: {error}");
        let response = self.http.get(url.clone()).send().await.map_err(failed)?;
        if response.status() != reqwest::StatusCode::OK {
            return Err(format!("{url} answered {}", response.status()));
        }
        let mut body = Vec::new();
        let mut pieces = response.bytes_stream();
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(failed)?);
            if body.len() > MAX_DOCUMENT_BYTES {
                return Err(format!("{url} is longer than {MAX_DOCUMENT_BYTES} bytes"));
            }
        }
        serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"))
    }
}

#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
}

/// Each key as it comes: one that nobody here understands must not hide the others.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// A key that may check signatures here. Its kind alone says with which algorithm: what a token says never does.
fn usable(key: Value, algorithms: &[Algorithm]) -> Option<PublishedKey> {
    let key: Jwk = serde_json::from_value(key).ok()?;
    let (algorithm, named) = match &key.algorithm {
        AlgorithmParameters::RSA(_) => (Algorithm::RS256, KeyAlgorithm::RS256),
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            (Algorithm::ES256, KeyAlgorithm::ES256)
        }
        AlgorithmParameters::EllipticCurve(_)
        | AlgorithmParameters::OctetKey(_)
        | AlgorithmParameters::OctetKeyPair(_) => return None,
        // What the library learns to read one day.
        _ => return None,
    };
    let for_signatures = matches!(key.common.public_key_use, None | Some(PublicKeyUse::Signature));
    let is_its_own = key.common.key_algorithm.is_none_or(|own| own == named);
    if !for_signatures || !is_its_own || !algorithms.contains(&algorithm) {
        return None;
    }
    Some(PublishedKey {
        id: key.common.key_id.clone(),
        algorithm,
        public: DecodingKey::from_jwk(&key).ok()?,
    })
}
