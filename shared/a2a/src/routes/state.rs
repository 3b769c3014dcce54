//! The state of the handlers. Cheap to clone.

use std::ops::Deref;
use std::sync::Arc;

use rejoin_chat::ChatState;
use rejoin_http::{HttpState, authorization, rejoin_db::Db};

use crate::push::PushConfigs;

/// What the handlers share.
#[derive(Clone)]
pub struct A2aState {
    pub chat: ChatState,
    /// The push notification configs of tasks.
    pub push: Arc<dyn PushConfigs>,
    /// The path of the MCP server, which the agent card names.
    pub mcp_path: &'static str,
}

impl Deref for A2aState {
    type Target = ChatState;

    fn deref(&self) -> &ChatState {
        &self.chat
    }
}

impl AsRef<HttpState> for A2aState {
    fn as_ref(&self) -> &HttpState {
        &self.chat.http
    }
}

impl AsRef<Db> for A2aState {
    fn as_ref(&self) -> &Db {
        &self.chat.http.db
    }
}

/// Routes with this state.
pub type Routes = authorization::Routes<A2aState>;
