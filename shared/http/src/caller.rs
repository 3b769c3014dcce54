//! The caller of a request: user, workspace and role. A handler takes a `Caller<Read>`, a `Caller<Write>` or a `Caller<Admin>`, and
//! so declares the scope that its operation needs; `authentication` determines who calls.
//!
//! Invariants: a `Caller<S>` of a request has the scope `S`; a revoked key is rejected after [`CACHE_LIFETIME`] at the latest (or when
//! the wake-up of its revocation arrives), an expired token immediately.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::MatchedPath;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode};
use rejoin_db::Db;
use rejoin_db::rls;
use rejoin_event_log::wakeup::{self, SharedBus};
use rejoin_identity::auth::{self, Credential, Kind};
use rejoin_identity::workspaces::Role;
use rejoin_telemetry::TraceContext;
use rejoin_types::access::Scope;
use rejoin_types::owner::Owner;
use sqlx::{Postgres, Transaction};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::problem::Problem;
use crate::rate_limit::{Counted, Rates};

/// The header with the client's span.
const TRACEPARENT: &str = "traceparent";

/// How long an authenticated key or token is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(2);
/// Maximum number of cached keys and tokens.
const CACHE_KEYS: u64 = 10_000;

/// The caller of a request, or its refusal, if determined before the handler.
#[derive(Debug, Clone)]
pub struct LookedUp(pub Result<Caller, Problem>);

/// An authenticated caller.
///
/// `Caller<Read>`, `Caller<Write>` and `Caller<Admin>` are extractors: of a caller whose credential has that scope. Each of them
/// dereferences to a plain `Caller`, of which no scope is known, and which no handler can take.
#[derive(Debug, Clone)]
pub struct Caller<S = Identity>(S);

/// Who a plain [`Caller`] is.
#[derive(Debug, Clone)]
pub struct Identity {
    who: Arc<auth::Caller>,
    /// None: read-only callers.
    rates: Option<Arc<Rates>>,
    sent: Sent,
}

/// What a caller has sent, for the span of the request.
#[derive(Debug, Clone, Default)]
pub struct Sent {
    /// The client's span, if the request names one.
    pub trace: Option<TraceContext>,
    pub method: Method,
    pub route: Option<MatchedPath>,
}

impl Sent {
    fn of(parts: &Parts) -> Self {
        Self {
            trace: trace(&parts.headers),
            method: parts.method.clone(),
            route: parts.extensions.get().cloned(),
        }
    }
}

/// Returns the span that a request names. Two of them name none.
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    match (values.next(), values.next()) {
        (Some(one), None) => TraceContext::parse(one.to_str().ok()?),
        (_, _) => None,
    }
}

/// A scope as a type.
pub trait Scoped: Sized {
    const SCOPE: Scope;

    /// Only [`Caller::with_scope`] calls it, which has checked the scope.
    fn of(caller: Caller) -> Self;

    fn caller(&self) -> &Caller;
}

macro_rules! scopes {
    ($($scope:ident)+) => {$(
        #[doc = concat!("A caller whose credential has the scope `", stringify!($scope), "`, in `Caller<", stringify!($scope), ">`.")]
        #[derive(Debug, Clone)]
        pub struct $scope(Caller);

        impl Scoped for $scope {
            const SCOPE: Scope = Scope::$scope;

            fn of(caller: Caller) -> Self {
                Self(caller)
            }

            fn caller(&self) -> &Caller {
                &self.0
            }
        }
    )+};
}

scopes! { Read Write Admin Worker }

impl<S: Scoped> Caller<S> {
    /// Returns who calls, without the scope.
    pub fn plain(&self) -> Caller {
        self.0.caller().clone()
    }
}

impl<S: Scoped> Deref for Caller<S> {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        self.0.caller()
    }
}

impl Deref for Caller {
    type Target = auth::Caller;

    fn deref(&self) -> &auth::Caller {
        &self.0.who
    }
}

impl From<auth::Caller> for Caller {
    fn from(caller: auth::Caller) -> Self {
        Self(Identity {
            who: Arc::new(caller),
            rates: None,
            sent: Sent::default(),
        })
    }
}

impl Caller {
    pub fn new(caller: auth::Caller, rates: Arc<Rates>) -> Self {
        Self(Identity {
            who: Arc::new(caller),
            rates: Some(rates),
            sent: Sent::default(),
        })
    }

    /// The same as the sender of this request.
    pub fn sending(mut self, parts: &Parts) -> Self {
        self.0.sent = Sent::of(parts);
        self
    }

    /// Returns what it has sent.
    pub fn sent(&self) -> &Sent {
        &self.0.sent
    }

    /// Refuses a caller whose credential lacks the scope.
    pub fn needs(&self, scope: Scope) -> Result<(), Problem> {
        if self.may(scope) {
            return Ok(());
        }
        let detail = format!("the caller lacks the scope `{}`", scope.as_str());
        Err(Problem::new(StatusCode::FORBIDDEN, "scope_missing", detail))
    }

    /// The caller as one that has the scope `S`, or a refusal.
    pub fn with_scope<S: Scoped>(self) -> Result<Caller<S>, Problem> {
        self.needs(S::SCOPE)?;
        Ok(Caller(S::of(self)))
    }

