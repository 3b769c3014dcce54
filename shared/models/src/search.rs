//! Filters the catalogue of models: `GET /api/models` parses it from its query, and `rejoin models` sends it.

use chrono::NaiveDate;

use super::{Ability, Model};

/// The environment variables of each provider's key; one of them is enough.
const KEYS: [(&str, &[&str]); 8] = [
    ("openai", &["OPENAI_API_KEY", "OPENAI_BASE_URL"]),
    ("anthropic", &["ANTHROPIC_API_KEY"]),
    ("gemini", &["GEMINI_API_KEY"]),
    ("vertex", &["VERTEX_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS"]),
    ("azure", &["AZURE_OPENAI_API_KEY"]),
    ("openrouter", &["OPENROUTER_API_KEY"]),
    ("bedrock", &["AWS_BEARER_TOKEN_BEDROCK"]),
    ("ollama", &["OLLAMA_HOST"]),
];

/// All criteria that are set must match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Search {
    pub provider: Option<String>,
    /// A part of the name or of an alias, case-insensitive.
    pub text: Option<String>,
    /// Abilities that it must be known to have.
    pub can: Vec<Ability>,
    /// Includes retired models.
    pub retired: bool,
}

impl Search {
    pub fn fits(&self, model: &Model, today: NaiveDate) -> bool {
        let of_provider = |provider: &String| model.provider().eq_ignore_ascii_case(provider.trim());
        let named = |text: &String| {
            let text = text.trim().to_ascii_lowercase();
            let mut names = std::iter::once(&model.name).chain(&model.aliases);
            names.any(|name| name.to_ascii_lowercase().contains(&text))
        };
        (self.retired || !model.is_retired(today))
            && self.provider.as_ref().is_none_or(of_provider)
            && self.text.as_ref().is_none_or(named)
            && self.can.iter().all(|ability| model.can(*ability) == Some(true))
    }
}

/// Returns the providers that have a key in this environment.
pub fn providers_with_key(is_set: impl Fn(&str) -> bool) -> Vec<&'static str> {
    let with_key = KEYS
        .iter()
        .filter(|(_, variables)| variables.iter().any(|name| is_set(name)));
    with_key.map(|(provider, _)| *provider).collect()
}

#[cfg(test)]
mod tests {
    use super::super::catalogue;
    use super::*;

    fn found(search: &Search) -> Vec<&'static str> {
        let today = catalogue().made;
        let models = catalogue().all().iter().filter(|model| search.fits(model, today));
        models.map(|model| model.name.as_str()).collect()
    }

    #[test]
    fn everything_that_is_asked_has_to_fit() {
        let gemini = Search {
            provider: Some("Gemini".to_owned()),
            ..Search::default()
        };
        assert!(found(&gemini).contains(&"gemini:gemini-3.8-flash"));
        assert!(!found(&gemini).contains(&"gemini:gemini-2.0-flash"), "retired");
        let old = Search {
            text: Some("2.0-FLASH-001".to_owned()),
            retired: true,
            ..gemini.clone()
        };
        assert_eq!(found(&old), ["gemini:gemini-2.0-flash"]);
        let hears = Search {
            can: vec![Ability::Audio, Ability::Pdf],
            ..gemini
        };
        for name in found(&hears) {
            assert_eq!(
                catalogue().find(name).unwrap().can(Ability::Audio),
                Some(true),
                "{name}"
            );
        }
        assert!(found(&hears).contains(&"gemini:gemini-3.8-flash"));
        assert!(
            found(&Search {
                provider: Some("nobody".to_owned()),
                ..Search::default()
            })
            .is_empty()
        );
    }

    #[test]
    fn a_provider_has_a_key_where_one_of_its_variables_is_set() {
        assert_eq!(providers_with_key(|_| false), Vec::<&str>::new());
        let set = ["GEMINI_API_KEY", "OPENAI_BASE_URL"];
        assert_eq!(providers_with_key(|name| set.contains(&name)), ["openai", "gemini"]);
    }
}
