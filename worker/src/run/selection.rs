//! Selects the tools that are shown to an agent: all of them or, if its definition sets `"toolSelection": "context"`,
//! those relevant to the conversation, most likely first. A granted tool that was not shown may still be called, and is
//! shown from then on.
//!
//! Invariant: selection grants nothing. The whitelist alone decides which tools may be called.

use std::collections::HashSet;

use rejoin_routing::words;
use rejoin_runs::agents::settings::{Settings, ToolSelection};
use rejoin_runs::contexts;
use rejoin_runs::runs::Run;
use rejoin_runs::tool_calls;
use rejoin_tools::registry::Patterns;
use rejoin_tools::{SharedTool, ToolSpec};
use rejoin_types::events::PLAN_TOOL;

use crate::coordination::{ASK_USER, CREATE_TASKS, LIST_AVAILABLE_AGENTS, SPAWN_AGENTS, handoffs};
use crate::services::Services;

/// Maximum number of tools shown initially, besides those for planning, asking and handing over.
const SHOWN_MAX: usize = 40;
/// Maximum length of a message considered, in characters.
const MESSAGE_CHARS: usize = 2_000;
/// Score of a tool with the same meaning as the message; a word in its name scores [`NAMED`], one in its description 1.
const MEANT: f32 = 8.0;
const NAMED: f32 = 3.0;
/// Minimum length of significant words, in characters.
const WORD_MIN_CHARS: usize = 3;

/// The tools shown. None: all.
#[derive(Debug, Default)]
pub struct Selection {
    shown: Option<HashSet<String>>,
}

impl Selection {
    /// Selects for a run, by its agent's definition.
    pub async fn for_run(
        services: &Services,
        run: &Run,
        settings: &Settings,
        tools: &[SharedTool],
    ) -> Result<Self, sqlx::Error> {
        let about = run
            .about()
            .filter(|_| settings.tool_selection == ToolSelection::Context);
        let Some(context) = about else {
            return Ok(Self::default());
        };
        let wanted = contexts::settings(&services.db.pool_sqlx, run.workspace_id, context.context_type).await?;
        let fit = fitting(tools, &wanted.tools);
        let message: String = run.input.chars().take(MESSAGE_CHARS).collect();
        // If all of them are shown, their order is irrelevant.
        let nearness = if fit.len() > SHOWN_MAX {
            services.tool_vectors.nearness(&services.embedder, &message, &fit).await
        } else {
            None
        };
        let mut selection = Self::of(tools, &fit, &message, nearness.as_deref());
        // Tools called in an earlier attempt or turn are shown.
        for name in tool_calls::names(&services.db.pool_sqlx, run.id).await? {
            selection.missed(&name);
        }
        Ok(selection)
    }

    /// Selects the most likely of the [matching](fitting) tools, and those for planning, asking and handing over.
    /// `nearness`: the message's similarity to each matching tool.
    fn of(tools: &[SharedTool], fit: &[&ToolSpec], message: &str, nearness: Option<&[f32]>) -> Self {
        let wanted = split(message);
        let count =
            |words: &HashSet<String>| f32::from(u16::try_from(wanted.intersection(words).count()).unwrap_or(u16::MAX));
        let mut ranked: Vec<(f32, &str)> = fit
            .iter()
            .enumerate()
            .map(|(nth, spec)| {
                let named = count(&split(&spec.name.replace('_', " ")));
                let described = count(&split(&spec.description));
                let meant = nearness
                    .and_then(|nearness| nearness.get(nth))
                    .copied()
                    .unwrap_or_default();
                (NAMED * named + described + MEANT * meant.max(0.0), spec.name.as_str())
            })
            .collect();
        // Most likely first; ties are broken by name.
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        let always = tools
            .iter()
            .map(|tool| tool.spec().name.as_str())
            .filter(|name| is_always(name));
        let shown = ranked.iter().take(SHOWN_MAX).map(|(_, name)| *name).chain(always);
        Self {
            shown: Some(shown.map(str::to_owned).collect()),
        }
    }

    pub fn shows(&self, name: &str) -> bool {
        self.shown.as_ref().is_none_or(|shown| shown.contains(name))
    }

    /// Records a call of a tool. True: it had not been shown; it is from now on.
    pub fn missed(&mut self, name: &str) -> bool {
        match &mut self.shown {
            Some(shown) => shown.insert(name.to_owned()),
            None => false,
        }
    }

    /// Returns the number of tools shown; none: all.
    pub fn count(&self) -> Option<usize> {
        self.shown.as_ref().map(HashSet::len)
    }
}

/// Returns the tools matched by a context's patterns.
fn fitting<'a>(tools: &'a [SharedTool], patterns: &[String]) -> Vec<&'a ToolSpec> {
    let patterns = Patterns::new(patterns);
    tools
        .iter()
        .map(|tool| tool.spec())
        .filter(|spec| patterns.is_match(&spec.name) && !is_always(&spec.name))
        .collect()
}

/// Returns whether a tool is for planning, asking or handing over, which are always shown.
fn is_always(name: &str) -> bool {
    [PLAN_TOOL, ASK_USER, CREATE_TASKS, LIST_AVAILABLE_AGENTS, SPAWN_AGENTS].contains(&name)
        || name.starts_with(handoffs::PREFIX)
}

fn split(text: &str) -> HashSet<String> {
    words::normal(text)
        .split(' ')
        .filter(|word| word.chars().count() >= WORD_MIN_CHARS)
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {

    use super::*;
    use rejoin_runs::builtin;

    fn all() -> Vec<SharedTool> {
        builtin::tools().resolve(&["*".to_owned()])
    }

    fn select(patterns: &[&str], message: &str, nearness: Option<&[f32]>) -> Selection {
        let tools = all();
        let patterns: Vec<String> = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
        Selection::of(&tools, &fitting(&tools, &patterns), message, nearness)
    }

    /// Requirements: E49.
    #[test]
    fn a_context_shows_what_it_names_and_the_likeliest_first() {
        let selection = select(&["search_*"], "whatever", None);
        assert!(selection.shows("search_entities") && !selection.shows("delete_entity"));
        let everything = select(&["*"], "delete the entity that nobody wants", None);
        assert!(everything.shows("delete_entity"));
        assert_eq!(everything.count(), Some(SHOWN_MAX.min(all().len())));
        assert!(Selection::default().shows("anything"));
    }

    /// Requirements: E49.
    #[test]
    fn what_is_meant_counts_where_no_word_is_the_same() {
        let tools = all();
        let fit = fitting(&tools, &["*".to_owned()]);
        assert!(fit.len() > SHOWN_MAX, "there is something to choose");
        let message = "wirf es weg";
        let last = fit.iter().map(|spec| spec.name.as_str()).max().unwrap();
        assert!(!Selection::of(&tools, &fit, message, None).shows(last));
        let near: Vec<f32> = fit
            .iter()
            .map(|spec| if spec.name == last { 0.7 } else { 0.1 })
            .collect();
        assert!(Selection::of(&tools, &fit, message, Some(&near)).shows(last));
    }

    /// Requirements: E50.
    #[test]
    fn what_was_called_is_shown_from_then_on() {
        let mut selection = select(&["search_*"], "", None);
        assert!(selection.missed("delete_entity"));
        assert!(!selection.missed("delete_entity") && selection.shows("delete_entity"));
        assert!(!Selection::default().missed("delete_entity"));
    }
}
