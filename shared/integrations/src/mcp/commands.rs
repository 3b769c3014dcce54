//! The processes that may be started as MCP servers. The operator lists them in a file; a project chooses one by name,
//! and cannot set arguments, paths or a shell.
//!
//! ```json
//! {"mcpServers": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"],
//!                            "env": {"LOG_LEVEL": "warn"}, "projectEnv": ["MEMORY_TOKEN"]}}}
//! ```
//!
//! Called by the API (is this name allowed?) and by workers (what is to be started?).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum size of the file, in bytes.
const FILE_MAX_BYTES: u64 = 1024 * 1024;

/// A process that may be started.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    pub command: String,
    #[serde(default)]
    pub args: Vec<String>,
    /// Set for every project. The process inherits nothing of the worker's environment but PATH, HOME, LANG and TMPDIR.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables that a project may set. No others: a project's PATH or NODE_OPTIONS would amount to a command of its
    /// own.
    #[serde(default)]
    pub project_env: Vec<String>,
    /// Its working directory.
    #[serde(default)]
    pub directory: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    #[serde(deserialize_with = "each_once")]
    mcp_servers: BTreeMap<String, Command>,
}

/// The operator's list. Cheap to clone; does not change while the process runs.
#[derive(Debug, Clone, Default)]
pub struct Commands(Arc<BTreeMap<String, Command>>);

/// The reason why the list can't be loaded.
#[derive(Debug, thiserror::Error)]
pub enum CommandsError {
    #[error("reading the file of MCP commands {} failed", .path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the file of MCP commands {} has more than {FILE_MAX_BYTES} bytes", .0.display())]
    Size(PathBuf),
    #[error("the file of MCP commands {}: {source}", .path.display())]
    Form { path: PathBuf, source: serde_json::Error },
}

/// Where the operator's list is.
#[derive(Debug, Clone, Default, Args)]
pub struct CommandsArgs {
    /// JSON file with the processes that projects may use as MCP servers, by name (docs/guide/mcp.md) [default: none]
    #[arg(long, env = "REJOIN_MCP_COMMANDS_FILE", value_name = "FILE")]
    pub mcp_commands_file: Option<PathBuf>,
}

impl CommandsArgs {
    /// # Errors
    /// The file can't be read, or is invalid.
    pub fn load(&self) -> Result<Commands, CommandsError> {
        match self
            .mcp_commands_file
            .as_deref()
            .filter(|path| !path.as_os_str().is_empty())
        {
            Some(path) => Commands::read(path),
            None => Ok(Commands::default()),
        }
    }
}

impl Commands {
    pub fn new(commands: impl IntoIterator<Item = (String, Command)>) -> Self {
        Self(Arc::new(commands.into_iter().collect()))
    }

    fn read(path: &Path) -> Result<Self, CommandsError> {
        let failed = |source| CommandsError::File {
            path: path.to_owned(),
            source,
        };
        if std::fs::metadata(path).map_err(failed)?.len() > FILE_MAX_BYTES {
            return Err(CommandsError::Size(path.to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let file: File = serde_json::from_str(&text).map_err(|source| CommandsError::Form {
            path: path.to_owned(),
            source,
        })?;
        Ok(Self(Arc::new(file.mcp_servers)))
    }

    pub fn get(&self, name: &str) -> Option<&Command> {
        self.0.get(name)
    }

    /// Err: why a project may not use this command with these variables.
    pub fn allow<'a>(
        &self,
        command: &str,
        variables: impl IntoIterator<Item = &'a String>,
    ) -> Result<&Command, String> {
        let Some(allowed) = self.get(command) else {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let there = if names.is_empty() {
                "no commands are configured (REJOIN_MCP_COMMANDS_FILE)".to_owned()
            } else {
                format!("known: {}", names.join(", "))
            };
            return Err(format!(
                "{command:?} is not a command of the operator's configuration; {there}"
            ));
        };
        for name in variables {
            if !allowed.project_env.contains(name) {
                return Err(format!(
                    "the operator's configuration does not allow projects to set {name} for {command:?}; it allows: {}",
                    if allowed.project_env.is_empty() {
                        "none".to_owned()
                    } else {
                        allowed.project_env.join(", ")
                    }
                ));
            }
        }
        Ok(allowed)
    }
}

/// Rejects duplicate names: they would be ambiguous.
fn each_once<'de, D: Deserializer<'de>>(list: D) -> Result<BTreeMap<String, Command>, D::Error> {
    struct Names;

    impl<'de> Visitor<'de> for Names {
        type Value = BTreeMap<String, Command>;

        fn expecting(&self, words: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            words.write_str("commands by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut commands = BTreeMap::new();
            while let Some((name, command)) = entries.next_entry::<String, Command>()? {
                if commands.contains_key(&name) {
                    return Err(A::Error::custom(format!("there are two commands named {name:?}")));
                }
                commands.insert(name, command);
            }
            Ok(commands)
        }
    }

    list.deserialize_map(Names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_list_of_commands_is_an_error_that_names_it() {
        let path = std::env::temp_dir().join(format!("rejoin-commands-{}.json", uuid::Uuid::now_v7().simple()));
        let twice = br#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#.to_vec();
        for content in [
            b"".to_vec(),
            b"\xff\xfe".to_vec(),
            b"a: &a [*a, *a]".to_vec(),
            "[".repeat(1_000_000).into_bytes(),
            br#"{"mcpServers": {"a": {"command": ["x"]}}}"#.to_vec(),
            br#"{"mcpServers": {"a": {"command": "x", "shell": true}}}"#.to_vec(),
            vec![b' '; 2 * 1024 * 1024],
            twice.clone(),
        ] {
            std::fs::write(&path, &content).unwrap();
            let error = Commands::read(&path).unwrap_err().to_string();
            assert!(error.contains("rejoin-commands-") && error.len() < 500, "{error}");
        }
        std::fs::write(&path, twice).unwrap();
        assert!(Commands::read(&path).unwrap_err().to_string().contains("two commands"));
        std::fs::remove_file(&path).unwrap();
        assert!(Commands::read(&path).is_err());
    }

    #[test]
    fn a_project_gets_only_what_the_operator_names() {
        let memory = Command {
            command: "npx".to_owned(),
            args: vec!["-y".to_owned(), "server-memory".to_owned()],
            env: BTreeMap::new(),
            project_env: vec!["TOKEN".to_owned()],
            directory: None,
        };
        let commands = Commands::new([("memory".to_owned(), memory.clone())]);
        let token = "TOKEN".to_owned();
        assert_eq!(commands.allow("memory", [&token]), Ok(&memory));
        for command in ["npx", "sh", "/bin/sh", "npx -y server-memory", "sh -c id", ""] {
            assert!(commands.allow(command, []).is_err(), "{command}");
        }
        for name in ["PATH", "LD_PRELOAD", "NODE_OPTIONS", "token"] {
            assert!(commands.allow("memory", [&name.to_owned()]).unwrap_err().contains(name));
        }
        assert!(
            Commands::default()
                .allow("memory", [])
                .unwrap_err()
                .contains("REJOIN_MCP_COMMANDS_FILE")
        );
    }
}
