//! Scopes: the permissions of an API key or token, independent of its user's role.

use clap::ValueEnum;

/// What a key or a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// GET
    Read,
    /// Everything else outside `/api/admin`
    Write,
    /// `/api/admin`
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 3] = [Scope::Read, Scope::Write, Scope::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }
}
