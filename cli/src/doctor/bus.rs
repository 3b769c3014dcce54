//! Checks that wake-ups arrive over NATS, if they are sent over it (`REJOIN_BUS=nats`).

use clap::Parser;
use rejoin_db::config::{BusKind, DatabaseArgs};
use rejoin_event_log::wakeup::nats::{self, CheckError};

use super::{ANSWER_LIMIT, Check, Finding, good, lacking};

#[derive(Parser)]
struct Settings {
    #[command(flatten)]
    database: DatabaseArgs,
}

/// None: another bus is configured.
pub(super) async fn finding() -> Option<Finding> {
    let args = match Settings::try_parse_from(["rejoin", "--database-url", "postgres://"]) {
        Ok(settings) => settings.database,
        Err(error) => {
            let found = format!("reading the settings of the wake-up bus failed: {error}");
            return Some(lacking(Check::Bus, true, found.trim(), "see docs/operations/bus.md"));
        }
    };
    if args.bus != BusKind::Nats {
        return None;
    }
    let subject = format!("{}.hints", args.nats.nats_subject);
    let rights = format!("check that its user may publish to {subject} and subscribe to it, and the firewall");
    let checked = tokio::time::timeout(ANSWER_LIMIT, nats::check(&args.nats)).await;
    Some(match checked {
        Ok(Ok(addresses)) => good(Check::Bus, format!("wake-ups arrive over NATS: {addresses}")),
        Ok(Err(error)) => {
            let todo = match &error {
                CheckError::Settings(_) => "see docs/operations/bus.md",
                CheckError::Connect { .. } => "check REJOIN_NATS_URL, the credentials, the server and the firewall",
                CheckError::Closed { .. } => rights.as_str(),
            };
            let found = format!("wake-ups do not arrive over NATS: {:#}", anyhow::Error::new(error));
            lacking(Check::Bus, true, found, todo)
        }
        Err(_) => {
            let found = format!("no message to {subject} arrived over NATS within {ANSWER_LIMIT:?}");
            lacking(Check::Bus, true, found, rights)
        }
    })
}
