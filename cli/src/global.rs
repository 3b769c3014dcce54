//! The options that every command has: output, database, API and key.
use clap::Args;

/// Options of every command.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Print JSON on stdout, one value per line.
    #[arg(long, global = true)]
    pub json: bool,

    /// Database URL, for commands that use the database: postgres://user:password@host/database
    #[arg(
        long,
        global = true,
        env = "DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub database_url: Option<String>,

    /// URL of the API, for commands that use it [default: the API that `rejoin dev` runs on this machine]
    #[arg(long, global = true, env = "REJOIN_URL", value_name = "URL")]
    pub url: Option<String>,

    /// API key. Prefer the environment variable, which stays out of the shell's history [default: the key of `rejoin
    /// dev`]
    #[arg(
        long,
        global = true,
        env = "REJOIN_API_KEY",
        hide_env_values = true,
        value_name = "KEY"
    )]
    pub api_key: Option<String>,
}

impl Global {
    /// An empty variable counts as absent.
    pub fn database_url(&self) -> Option<&str> {
        self.database_url.as_deref().filter(|url| !url.is_empty())
    }

    /// # Errors
    /// No database was given; the message explains how.
    pub fn need_database_url(&self) -> anyhow::Result<&str> {
        let missing = "this command needs a database: set DATABASE_URL or pass --database-url (`rejoin dev --json` \
            prints the URL of its database)";
        self.database_url().ok_or_else(|| anyhow::anyhow!(missing))
    }

    /// Returns the given URL of the API, if any.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref().filter(|url| !url.is_empty())
    }

    /// Returns the given key, if any.
    pub fn api_key(&self) -> Option<&str> {
        self.api_key.as_deref().filter(|key| !key.is_empty())
    }
}
