//! Webhooks: events of a workspace, signed as [Standard Webhooks](https://www.standardwebhooks.com/) specifies, and sent to URLs that the
//! workspace's admins name. And push notifications of A2A: the states of a task, sent to a URL that its client names.
//!
//! # Layout
//! - `settings`   settings, and what a process sends and seals with
//! - `endpoints`  rows of `kb.webhook_endpoints` that belong to a workspace
//! - `configs`    those that belong to a run: push notification configs
//! - `deliveries` rows of `kb.webhook_deliveries`; triggers of the database add them (`migrations/0015_webhooks.up.sql`, `0028_…`)
//! - `notification` the request of a config's delivery
//! - `signature`  secrets and signatures
//! - `attempt`    the result of an attempt, and what follows from it
//! - `slots`      bounds concurrent deliveries of a process
//! - `send`       the job that sends one delivery
//! - `extension`  the job and the sweep, as an extension
//! - `routes`     HTTP endpoints
//!
//! Invariants: a delivery is committed with its event and sent at least once, always under the same `webhook-id`; an endpoint gets the events
//! of one conversation in their order; a delivery that is given up stays visible as a dead letter.

pub mod attempt;
pub mod configs;
pub mod deliveries;
pub mod endpoints;
pub mod extension;
mod notification;
pub mod routes;
pub mod send;
pub mod settings;
pub mod signature;
mod slots;

pub use settings::{WebhookArgs, Webhooks};
