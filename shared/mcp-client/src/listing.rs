//! Reads the tool list of an MCP server, page by page, and validates each tool. Called by `connection`.
//!
//! Invariants: an invalid tool does not affect others; any server's list ends, and what is kept of it is bounded;
//! nothing in a definition is hidden from the users who approve it.

use std::collections::BTreeSet;

use rejoin_integrations::mcp::offers::{
    DEFINITION_MAX_BYTES, DiscoveredTool, LeftOut, Listed, MAX_LEFT_OUT, MAX_TOOLS, NAME_MAX_CHARS,
};
use rejoin_types::text;
use rmcp::model::{ClientRequest, ListToolsRequest, PaginatedRequestParams, ServerResult, Tool};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::Value;

use crate::answer;
use crate::called;
use crate::redact::Redactor;

/// Maximum number of pages read.
const MAX_PAGES: usize = 50;
/// Maximum length of a stored reason or name, in characters.
const TOLD_CHARS: usize = 300;

/// Reads a server's list. The caller limits the time.
///
/// # Errors
/// The server's answer is not a list.
pub(crate) async fn read(peer: &Peer<RoleClient>, redactor: &Redactor, server: &str) -> Result<Listed, ServiceError> {
    let mut list = List::new(server, redactor);
    let mut cursors = BTreeSet::new();
    let mut cursor = None;
    for _ in 0..MAX_PAGES {
        let (tools, next) = page(peer, cursor.take()).await?;
        list.take(tools).await;
        let Some(next) = next else {
            return Ok(list.done());
        };
        if list.is_full {
            return Ok(list.done());
        }
        if !cursors.insert(next.clone()) {
            list.leave_out(None, "its list repeats a page");
            return Ok(list.done());
        }
        cursor = Some(next);
    }
    list.leave_out(
        None,
        &format!("its list has more than {MAX_PAGES} pages; the others were not read"),
    );
    Ok(list.done())
}

/// Reads one page: its valid tools, and the cursor of the next one.
async fn page(
    peer: &Peer<RoleClient>,
    cursor: Option<String>,
) -> Result<(Vec<Result<Tool, Value>>, Option<String>), ServiceError> {
    let request = ListToolsRequest {
        method: Default::default(),
        params: Some(PaginatedRequestParams::default().with_cursor(cursor)),
        extensions: Default::default(),
    };
    match peer.send_request(ClientRequest::ListToolsRequest(request)).await? {
        ServerResult::ListToolsResult(page) => Ok((page.tools.into_iter().map(Ok).collect(), page.next_cursor)),
        // Part of it is invalid: the other tools may still be valid.
        ServerResult::CustomResult(page) => {
            let Value::Array(tools) = page.0["tools"].clone() else {
                return Err(ServiceError::UnexpectedResponse);
            };
            let next = page.0["nextCursor"].as_str().map(str::to_owned);
            let tools = tools
                .into_iter()
                .map(|tool| serde_json::from_value(tool.clone()).map_err(|_| tool));
            Ok((tools.collect(), next))
        }
        _ => Err(ServiceError::UnexpectedResponse),
    }
}

/// A list while being read.
struct List<'a> {
    server: &'a str,
    redactor: &'a Redactor,
    listed: Listed,
    names: BTreeSet<String>,
    /// The tools' names for models.
    called: BTreeSet<String>,
    /// Number of further tools left out without a stored reason.
    untold: usize,
    is_full: bool,
}

impl<'a> List<'a> {
    fn new(server: &'a str, redactor: &'a Redactor) -> Self {
        Self {
            server,
            redactor,
            listed: Listed::default(),
            names: BTreeSet::new(),
            called: BTreeSet::new(),
            untold: 0,
            is_full: false,
        }
    }

    async fn take(&mut self, tools: Vec<Result<Tool, Value>>) {
        for tool in tools {
            if self.listed.found.len() >= MAX_TOOLS {
                self.is_full = true;
                self.leave_out(None, &format!("it offers more than {MAX_TOOLS} tools"));
                return;
            }
            match tool {
                Ok(tool) => {
                    let found = answer::discovered(tool);
                    let name = found.name.clone();
                    match self.judge(found).await {
                        Ok(found) => self.listed.found.push(found),
                        Err(reason) => self.leave_out(Some(&name), &reason),
                    }
                }
                Err(tool) => {
                    let reason = "its description does not follow the protocol: `name`, `description` and \
                        `inputSchema`";
                    self.leave_out(tool["name"].as_str(), reason);
                }
            }
        }
    }

