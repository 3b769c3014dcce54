//! stub
pub mod model_server;
