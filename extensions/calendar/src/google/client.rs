//! Requests to Google, and the meaning of its errors. Called by `oauth_exchange`, `pull` and `push`.
//!
//! Invariants: requests use the guarded HTTP client, and follow no redirects, which would leak the token; no error
//! holds a token or a code.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, IF_MATCH, RETRY_AFTER};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use url::Url;
use zeroize::Zeroizing;

use super::links::Choice;
use super::settings::{Google, SCOPES};
use super::wire::{FIELDS, Item, Page};
use rejoin_egress::fetch::{Answer, FetchError};

/// Number of events per page: within the requested fields, they stay below the size limit.
const PAGE: &str = "50";
/// Maximum number of a user's calendars offered.
const MAX_CHOICES: usize = 250;
/// Maximum length of Google's message in an error, in characters.
const SAID_MAX_CHARS: usize = 200;

/// The error of a request to Google.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoogleError {
    /// The token is no longer valid: the user must authorize again.
    #[error("Google denied access: {0}")]
    Revoked(String),
    /// Temporarily unavailable.
    #[error("Google's rate limit was reached")]
    Busy(Option<Duration>),
    /// The request failed, or Google returned a server error.
    #[error("the request to Google failed: {0}")]
    Failed(String),
    /// It does not exist, or was deleted.
    #[error("not found at Google")]
    Gone,
    /// It has been changed since it was read.
    #[error("changed at Google in the meantime")]
    Changed,
    /// The id is taken.
    #[error("already exists at Google")]
    Taken,
    /// Permanently rejected.
    #[error("Google rejected the request: {0}")]
    Refused(String),
}

/// Google's response to a code.
struct Tokens {
    access_token: Zeroizing<String>,
    refresh_token: Option<Zeroizing<String>>,
    scope: String,
}

impl Tokens {
    fn of(answer: &Answer) -> Result<Self, GoogleError> {
        #[derive(Deserialize)]
        struct Given {
            access_token: String,
            refresh_token: Option<String>,
            #[serde(default)]
            scope: String,
        }
        let given: Given = parsed(answer)?;
        Ok(Self {
            access_token: Zeroizing::new(given.access_token),
            refresh_token: given.refresh_token.map(Zeroizing::new),
            scope: given.scope,
        })
    }
}

/// A user's grant, with its token.
pub struct Entry {
    pub refresh_token: Zeroizing<String>,
    pub client: Client,
}

/// A client with one user's access.
pub struct Client {
    google: Google,
    access_token: Zeroizing<String>,
}

impl Google {
    /// Exchanges an authorization code for tokens.
    pub async fn enter(&self, code: &str, verifier: &str, redirect_url: &str) -> Result<Entry, GoogleError> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("code_verifier", verifier),
            ("redirect_uri", redirect_url),
        ];
        let tokens = self.token(&form).await?;
        let granted: Vec<&str> = tokens.scope.split(' ').collect();
        // Users can deselect some scopes on the consent page.
        if !SCOPES.iter().all(|scope| granted.contains(scope)) {
            let detail =
                "access to your calendars and their events was not granted; start again and tick both boxes".to_owned();
            return Err(GoogleError::Refused(detail));
        }
        let no_token = || GoogleError::Refused("no refresh token was issued; start again".to_owned());
        Ok(Entry {
            refresh_token: tokens.refresh_token.ok_or_else(no_token)?,
            client: Client {
                google: self.clone(),
                access_token: tokens.access_token,
            },
        })
    }

    /// Refreshes the access token.
    pub async fn client(&self, refresh_token: &str) -> Result<Client, GoogleError> {
        let form = [("grant_type", "refresh_token"), ("refresh_token", refresh_token)];
        let tokens = self.token(&form).await?;
        Ok(Client {
            google: self.clone(),
            access_token: tokens.access_token,
        })
    }

    async fn token(&self, form: &[(&str, &str)]) -> Result<Tokens, GoogleError> {
        let not_set = |name: &str| GoogleError::Failed(format!("{name} is not set for the workers"));
        let id = self
            .args
            .client_id()
            .ok_or_else(|| not_set("REJOIN_GOOGLE_CLIENT_ID"))?;
        let secret = self
            .args
            .google_client_secret
            .as_deref()
            .filter(|secret| !secret.is_empty());
        let secret = secret.ok_or_else(|| not_set("REJOIN_GOOGLE_CLIENT_SECRET"))?;
        let mut form = form.to_vec();
        form.extend([("client_id", id), ("client_secret", secret)]);
        // Not with the HTTP client's own form support, a feature not worth compiling for one form.
        let body = url::form_urlencoded::Serializer::new(String::new())
            .extend_pairs(form)
            .finish();
        let url = &self.args.google_token_url;
        let answer = self.fetcher.service(url, |client| {
            client
                .post(url.clone())
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body)
        });
        let answer = answer.await.map_err(unasked)?;
        if answer.status.is_success() {
            return Tokens::of(&answer);
        }
        let reply: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        // RFC 6749, 5.2.
        match reply["error"].as_str() {
            Some("invalid_grant") => Err(GoogleError::Revoked(
                "the refresh token was revoked or has expired".to_owned(),
            )),
            Some(code) if !answer.status.is_server_error() => {
                let code: String = code.chars().take(SAID_MAX_CHARS).collect();
                Err(GoogleError::Failed(format!(
                    "the OAuth client is unknown or misconfigured ({code})"
                )))
            }
            Some(_) | None => Err(refusal(&answer)),
        }
    }
}

