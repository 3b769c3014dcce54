//! The endpoints of data sources and of consoles, each with its DTOs and handlers. `api` merges them with the others.
//!
//! - `data_sources`   external databases for the workspace's users and agents
//! - `consoles`       texts that callers and agents edit together

pub mod consoles;
pub mod data_sources;

use rejoin_http::{HttpState, authorization, contains_http_state};

use crate::Sources;

/// The state of the handlers.
#[derive(Clone)]
pub struct DataSourcesState {
    pub http: HttpState,
    pub sources: Sources,
}

contains_http_state!(DataSourcesState);

/// Routes with this state.
pub type Routes = authorization::Routes<DataSourcesState>;

pub fn routes() -> Routes {
    Routes::new().merge(data_sources::routes()).merge(consoles::routes())
}
