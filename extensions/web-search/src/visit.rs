//! Returns a page for an agent: cached while fresh, else fetched. Called by `web_visit`.

use chrono::{DateTime, Utc};
use rejoin_integrations::web_settings::WebSettings;
use rejoin_types::digest;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, ETAG, HeaderMap, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED};
use serde_json::json;
use sqlx::PgPool;
use url::Url;
use uuid::Uuid;

use crate::pages::{self, Kept, Page};
use crate::text::{self, Format, Mode};
use rejoin_egress::fetch::{Answer, FetchError, Fetcher};

/// Maximum length of a page shown to a call, and cached, in characters.
pub const MAX_CHARS: usize = 12_000;
const ACCEPTED: &str =
    "text/html, application/xhtml+xml, text/markdown, text/plain, application/json, application/xml;q=0.8, */*;q=0.1";

/// The error of a visit.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("the page cannot be fetched: its server responded with status {0}")]
    Status(u16),
    #[error("the page has content type {0:?}, which cannot be converted to text")]
    ContentType(String),
    #[error("{0}")]
    Unreadable(String),
    #[error("reading the page cache from Rejoin's database failed")]
    Database(#[from] sqlx::Error),
}

/// A page, and when it was read.
#[derive(Debug)]
pub struct Visited {
    pub page: Page,
    pub fetched_at: DateTime<Utc>,
    /// Whether it came from the cache, or was unmodified.
    pub from_cache: bool,
}

/// The request for a page.
#[derive(Debug, Clone, Copy)]
pub struct PageRequest {
    pub mode: Mode,
    pub format: Format,
    /// Fetches it even if a fresh copy is cached.
    pub force: bool,
}

/// Visits a page on behalf of a workspace.
pub async fn visit(
    fetcher: &Fetcher,
    db: &PgPool,
    workspace_id: Uuid,
    settings: &WebSettings,
    url: &Url,
    page_request: PageRequest,
) -> Result<Visited, VisitError> {
    let mut url = url.clone();
    // Never sent, so the same page.
    url.set_fragment(None);
    let query = json!([
        url.as_str(),
        format!("{:?} {:?}", page_request.mode, page_request.format)
    ]);
    let hash = digest::of_json(&[&query]);
    let kept = pages::get(db, workspace_id, &hash).await?;
    // The lists may have changed since.
    let still = |kept: &Kept| is_let(settings, url.as_str()) && is_let(settings, &kept.page.final_url);
    let kept = kept.filter(|kept| !page_request.force && still(kept));
    let kept = match kept {
        Some(kept) if kept.is_fresh => return Ok(again(kept)),
        other => other,
    };
    let answer = fetcher
        .page(&url, &headers(kept.as_ref()), |host| settings.lets(host))
        .await?;
    if let Some(mut kept) = kept
        && answer.status == StatusCode::NOT_MODIFIED
    {
        kept.fetched_at = pages::touch(db, workspace_id, &hash).await?.unwrap_or(kept.fetched_at);
        return Ok(again(kept));
    }
    if !answer.status.is_success() {
        return Err(VisitError::Status(answer.status.as_u16()));
    }
    let page = read(answer, page_request).await?;
    let fetched_at = pages::keep(db, workspace_id, &hash, &page).await?;
    Ok(Visited {
        page,
        fetched_at,
        from_cache: false,
    })
}

fn again(kept: Kept) -> Visited {
    Visited {
        page: kept.page,
        fetched_at: kept.fetched_at,
        from_cache: true,
    }
}

fn is_let(settings: &WebSettings, url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| url.host_str().is_some_and(|host| settings.lets(host)))
}

/// Returns the request headers: validators of a cached page.
fn headers(kept: Option<&Kept>) -> HeaderMap {
    let mut headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPTED))]);
    let Some(Kept { page, .. }) = kept else { return headers };
    for (name, value) in [(IF_NONE_MATCH, &page.etag), (IF_MODIFIED_SINCE, &page.last_modified)] {
        if let Some(value) = value.as_deref().and_then(|value| HeaderValue::from_str(value).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

async fn read(answer: Answer, page_request: PageRequest) -> Result<Page, VisitError> {
    let content_type = answer.content_type();
    let is_html = text::is_html(&content_type).ok_or_else(|| VisitError::ContentType(content_type.clone()))?;
    let validator = |name| Some(answer.header(name).to_owned()).filter(|value| !value.is_empty());
    let (etag, last_modified) = (validator(ETAG), validator(LAST_MODIFIED));
    let final_url = answer.url.to_string();
    let whole_type = answer.header(reqwest::header::CONTENT_TYPE).to_owned();
    let (body, url) = (answer.body, final_url.clone());
    // Parsing takes time: on a blocking thread.
    let reading = tokio::task::spawn_blocking(move || {
        let text = text::decoded(&body, &whole_type);
        if is_html {
            text::of_html(&text, &url, page_request.mode, page_request.format)
        } else {
            Ok(text::Readable {
                title: None,
                content: text,
            })
        }
    });
    let readable = reading
        .await
        .map_err(|_| VisitError::Unreadable("the page cannot be parsed".to_owned()))?
        .map_err(VisitError::Unreadable)?;
    Ok(Page {
        final_url,
        title: readable.title.map(|title| title.replace('\0', "")),
        // One more character than shown means that there is more. PostgreSQL stores no NUL.
        content: readable
            .content
            .chars()
            .filter(|&c| c != '\0')
            .take(MAX_CHARS + 1)
            .collect(),
        content_type,
        etag,
        last_modified,
    })
}
