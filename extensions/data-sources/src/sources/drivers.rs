//! The drivers of this build, each behind the cargo feature of its kind's name. Called by `sources`.
//!
//! Invariant: a source is opened only if this build has its driver, so nothing else needs to ask.

use std::path::PathBuf;
use std::sync::Arc;

use rejoin_egress::ssrf_guard::Hosts;
use rejoin_integrations::data_sources::{Content, Kind};
use rejoin_secrets::Plaintext;
use uuid::Uuid;

use super::args::SourceArgs;
#[cfg(feature = "bigquery")]
use crate::bigquery::Bigquery;
#[cfg(feature = "duckdb")]
use crate::duckdb::{self, Duckdb};
use crate::folders::Folder;
#[cfg(feature = "mongodb")]
use crate::mongodb::Mongodb;
#[cfg(feature = "mysql")]
use crate::mysql::Mysql;
#[cfg(feature = "postgresql")]
use crate::postgresql::Postgresql;
use crate::source::{Bounds, Source, SourceError};
#[cfg(feature = "sqlite")]
use crate::sqlite::{Sqlite, process};

/// The drivers of this build, and the operator's settings that they need.
pub(super) struct Drivers {
    hosts: Hosts,
    folders: Vec<PathBuf>,
    google_token_url: String,
    #[cfg(feature = "duckdb")]
    duckdb: duckdb::Program,
    #[cfg(feature = "sqlite")]
    pub(super) sqlite: process::Program,
}

impl Drivers {
    pub(super) fn new(args: &SourceArgs) -> Self {
        Self {
            hosts: Hosts::new("REJOIN_SOURCE_HOSTS", &args.source_hosts),
            folders: args
                .source_folders
                .iter()
                .filter(|folder| !folder.as_os_str().is_empty())
                .cloned()
                .collect(),
            google_token_url: args.source_google_token_url.clone(),
            #[cfg(feature = "duckdb")]
            duckdb: duckdb::Program::new(args.source_duckdb.clone()),
            #[cfg(feature = "sqlite")]
            sqlite: process::Program::new(args.source_sqlite_program.clone(), args.sqlite()),
        }
    }

    /// Opens a source by the driver of its kind, without connecting yet.
    ///
    /// # Errors
    /// This build has no such driver.
    pub(super) fn open(
        &self,
        workspace_id: Uuid,
        content: &Content,
        secret: Option<Plaintext>,
        look: Bounds,
    ) -> Result<Arc<dyn Source>, SourceError> {
        let (settings, hosts) = (content.settings.clone(), self.hosts.clone());
        let folder = Arc::new(Folder::new(self.folders.clone(), workspace_id));
        let token_url = self.google_token_url.clone();
        let kind: Kind = content.kind;
        match kind {
            #[cfg(feature = "postgresql")]
            Kind::Postgresql => Ok(Arc::new(Postgresql::new(settings, secret, hosts, look))),
            #[cfg(feature = "mysql")]
            Kind::Mysql => Ok(Arc::new(Mysql::new(settings, secret, hosts, look))),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite => Ok(Arc::new(Sqlite::new(settings, self.sqlite.clone(), folder, look))),
            #[cfg(feature = "duckdb")]
            Kind::Duckdb => Ok(Arc::new(Duckdb::new(settings, self.duckdb.clone(), folder, look))),
            #[cfg(feature = "mongodb")]
            Kind::Mongodb => {
                let read_only = content.read_only;
                Ok(Arc::new(Mongodb::new(settings, secret, hosts, look, read_only)))
            }
            #[cfg(feature = "bigquery")]
            Kind::Bigquery => Ok(Arc::new(Bigquery::new(settings, secret, token_url, hosts))),
            #[cfg(not(all(
                feature = "postgresql",
                feature = "mysql",
                feature = "sqlite",
                feature = "duckdb",
                feature = "mongodb",
                feature = "bigquery",
            )))]
            _ => {
                // Only some drivers use them.
                let _unused = (settings, hosts, folder, token_url, secret, look);
                Err(SourceError::no_driver(kind))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rejoin_integrations::data_sources::{Limits, Settings};

    use super::*;

    #[test]
    fn opening_a_kind_without_its_driver_names_the_feature() {
        let drivers = Drivers::new(&SourceArgs::default());
        let look = Bounds {
            timeout: Duration::from_secs(1),
            max_rows: 1,
            max_bytes: 1,
            max_bytes_billed: 0,
        };
        for (kind, is_built) in [
            (Kind::Postgresql, cfg!(feature = "postgresql")),
            (Kind::Mysql, cfg!(feature = "mysql")),
            (Kind::Sqlite, cfg!(feature = "sqlite")),
            (Kind::Duckdb, cfg!(feature = "duckdb")),
            (Kind::Mongodb, cfg!(feature = "mongodb")),
            (Kind::Bigquery, cfg!(feature = "bigquery")),
        ] {
            let content = Content {
                name: "shop".to_owned(),
                kind,
                settings: Settings::default(),
                limits: Limits::default(),
                read_only: true,
            };
            let fault = drivers.open(Uuid::now_v7(), &content, None, look).err();
            let name = kind.as_str();
            let missing = format!("this build has no driver for {name}; build with the feature `{name}`");
            assert_eq!(
                fault,
                (!is_built).then_some(SourceError::Unconfigured(missing)),
                "{kind:?}"
            );
        }
    }
}
