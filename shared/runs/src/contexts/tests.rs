//! Shipped context types, the merging of contexts, and how a focus is read.

use super::*;

fn focus(name: &str) -> Focus {
    Focus {
        project_id: Uuid::from_u128(name.len() as u128),
        project_name: name.to_owned(),
        focus_type: None,
        focus_entity_id: None,
    }
}

fn patch(context_type: Option<&str>, focus: Option<Focus>) -> ContextPatch {
    ContextPatch {
        context_type: context_type.map(|text| ContextType::named(text).unwrap()),
        focus,
    }
}

/// Requirements: E33.
#[test]
fn every_type_is_shipped_with_a_prompt_and_tools() {
    for one in ContextType::ALL {
        let settings = shipped(one);
        assert!(!settings.prompt.is_empty() && !settings.tools.is_empty(), "{one:?}");
        assert_eq!(one.as_str().parse(), Ok(one));
        assert_eq!(json!(one), json!(one.as_str()));
    }
    assert!(
        ContextType::named("elsewhere")
            .unwrap_err()
            .contains("daily_brief_update")
    );
}

/// Requirements: E34.
#[test]
fn general_is_global() {
    assert_eq!("general".parse(), Ok(ContextType::Global));
    assert_eq!(
        serde_json::from_value::<ContextType>(json!("general")).unwrap(),
        ContextType::Global
    );
}

/// Requirements: E36, E62.
#[test]
fn what_a_message_says_wins_and_what_it_leaves_out_is_as_it_was() {
    assert_eq!(ContextPatch::default().apply_to(None), None);
    let in_workspace = patch(Some("project"), Some(focus("a"))).apply_to(None).unwrap();
    assert_eq!(
        ContextPatch::default().apply_to(Some(in_workspace.clone())),
        Some(in_workspace.clone())
    );
    let audit = patch(Some("project_audit"), None)
        .apply_to(Some(in_workspace.clone()))
        .unwrap();
    assert_eq!(audit.focus, Some(focus("a")), "another type, the same project");
    let elsewhere = patch(None, Some(focus("bb"))).apply_to(Some(audit)).unwrap();
    assert_eq!(elsewhere.context_type, ContextType::ProjectAudit);
    assert_eq!(elsewhere.focus, Some(focus("bb")));
    let out = patch(Some("general"), None).apply_to(Some(elsewhere)).unwrap();
    assert_eq!(
        out,
        Context {
            context_type: ContextType::Global,
            focus: None
        }
    );
    assert_eq!(
        patch(None, Some(focus("a"))).apply_to(Some(out)).unwrap().context_type,
        ContextType::Project
    );
}

/// Requirements: E37.
#[test]
fn a_focus_is_read_in_both_spellings_and_nothing_else() {
    let id = Uuid::from_u128(7);
    let read = |value: Value| ContextPatch::of(None, Some(&value)).map(|patch| patch.focus.unwrap());
    let spelt = read(json!({"projectId": id, "projectName": "P", "focusType": "task", "focusEntityId": id})).unwrap();
    assert_eq!(
        read(json!({"project_id": id, "project_name": "P", "focus_type": "task", "focus_entity_id": id})),
        Ok(spelt)
    );
    assert!(read(json!({"projectId": "no id"})).is_err());
    assert!(read(json!({"projectId": id, "more": 1})).is_err());
}

/// Requirements: E13.
#[test]
fn fullness_is_shown_with_its_limits() {
    let status = |tokens| usage(tokens, None)["status"].as_str().unwrap().to_owned();
    assert_eq!(
        [status(0), status(2_100), status(2_126), status(2_500)],
        ["ok", "ok", "near_limit", "near_limit"].map(str::to_owned)
    );
    let over = usage(1_000_000, None);
    assert_eq!(
        (&over["status"], &over["usagePercent"], &over["tokensRemaining"]),
        (&json!("over_budget"), &json!(999), &json!(0))
    );
}