    async fn judge(&mut self, found: DiscoveredTool) -> Result<DiscoveredTool, String> {
        let DiscoveredTool { name, definition } = found;
        if name.is_empty() {
            return Err("it has no name".to_owned());
        }
        if name.chars().count() > NAME_MAX_CHARS {
            return Err(format!("its name is longer than {NAME_MAX_CHARS} characters"));
        }
        if name.contains(|c| text::is_hidden(c) || matches!(c, '\n' | '\r' | '\t')) {
            return Err("its name contains invisible characters".to_owned());
        }
        let bytes = definition.to_string().len();
        if bytes > DEFINITION_MAX_BYTES {
            return Err(format!(
                "its definition has {bytes} bytes; the limit is {DEFINITION_MAX_BYTES}"
            ));
        }
        let definition = text::plain_json(self.redactor.value(definition));
        // Examining a large one takes milliseconds.
        let schema = definition["inputSchema"].clone();
        tokio::task::spawn_blocking(move || rejoin_schemas::check(&schema))
            .await
            .unwrap_or_else(|_| Err("its schema could not be checked".to_owned()))?;
        if !self.names.insert(name.clone()) {
            return Err("an earlier tool has the same name".to_owned());
        }
        let called = called(self.server, &name);
        if !self.called.insert(called.clone()) {
            return Err(format!("an earlier tool is also named {called}"));
        }
        Ok(DiscoveredTool { name, definition })
    }

    fn leave_out(&mut self, tool: Option<&str>, reason: &str) {
        if self.listed.left_out.len() >= MAX_LEFT_OUT {
            self.untold += 1;
            return;
        }
        // Secrets are redacted first, so that no part of one remains.
        let cleaned =
            |words: &str| text::plain(self.redactor.text(words.to_owned()).chars().take(TOLD_CHARS).collect());
        let left = LeftOut {
            tool: tool.map(cleaned),
            reason: cleaned(reason),
        };
        self.listed.left_out.push(left);
    }

    fn done(mut self) -> Listed {
        if self.untold > 0 {
            let reason = format!("{} more were omitted", self.untold);
            self.listed.left_out.push(LeftOut { tool: None, reason });
        }
        self.listed.found.sort_by(|a, b| a.name.cmp(&b.name));
        self.listed
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, schema: Value) -> Result<Tool, Value> {
        Ok(serde_json::from_value(json!({"name": name, "inputSchema": schema})).unwrap())
    }

    async fn listed(tools: Vec<Result<Tool, Value>>) -> Listed {
        let redactor = Redactor::default();
        let mut list = List::new("odd", &redactor);
        list.take(tools).await;
        list.done()
    }

    #[tokio::test]
    async fn each_tool_is_judged_by_itself() {
        let object = || json!({"type": "object"});
        let long = "n".repeat(NAME_MAX_CHARS + 1);
        let listed = listed(vec![
            tool("b", object()),
            tool("", object()),
            tool(&long, object()),
            tool("n\0ul", object()),
            tool("b\u{202E}a", object()),
            tool("large", json!({"description": "x".repeat(DEFINITION_MAX_BYTES)})),
            tool("bomb", json!({"$ref": "#"})),
            tool("b", object()),
            tool("a.c", object()),
            tool("a/c", object()),
            Err(json!({"name": 5})),
            Err(json!({"name": "wrong", "inputSchema": "object"})),
            Ok(
                serde_json::from_value(json!({"name": "a", "description": "do\0 \u{E0041}", "inputSchema": {}}))
                    .unwrap(),
            ),
        ])
        .await;
        let names: Vec<&str> = listed.found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["a", "a.c", "b"]);
        assert_eq!(listed.found[0].definition["description"], "do\u{FFFD} \u{FFFD}");
        let reasons: Vec<(Option<&str>, &str)> = listed
            .left_out
            .iter()
            .map(|left| (left.tool.as_deref(), left.reason.as_str()))
            .collect();
        for (place, (tool, words)) in [
            (Some(""), "no name"),
            (Some(long.as_str()), "longer than 128"),
            (Some("n\u{FFFD}ul"), "invisible characters"),
            (Some("b\u{FFFD}a"), "invisible characters"),
            (Some("large"), "bytes"),
            (Some("bomb"), "without end"),
            (Some("b"), "the same name"),
            (Some("a/c"), "odd_a_c"),
            (None, "protocol"),
            (Some("wrong"), "protocol"),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(reasons[place].0, tool);
            assert!(reasons[place].1.contains(words), "{words}: {reasons:?}");
        }
        assert_eq!(reasons.len(), 10);
    }

    #[tokio::test]
    async fn what_is_kept_of_a_list_is_bounded() {
        let many = (0..MAX_TOOLS + 10).map(|number| tool(&format!("t{number}"), json!({})));
        let full = listed(many.collect()).await;
        assert_eq!((full.found.len(), full.left_out.len()), (MAX_TOOLS, 1));
        let bad = (0..MAX_LEFT_OUT + 10).map(|_| Err(json!({"name": "x".repeat(1_000)})));
        let bad = listed(bad.collect()).await;
        assert_eq!(bad.left_out.len(), MAX_LEFT_OUT + 1);
        assert_eq!(bad.left_out[0].tool.as_ref().unwrap().len(), TOLD_CHARS);
        assert_eq!(bad.left_out[MAX_LEFT_OUT].reason, "10 more were omitted");
    }
}