    pub fn owner(&self) -> Owner {
        Owner {
            workspace_id: self.workspace_id,
            user_id: self.user_id,
        }
    }

    /// Begins a transaction in which the database returns the caller's rows only.
    pub async fn begin(&self, db: &impl AsRef<Db>) -> Result<Transaction<'static, Postgres>, Problem> {
        Ok(rls::begin(&db.as_ref().pool_sqlx, self.rls_scope()).await?)
    }

    /// Returns the identity for rate limits.
    pub fn counted(&self) -> Counted {
        let credential = match self.credential {
            Credential::Key(id) => id,
            // There may be many tokens, each for minutes only.
            Credential::Token(_) => self.user_id,
        };
        Counted {
            credential,
            user: self.user_id,
            workspace: self.workspace_id,
        }
    }

    /// Returns the row-level-security scope.
    pub fn rls_scope(&self) -> rls::Scope {
        rls::Scope::User(self.owner())
    }

    /// Counts one audited change; the audit log can only grow.
    pub fn counts_audited(&self) -> Result<(), Problem> {
        self.0
            .rates
            .as_ref()
            .map_or(Ok(()), |rates| rates.count_audited(self.user_id))
    }

    /// Checks that the workspace in a path is the caller's.
    pub fn in_workspace(&self, workspace_id: Uuid) -> Result<(), Problem> {
        if self.workspace_id == workspace_id {
            Ok(())
        } else {
            Err(Problem::not_found("project_not_found", "The project"))
        }
    }

    /// Checks that the caller is an owner of the workspace.
    pub fn owns(&self, workspace_id: Uuid) -> Result<(), Problem> {
        self.in_workspace(workspace_id)?;
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

/// The kind and hash of a credential, and the requested workspace.
pub type Shown = (Kind, Vec<u8>, Option<Uuid>);

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

    pub async fn get(&self, shown: &Shown) -> Option<Caller> {
        self.known.get(shown).await
    }

    pub async fn remember(&self, shown: Shown, caller: Caller) {
        self.known.insert(shown, caller).await;
    }

    /// Starts evicting keys of workspaces named by wake-ups, until the process drains.
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
                for workspace in &wake.keys {
                    heard.forget_workspace(*workspace);
                }
            }
        });
        keys
    }

    /// Evicts all callers of the workspace.
    pub fn forget_workspace(&self, workspace_id: Uuid) {
        let forgotten = self
            .known
            .invalidate_entries_if(move |_, known| known.workspace_id == workspace_id);
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
    fn a_request_names_at_most_one_span() {
        let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let named = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRACEPARENT, axum::http::HeaderValue::from_static(value));
            }
            trace(&headers).map(|trace| trace.to_string())
        };
        assert_eq!(named(&[header]).as_deref(), Some(header));
        let wrong: [&[&'static str]; 3] = [&[], &["00-0-0-0"], &[header, header]];
        for values in wrong {
            assert_eq!(named(values), None, "{values:?}");
        }
    }

    #[test]
    fn callers_are_in_their_workspace_and_only_owners_own_it() {
        let [workspace, other] = [(); 2].map(|()| Uuid::now_v7());
        for role in Role::ALL {
            let caller = Caller::from(auth::Caller {
                credential: Credential::Key(Uuid::now_v7()),
                shown_in: Kind::Key,
                user_id: Uuid::now_v7(),
                workspace_id: workspace,
                role,
                scopes: Vec::new(),
                quota: rejoin_identity::workspaces::Quota::default(),
            });
            assert!(caller.in_workspace(workspace).is_ok());
            assert!(caller.in_workspace(other).is_err());
            assert_eq!(caller.owns(workspace).is_ok(), role == Role::Owner, "{role:?}");
            assert!(caller.owns(other).is_err());
        }
    }

    #[test]
    fn a_caller_has_the_scopes_of_its_credential_and_no_other() {
        for scope in Scope::ALL {
            let caller = Caller::from(auth::Caller {
                credential: Credential::Key(Uuid::now_v7()),
                shown_in: Kind::Key,
                user_id: Uuid::now_v7(),
                workspace_id: Uuid::now_v7(),
                role: Role::Owner,
                scopes: vec![scope.as_str().to_owned()],
                quota: rejoin_identity::workspaces::Quota::default(),
            });
            let taken = [
                (Scope::Read, caller.clone().with_scope::<Read>().map(drop)),
                (Scope::Write, caller.clone().with_scope::<Write>().map(drop)),
                (Scope::Admin, caller.with_scope::<Admin>().map(drop)),
            ];
            for (needed, taken) in taken {
                match taken {
                    Ok(()) => assert_eq!(needed, scope),
                    Err(problem) => {
                        assert_ne!(needed, scope);
                        assert_eq!((problem.status, problem.code), (StatusCode::FORBIDDEN, "scope_missing"));
                        assert_eq!(
                            problem.detail,
                            format!("the caller lacks the scope `{}`", needed.as_str())
                        );
                    }
                }
            }
        }
    }
}
