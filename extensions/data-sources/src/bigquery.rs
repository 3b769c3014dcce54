//! BigQuery, by its REST API. A dry run of each query first shows whether BigQuery reads it as a SELECT, and what it
//! would bill; then it runs with that limit. Called by `sources`.
//!
//! - `cancel`  cancels abandoned jobs
//! - `token`   access tokens of a service account
//! - `values`  parses results
//!
//! Invariant: the API's address was checked, and redirects are not followed; a job without a waiting caller is
//! cancelled.

use std::sync::Mutex;
use std::time::Instant;

use async_trait::async_trait;
use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::data_sources::Settings;
use rejoin_secrets::Plaintext;
use rejoin_types::ids;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::sync::OnceCell;
use url::Url;

use self::cancel::CancelOnDrop;
use self::values::{cell, columns_of, fault_of, message, whole};
use crate::source::{
    Access, Collected, Column, LISTED_MAX, Question, Rows, Source, SourceError, Table, Tested, table_schema,
};
use crate::transport;

mod cancel;
mod token;
mod values;

const ENDPOINT: &str = "https://bigquery.googleapis.com/";
/// Number of rows per page.
const PAGE_ROWS: usize = 1_000;
/// How long the API itself waits for a job before it responds without a result, in milliseconds.
const WAIT_MS: u64 = 10_000;
/// Maximum size of one response, in bytes.
const ANSWER_MAX_BYTES: usize = 32 * 1024 * 1024;

pub struct Bigquery {
    settings: Settings,
    /// A service account's key, as its JSON file.
    key: Option<Plaintext>,
    /// The token endpoint: the operator's setting, never a workspace's. A key never signs for an address named by a
    /// workspace.
    token_url: String,
    hosts: Hosts,
    http: OnceCell<Client>,
    // No await while it is held.
    token: Mutex<Option<(String, Instant)>>,
}

impl Bigquery {
    pub fn new(settings: Settings, key: Option<Plaintext>, token_url: String, hosts: Hosts) -> Self {
        Self {
            settings,
            key,
            token_url,
            hosts,
            http: OnceCell::new(),
            token: Mutex::new(None),
        }
    }

    fn cloud_project(&self) -> &str {
        self.settings.cloud_project.as_deref().unwrap_or_default()
    }

    /// Creates a client that connects to checked addresses, whatever their names resolve to later.
    async fn http(&self) -> Result<&Client, SourceError> {
        let connecting = async || {
            let provider = transport::tls_config()?;
            let mut builder = Client::builder()
                .tls_backend_preconfigured(provider)
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .connect_timeout(transport::CONNECT_TIMEOUT);
            let tokens = self.key.as_ref().map(|_| self.token_url.as_str());
            for url in [self.settings.endpoint.as_deref().unwrap_or(ENDPOINT)]
                .into_iter()
                .chain(tokens)
            {
                let url = Url::parse(url).map_err(|error| SourceError::Refused(error.to_string()))?;
                let host = url.host_str().unwrap_or_default().to_owned();
                let port = url.port_or_known_default().unwrap_or(443);
                let addresses = self.hosts.resolve(&host, port).await.map_err(SourceError::Refused)?;
                builder = builder.resolve_to_addrs(&host, &addresses);
            }
            builder
                .build()
                .map_err(|error| SourceError::Unconfigured(format!("creating the HTTP client failed: {error}")))
        };
        self.http.get_or_try_init(connecting).await
    }

