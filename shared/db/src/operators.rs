//! Connections of operators' commands and checks: as the login of the URL, without the settings of a process, by the environment's password.

use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgPoolOptions;
use sqlx::{PgConnection, PgPool};

use crate::ConnectError;
use crate::config::DatabaseArgs;
use crate::password::Password;
use crate::servers::Servers;
use crate::startup::Startup;

/// Connects to the server of a URL; of several, to the one that accepts writes.
pub async fn connect(url: &str, application: &str) -> Result<PgConnection, ConnectError> {
    let servers = servers(url)?;
    Ok(servers.connect(&Startup::of_login(application)).await?)
}

/// Returns how many servers a URL names.
pub fn servers_named(url: &str) -> Result<usize, ConnectError> {
    Ok(servers(url)?.order().len())
}

/// Creates a pool, after one connection has succeeded.
pub async fn pool(url: &str, application: &str, connections: u32, limit: Duration) -> Result<PgPool, ConnectError> {
    let (servers, startup) = (servers(url)?, Startup::of_login(application));
    if servers.are_several() {
        // Finds the server. A command ends before there is another one.
        drop(servers.connect(&startup).await?);
    }
    let password = match servers.password() {
        Some(password) => Some(Password::current(password).await?),
        None => None,
    };
    let options = servers.sqlx(servers.current(), &startup, password.as_ref());
    let pool = PgPoolOptions::new().max_connections(connections).acquire_timeout(limit);
    Ok(pool.connect_with(options).await?)
}

fn servers(url: &str) -> Result<Arc<Servers>, ConnectError> {
    Ok(Servers::of(url, &DatabaseArgs::of_environment(url))?)
}
