//! Makers: the users on whose behalf runs, task DAGs and schedules work, and their current rights. Checked wherever
//! work starts long after it was requested: when a schedule fires, a task is dispatched, or a run is claimed.
//!
//! Invariant: work never exceeds what its user's role in the workspace allows at that moment.

use sqlx::PgExecutor;
use uuid::Uuid;

use crate::workspaces::Role;
use rejoin_types::access::Scope;

/// A maker's current rights in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Membership {
    /// No maker, as for a product's job, installed by a user who may configure agents.
    NoInitiator,
    Member(Role),
    Left,
}

/// The reason why a maker's rights are withdrawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Revoked {
    #[error("the user who started this is no longer a member of the project; ask a member to start it again")]
    Left,
    #[error(
        "the user who started this may no longer write in the project (role: {}); ask a member with write access to \
        start it again",
        .0.as_str()
    )]
    MayNotWrite(Role),
}

impl Revoked {
    /// The stable code for clients.
    pub fn code(self) -> &'static str {
        match self {
            Revoked::Left => "maker_left",
            Revoked::MayNotWrite(_) => "maker_may_not_write",
        }
    }
}

impl Membership {
    /// Returns the rights of a maker with this stored role; none: no member.
    pub fn of(initiator: Option<Uuid>, role: Option<&str>) -> Self {
        match (initiator, role) {
            (None, _) => Membership::NoInitiator,
            (Some(_), None) => Membership::Left,
            (Some(_), Some(role)) => Membership::Member(Role::stored(role)),
        }
    }

    /// Returns why nothing may be started on the maker's behalf. None: it may.
    pub fn revoked(self) -> Option<Revoked> {
        match self {
            Membership::NoInitiator => None,
            Membership::Left => Some(Revoked::Left),
            Membership::Member(role) if role.allows(&[Scope::Write]) => None,
            Membership::Member(role) => Some(Revoked::MayNotWrite(role)),
        }
    }

    /// Returns whether the maker may use internal agents: users who may configure agents can.
    pub fn reaches_internal_agents(self) -> bool {
        match self {
            Membership::NoInitiator => true,
            Membership::Member(role) => role.allows(&[Scope::Admin]),
            Membership::Left => false,
        }
    }
}

/// Returns a maker's current rights. On behalf of an API caller, in the caller's workspace only.
pub async fn membership(
    db: impl PgExecutor<'_>,
    workspace_id: Uuid,
    initiator: Option<Uuid>,
) -> Result<Membership, sqlx::Error> {
    let Some(user_id) = initiator else {
        return Ok(Membership::NoInitiator);
    };
    let role = sqlx::query_scalar!("select kb.member_role($1, $2)", workspace_id, user_id)
        .fetch_one(db)
        .await?;
    Ok(Membership::of(initiator, role.as_deref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_start_work_and_admins_reach_internal_agents() {
        let rights = |membership: Membership| (membership.revoked(), membership.reaches_internal_agents());
        assert_eq!(rights(Membership::NoInitiator), (None, true));
        assert_eq!(rights(Membership::Left), (Some(Revoked::Left), false));
        assert_eq!(Revoked::Left.code(), "maker_left");
        assert_eq!(Revoked::MayNotWrite(Role::Viewer).code(), "maker_may_not_write");
        for role in Role::ALL {
            let refused = Some(Revoked::MayNotWrite(role));
            let expected = match role {
                Role::Owner => (None, true),
                Role::Member | Role::Service => (None, false),
                Role::Viewer => (refused, false),
                Role::Operator => (refused, true),
            };
            assert_eq!(rights(Membership::Member(role)), expected, "{role:?}");
        }
    }
}