    /// Sends a request to the API, with escaped path segments.
    async fn request(
        &self,
        method: Method,
        parts: &[&str],
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, SourceError> {
        let endpoint = self.settings.endpoint.as_deref().unwrap_or(ENDPOINT);
        let mut url = Url::parse(endpoint).map_err(|error| SourceError::Refused(error.to_string()))?;
        url.path_segments_mut()
            .map_err(|()| SourceError::Refused("`endpoint` is not a valid API address".to_owned()))?
            .pop_if_empty()
            .extend(["bigquery", "v2", "projects", self.cloud_project()])
            .extend(parts);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = self.http().await?.request(method, url);
        if let Some(token) = self.token().await? {
            request = request.bearer_auth(token);
        }
        Ok(request)
    }

    async fn get(&self, parts: &[&str], query: &[(&str, &str)]) -> Result<Value, SourceError> {
        answered(self.request(Method::GET, parts, query).await?).await
    }

    /// Returns a whole list, page by page, up to the limit.
    async fn listed(&self, parts: &[&str], name: &str) -> Result<Vec<Value>, SourceError> {
        let mut items = Vec::new();
        let mut page: Option<String> = None;
        while items.len() < LISTED_MAX {
            let mut query = vec![("maxResults", "1000")];
            if let Some(page) = &page {
                query.push(("pageToken", page));
            }
            let mut answer = self.get(parts, &query).await?;
            if let Value::Array(more) = answer[name].take() {
                items.extend(more);
            }
            page = answer["nextPageToken"].as_str().map(str::to_owned);
            if page.is_none() {
                break;
            }
        }
        items.truncate(LISTED_MAX);
        Ok(items)
    }

    fn configuration(&self, question: &Question<'_>, dry: bool) -> Value {
        let dataset = question.database.or(self.settings.database.as_deref());
        let mut query = json!({
            "query": question.query,
            "useLegacySql": false,
            "maximumBytesBilled": question.bounds.max_bytes_billed.to_string(),
        });
        if let Some(dataset) = dataset {
            let (project, dataset) = dataset.split_once('.').unwrap_or((self.cloud_project(), dataset));
            query["defaultDataset"] = json!({ "projectId": project, "datasetId": dataset });
        }
        json!({ "query": query, "dryRun": dry, "jobTimeoutMs": question.bounds.timeout.as_millis().to_string() })
    }

    /// Makes a dry run: whether BigQuery reads it as one SELECT, and its cost. Nothing runs.
    async fn tried(&self, question: &Question<'_>) -> Result<Tried, SourceError> {
        let mut job = json!({ "configuration": self.configuration(question, true) });
        if let Some(location) = &self.settings.location {
            job["jobReference"] = json!({ "projectId": self.cloud_project(), "location": location });
        }
        let tried = answered(self.request(Method::POST, &["jobs"], &[]).await?.json(&job)).await?;
        if let Some(fault) = fault_of(&tried) {
            return Err(fault);
        }
        let statistics = &tried["statistics"];
        let kind = statistics["query"]["statementType"]
            .as_str()
            .unwrap_or("an unknown kind of statement");
        if question.access == Access::Reads && kind != "SELECT" {
            return Err(SourceError::Refused(format!(
                "BigQuery classifies the statement as {kind}; this source is read-only, so only SELECT is allowed"
            )));
        }
        let bytes = whole(&statistics["totalBytesProcessed"]).or(whole(&statistics["query"]["totalBytesProcessed"]));
        let bytes = bytes.unwrap_or(0);
        if bytes > question.bounds.max_bytes_billed {
            return Err(SourceError::TooLarge(format!(
                "the query would read {bytes} bytes; this source allows at most {} (`maxBytesBilled`). Select fewer \
                columns, or filter by partition",
                question.bounds.max_bytes_billed
            )));
        }
        Ok(Tried {
            bytes,
            statement_type: kind.to_owned(),
            location: tried["jobReference"]["location"].as_str().map(str::to_owned),
        })
    }
}

/// The result of a dry run.
struct Tried {
    bytes: u64,
    statement_type: String,
    location: Option<String>,
}

async fn answered(request: RequestBuilder) -> Result<Value, SourceError> {
    let unreachable = |error: reqwest::Error| {
        // Without its URL, which may be a redirect's.
        let mut reason = error.without_url().to_string();
        reason.truncate(200);
        SourceError::Unreachable(reason)
    };
    let mut response = request.send().await.map_err(unreachable)?;
    let status = response.status();
    let mut body = Vec::new();
    while let Some(bytes) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&bytes);
        if body.len() > ANSWER_MAX_BYTES {
            return Err(SourceError::too_large(ANSWER_MAX_BYTES));
        }
    }
    let answer: Value = if body.is_empty() {
        Value::Null
    } else {
        serde_json::from_slice(&body).unwrap_or(Value::Null)
    };
    if status.is_success() {
        return Ok(answer);
    }
    let reason = match &answer["error"] {
        Value::String(code) => format!("{code}: {}", answer["error_description"].as_str().unwrap_or_default()),
        error => message(error),
    };
    match status.as_u16() {
        401 | 403 | 429 | 500.. => Err(SourceError::Unreachable(format!("{status}: {reason}"))),
        _ => Err(SourceError::Failed(reason)),
    }
}

#[async_trait]
impl Source for Bigquery {
    async fn test(&self) -> Result<Tested, SourceError> {
        self.get(&["datasets"], &[("maxResults", "1")]).await?;
        let mut warnings = Vec::new();
        if self.key.is_none() {
            warnings.push("connected without a service account key".to_owned());
        }
        Ok(Tested {
            server: format!("BigQuery, {}", self.cloud_project()),
            warnings,
        })
    }

    async fn databases(&self) -> Result<Vec<String>, SourceError> {
        let datasets = self.listed(&["datasets"], "datasets").await?;
        let name = |dataset: &Value| dataset["datasetReference"]["datasetId"].as_str().map(str::to_owned);
        Ok(datasets.iter().filter_map(name).collect())
    }

