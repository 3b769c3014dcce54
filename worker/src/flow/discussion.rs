//! The flow `discussion`: all agents propose, then discuss the proposals, then vote. A proposal with enough votes is
//! the answer; otherwise a user decides. The discussion is recorded in the knowledge graph as it proceeds.

use rejoin_model_client::{Message, ModelError, ModelRequest, ToolCall};
use rejoin_runs::agents::settings::{DISCUSSION_ROUNDS, DISCUSSION_THRESHOLD, Flow};
use rejoin_scheduling::deliberation::{Entry, EntryKind, Note, Status};
use serde_json::{Value, json};

use super::{AgentResult, CallResults, NextAction, refused};
use crate::coordination::deliberation::NOTE_DISCUSSION;
use crate::coordination::{ASK_USER, QUESTION_MAX_CHARS, SPAWN_AGENTS};

/// Maximum length of a proposal shown to a deciding user, in characters.
const SHOWN_CHARS: usize = 1_000;

/// The recorded state of a discussion, in the order of its phases: proposals, rounds of arguments, votes.
struct Discussion<'a> {
    flow: &'a Flow,
    topic: &'a str,
    phases: Vec<CallResults>,
    /// The number of recorded notes.
    notes: usize,
    /// The deciding user's answer; an inner None: no answer.
    decided: Option<Option<usize>>,
}

/// Returns the next action.
pub(super) fn next(flow: &Flow, topic: &str, request: &ModelRequest) -> Result<NextAction, ModelError> {
    if flow.agents.len() < 2 {
        let message = "a discussion needs at least two agents; set config.flow.agents".to_owned();
        return Err(refused("flow_empty", message));
    }
    let mut discussion = Discussion {
        flow,
        topic,
        phases: Vec::new(),
        notes: 0,
        decided: None,
    };
    for message in &request.messages {
        let Message::ToolResult {
            tool,
            content,
            is_error,
            ..
        } = message
        else {
            continue;
        };
        match tool.as_str() {
            SPAWN_AGENTS => discussion.phases.push(CallResults::read(content, *is_error)?),
            // The graph may have rejected it (the workspace's own rules): the discussion continues.
            NOTE_DISCUSSION => discussion.notes += 1,
            ASK_USER => discussion.decided = Some(chosen(content)),
            _ => {}
        }
    }
    if !discussion.phases.is_empty() && discussion.proposals().is_empty() {
        let message = "none of the agents made a proposal".to_owned();
        return Err(refused("sub_agent_failed", message));
    }
    if request.tools.is_empty() {
        // Asked to stop.
        return Ok(NextAction::Answer(format!(
            "The discussion did not finish.\n\n{}",
            discussion.listed()
        )));
    }
    Ok(discussion.next())
}

