//! Records callers' changes in the audit log of their workspace. Called by the handlers of audited changes.

use rejoin_identity::audit::{self, Action, Actor, NewEntry};
use serde_json::Value;
use sqlx::PgConnection;

use crate::caller::Caller;
use crate::problem::Problem;

/// Appends a caller's change in their workspace to the audit log: names and ids, never texts. The last statement before
/// the commit. Rate-limited per user.
pub async fn record(
    db: &mut PgConnection,
    caller: &Caller,
    action: Action,
    target: String,
    detail: Value,
) -> Result<(), Problem> {
    caller.counts_audited()?;
    record_counted(db, caller, action, target, detail).await
}

/// The same for changes that were counted before, since they can't be undone.
pub async fn record_counted(
    db: &mut PgConnection,
    caller: &Caller,
    action: Action,
    target: String,
    detail: Value,
) -> Result<(), Problem> {
    let entry = NewEntry {
        by: &Actor::caller(caller),
        workspace_id: Some(caller.workspace_id),
        action,
        target,
        detail,
    };
    audit::append(db, &entry).await?;
    Ok(())
}
