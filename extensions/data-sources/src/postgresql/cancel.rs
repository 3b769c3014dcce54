//! Cancels abandoned queries on the server. Called by `postgresql`.

use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::data_sources::Kind;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{OVERHEAD_BYTES, Postgresql};
use crate::source::SourceError;
use crate::transport::{self, Allowance, Metered};

/// Cancels a connection's statement on the server when dropped, unless disarmed.
pub(super) struct CancelOnDrop {
    armed: Option<(CancelToken, Option<MakeRustlsConnect>, String, u16, Hosts)>,
}

impl CancelOnDrop {
    pub(super) fn new(source: &Postgresql, token: CancelToken) -> Result<Self, SourceError> {
        let port = source.settings.port_of(Kind::Postgresql);
        let armed = (
            token,
            source.tls()?,
            source.host().to_owned(),
            port,
            source.hosts.clone(),
        );
        Ok(Self { armed: Some(armed) })
    }

    pub(super) fn disarm(mut self) {
        self.armed = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let (Some((token, tls, host, port, hosts)), Ok(runtime)) =
            (self.armed.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        runtime.spawn(async move {
            let wire = transport::connect(&hosts, &host, port, &format!(".s.PGSQL.{port}")).await?;
            let wire = Metered::new(wire, Allowance::new(OVERHEAD_BYTES));
            let unreachable = |error: tokio_postgres::Error| SourceError::Unreachable(error.to_string());
            match tls {
                Some(mut tls) => {
                    let connector = MakeTlsConnect::<Metered>::make_tls_connect(&mut tls, &host)
                        .map_err(|error| SourceError::Unreachable(error.to_string()))?;
                    token.cancel_query_raw(wire, connector).await.map_err(unreachable)
                }
                None => token.cancel_query_raw(wire, NoTls).await.map_err(unreachable),
            }
        });
    }
}
