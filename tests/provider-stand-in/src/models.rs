//! The abilities of the named model: from the catalogue, and from providers' pages where the catalogue has no field.

use chrono::NaiveDate;
use rejoin_models::{Ability, Model};

/// The model of a request.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    /// As named by the request, without provider.
    pub(super) name: &'a str,
    pub(super) model: &'static Model,
}

/// Returns the model, unless it is unknown or no longer served on this day.
pub(super) fn served<'a>(provider: &str, name: &'a str, today: NaiveDate) -> Option<Named<'a>> {
    let model = rejoin_models::catalogue().find(&format!("{provider}:{name}"))?;
    (!model.is_retired(today)).then_some(Named { name, model })
}

impl Named<'_> {
    /// Returns whether the catalogue states the ability. Unstated ones are assumed.
    pub(super) fn can(&self, ability: Ability) -> bool {
        self.model.can(ability).unwrap_or(true)
    }

    pub(super) fn reasons(&self) -> bool {
        self.model.can(Ability::Reasoning) == Some(true)
    }

    /// Parses the version in a name such as `gpt-5.6-luna`, `gemini-3.8-flash`, `claude-opus-4-7`; (0, 0) if there is
    /// none.
    pub(super) fn version(&self) -> (u32, u32) {
        let mut numbers = Vec::new();
        for word in self.name.split('-') {
            let mut parts = word.split('.');
            let (Some(first), second) = (parts.next(), parts.next()) else {
                continue;
            };
            match (first.parse::<u32>(), second.map(str::parse::<u32>)) {
                // A date is not a version.
                (Ok(major), _) if major > 100 => break,
                (Ok(major), Some(Ok(minor))) => {
                    numbers.extend([major, minor]);
                    break;
                }
                (Ok(number), None) => numbers.push(number),
                _ if !numbers.is_empty() => break,
                _ => {}
            }
        }
        (
            numbers.first().copied().unwrap_or(0),
            numbers.get(1).copied().unwrap_or(0),
        )
    }

    /// Returns whether it belongs to this Anthropic family: `opus`, `sonnet`, `haiku`, `fable`, `mythos`.
    pub(super) fn is_family(&self, family: &str) -> bool {
        self.name.split('-').any(|word| word == family)
    }
}
