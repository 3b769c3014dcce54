//! The plan of a turn and its operations, folded from their events, so that a late reader sees the same as others.

use serde_json::{Value, json};

use rejoin_types::events::PLAN_TOOL;
use rejoin_types::events::{Kind, Operation, ToolStatus};

/// Maximum number of operations in a snapshot, newest first.
const OPERATIONS_MAX: usize = 100;

/// Applies an event to the newest plan of a turn.
pub fn apply(plan: &mut Option<Value>, kind: &Kind) {
    match kind {
        Kind::PlanCreated { plan: made } => *plan = Some(made.clone()),
        Kind::PlanReadyForReview {
            plan: update,
            summary,
            recommendations,
        } => merge(
            plan,
            update,
            json!({"summary": summary, "recommendations": recommendations}),
        ),
        Kind::PlanReview {
            plan: update,
            verdict,
            notes,
            reviewer,
        } => {
            let status = if verdict == "approved" { "executing" } else { "failed" };
            let review = json!({"status": status, "verdict": verdict, "notes": notes, "reviewer": reviewer});
            merge(plan, update, review);
        }
        Kind::StepStart { step } => {
            if let Some(stored) = step_of(plan, &step["planId"], &step["stepNumber"]) {
                // Results of an earlier attempt are void.
                stored.as_object_mut().map(|step| step.remove("result"));
                stored.as_object_mut().map(|step| step.remove("error"));
                set(stored, step);
                set(
                    plan.as_mut().unwrap_or(&mut Value::Null),
                    &json!({"status": "executing"}),
                );
            }
        }
        Kind::StepComplete { step } => {
            if let Some(stored) = step_of(plan, &step["planId"], &step["stepNumber"]) {
                set(stored, step);
            }
        }
        Kind::ExecutorSpawned { executor_id, task } => {
            if let Some(stored) = step_of(plan, &task["planId"], &task["stepNumber"]) {
                set(stored, &json!({"executorId": executor_id}));
            }
        }
        // No separate event announces the end of a plan: the answer to its call does.
        Kind::McpTool {
            tool,
            status: ToolStatus::Completed,
            result: Some(result),
            ..
        } if tool == PLAN_TOOL => {
            if let (Some(plan), Some(status)) = (plan, result["status"].as_str()) {
                plan["status"] = status.into();
            }
        }
        _ => {}
    }
}

/// Merges a plan from an event with what is already known of it.
fn merge(plan: &mut Option<Value>, update: &Value, review: Value) {
    let mut merged = plan
        .take()
        .filter(|known| known["id"] == update["id"])
        .unwrap_or_else(|| json!({}));
    set(&mut merged, update);
    set(&mut merged, &review);
    *plan = Some(merged);
}

fn step_of<'a>(plan: &'a mut Option<Value>, plan_id: &Value, number: &Value) -> Option<&'a mut Value> {
    let plan = plan.as_mut().filter(|plan| plan["id"] == *plan_id)?;
    let steps = plan["steps"].as_array_mut()?;
    steps.iter_mut().find(|step| step["stepNumber"] == *number)
}

/// Sets the given fields that are not null.
fn set(into: &mut Value, fields: &Value) {
    let (Some(into), Some(fields)) = (into.as_object_mut(), fields.as_object()) else {
        return;
    };
    let given = fields
        .iter()
        .filter(|(name, value)| !value.is_null() && *name != "planId");
    into.extend(given.map(|(name, value)| (name.clone(), value.clone())));
}

/// Applies an operation's event: it begins or ends.
pub fn upsert_operation(operations: &mut Vec<Operation>, update: Operation) {
    let begun = operations.iter_mut().find(|one| {
        update.status != "start"
            && one.status == "start"
            && (&one.action, &one.entity_type, &one.entity_name)
                == (&update.action, &update.entity_type, &update.entity_name)
    });
    match begun {
        Some(begun) => *begun = update,
        None => operations.push(update),
    }
    if operations.len() > OPERATIONS_MAX {
        operations.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_described_as_its_events_leave_it() {
        let mut plan = None;
        let made = json!({"id": "p", "status": "pending_review", "steps": [{"stepNumber": 1, "status": "pending"}, {"stepNumber": 2, "status": "pending"}]});
        let step = |number: i32, status: &str, rest: Value| {
            let mut step = json!({"planId": "p", "stepNumber": number, "status": status});
            set(&mut step, &rest);
            step
        };
        let executor_id = uuid::Uuid::nil();
        for kind in [
            Kind::PlanCreated { plan: made.clone() },
            Kind::PlanReadyForReview {
                plan: made.clone(),
                summary: Some("two".into()),
                recommendations: None,
            },
            Kind::PlanReview {
                plan: made,
                verdict: "approved".into(),
                notes: None,
                reviewer: Some("user".into()),
            },
            Kind::StepStart {
                step: step(1, "executing", json!({"attempt": 1})),
            },
            Kind::ExecutorSpawned {
                executor_id,
                task: json!({"planId": "p", "stepNumber": 1}),
            },
            Kind::StepComplete {
                step: step(1, "failed", json!({"error": "no"})),
            },
            Kind::StepStart {
                step: step(1, "executing", json!({"attempt": 2})),
            },
            // Belongs to a plan that was replaced.
            Kind::StepComplete {
                step: json!({"planId": "q", "stepNumber": 2, "status": "completed"}),
            },
        ] {
            apply(&mut plan, &kind);
        }
        assert_eq!(
            plan.unwrap(),
            json!({
                "id": "p", "status": "executing", "summary": "two", "verdict": "approved", "reviewer": "user",
                "steps": [
                    {"stepNumber": 1, "status": "executing", "attempt": 2, "executorId": executor_id},
                    {"stepNumber": 2, "status": "pending"},
                ],
            })
        );
    }

    #[test]
    fn an_operation_is_listed_once_and_the_newest_are_kept() {
        let operation = |name: &str, status: &str| Operation {
            action: "create".into(),
            entity_type: "task".into(),
            entity_name: name.into(),
            status: status.into(),
            entity_id: None,
        };
        let mut operations = Vec::new();
        for (name, status) in [("a", "start"), ("b", "start"), ("a", "success"), ("a", "start")] {
            upsert_operation(&mut operations, operation(name, status));
        }
        let statuses: Vec<(&str, &str)> = operations
            .iter()
            .map(|one| (one.entity_name.as_str(), one.status.as_str()))
            .collect();
        assert_eq!(statuses, [("a", "success"), ("b", "start"), ("a", "start")]);
        for n in 0..=OPERATIONS_MAX {
            upsert_operation(&mut operations, operation(&n.to_string(), "start"));
        }
        assert_eq!(operations.len(), OPERATIONS_MAX);
        assert_eq!(operations.last().unwrap().entity_name, OPERATIONS_MAX.to_string());
    }
}
