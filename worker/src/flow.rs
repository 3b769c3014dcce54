//! Flows over sub-agents: `sequential`, `loop`, `parallel` and `discussion` definitions. A flow replaces the language
//! model and calls `spawn_agents`, so that starting, waiting, resuming and cancelling work as for every other agent. The
//! flow `function` calls a tool of a user's program, whose result is the answer.
//!
//! The next call follows from the messages alone; after a crash the same call is made.

mod discussion;
mod function;

use async_trait::async_trait;
use futures::StreamExt as _;
use rejoin_model_client::{Chunk, Finish, Message, ModelError, ModelRequest, ModelStream, Provider, ToolCall, Usage};
use rejoin_runs::agents::settings::{Flow, LOOP_ITERATIONS, Settings};
use rejoin_runs::agents::{AgentDefinition, FUNCTION};
use rejoin_tools::SharedTool;
use serde_json::{Value, json};

use crate::coordination::{self, SPAWN_AGENTS, deliberation};

/// The `flow_type` that calls a language model.
const SINGLE: &str = "single";

/// The order of a flow's agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// Each receives the previous one's result.
    Sequential,
    /// Repeats until the last agent's answer contains the exit word, or the rounds are used up.
    Loop,
    /// All at once.
    Parallel,
    /// All propose, discuss and vote: `discussion`.
    Discussion,
    /// None: a user's program executes the turn (`function`).
    Function,
}

/// The flow of one definition, in place of a model.
#[derive(Debug)]
pub struct FlowModel {
    order: Order,
    flow: Flow,
}

impl FlowModel {
    /// None: the definition uses a language model.
    pub fn of(definition: &AgentDefinition) -> Option<Self> {
        let order = match definition.flow_type.as_str() {
            SINGLE => return None,
            "loop" => Order::Loop,
            "parallel" => Order::Parallel,
            "discussion" => Order::Discussion,
            FUNCTION => Order::Function,
            _ => Order::Sequential,
        };
        // Validated when it was stored.
        let flow = Settings::of(&definition.config).unwrap_or_default().flow;
        Some(Self { order, flow })
    }

    /// Returns its name in `meta`.
    pub fn name(&self) -> String {
        let order = match self.order {
            Order::Sequential => "sequential",
            Order::Loop => "loop",
            Order::Parallel => "parallel",
            Order::Discussion => "discussion",
            Order::Function => FUNCTION,
        };
        format!("flow:{order}")
    }

    /// Returns the name of the program's tool that it calls.
    pub fn program_tool(&self) -> Option<&str> {
        self.flow.tool.as_deref().filter(|_| self.order == Order::Function)
    }

    /// Returns the coordination tools that it calls.
    pub fn tools(&self) -> Vec<SharedTool> {
        match self.order {
            Order::Function => Vec::new(),
            Order::Sequential | Order::Loop | Order::Parallel => vec![coordination::spawn_agents()],
            Order::Discussion => vec![
                coordination::spawn_agents(),
                coordination::ask_user(),
                deliberation::note_discussion(),
            ],
        }
    }

    /// Returns the maximum number of sequentially started agents.
    fn turns(&self) -> usize {
        match self.order {
            Order::Parallel | Order::Discussion | Order::Function => 1,
            Order::Sequential => self.flow.agents.len(),
            Order::Loop => {
                let rounds = self.flow.max_iterations.unwrap_or(LOOP_ITERATIONS);
                self.flow.agents.len() * usize::try_from(rounds).unwrap_or(usize::MAX)
            }
        }
    }

    fn next(&self, request: &ModelRequest) -> Result<NextAction, ModelError> {
        if self.order == Order::Function {
            return function::next(self.flow.tool.as_deref().unwrap_or_default(), request);
        }
        if self.flow.agents.is_empty() {
            return Err(refused(
                "flow_empty",
                "this agent's workflow has no agents; set config.flow.agents".to_owned(),
            ));
        }
        let task = request.messages.iter().find_map(|message| match message {
            Message::User { text, .. } => Some(text.as_str()),
            Message::Assistant { .. } | Message::ToolResult { .. } => None,
        });
        let task = task.unwrap_or_default();
        if self.order == Order::Discussion {
            return discussion::next(&self.flow, task, request);
        }
        let mut found = Vec::new();
        for message in &request.messages {
            if let Message::ToolResult { content, is_error, .. } = message {
                found.push(CallResults::read(content, *is_error)?);
            }
        }
        if request.tools.is_empty() {
            // Asked to stop.
            return Ok(NextAction::Answer(
                found.last().map(CallResults::text).unwrap_or_default(),
            ));
        }
        if let Some(failed) = found
            .iter()
            .flat_map(|found| &found.results)
            .find(|result| !result.is_completed)
        {
            return Err(refused(
                "sub_agent_failed",
                format!(
                    "the agent {} of this workflow ended as {}: {}",
                    failed.agent, failed.status, failed.error
                ),
            ));
        }
        let is_over = self.order == Order::Loop
            && found.len().is_multiple_of(self.flow.agents.len())
            && self
                .flow
                .exit_when
                .as_ref()
                .is_some_and(|word| found.last().is_some_and(|last| last.text().contains(word)));
        if found.len() >= self.turns() || is_over {
            return Ok(NextAction::Answer(
                found.last().map(CallResults::text).unwrap_or_default(),
            ));
        }
        let agents: Vec<Value> = match self.order {
            Order::Parallel | Order::Discussion | Order::Function => self
                .flow
                .agents
                .iter()
                .map(|agent| json!({"agent_name": agent, "task": task}))
                .collect(),
            Order::Sequential | Order::Loop => {
                let agent = &self.flow.agents[found.len() % self.flow.agents.len()];
                let task = match found.last().and_then(|last| last.results.last()) {
                    None => task.to_owned(),
                    Some(before) => format!(
                        "{task}\n\nResult of the previous agent {}:\n{}",
                        before.agent, before.summary
                    ),
                };
                vec![json!({"agent_name": agent, "task": task})]
            }
        };
        Ok(NextAction::Calls(vec![ToolCall {
            id: format!("flow_{}", found.len() + 1),
            name: SPAWN_AGENTS.to_owned(),
            arguments: json!({ "agents": agents }),
        }]))
    }
}

