//! Rights of callers, their expiry, and the choice of a workspace.

use super::*;

fn at(s: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(s, 0).expect("a moment")
}

#[test]
fn a_token_is_good_until_it_expires() {
    let now = at(100);
    assert_eq!(Expiry::of(at(99), now), None);
    assert_eq!(Expiry::of(now, now), None, "it expires now");
    let later = Expiry::of(at(160), now).expect("a minute is left");
    assert_eq!(later.at, at(160));
    assert!(!later.has_passed());
    let passed = Expiry {
        at: now,
        instant: Instant::now(),
    };
    assert!(passed.has_passed());
    let far = Expiry::of(DateTime::<Utc>::MAX_UTC, now).expect("as long as clocks count");
    assert!(!far.has_passed());

    let id = Uuid::now_v7();
    let described = |credential: Credential| (credential.key_id(), credential.expiry(), credential.has_expired());
    assert_eq!(described(Credential::Key(id)), (Some(id), None, false));
    assert_eq!(described(Credential::Token(later)), (None, Some(later), false));
    assert_eq!(described(Credential::Token(passed)), (None, Some(passed), true));
}

#[test]
fn the_workspace_is_the_one_that_is_named_or_the_only_one() {
    let open = |ids: &[u128]| -> Vec<Membership> {
        ids.iter()
            .map(|id| Membership {
                workspace_id: Uuid::from_u128(*id),
                role: Role::Viewer,
                quota: Quota::default(),
            })
            .collect()
    };
    let chosen = |ids: &[u128], wanted: Option<u128>| {
        let open = open(ids);
        choose_workspace(&open, wanted.map(Uuid::from_u128))
            .map(|membership| membership.workspace_id.as_u128())
            .map_err(|error| error.to_string())
    };
    let (unknown, needed) = (
        AuthError::UnknownWorkspace.to_string(),
        AuthError::WorkspaceNeeded.to_string(),
    );
    assert_eq!(chosen(&[1, 2], Some(2)), Ok(2));
    assert_eq!(chosen(&[1], None), Ok(1));
    assert_eq!(chosen(&[1, 2], None), Err(needed));
    assert_eq!(chosen(&[1], Some(3)), Err(unknown.clone()));
    assert_eq!(chosen(&[], None), Err(unknown));
}

#[test]
fn a_caller_may_what_both_the_credential_and_the_role_allow() {
    let membership = Membership {
        workspace_id: Uuid::now_v7(),
        role: Role::Viewer,
        quota: Quota::default(),
    };
    let scopes = vec!["read".to_owned(), "write".to_owned()];
    let caller = Caller::new(Credential::Key(Uuid::now_v7()), Uuid::now_v7(), &membership, scopes);
    assert_eq!(Scope::ALL.map(|scope| caller.may(scope)), [true, false, false, false]);
}
