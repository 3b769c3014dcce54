//! docs/reference/tools.md: the equivalent endpoint of each tool, its payload, and what it reads and writes. Generated
//! from the tools and `data/tool-mapping.json`, and checked against the OpenAPI document and the database schema.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rejoin_data_sources::{SourceArgs, Sources};
use rejoin_integrations::data_sources::Kind;
use rejoin_integrations::web_settings::{Provider, WebSettings};
use rejoin_runs::builtin;
use rejoin_tests::support;
use rejoin_tools::SharedTool;
use rejoin_web_search::web::{Web, WebArgs};
use rejoin_work_graph::tools;
use serde_json::Value;

/// Returns every tool of the product, by name. Those of MCP servers and handoffs are specific to a project.
fn tools() -> BTreeMap<String, SharedTool> {
    let registry = builtin::tools()
        .with(rejoin_worker::coordination::tools())
        .with(rejoin_calendar::tools::tools());
    let sources = Sources::new(&SourceArgs::default(), None);
    let web = WebSettings {
        visit: true,
        provider: Some(Provider::Searxng),
        ..WebSettings::default()
    };
    registry
        .resolve(&["*".to_owned()])
        .into_iter()
        .chain(tools::tools())
        .chain(rejoin_data_sources::tools::for_kinds(&sources, &Kind::ALL, true))
        .chain(rejoin_web_search::tools::for_settings(
            &Web::new(&WebArgs::default(), None),
            &web,
        ))
        .map(|tool| (tool.spec().name.clone(), tool))
        .collect()
}

struct Mapped {
    endpoint: Option<String>,
    on: String,
    shift: &'static str,
}

/// Returns the documentation of each tool: of the work graph's from the tools, of others from the file.
fn mapped() -> BTreeMap<String, Mapped> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../data/tool-mapping.json");
    let file: BTreeMap<String, (Option<String>, String)> =
        serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let others = file.into_iter().map(|(tool, (endpoint, on))| {
        (
            tool,
            Mapped {
                endpoint,
                on,
                shift: "no",
            },
        )
    });
    let of_work = tools::mapping().map(|tool| {
        let mapped = Mapped {
            endpoint: Some(tool.endpoint.to_owned()),
            on: tool.types.to_owned(),
            shift: if tool.shifts { "to the new project" } else { "no" },
        };
        (tool.name.to_owned(), mapped)
    });
    let mut all = BTreeMap::new();
    for (tool, mapped) in others.chain(of_work) {
        assert!(all.insert(tool.clone(), mapped).is_none(), "{tool} is told twice");
    }
    all
}

/// Formats parameters: `name`, `name?` if nullable, with nested fields.
fn payload(schema: &Value) -> String {
    let properties = schema["properties"].as_object().unwrap();
    let parameters = properties.iter().map(|(name, property)| {
        let is_optional = property["type"]
            .as_array()
            .is_some_and(|types| types.contains(&"null".into()));
        let within = if property["items"]["properties"].is_object() {
            format!(" [{{{}}}]", payload(&property["items"]))
        } else {
            String::new()
        };
        format!("{name}{}{within}", if is_optional { "?" } else { "" })
    });
    parameters.collect::<Vec<_>>().join(", ")
}

/// Returns whether the document has an operation at this address: `{…}` is a wildcard.
fn is_documented(document: &Value, endpoint: &str) -> bool {
    // The document itself.
    if endpoint == "GET /openapi.json" {
        return true;
    }
    let (method, wanted) = endpoint.split_once(' ').unwrap();
    let fits = |path: &str| {
        let (one, other): (Vec<&str>, Vec<&str>) = (path.split('/').collect(), wanted.split('/').collect());
        one.len() == other.len()
            && one
                .iter()
                .zip(&other)
                .all(|(one, other)| one == other || one.starts_with('{'))
    };
    let paths = document["paths"].as_object().unwrap();
    paths
        .iter()
        .any(|(path, item)| fits(path) && item.get(method.to_lowercase()).is_some())
}

/// Requirements: E69.
#[tokio::test]
async fn the_document_lists_each_tools_payload_endpoint_and_types() {
    let (tools, mapped) = (tools(), mapped());
    let names = |names: Vec<&String>| -> BTreeSet<String> { names.into_iter().cloned().collect() };
    assert_eq!(
        names(tools.keys().collect()),
        names(mapped.keys().collect()),
        "each tool is told in data/tool-mapping.json, or by itself"
    );
    let document = serde_json::to_value(rejoin_api::routes::document()).unwrap();
    let db = support::database().await;
    let tables: Vec<String> = sqlx::query_scalar("select 'kb.' || tablename from pg_tables where schemaname = 'kb'")
        .fetch_all(&db.pool)
        .await
        .unwrap();
    let mut table =
        "| tool | payload | endpoint | on what | shifts the context |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for (name, tool) in &tools {
        let Mapped { endpoint, on, shift } = &mapped[name];
        if let Some(endpoint) = endpoint {
            assert!(
                is_documented(&document, endpoint),
                "{name}: {endpoint} is not in the OpenAPI document"
            );
        }
        for told in on.split('`').filter(|told| told.starts_with("kb.")) {
            assert!(
                tables.iter().any(|table| table == told),
                "{name}: there is no table {told}"
            );
        }
        let payload = payload(tool.spec().parameters.document());
        let payload = if payload.is_empty() {
            "nothing".to_owned()
        } else {
            format!("`{{{payload}}}`")
        };
        let endpoint = endpoint
            .as_ref()
            .map_or("none".to_owned(), |endpoint| format!("`{endpoint}`"));
        table.push_str(&format!("| `{name}` | {payload} | {endpoint} | {on} | {shift} |\n"));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/tools.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = ("<!-- tools -->\n", "<!-- /tools -->");
    let (head, rest) = text.split_once(begin).expect("where the table begins");
    let (_, tail) = rest.split_once(end).expect("where the table ends");
    let right = format!("{head}{begin}{table}{end}{tail}");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(&path, right).unwrap();
    } else {
        assert!(
            text == right,
            "docs/reference/tools.md is out of date: run this test with INSTA_UPDATE=always"
        );
    }
}
