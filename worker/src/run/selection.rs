//! Which of its tools an agent is shown: all of them, or, where its definition says `"toolSelection": "context"`, those that what the
//! conversation is about calls for, the likeliest first. A tool that it has and was not shown may be called all the same, and is shown from
//! then on.
//!
//! Invariant: nothing here grants anything. What may be called is what the whitelist has resolved to.

use std::collections::HashSet;

use rejoin_shared::agents::settings::{Settings, ToolSelection};
use rejoin_shared::contexts::{self, PLAN_TOOL};
use rejoin_shared::routing::words;
use rejoin_shared::runs::Run;
use rejoin_shared::tool_calls;
use rejoin_shared::tools::SharedTool;
use rejoin_shared::tools::registry::Patterns;

use crate::coordination::{ASK_USER, CREATE_TASKS, LIST_AVAILABLE_AGENTS, SPAWN_AGENTS, handoffs};
use crate::services::Services;

/// Tools that are shown at first, besides those by which an agent plans, asks and hands over.
const SHOWN_MAX: usize = 40;
/// Words of a message that count.
const MESSAGE_CHARS: usize = 2_000;
/// Shorter words say nothing.
const WORD_MIN_CHARS: usize = 3;

/// What is shown. None: everything.
#[derive(Debug, Default)]
pub struct Selection {
    shown: Option<HashSet<String>>,
}

impl Selection {
    /// For a run, as its agent's definition wants it.
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
        let wanted = contexts::settings(&services.db.sql, run.project_id, context.context_type).await?;
        let mut selection = Self::of(tools, &wanted.tools, &run.input);
        // What it called in an earlier attempt or turn it has been shown.
        for name in tool_calls::names(&services.db.sql, run.id).await? {
            selection.missed(&name);
        }
        Ok(selection)
    }

    /// For a context with these patterns, and this message.
    pub fn of(tools: &[SharedTool], patterns: &[String], message: &str) -> Self {
        let patterns = Patterns::new(patterns);
        let wanted: HashSet<String> = split(message.chars().take(MESSAGE_CHARS).collect::<String>().as_str());
        let mut fit: Vec<(usize, &str)> = tools
            .iter()
            .map(|tool| tool.spec())
            .filter(|spec| patterns.is_match(&spec.name) && !is_always(&spec.name))
            .map(|spec| {
                let named = split(&spec.name.replace('_', " "));
                let told = split(&spec.description);
                let score = 3 * wanted.intersection(&named).count() + wanted.intersection(&told).count();
                (score, spec.name.as_str())
            })
            .collect();
        // The likeliest first; the order of names decides between equals, so that it is the same in every attempt.
        fit.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(b.1)));
        let always = tools
            .iter()
            .map(|tool| tool.spec().name.as_str())
            .filter(|name| is_always(name));
        let shown = fit.iter().take(SHOWN_MAX).map(|(_, name)| *name).chain(always);
        Self {
            shown: Some(shown.map(str::to_owned).collect()),
        }
    }

    pub fn shows(&self, name: &str) -> bool {
        self.shown.as_ref().is_none_or(|shown| shown.contains(name))
    }

    /// A tool was called. True: it had not been shown; it is from now on.
    pub fn missed(&mut self, name: &str) -> bool {
        match &mut self.shown {
            Some(shown) => shown.insert(name.to_owned()),
            None => false,
        }
    }

    /// How many are shown; none: all.
    pub fn count(&self) -> Option<usize> {
        self.shown.as_ref().map(HashSet::len)
    }
}

/// By these an agent plans, asks and hands over, wherever it is.
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
    use rejoin_shared::tools::registry::Registry;

    use super::*;

    fn all() -> Vec<SharedTool> {
        Registry::builtin().resolve(&["*".to_owned()])
    }

    #[test]
    fn e49_a_context_shows_what_it_names_and_the_likeliest_first() {
        let tools = all();
        let selection = Selection::of(&tools, &["search_*".to_owned()], "whatever");
        assert!(selection.shows("search_entities") && !selection.shows("delete_entity"));
        let everything = Selection::of(&tools, &["*".to_owned()], "delete the entity that nobody wants");
        assert!(everything.shows("delete_entity"));
        assert_eq!(everything.count(), Some(SHOWN_MAX.min(tools.len())));
        assert!(Selection::default().shows("anything"));
    }

    #[test]
    fn e50_what_was_called_is_shown_from_then_on() {
        let mut selection = Selection::of(&all(), &["search_*".to_owned()], "");
        assert!(selection.missed("delete_entity"));
        assert!(!selection.missed("delete_entity") && selection.shows("delete_entity"));
        assert!(!Selection::default().missed("delete_entity"));
    }
}
