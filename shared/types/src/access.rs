//! Scopes: the permissions of an API key or token, independent of its user's role.

use clap::ValueEnum;

crate::text_enum! {
    /// What a key or a token may do.
    #[derive(ValueEnum)]
    pub enum Scope {
        /// GET
        Read = "read",
        /// Everything else outside `/api/admin`
        Write = "write",
        /// `/api/admin`
        Admin = "admin",
        /// `/api/workers`: serves tools to agents
        Worker = "worker",
    }
}
