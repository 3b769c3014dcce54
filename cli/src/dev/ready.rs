//! The message of `rejoin dev` when all is ready: one line for machines, a short text for users.
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use uuid::Uuid;

use crate::out::Out;

/// The line of `--json`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ready {
    pub url: String,
    pub api_key: String,
    #[serde(rename = "projectId")]
    pub workspace_id: Uuid,
    pub user_id: Uuid,
    pub database_url: String,
    /// Signs a browser in, once.
    pub sign_in_url: String,
    pub pids: Pids,
}

#[derive(Debug, Clone, Serialize)]
pub struct Pids {
    pub api: u32,
    pub workers: Vec<u32>,
    /// None: an existing database.
    pub postgres: Option<u32>,
    /// Users' programs, if there are any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<u32>,
}

impl Ready {
    /// `told_dir`: the data directory, unless it is the default of other commands.
    ///
    /// # Errors
    /// stdout is closed.
    pub fn say(&self, told_dir: Option<&Path>, real_model: bool, out: Out) -> Result<()> {
        if out.is_json() {
            return out.json(self);
        }
        let workers: Vec<String> = self.pids.workers.iter().map(u32::to_string).collect();
        let find = told_dir.map_or_else(String::new, |dir| {
            format!("  export REJOIN_DATA_DIR='{}'\n", dir.display())
        });
        let model = if real_model {
            ""
        } else {
            "\nNo model provider is configured: a rule-based stand-in answers, with the real tools on the real \
            graph.\nFor a real model, set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OPENAI_BASE_URL and \
            start again.\n"
        };
        let rejoin = program();
        let first_worker = workers.first().map_or("PID", String::as_str);
        out.line(&format!(
            "\nRejoin is ready.\n\
             \n  chat     {}\n  API      {}\n  key      {}\n  project  {}\n  workers  {}\n\
             \nOpen the chat in a browser (the address signs you in once, within ten minutes; `{rejoin} sign-in` prints another), or ask in another terminal:\n{find}  {rejoin} chat \"Which packages need libssl3, and why?\"\n\
             \nThen ask again, kill the worker in mid-answer, and watch the answer go on:\n  kill -9 {first_worker}\n\
             {model}\nCtrl-C drains and stops everything.",
            self.sign_in_url,
            self.url,
            self.api_key,
            self.workspace_id,
            workers.join(", "),
        ))
    }
}

/// Returns how this program was called: in a fresh checkout it is not on the PATH.
fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "rejoin".to_owned())
}
