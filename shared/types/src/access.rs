//! Scopes: the permissions of an API key or token, independent of its user's role; and grants, which may be narrower.

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

/// Maximum length of the name of a queue, and of a tool, in a grant.
const NAME_MAX_CHARS: usize = 64;

/// What a key grants: a scope, or the scope `worker` for one queue (`worker:QUEUE`) or for one tool of it (`worker:QUEUE/TOOL`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    scope: Scope,
    /// Of the scope `worker`. None: all.
    queue: Option<String>,
    /// A tool of the queue. None: all.
    tool: Option<String>,
}

impl Grant {
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns whether everything that `other` grants is granted by this.
    pub fn covers(&self, other: &Self) -> bool {
        let covers = |mine: &Option<String>, its: &Option<String>| mine.is_none() || mine == its;
        self.scope == other.scope && covers(&self.queue, &other.queue) && covers(&self.tool, &other.tool)
    }

    /// Returns whether a program may serve a queue, and a tool of it if one is given.
    pub fn serves(&self, queue: &str, tool: Option<&str>) -> bool {
        let is = |mine: &Option<String>, its: &str| mine.as_deref().is_none_or(|mine| mine == its);
        self.scope == Scope::Worker && is(&self.queue, queue) && tool.is_none_or(|tool| is(&self.tool, tool))
    }
}

impl From<Scope> for Grant {
    fn from(scope: Scope) -> Self {
        Self {
            scope,
            queue: None,
            tool: None,
        }
    }
}

impl std::fmt::Display for Grant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.scope.as_str())?;
        if let Some(queue) = &self.queue {
            write!(f, ":{queue}")?;
        }
        if let Some(tool) = &self.tool {
            write!(f, "/{tool}")?;
        }
        Ok(())
    }
}

/// Why a text is no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a scope: there are read, write, admin and worker, and worker:QUEUE and worker:QUEUE/TOOL for programs that serve one queue or one \
     tool of it"
)]
pub struct NotAGrant(String);

impl std::str::FromStr for Grant {
    type Err = NotAGrant;

    fn from_str(text: &str) -> Result<Self, NotAGrant> {
        let refused = || NotAGrant(text.chars().take(2 * NAME_MAX_CHARS).collect());
        let (scope, rest) = match text.split_once(':') {
            Some((scope, rest)) => (scope, Some(rest)),
            None => (text, None),
        };
        let scope: Scope = scope.parse().map_err(|_| refused())?;
        let Some(rest) = rest else {
            return Ok(scope.into());
        };
        let (queue, tool) = match rest.split_once('/') {
            Some((queue, tool)) => (queue, Some(tool)),
            None => (rest, None),
        };
        let is_name = |name: &str| {
            (1..=NAME_MAX_CHARS).contains(&name.len())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        };
        if scope != Scope::Worker || !is_name(queue) || !tool.is_none_or(is_name) {
            return Err(refused());
        }
        Ok(Self {
            scope,
            queue: Some(queue.to_owned()),
            tool: tool.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(text: &str) -> Grant {
        text.parse().expect("a grant")
    }

    #[test]
    fn a_grant_is_a_scope_or_a_queue_or_a_tool_of_it() {
        for text in ["read", "worker", "worker:billing", "worker:billing/refund"] {
            assert_eq!(grant(text).to_string(), text);
        }
        for text in [
            "",
            "all",
            "read:x",
            "worker:",
            "worker:a/",
            "worker:a b",
            "worker:a/b/c",
            "worker:/b",
        ] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_grant_covers_what_is_narrower() {
        for (wide, narrow, covers) in [
            ("worker", "worker:billing/refund", true),
            ("worker:billing", "worker:billing/refund", true),
            ("worker:billing/refund", "worker:billing/refund", true),
            ("worker:billing/refund", "worker:billing", false),
            ("worker:billing", "worker", false),
            ("worker:billing", "worker:other", false),
            ("admin", "worker:billing", false),
        ] {
            assert_eq!(grant(wide).covers(&grant(narrow)), covers, "{wide} {narrow}");
        }
        assert!(grant("worker:billing").serves("billing", Some("refund")));
        assert!(grant("worker:billing/refund").serves("billing", None));
        assert!(!grant("worker:billing/refund").serves("billing", Some("pay")));
        assert!(!grant("worker:billing").serves("default", None));
        assert!(!grant("admin").serves("billing", None));
    }
}