    async fn tables(&self, database: Option<&str>) -> Result<Vec<Table>, SourceError> {
        let dataset = self.dataset(database)?;
        let tables = self.listed(&["datasets", dataset, "tables"], "tables").await?;
        let table = |table: &Value| {
            Some(Table {
                name: table["tableReference"]["tableId"].as_str()?.to_owned(),
                kind: table["type"].as_str().unwrap_or("table").to_ascii_lowercase(),
                rows: None,
            })
        };
        Ok(tables.iter().filter_map(table).collect())
    }

    async fn schema(&self, database: Option<&str>, table: &str) -> Result<Value, SourceError> {
        let (dataset, table) = match (table.split_once('.'), database) {
            (Some((dataset, table)), None) => (dataset, table),
            _ => (self.dataset(database)?, table),
        };
        let found = self.get(&["datasets", dataset, "tables", table], &[]).await?;
        let mut columns = Vec::new();
        columns_of(
            found["schema"]["fields"]
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default(),
            "",
            &mut columns,
        );
        let mut schema = table_schema(table, columns);
        schema["rows"] = json!(whole(&found["numRows"]));
        schema["bytes"] = json!(whole(&found["numBytes"]));
        schema["partitionedBy"] = found["timePartitioning"]["field"].clone();
        Ok(schema)
    }

    async fn execute(&self, question: &Question<'_>) -> Result<Rows, SourceError> {
        let tried = self.tried(question).await?;
        let bounds = question.bounds;
        // A name of our own, so that it can be cancelled before the response.
        let id = format!("rejoin-{}", ids::new());
        let mut reference = json!({ "projectId": self.cloud_project(), "jobId": id });
        // The location of its data: elsewhere, a job is not found.
        let location = self.settings.location.clone().or(tried.location);
        let mut place = Vec::new();
        if let Some(location) = &location {
            reference["location"] = location.as_str().into();
            place.push(("location", location.as_str()));
        }
        let job = json!({ "jobReference": reference, "configuration": self.configuration(question, false) });
        let request = self.request(Method::POST, &["jobs"], &[]).await?.json(&job);
        let cancel = CancelOnDrop {
            armed: Some(
                self.request(Method::POST, &["jobs", &id, "cancel"], &place)
                    .await?
                    .body(""),
            ),
        };
        let begun = answered(request).await?;
        if let Some(fault) = fault_of(&begun) {
            return Err(fault);
        }
        let wait = WAIT_MS.to_string();
        let mut collected: Option<(Collected, Vec<Value>)> = None;
        let mut page: Option<String> = None;
        loop {
            let room = collected
                .as_ref()
                .map_or(bounds.max_rows + 1, |(collected, _)| collected.room());
            let rows = room.min(PAGE_ROWS).to_string();
            let mut query = vec![("maxResults", rows.as_str()), ("timeoutMs", wait.as_str())];
            query.extend(&place);
            if let Some(page) = &page {
                query.push(("pageToken", page));
            }
            let answer = self.get(&["queries", &id], &query).await?;
            if let Some(fault) = fault_of(&answer) {
                return Err(fault);
            }
            if answer["jobComplete"] == json!(false) {
                continue;
            }
            let (rows, fields) = collected.get_or_insert_with(|| {
                let fields: Vec<Value> = answer["schema"]["fields"].as_array().cloned().unwrap_or_default();
                let text = |field: &Value, name: &str| field[name].as_str().unwrap_or_default().to_owned();
                let columns = fields.iter().map(|field| Column {
                    name: text(field, "name"),
                    type_name: text(field, "type").to_ascii_lowercase(),
                });
                (Collected::new(bounds, columns.collect()), fields)
            });
            let mut is_full = false;
            for row in answer["rows"].as_array().into_iter().flatten() {
                let cells = row["f"].as_array().map(Vec::as_slice).unwrap_or_default();
                is_full = is_full
                    || !rows.take(
                        cells
                            .iter()
                            .zip(&*fields)
                            .map(|(item, field)| cell(&item["v"], field))
                            .collect(),
                    );
            }
            page = answer["pageToken"].as_str().map(str::to_owned);
            if is_full || page.is_none() {
                cancel.disarm();
                let mut rows = std::mem::take(&mut rows.rows);
                rows.bytes_billed = whole(&answer["totalBytesProcessed"]);
                rows.affected_rows = whole(&answer["numDmlAffectedRows"]);
                return Ok(rows);
            }
        }
    }

    async fn explain(&self, question: &Question<'_>) -> Result<Value, SourceError> {
        let tried = self.tried(question).await?;
        Ok(json!({ "bytesProcessed": tried.bytes, "statementType": tried.statement_type }))
    }
}

impl Bigquery {
    fn dataset<'a>(&'a self, database: Option<&'a str>) -> Result<&'a str, SourceError> {
        database.or(self.settings.database.as_deref()).ok_or_else(|| {
            SourceError::Failed("no dataset given: the source has no default dataset, so name one".to_owned())
        })
    }
}
