//! Recorded decisions of triage agents: each ends in an answer, and is counted.

use rejoin_tests::app::TestApp;
use rejoin_tests::client::{json_of, of_kind, text};
use rejoin_tests::model_server::Reply;
use serde_json::{Value, json};

use super::triage::install;

/// A model's decisions, right or wrong, step by step; and the platform's reactions.
struct Recorded {
    message: &'static str,
    decisions: Vec<Reply>,
    /// The conversation's agents, in order.
    handoffs: &'static [&'static str],
    /// Errors given to the model for impossible decisions.
    refused: &'static [&'static str],
    text: &'static str,
    status: &'static str,
}

fn recorded() -> Vec<Recorded> {
    let to = |word: &str| Reply::tool(&format!("transfer_to_{word}"), json!({"reason": "so it is"}));
    let look = |tool: &str| Reply::tool(tool, json!({}));
    vec![
        Recorded {
            message: "is it up to date? (at once)",
            decisions: vec![to("mongodb"), Reply::text("Yes.")],
            handoffs: &["mongodb-analyst"],
            refused: &[],
            text: "Yes.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (to the wrong one, who hands on)",
            decisions: vec![to("postgres"), to("mongodb"), Reply::text("Yes.")],
            handoffs: &["postgres-analyst", "mongodb-analyst"],
            refused: &[],
            text: "Yes.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (asks the database itself)",
            decisions: vec![
                Reply::tool(
                    "execute_query",
                    json!({"databaseId": "billing", "query": "select 1", "maxRows": null}),
                ),
                to("sql"),
                Reply::text("Yes."),
            ],
            handoffs: &["sql-analyst"],
            refused: &["execute_query"],
            text: "Yes.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (to nobody)",
            decisions: vec![to("oracle"), to("postgres"), Reply::text("Yes.")],
            handoffs: &["postgres-analyst"],
            refused: &["transfer_to_oracle"],
            text: "Yes.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (answers itself)",
            decisions: vec![Reply::text("It is 42.")],
            handoffs: &[],
            refused: &[],
            text: "It is 42.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (to two at once)",
            decisions: vec![
                to("bigquery").then_tool("transfer_to_sql", json!({"reason": "or so"})),
                Reply::text("Yes."),
            ],
            handoffs: &["bigquery-analyst"],
            refused: &["two agents"],
            text: "Yes.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (back and forth)",
            decisions: vec![
                to("postgres"),
                to("sql"),
                to("postgres"),
                to("sql"),
                Reply::text("I don't know."),
            ],
            handoffs: &["postgres-analyst", "sql-analyst", "postgres-analyst"],
            refused: &["in this turn, and it was handed back"],
            text: "I don't know.",
            status: "completed",
        },
        Recorded {
            message: "is it up to date? (looks around for ever)",
            decisions: vec![
                look("list_data_sources"),
                look("list_open_consoles"),
                look("list_data_sources"),
                look("list_open_consoles"),
            ],
            handoffs: &[],
            refused: &[],
            // The final answer, without tools.
            text: "I can't tell.",
            status: "paused",
        },
    ]
}

/// Requirements: D55.
#[tokio::test]
async fn any_triage_decision_ends_well_and_is_counted_correctly() {
    let app = TestApp::start().await;
    let client = app.client();
    install(&app).await;
    let recorded = recorded();
    for Recorded {
        message,
        decisions,
        handoffs,
        refused,
        text: answer,
        status,
    } in &recorded
    {
        app.model.on(message, decisions.clone());
        if *status == "paused" {
            app.model.script([Reply::text(answer)]);
        }
        let frames = client.chat(json!({ "message": message })).await;
        let events = json_of(&frames);
        assert_eq!(of_kind(&events, "meta")[0]["agent"], "triage", "{message}");
        let went: Vec<&Value> = of_kind(&events, "handoff")
            .into_iter()
            .map(|event| &event["to"])
            .collect();
        assert_eq!(went, *handoffs, "{message}");
        let published: Vec<&str> = of_kind(&events, "mcp_tool")
            .into_iter()
            .filter_map(|event| event["error"].as_str())
            .collect();
        assert_eq!(published.len(), refused.len(), "{message}: {published:?}");
        for (published, word) in published.iter().zip(*refused) {
            assert!(published.contains(word), "{message}: {published}");
        }
        assert_eq!(text(&frames), *answer, "{message}");
        let ends = of_kind(&events, "done");
        assert_eq!((ends.len(), &ends[0]["status"]), (1, &json!(status)), "{message}");
    }
    assert_eq!(app.model.left(), 0, "every decision was asked for");
    // Six of eight were handed over in the first turn: counted, not assumed.
    let (_, stats) = client
        .get(&format!("/api/projects/{}/routing/stats", app.db.workspace_id))
        .await;
    let of_triage = &stats["items"][0];
    assert_eq!(
        (
            &of_triage["agent"],
            &of_triage["conversations"],
            &of_triage["handedOver"]
        ),
        (&json!("triage"), &json!(8), &json!(6)),
        "{stats}"
    );
}
