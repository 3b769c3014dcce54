//! Scopes: what an API key or a token may do, whatever its user may.

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
