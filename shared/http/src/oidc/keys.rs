//! The issuer's published keys (JWKS) and the addresses of its endpoints: found by discovery, cached, and refreshed when they
//! are old or when a token names an unknown key.
//!
//! Invariant: whatever tokens arrive, the issuer is asked at most once per [`PublishedKeys::refetch`], by one task at a
//! time; a withdrawn key is rejected after `max_age` or, while the issuer is unreachable, after [`MAX_STALE`].

use std::sync::{Arc, RwLock};
use std::time::Duration;

use futures::StreamExt;
use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;
use tracing::{info, warn};
use url::Url;

use super::settings::is_safe;

/// Timeout of one request to the issuer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of an issuer's document, in bytes.
const MAX_DOCUMENT_BYTES: usize = 1024 * 1024;
/// Maximum number of cached keys of an issuer.
const MAX_KEYS: usize = 100;
/// How long the last keys stay valid while the issuer is unreachable.
const MAX_STALE: Duration = Duration::from_secs(60 * 60);

/// A key for verifying signatures.
#[derive(Clone)]
pub struct PublishedKey {
    id: Option<String>,
    /// Its only algorithm.
    pub algorithm: Algorithm,
    pub public: DecodingKey,
}

/// The issuer's endpoints, for browsers that sign in there. None: it publishes none, or not at an address that is safe.
#[derive(Debug, Clone, Default)]
pub struct Endpoints {
    pub authorization: Option<Url>,
    pub token: Option<Url>,
    pub end_session: Option<Url>,
    /// A client's secret is sent in the body, because the issuer does not take it in a header.
    pub secret_in_body: bool,
    /// Responses of the authorization endpoint name the issuer (RFC 9207).
    pub names_itself: bool,
}

struct Held {
    keys: Vec<PublishedKey>,
    endpoints: Arc<Endpoints>,
    fetched: Instant,
}

