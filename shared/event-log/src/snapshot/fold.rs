//! Folds the events of the running turn.

use rejoin_types::events::{Event, Kind};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Turn, TurnAgent, TurnToolCall, plan};

/// The length in UTF-16 code units, as browsers count it.
fn length(text: &str) -> usize {
    text.encode_utf16().count()
}

/// Folds events into a turn, as a client that applies resets does.
pub(super) fn fold(run_id: Uuid, events: impl Iterator<Item = (i64, Event, String)>) -> Turn {
    let mut kept: Vec<(i64, Event, String)> = Vec::new();
    for (seq, event, data) in events {
        if let Kind::Reset { discard_after, .. } = event.kind {
            kept.retain(|(earlier, of, _)| *earlier <= discard_after || of.run_id != event.run_id);
        }
        kept.push((seq, event, data));
    }
    let mut turn = Turn {
        run_id,
        ..Turn::default()
    };
    for (_, event, data) in kept {
        let is_own = event.run_id == Some(run_id);
        plan::apply(&mut turn.plan, &event.kind);
        match event.kind {
            Kind::SubAgent { status, task, .. } => {
                if let Some(run_id) = event.run_id {
                    let after_text = match turn.agent_of(event.parent_run_id) {
                        Some(parent) => length(&parent.text),
                        None => length(&turn.text),
                    };
                    turn.agent(TurnAgent {
                        run_id,
                        parent_run_id: event.parent_run_id,
                        agent: event.agent,
                        source: event.source,
                        step_number: event.step_number,
                        status,
                        task,
                        text: String::new(),
                        tool_calls: Vec::new(),
                        after_text,
                    });
                }
            }
            Kind::Operation { operation } => plan::upsert_operation(&mut turn.operations, operation),
            Kind::ContextUsage { usage } if is_own => turn.context_usage = Some(usage),
            Kind::Question { .. } => turn.questions.extend(serde_json::from_str::<Value>(&data)),
            Kind::QuestionAnswered { question_id, .. } => {
                let id = question_id.to_string();
                turn.questions.retain(|question| question["questionId"] != id.as_str());
            }
            Kind::Token { token } if !is_own => {
                if let Some(agent) = turn.agent_of(event.run_id) {
                    agent.text.push_str(&token);
                }
            }
            Kind::Meta { .. } if is_own => {
                // A resumed run begins a new turn.
                turn = Turn {
                    run_id,
                    meta: serde_json::from_str(&data).ok(),
                    ..Turn::default()
                };
            }
            Kind::Handoff {
                to,
                agent_definition_id,
                ..
            } if is_own => {
                if let Some(meta) = &mut turn.meta {
                    meta["agent"] = to.into();
                    meta["agentDefinitionId"] = json!(agent_definition_id);
                }
            }
            Kind::Token { token } => turn.text.push_str(&token),
            Kind::Reasoning { text } if is_own => turn.reasoning.push_str(&text),
            Kind::McpTool {
                call_id,
                tool,
                status,
                input,
                result,
                error,
                ..
            } => {
                let (text, calls) = match turn.agents.iter_mut().find(|agent| Some(agent.run_id) == event.run_id) {
                    Some(agent) => (&agent.text, &mut agent.tool_calls),
                    None => (&turn.text, &mut turn.tool_calls),
                };
                match calls.iter_mut().find(|call| call.call_id == call_id) {
                    Some(call) => {
                        call.status = status;
                        call.result = result;
                        call.error = error;
                    }
                    None => calls.push(TurnToolCall {
                        call_id,
                        tool,
                        status,
                        input,
                        result,
                        error,
                        after_text: length(text),
                    }),
                }
            }
            Kind::Meta { .. }
            | Kind::Reasoning { .. }
            | Kind::Message { .. }
            | Kind::Reset { .. }
            | Kind::AgentState { .. }
            | Kind::Usage { .. }
            | Kind::Handoff { .. }
            | Kind::ConsoleCreation { .. }
            | Kind::ConsoleModification { .. }
            | Kind::Telemetry { .. }
            | Kind::ContextUsage { .. }
            | Kind::FocusActive { .. }
            | Kind::FocusChanged { .. }
            | Kind::LastTurnContext { .. }
            | Kind::ContextShift { .. }
            | Kind::PlanCreated { .. }
            | Kind::PlanReadyForReview { .. }
            | Kind::PlanReview { .. }
            | Kind::StepStart { .. }
            | Kind::StepComplete { .. }
            | Kind::ExecutorSpawned { .. }
            | Kind::ExecutorResult { .. }
            | Kind::ClarifyingQuestions { .. }
            | Kind::DebugContext { .. }
            | Kind::Limit { .. }
            | Kind::Output { .. }
            | Kind::Custom { .. }
            | Kind::Error { .. }
            | Kind::Done { .. }
            | Kind::Unknown => {}
        }
    }
    turn
}