enum NextAction {
    Calls(Vec<ToolCall>),
    Answer(String),
}

/// The result of one call.
struct CallResults {
    results: Vec<AgentResult>,
}

struct AgentResult {
    agent: String,
    status: String,
    is_completed: bool,
    summary: String,
    error: String,
}

impl CallResults {
    fn read(content: &str, is_error: bool) -> Result<Self, ModelError> {
        if is_error {
            return Err(refused("sub_agent_failed", content.to_owned()));
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let content: Value = serde_json::from_str(content).unwrap_or_default();
        let results = content["results"].as_array().into_iter().flatten();
        Ok(Self {
            results: results
                .map(|result| AgentResult {
                    agent: text(&result["agent_name"]),
                    is_completed: result["status"] == "completed",
                    status: text(&result["status"]),
                    summary: text(&result["summary"]),
                    error: text(&result["error"]),
                })
                .collect(),
        })
    }

    /// Returns the answer.
    fn text(&self) -> String {
        match self.results.as_slice() {
            [one] => one.summary.clone(),
            several => several
                .iter()
                .map(|result| format!("{}:\n{}", result.agent, result.summary))
                .collect::<Vec<_>>()
                .join("\n\n"),
        }
    }
}

fn refused(code: &'static str, message: String) -> ModelError {
    ModelError {
        code,
        message,
        retryable: false,
        retry_after: None,
    }
}

#[async_trait]
impl Provider for FlowModel {
    async fn stream(&self, request: ModelRequest) -> Result<ModelStream, ModelError> {
        let (chunks, finish) = match self.next(&request)? {
            NextAction::Answer(text) => (vec![Chunk::Text(text)], Finish::Stop),
            NextAction::Calls(calls) => (calls.into_iter().map(Chunk::ToolCall).collect(), Finish::ToolCalls),
        };
        let end = Chunk::End {
            usage: Usage::default(),
            finish,
            reasoning: None,
        };
        Ok(futures::stream::iter(chunks.into_iter().chain([end]).map(Ok)).boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(order: Order, flow: Value) -> FlowModel {
        let settings = Settings::of(&json!({ "flow": flow })).unwrap();
        FlowModel {
            order,
            flow: settings.flow,
        }
    }

    /// Returns a flow's next action after these summaries, one per call.
    fn after(model: &FlowModel, summaries: &[&str]) -> Result<NextAction, ModelError> {
        let mut messages = vec![Message::user("go")];
        for summary in summaries {
            let result =
                json!({"results": [{"agent_name": "x", "status": "completed", "summary": summary, "steps": 1}]});
            messages.push(Message::ToolResult {
                call_id: "c".to_owned(),
                tool: SPAWN_AGENTS.to_owned(),
                content: result.to_string(),
                is_error: false,
                attachments: Vec::new(),
            });
        }
        model.next(&ModelRequest {
            messages,
            tools: vec![coordination::spawn_agents().spec().clone()],
            ..ModelRequest::default()
        })
    }

    fn spawned(next: Result<NextAction, ModelError>) -> Vec<String> {
        match next {
            Ok(NextAction::Calls(calls)) => calls[0].arguments["agents"]
                .as_array()
                .unwrap()
                .iter()
                .map(|agent| agent["agent_name"].as_str().unwrap().to_owned())
                .collect(),
            Ok(NextAction::Answer(_)) | Err(_) => vec![],
        }
    }

    fn answer(next: Result<NextAction, ModelError>) -> Option<String> {
        match next {
            Ok(NextAction::Answer(text)) => Some(text),
            Ok(NextAction::Calls(_)) | Err(_) => None,
        }
    }

    #[test]
    fn a_sequence_runs_each_agent_once_and_answers_with_the_last() {
        let model = flow(Order::Sequential, json!({"agents": ["a", "b"]}));
        assert_eq!(spawned(after(&model, &[])), ["a"]);
        assert_eq!(spawned(after(&model, &["1"])), ["b"]);
        assert_eq!(answer(after(&model, &["1", "2"])).as_deref(), Some("2"));
    }

    #[test]
    fn a_loop_ends_with_its_exit_word_or_its_rounds() {
        let model = flow(
            Order::Loop,
            json!({"agents": ["a", "b"], "maxIterations": 2, "exitWhen": "GOOD"}),
        );
        assert_eq!(spawned(after(&model, &["GOOD"])), ["b"], "a round is not cut short");
        assert_eq!(answer(after(&model, &["draft", "GOOD"])).as_deref(), Some("GOOD"));
        assert_eq!(spawned(after(&model, &["draft", "bad"])), ["a"]);
        assert_eq!(answer(after(&model, &["1", "2", "3", "4"])).as_deref(), Some("4"));
    }

    #[test]
    fn a_parallel_flow_starts_all_at_once() {
        let model = flow(Order::Parallel, json!({"agents": ["a", "b", "c"]}));
        assert_eq!(spawned(after(&model, &[])), ["a", "b", "c"]);
        assert!(answer(after(&model, &["1"])).is_some());
    }
}