impl Held {
    /// Returns the key with this id; without an id, the only key with this algorithm.
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

/// There are no keys: the issuer has been unreachable for too long, or always.
#[derive(Debug, thiserror::Error)]
#[error("the identity provider does not respond")]
pub struct IssuerAway;

pub struct PublishedKeys {
    issuer: String,
    algorithms: Vec<Algorithm>,
    max_age: Duration,
    refetch: Duration,
    http: reqwest::Client,
    // A std lock: no await while it is held.
    held: RwLock<Option<Arc<Held>>>,
    /// The time of the last fetch; locked during a fetch.
    asked: Arc<Mutex<Option<Instant>>>,
}

impl PublishedKeys {
    pub fn new(
        issuer: String,
        algorithms: Vec<Algorithm>,
        max_age: Duration,
        refetch: Duration,
    ) -> Result<Self, reqwest::Error> {
        let http = rejoin_egress::tls::http_client()
            .timeout(FETCH_TIMEOUT)
            // Only the issuer itself may say where its keys are.
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

    /// Returns the issuer's key with this id and algorithm. None: there is none.
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

    /// Returns the issuer's endpoints.
    pub async fn endpoints(self: &Arc<Self>) -> Result<Arc<Endpoints>, IssuerAway> {
        if let Some(held) = self.younger_than(self.max_age) {
            return Ok(held.endpoints.clone());
        }
        self.refresh().await;
        let held = self.younger_than(MAX_STALE.max(self.max_age)).ok_or(IssuerAway)?;
        Ok(held.endpoints.clone())
    }

    /// Sends a form to an endpoint of the issuer, with the client's name and secret in the header if they are given. Returns
    /// the status and the JSON of the response; null: it has none.
    pub async fn post(
        &self,
        url: &Url,
        form: String,
        basic: Option<(String, String)>,
    ) -> Result<(StatusCode, Value), IssuerAway> {
        let mut request = self
            .http
            .post(url.clone())
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json")
            .body(form);
        if let Some((name, secret)) = basic {
            request = request.basic_auth(name, Some(secret));
        }
        let away = |reason: String| {
            warn!(issuer = self.issuer, reason, "a request to the issuer failed");
            IssuerAway
        };
        let response = request.send().await.map_err(|error| away(format!("{url}: {error}")))?;
        let status = response.status();
        if status.is_server_error() {
            return Err(away(format!("{url} answered {status}")));
        }
        let body = whole(url, response).await.map_err(away)?;
        Ok((status, serde_json::from_slice(&body).unwrap_or(Value::Null)))
    }

    fn younger_than(&self, age: Duration) -> Option<Arc<Held>> {
        let held = self.held.read().expect("nothing panics while it is held");
        held.clone().filter(|held| held.fetched.elapsed() < age)
    }

    /// Fetches the keys, unless that was just done; concurrent callers wait for the same result.
    async fn refresh(self: &Arc<Self>) {
        let mut asked = self.asked.clone().lock_owned().await;
        if asked.is_some_and(|at| at.elapsed() < self.refetch) {
            return;
        }
        let keys = self.clone();
        // Spawned, so that a disconnecting caller does not abort the fetch for others.
        let fetching = tokio::spawn(async move {
            *asked = Some(Instant::now());
            match keys.fetch().await {
                Ok((fetched, endpoints)) => {
                    info!(issuer = keys.issuer, keys = fetched.len(), "fetched the issuer's keys");
                    let held = Held {
                        keys: fetched,
                        endpoints: Arc::new(endpoints),
                        fetched: Instant::now(),
                    };
                    *keys.held.write().expect("nothing panics while it is held") = Some(Arc::new(held));
                }
                Err(error) => warn!(issuer = keys.issuer, error, "fetching the issuer's keys failed"),
            }
        });
        // It neither panics nor is aborted.
        let _ = fetching.await;
    }

    async fn fetch(&self) -> Result<(Vec<PublishedKey>, Endpoints), String> {
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
        Ok((usable.take(MAX_KEYS).collect(), configuration.endpoints()))
    }

    /// Fetches a JSON document of the issuer, bounded in size and time.
    async fn document<T: for<'de> Deserialize<'de>>(&self, url: Url) -> Result<T, String> {
        let failed = |error: reqwest::Error| format!("{url}: {error}");
        let response = self.http.get(url.clone()).send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(format!("{url} answered {}", response.status()));
        }
        let body = whole(&url, response).await?;
        serde_json::from_slice(&body).map_err(|error| format!("{url}: {error}"))
    }
}

/// Returns the body of a response, bounded in size.
async fn whole(url: &Url, response: reqwest::Response) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        body.extend_from_slice(&piece.map_err(|error| format!("{url}: {error}"))?);
        if body.len() > MAX_DOCUMENT_BYTES {
            return Err(format!("{url} is longer than {MAX_DOCUMENT_BYTES} bytes"));
        }
    }
    Ok(body)
}

#[derive(Deserialize)]
struct Configuration {
    issuer: String,
    jwks_uri: String,
    authorization_endpoint: Option<String>,
    token_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

impl Configuration {
    fn endpoints(&self) -> Endpoints {
        let safe = |address: &Option<String>| address.as_deref()?.parse::<Url>().ok().filter(is_safe);
        // Absent: the header, by the specification's default.
        let methods = self.token_endpoint_auth_methods_supported.as_deref();
        Endpoints {
            authorization: safe(&self.authorization_endpoint),
            token: safe(&self.token_endpoint),
            end_session: safe(&self.end_session_endpoint),
            secret_in_body: methods.is_some_and(|methods| !methods.iter().any(|name| name == "client_secret_basic")),
            names_itself: self.authorization_response_iss_parameter_supported,
        }
    }
}

/// Unparsed keys: one with an unknown type must not break the others.
#[derive(Deserialize)]
struct KeySet {
    keys: Vec<Value>,
}

/// Returns a key suitable for verification. Its type alone determines the algorithm, never the token.
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
        // Types that the library may support later.
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