impl Discussion<'_> {
    fn next(&self) -> NextAction {
        let rounds = usize::try_from(self.flow.rounds.unwrap_or(DISCUSSION_ROUNDS)).unwrap_or(usize::MAX);
        let phase = self.phases.len();
        if phase == 0 {
            let others = "Several agents work on this task. Propose an answer with your reasons, in a few sentences.";
            return self.ask_all(format!("{}\n\n{others}", self.topic));
        }
        if phase <= rounds {
            return self.ask_all(format!(
                "{}\n\n{}\n\nDiscuss the proposals: which one is the best, and what is wrong with the others? You may \
                change your mind.",
                self.topic,
                self.transcript()
            ));
        }
        if phase == rounds + 1 {
            return self.ask_all(format!(
                "{}\n\n{}\n\nVote for one proposal. The first line of your answer must be its number only; you can \
                add your reason after it.",
                self.topic,
                self.transcript()
            ));
        }
        let proposals = self.proposals();
        let votes = self.votes(proposals.len());
        let settled = self.settled(&votes);
        let is_noted = self.notes > phase;
        match (settled, self.decided) {
            (Some(winner), _) if is_noted => NextAction::Answer(format!(
                "{}\n\n(Proposed by {}; {} of {} votes.)",
                proposals[winner].summary,
                proposals[winner].agent,
                votes[winner],
                self.flow.agents.len()
            )),
            (Some(winner), _) => NextAction::Calls(vec![self.note(Status::Resolved, Some(winner))]),
            (None, None) => NextAction::Calls(vec![self.note(Status::Escalated, None), self.question(&votes)]),
            (None, Some(decided)) if self.notes == phase + 1 => {
                let status = decided.map_or(Status::Abandoned, |_| Status::Resolved);
                NextAction::Calls(vec![self.note(status, decided)])
            }
            (None, Some(Some(winner))) if winner < proposals.len() => NextAction::Answer(format!(
                "{}\n\n(Proposed by {}; the agents did not agree, and a person decided.)",
                proposals[winner].summary, proposals[winner].agent
            )),
            (None, Some(_)) => NextAction::Answer(format!(
                "The agents did not agree, and no person decided.\n\n{}",
                self.listed()
            )),
        }
    }

    /// Returns the proposals.
    fn proposals(&self) -> Vec<&AgentResult> {
        let made = self.phases.first().into_iter().flat_map(|phase| &phase.results);
        made.filter(|result| result.is_completed).collect()
    }

    /// Returns each proposal's number of votes. Unreadable votes are abstentions.
    fn votes(&self, proposals: usize) -> Vec<usize> {
        let mut votes = vec![0; proposals];
        for result in self.phases.last().into_iter().flat_map(|phase| &phase.results) {
            if let Some(number) = result.is_completed.then(|| vote(&result.summary)).flatten()
                && let Some(count) = number.checked_sub(1).and_then(|nth| votes.get_mut(nth))
            {
                *count += 1;
            }
        }
        votes
    }

    /// Returns the proposal with enough votes; abstentions count against all.
    fn settled(&self, votes: &[usize]) -> Option<usize> {
        let threshold = self.flow.threshold.unwrap_or(DISCUSSION_THRESHOLD);
        let most = votes.iter().copied().max()?;
        let share = most as f64 / self.flow.agents.len() as f64;
        let mut best = (0..votes.len()).filter(|nth| votes[*nth] == most);
        match (best.next(), best.next()) {
            // A share of 0.7 of 10 votes is 7, despite floating-point errors.
            (Some(winner), None) if share + 1e-9 >= threshold => Some(winner),
            _ => None,
        }
    }

    /// Lists the proposals, by number.
    fn listed(&self) -> String {
        let lines: Vec<String> = self
            .proposals()
            .iter()
            .enumerate()
            .map(|(nth, proposal)| format!("Proposal {} (by {}):\n{}", nth + 1, proposal.agent, proposal.summary))
            .collect();
        lines.join("\n\n")
    }

    /// Lists the proposals and arguments so far.
    fn transcript(&self) -> String {
        let mut said = self.listed();
        for argument in self.phases.iter().skip(1).flat_map(|phase| &phase.results) {
            if argument.is_completed {
                said += &format!("\n\n{} argued:\n{}", argument.agent, argument.summary);
            }
        }
        said
    }

    /// Starts the next phase with all agents at once, after recording the last one.
    fn ask_all(&self, task: String) -> NextAction {
        let agents: Vec<Value> = self
            .flow
            .agents
            .iter()
            .map(|agent| json!({"agent_name": agent, "task": task}))
            .collect();
        NextAction::Calls(vec![
            self.note(Status::Active, None),
            ToolCall {
                id: format!("flow_{}", self.phases.len() + 1),
                name: SPAWN_AGENTS.to_owned(),
                arguments: json!({ "agents": agents }),
            },
        ])
    }

    /// Records the state and the results of the last phase, if not recorded yet.
    fn note(&self, status: Status, winner: Option<usize>) -> ToolCall {
        let last = self.phases.len();
        // The first note precedes the first phase.
        let fresh = if self.notes > last { 0 } else { 1 };
        let entries_of = |(nth, phase): (usize, &CallResults)| -> Vec<Entry> {
            let kind = match nth {
                0 => EntryKind::Proposal,
                _ if nth + 1 == last && status != Status::Active => EntryKind::Vote,
                _ => EntryKind::Argument,
            };
            let made = phase.results.iter().filter(|result| result.is_completed);
            made.map(|result| Entry {
                kind,
                agent: result.agent.clone(),
                content: result.summary.clone(),
            })
            .collect()
        };
        let mut phases: Vec<Vec<Entry>> = self.phases.iter().enumerate().map(entries_of).collect();
        let entries: Vec<Entry> = phases.split_off(last.saturating_sub(fresh)).concat();
        let note = Note {
            topic: self.topic.to_owned(),
            status,
            threshold: self.flow.threshold.unwrap_or(DISCUSSION_THRESHOLD),
            noted: phases.iter().map(Vec::len).sum(),
            entries,
            decision: winner.and_then(|winner| self.proposals().get(winner).map(|proposal| proposal.summary.clone())),
        };
        ToolCall {
            id: format!("note_{}", self.notes + 1),
            name: NOTE_DISCUSSION.to_owned(),
            arguments: json!(note),
        }
    }

    /// Asks a user to decide.
    fn question(&self, votes: &[usize]) -> ToolCall {
        let options: Vec<Value> = self
            .proposals()
            .iter()
            .zip(votes)
            .enumerate()
            .map(|(nth, (proposal, votes))| {
                json!({
                    "label": format!("Proposal {} (by {}, {votes} votes)", nth + 1, proposal.agent),
                    "value": (nth + 1).to_string(),
                    "description": first(&proposal.summary, SHOWN_CHARS),
                })
            })
            .collect();
        let question = format!("The agents do not agree. Which proposal do you choose? {}", self.topic);
        ToolCall {
            id: "question".to_owned(),
            name: ASK_USER.to_owned(),
            arguments: json!({
                "question": first(&question, QUESTION_MAX_CHARS), "options": options, "interaction_type": "select",
            }),
        }
    }
}

/// Returns the proposal chosen by a user. None: no choice.
fn chosen(content: &str) -> Option<usize> {
    let answer: Value = serde_json::from_str(content).ok()?;
    let number: usize = answer["answer"].as_str()?.parse().ok()?;
    number.checked_sub(1)
}

/// Returns the number in the first non-empty line.
fn vote(answer: &str) -> Option<usize> {
    let line = answer.lines().find(|line| !line.trim().is_empty())?;
    let digits = line.split(|c: char| !c.is_ascii_digit());
    digits
        .filter(|digits| !digits.is_empty())
        .find_map(|digits| digits.parse().ok())
}

fn first(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests;
