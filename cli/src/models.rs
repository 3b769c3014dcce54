//! `rejoin models`: the catalogue of models; through the API.
use anyhow::Result;
use serde_json::Value;

use crate::{client::Client, dev_instance, exit::Exit, global::Global, out::Out};

/// List models with their prices, limits, capabilities and retirement dates.
///
/// Prices are in dollars per million tokens. The listed names can be used as a definition's `model.name`.
///
/// Examples:
///   rejoin models --provider anthropic
///   rejoin models --can images,tools flash
///   rejoin models --retired gemini-2
///   rejoin models --json
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Only models whose name contains this.
    #[arg(value_name = "TEXT")]
    pub text: Option<String>,
    /// Only models of this provider: the part of the name before the colon.
    #[arg(long, value_name = "PROVIDER")]
    pub provider: Option<String>,
    /// Only models with all of these capabilities: tools, parallelTools, images, pdf, audio, structuredOutput,
    /// reasoning, caching.
    #[arg(long, value_name = "ABILITIES", value_delimiter = ',')]
    pub can: Vec<String>,
    /// Include retired models.
    #[arg(long)]
    pub retired: bool,
}

/// # Errors
/// The API is unreachable or refuses.
pub async fn run(global: &Global, args: Args, out: Out) -> Result<Exit> {
    let client = Client::new(dev_instance::access(global)?)?;
    let can = (!args.can.is_empty()).then(|| args.can.join(","));
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in [("provider", args.provider), ("q", args.text), ("can", can)] {
        if let Some(value) = value {
            query.append_pair(name, &value);
        }
    }
    if args.retired {
        query.append_pair("retired", "true");
    }
    let listed = client.get(&format!("/api/models?{}", query.finish())).await?;
    if out.is_json() {
        out.json(&listed)?;
        return Ok(Exit::Done);
    }
    let items = listed["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let rows: Vec<[String; 8]> = items.iter().map(row).collect();
    let head = [
        "MODEL",
        "KEY",
        "IN $/M",
        "CACHED",
        "OUT $/M",
        "CONTEXT",
        "CAN",
        "RETIREMENT",
    ];
    out.table(head, &rows)?;
    let made = listed["made"].as_str().unwrap_or_default();
    out.note(&format!("{} models, as of {made}; `?` means unknown", rows.len()));
    Ok(Exit::Done)
}

fn row(model: &Value) -> [String; 8] {
    let text = |field: &str| model[field].as_str().unwrap_or_default().to_owned();
    let usd = |field: &str| {
        model["price"][field]
            .as_f64()
            .map_or_else(|| "?".to_owned(), |usd| usd.to_string())
    };
    let can = model["can"].as_array().map(|can| {
        let words: Vec<&str> = can.iter().filter_map(Value::as_str).collect();
        words.join(",")
    });
    let retirement = match (model["retiresOn"].as_str(), model["successor"].as_str()) {
        (None, _) => String::new(),
        (Some(day), None) => day.to_owned(),
        (Some(day), Some(successor)) => format!("{day} -> {successor}"),
    };
    [
        text("name"),
        if model["hasKey"] == true { "yes" } else { "" }.to_owned(),
        usd("inputUsd"),
        usd("cachedUsd"),
        usd("outputUsd"),
        model["contextTokens"].as_u64().map_or_else(|| "?".to_owned(), tokens),
        can.unwrap_or_else(|| "?".to_owned()),
        retirement,
    ]
}

/// Formats 1,048,576 as 1.0M, 200,000 as 200k.
fn tokens(count: u64) -> String {
    match count {
        1_000_000.. => format!("{:.1}M", count as f64 / 1e6),
        1_000.. => format!("{}k", count / 1_000),
        _ => count.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_unknown_is_a_question_mark_and_never_a_no() {
        let known = json!({"name": "openai:x", "hasKey": true, "price": {"inputUsd": 0.1, "cachedUsd": 0.01, "outputUsd": 2.0},
            "contextTokens": 1_048_576, "can": ["tools", "pdf"], "retiresOn": "2027-01-01", "successor": "openai:y"});
        assert_eq!(
            row(&known),
            [
                "openai:x",
                "yes",
                "0.1",
                "0.01",
                "2",
                "1.0M",
                "tools,pdf",
                "2027-01-01 -> openai:y"
            ]
        );
        assert_eq!(
            row(&json!({"name": "openai:z"})),
            ["openai:z", "", "?", "?", "?", "?", "?", ""]
        );
        assert_eq!((tokens(200_000), tokens(900)), ("200k".to_owned(), "900".to_owned()));
    }
}
