//! The state that handlers of all crates share. Cheap to clone. The state of a crate's handlers contains it where they need more.

use std::sync::Arc;

use rejoin_db::Db;
use rejoin_event_log::wakeup::SharedBus;
use rejoin_telemetry::Telemetry;
use tokio_util::sync::CancellationToken;

use crate::caller::Keys;
use crate::oidc::Oidc;
use crate::rate_limit::Rates;
use crate::settings::HttpArgs;

#[derive(Clone)]
pub struct HttpState {
    pub db: Db,
    /// The database of keys, sessions, tickets and members: the same, unless this is the state of a cell.
    pub identity: Db,
    pub bus: SharedBus,
    pub args: Arc<HttpArgs>,
    pub keys: Arc<Keys>,
    pub rates: Arc<Rates>,
    /// The trusted issuer of tokens.
    pub oidc: Option<Arc<Oidc>>,
    /// Cancelled when the process must stop.
    pub draining: CancellationToken,
    /// Opens the spans of requests.
    pub telemetry: Telemetry,
}

impl HttpState {
    /// Also starts to hear of revoked keys.
    pub fn new(
        args: HttpArgs,
        oidc: Option<Oidc>,
        db: Db,
        bus: SharedBus,
        draining: CancellationToken,
        telemetry: Telemetry,
    ) -> Self {
        Self {
            rates: Arc::new(Rates::new(&args)),
            keys: Keys::start(bus.clone(), draining.clone()),
            oidc: oidc.map(Arc::new),
            args: Arc::new(args),
            identity: db.clone(),
            db,
            bus,
            draining,
            telemetry,
        }
    }
}

impl AsRef<Self> for HttpState {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl AsRef<Db> for HttpState {
    fn as_ref(&self) -> &Db {
        &self.db
    }
}

/// Lets extractors and helpers take a state whose field `http` is an [`HttpState`].
#[macro_export]
macro_rules! contains_http_state {
    ($state:ty) => {
        impl ::std::ops::Deref for $state {
            type Target = $crate::HttpState;

            fn deref(&self) -> &$crate::HttpState {
                &self.http
            }
        }

        impl ::std::convert::AsRef<$crate::HttpState> for $state {
            fn as_ref(&self) -> &$crate::HttpState {
                &self.http
            }
        }

        impl ::std::convert::AsRef<$crate::rejoin_db::Db> for $state {
            fn as_ref(&self) -> &$crate::rejoin_db::Db {
                &self.http.db
            }
        }
    };
}
