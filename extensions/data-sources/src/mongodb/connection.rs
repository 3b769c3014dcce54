//! Connects to a checked address, and asks the server for the user's privileges. Called by `mongodb`.

use std::time::Duration;

use mongodb::Client;
use mongodb::bson::doc;
use mongodb::options::{ClientOptions, Credential, ServerAddress, Tls, TlsOptions};
use rejoin_integrations::data_sources::Kind;
use rejoin_secrets::Plaintext;

use super::rights::Rights;
use super::{Mongodb, error_message, failure, millis};
use crate::source::SourceError;
use crate::transport;

/// Maximum number of connections of one source.
const MAX_CONNECTIONS: u32 = 4;

impl Mongodb {
    pub(super) async fn connect(&self) -> Result<Client, SourceError> {
        let unreachable = |error: mongodb::error::Error| SourceError::Unreachable(error_message(&error));
        let host = self.settings.host.clone().unwrap_or_default();
        let tls = self.settings.uses_tls();
        let mut options = if self.settings.srv == Some(true) {
            if !tls {
                return Err(SourceError::Refused(
                    "`srv` can resolve to other hosts and therefore requires TLS".to_owned(),
                ));
            }
            let options = ClientOptions::parse(format!("mongodb+srv://{host}/"))
                .await
                .map_err(unreachable)?;
            for address in &options.hosts {
                if let ServerAddress::Tcp { host, port } = address {
                    self.judged(host, port.unwrap_or(27017)).await?;
                }
            }
            options
        } else {
            let port = self.settings.port_of(Kind::Mongodb);
            let judged = self.judged(&host, port).await?;
            let address = ServerAddress::Tcp {
                // With TLS its name, for the certificate.
                host: if tls { host } else { judged },
                port: Some(port),
            };
            ClientOptions::builder()
                .hosts(vec![address])
                .direct_connection(true)
                .build()
        };
        options.app_name = Some("rejoin".to_owned());
        options.tls = Some(if tls {
            Tls::Enabled(TlsOptions::default())
        } else {
            Tls::Disabled
        });
        options.connect_timeout = Some(transport::CONNECT_TIMEOUT);
        options.server_selection_timeout = Some(transport::CONNECT_TIMEOUT);
        options.max_pool_size = Some(MAX_CONNECTIONS);
        options.max_idle_time = Some(Duration::from_secs(120));
        // Retrying failed reads is up to the caller.
        options.retry_writes = Some(false);
        if let Some(user) = &self.settings.user {
            let mut credential = Credential::default();
            credential.username = Some(user.clone());
            credential.password = self
                .password
                .as_ref()
                .and_then(Plaintext::expose_text)
                .map(str::to_owned);
            credential.source = self.settings.auth_source.clone();
            options.credential = Some(credential);
        }
        let client = Client::with_options(options).map_err(unreachable)?;
        if self.read_only
            && self.settings.accepts_writer != Some(true)
            && let Some(fault) = self.rights(&client).await?.fault()
        {
            return Err(SourceError::Refused(format!(
                "{fault}; use a user that has only the role `read`. (With `acceptsWriter` in its settings the source \
                is used anyway, protected only by the list of allowed operations.)"
            )));
        }
        Ok(client)
    }

    /// Returns the user's privileges, as reported by the server.
    pub(super) async fn rights(&self, client: &Client) -> Result<Rights, SourceError> {
        use mongodb::error::ErrorKind;
        let untold = match self.settings.user {
            None => Rights::NoUser,
            Some(_) => Rights::Unknown,
        };
        let status = doc! { "connectionStatus": 1, "showPrivileges": true, "maxTimeMS": millis(&self.look) };
        match client.database("admin").run_command(status).await {
            Ok(status) => Ok(match Rights::of(&status) {
                Rights::Unknown => untold,
                rights => rights,
            }),
            Err(error) => match error.kind.as_ref() {
                ErrorKind::Command(_) => Ok(untold),
                _ => Err(failure(&error, &self.look)),
            },
        }
    }

    /// Returns an allowed address of a host.
    async fn judged(&self, host: &str, port: u16) -> Result<String, SourceError> {
        let addresses = self.hosts.resolve(host, port).await.map_err(SourceError::Refused)?;
        let first = addresses.first().map(|address| address.ip().to_string());
        first.ok_or_else(|| SourceError::Unreachable(format!("{host} has no address")))
    }
}
