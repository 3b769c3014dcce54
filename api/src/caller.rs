//! The caller of a request: user, project and role. Handlers take a [`Caller`]; `authentication` determines it.
//!
//! Invariant: a revoked key is rejected after [`CACHE_LIFETIME`] at the latest (or when the wake-up of its revocation
//! arrives), an expired token immediately.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use rejoin_shared::auth::{self, Credential, Kind};
use rejoin_shared::db::Db;
use rejoin_shared::owner::Owner;
use rejoin_shared::projects::Role;
use rejoin_shared::wakeup::{self, SharedBus};
use rejoin_shared::walls::{self, Asking};
use sqlx::{Postgres, Transaction};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::pace::{Counted, Rates};
use crate::problem::Problem;

/// How long an authenticated key or token is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(2);
/// Maximum number of cached keys and tokens.
const CACHE_KEYS: u64 = 10_000;

/// The sign-in path of browsers.
pub const SESSION_PATH: &str = "/api/session";

/// The caller of a request, or its refusal, if determined before the handler.
#[derive(Debug, Clone)]
pub struct LookedUp(pub Result<Caller, Problem>);

/// An authenticated caller.
#[derive(Debug, Clone)]
pub struct Caller {
    who: Arc<auth::Caller>,
    /// None: read-only callers.
    rates: Option<Arc<Rates>>,
}

impl Deref for Caller {
    type Target = auth::Caller;

    fn deref(&self) -> &auth::Caller {
        &self.who
    }
}

impl From<auth::Caller> for Caller {
    fn from(caller: auth::Caller) -> Self {
        Self {
            who: Arc::new(caller),
            rates: None,
        }
    }
}

impl Caller {
    pub(crate) fn new(caller: auth::Caller, rates: Arc<Rates>) -> Self {
        Self {
            who: Arc::new(caller),
            rates: Some(rates),
        }
    }

    pub fn owner(&self) -> Owner {
        Owner {
            project_id: self.project_id,
            user_id: self.user_id,
        }
    }

    /// Begins a transaction in which the database returns the caller's rows only.
    pub async fn walled(&self, db: &impl AsRef<Db>) -> Result<Transaction<'static, Postgres>, Problem> {
        Ok(walls::begin(&db.as_ref().sql, self.asking()).await?)
    }

    /// Returns the identity for rate limits.
    pub(crate) fn counted(&self) -> Counted {
        let credential = match self.credential {
            Credential::Key(id) => id,
            // There may be many tokens, each for minutes only.
            Credential::Token(_) => self.user_id,
        };
        Counted {
            credential,
            user: self.user_id,
            project: self.project_id,
        }
    }

    /// Returns the row-level-security scope.
    pub fn asking(&self) -> Asking {
        Asking::For(self.owner())
    }

    /// Counts one audited change; the audit log can only grow.
    pub fn counts_audited(&self) -> Result<(), Problem> {
        self.rates
            .as_ref()
            .map_or(Ok(()), |rates| rates.count_audited(self.user_id))
    }

    /// Checks that the project in a path is the caller's.
    pub fn in_project(&self, project_id: Uuid) -> Result<(), Problem> {
        if self.project_id == project_id {
            Ok(())
        } else {
            Err(Problem::not_found("project_not_found", "The project"))
        }
    }

    /// Checks that the caller is an owner of the project.
    pub fn owns(&self, project_id: Uuid) -> Result<(), Problem> {
        self.in_project(project_id)?;
        match self.role {
            Role::Owner => Ok(()),
            Role::Member | Role::Viewer | Role::Operator | Role::Service => {
                let detail = "only an owner of the project may do this";
                Err(Problem::new(StatusCode::FORBIDDEN, "role_missing", detail))
            }
        }
    }
}

/// The cache of keys and tokens.
pub struct Keys {
    known: moka::future::Cache<Shown, Caller>,
}

/// The kind and hash of a credential, and the requested project.
pub(crate) type Shown = (Kind, Vec<u8>, Option<Uuid>);

impl Keys {
    fn new() -> Self {
        Self {
            known: moka::future::Cache::builder()
                .max_capacity(CACHE_KEYS)
                .time_to_live(CACHE_LIFETIME)
                .support_invalidation_closures()
                .build(),
        }
    }

    pub(crate) async fn get(&self, shown: &Shown) -> Option<Caller> {
        self.known.get(shown).await
    }

    pub(crate) async fn remember(&self, shown: Shown, caller: Caller) {
        self.known.insert(shown, caller).await;
    }

    /// Starts evicting keys of projects named by wake-ups, until the process drains.
    pub fn start(bus: SharedBus, draining: CancellationToken) -> Arc<Self> {
        let keys = Arc::new(Self::new());
        let mut wakes = bus.subscribe();
        let heard = keys.clone();
        tokio::spawn(async move {
            loop {
                let wake = tokio::select! {
                    wake = wakeup::next(&mut wakes) => wake,
                    () = draining.cancelled() => return,
                };
                if wake.all {
                    heard.known.invalidate_all();
                }
                for project in &wake.keys {
                    heard.forget_project(*project);
                }
            }
        });
        keys
    }

    /// Evicts all callers of the project.
    pub fn forget_project(&self, project_id: Uuid) {
        let forgotten = self
            .known
            .invalidate_entries_if(move |_, known| known.project_id == project_id);
        debug_assert!(forgotten.is_ok(), "the cache was built for this");
    }

    /// Evicts the caller's credential.
    pub fn forget(&self, caller: &Caller) {
        let credential = caller.credential;
        let forgotten = self
            .known
            .invalidate_entries_if(move |_, known| known.credential == credential);
        debug_assert!(forgotten.is_ok(), "the cache was built for this");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_in_their_own_project_alone_and_only_owners_own_it() {
        let [project, other] = [(); 2].map(|()| Uuid::now_v7());
        for role in Role::ALL {
            let caller = Caller::from(auth::Caller {
                credential: Credential::Key(Uuid::now_v7()),
                shown_in: Kind::Key,
                user_id: Uuid::now_v7(),
                project_id: project,
                role,
                scopes: Vec::new(),
                quota: rejoin_shared::projects::Quota::default(),
            });
            assert!(caller.in_project(project).is_ok());
            assert!(caller.in_project(other).is_err());
            assert_eq!(caller.owns(project).is_ok(), role == Role::Owner, "{role:?}");
            assert!(caller.owns(other).is_err());
        }
    }
}