impl Client {
    /// Returns the user's calendars.
    pub async fn choices(&self) -> Result<Vec<Choice>, GoogleError> {
        #[derive(Deserialize)]
        struct List {
            #[serde(default)]
            items: Vec<Value>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Listed {
            id: String,
            #[serde(default)]
            summary: String,
            summary_override: Option<String>,
            #[serde(default)]
            time_zone: String,
            #[serde(default)]
            access_role: String,
            #[serde(default)]
            primary: bool,
        }
        let mut url = self.url(&["users", "me", "calendarList"])?;
        url.query_pairs_mut().extend_pairs([
            ("minAccessRole", "reader"),
            ("maxResults", "250"),
            (
                "fields",
                "items(id,summary,summaryOverride,timeZone,accessRole,primary)",
            ),
        ]);
        let list: List = parsed(&self.ask(Method::GET, url, None, None).await?)?;
        let listed = list
            .items
            .into_iter()
            .filter_map(|item| serde_json::from_value::<Listed>(item).ok());
        let fits = |text: &str| !text.is_empty() && text.len() <= 1_000 && !text.contains('\0');
        let choice = |listed: Listed| {
            let name = listed.summary_override.unwrap_or(listed.summary);
            let name: String = name.chars().filter(|c| !c.is_control()).take(200).collect();
            Choice {
                name: if name.is_empty() { listed.id.clone() } else { name },
                time_zone: listed.time_zone.chars().filter(|c| !c.is_control()).take(100).collect(),
                is_read_only: !matches!(listed.access_role.as_str(), "owner" | "writer"),
                is_primary: listed.primary,
                id: listed.id,
            }
        };
        Ok(listed
            .filter(|listed| fits(&listed.id))
            .take(MAX_CHOICES)
            .map(choice)
            .collect())
    }

    /// Returns a page of changes since a token, or of all events that end after a moment.
    pub async fn page(
        &self,
        calendar: &str,
        sync_token: Option<&str>,
        page_token: Option<&str>,
        since: &str,
    ) -> Result<Page, GoogleError> {
        let mut url = self.url(&["calendars", calendar, "events"])?;
        {
            let mut query = url.query_pairs_mut();
            query.extend_pairs([("maxResults", PAGE), ("showDeleted", "true"), ("eventTypes", "default")]);
            query.append_pair(
                "fields",
                &format!("nextPageToken,nextSyncToken,timeZone,items({FIELDS})"),
            );
            match sync_token {
                Some(token) => query.append_pair("syncToken", token),
                None => query.append_pair("timeMin", since),
            };
            if let Some(token) = page_token {
                query.append_pair("pageToken", token);
            }
        }
        parsed(&self.ask(Method::GET, url, None, None).await?)
    }

    pub async fn get(&self, calendar: &str, id: &str) -> Result<Item, GoogleError> {
        let url = self.event(calendar, id)?;
        item(&self.ask(Method::GET, url, None, None).await?)
    }

    /// Returns the current state of an occurrence of a recurring event; None: there is none at this time.
    pub async fn occurrence(&self, calendar: &str, id: &str, original: &str) -> Result<Option<Item>, GoogleError> {
        let mut url = self.url(&["calendars", calendar, "events", id, "instances"])?;
        url.query_pairs_mut()
            .extend_pairs([
                ("originalStart", original),
                ("showDeleted", "true"),
                ("maxResults", "1"),
            ])
            .append_pair("fields", &format!("items({FIELDS})"));
        let page: Page = parsed(&self.ask(Method::GET, url, None, None).await?)?;
        let first = page.items.into_iter().next();
        first
            .map(|value| Item::of(value).map_err(GoogleError::Failed))
            .transpose()
    }

    pub async fn insert(&self, calendar: &str, body: &Value) -> Result<Item, GoogleError> {
        let mut url = self.url(&["calendars", calendar, "events"])?;
        url.query_pairs_mut().append_pair("fields", FIELDS);
        item(&self.ask(Method::POST, url, None, Some(body)).await?)
    }

    /// Changes an event, if it still has this etag.
    pub async fn patch(&self, calendar: &str, id: &str, etag: &str, body: &Value) -> Result<Item, GoogleError> {
        let url = self.event(calendar, id)?;
        item(&self.ask(Method::PATCH, url, Some(etag), Some(body)).await?)
    }

    /// Deletes an event, if it still has this etag.
    pub async fn delete(&self, calendar: &str, id: &str, etag: &str) -> Result<(), GoogleError> {
        let url = self.url(&["calendars", calendar, "events", id])?;
        self.ask(Method::DELETE, url, Some(etag), None).await.map(|_| ())
    }

    fn event(&self, calendar: &str, id: &str) -> Result<Url, GoogleError> {
        let mut url = self.url(&["calendars", calendar, "events", id])?;
        url.query_pairs_mut().append_pair("fields", FIELDS);
        Ok(url)
    }

    fn url(&self, path: &[&str]) -> Result<Url, GoogleError> {
        let mut url = self.google.args.google_api_url.clone();
        let broken = |()| GoogleError::Failed("REJOIN_GOOGLE_API_URL is not a valid base URL".to_owned());
        url.path_segments_mut().map_err(broken)?.pop_if_empty().extend(path);
        Ok(url)
    }

    async fn ask(
        &self,
        method: Method,
        url: Url,
        etag: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Answer, GoogleError> {
        let bearer = Zeroizing::new(format!("Bearer {}", *self.access_token));
        let answer = self.google.fetcher.service(&url, |client| {
            let request = client.request(method, url.clone()).header(AUTHORIZATION, &*bearer);
            let request = match etag.filter(|etag| !etag.is_empty()) {
                Some(etag) => request.header(IF_MATCH, etag),
                None => request,
            };
            match body {
                Some(body) => request.json(body),
                None => request,
            }
        });
        let answer = answer.await.map_err(unasked)?;
        if answer.status.is_success() {
            Ok(answer)
        } else {
            Err(refusal(&answer))
        }
    }
}

fn unasked(error: FetchError) -> GoogleError {
    GoogleError::Failed(error.to_string())
}

fn parsed<T: DeserializeOwned>(answer: &Answer) -> Result<T, GoogleError> {
    let broken = |_| GoogleError::Failed("the response cannot be parsed".to_owned());
    serde_json::from_slice(&answer.body).map_err(broken)
}

fn item(answer: &Answer) -> Result<Item, GoogleError> {
    Item::of(parsed(answer)?).map_err(GoogleError::Failed)
}

/// Maps an error response (Calendar API: "Handle API errors").
fn refusal(answer: &Answer) -> GoogleError {
    let reply: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let reason = reply["error"]["errors"][0]["reason"].as_str().unwrap_or_default();
    let after = answer.header(RETRY_AFTER).trim().parse().ok().map(Duration::from_secs);
    let words = || {
        let words = reply["error"]["message"].as_str().unwrap_or(reason);
        let words: String = words.chars().filter(|c| !c.is_control()).take(SAID_MAX_CHARS).collect();
        if words.is_empty() {
            format!("status {}", answer.status.as_u16())
        } else {
            words
        }
    };
    match answer.status {
        StatusCode::UNAUTHORIZED => GoogleError::Revoked("the access token was rejected".to_owned()),
        StatusCode::TOO_MANY_REQUESTS => GoogleError::Busy(after),
        StatusCode::FORBIDDEN
            if matches!(
                reason,
                "rateLimitExceeded" | "userRateLimitExceeded" | "quotaExceeded" | "calendarUsageLimitsExceeded"
            ) =>
        {
            GoogleError::Busy(after)
        }
        StatusCode::NOT_FOUND | StatusCode::GONE => GoogleError::Gone,
        StatusCode::PRECONDITION_FAILED => GoogleError::Changed,
        StatusCode::CONFLICT => GoogleError::Taken,
        status if status.is_client_error() => GoogleError::Refused(words()),
        status if status.is_redirection() => {
            GoogleError::Failed("the server redirects to another address; the token is not sent there".to_owned())
        }
        StatusCode::SERVICE_UNAVAILABLE => GoogleError::Busy(after),
        status => GoogleError::Failed(format!("the server responded with status {}", status.as_u16())),
    }
}
