//! The significant words of a search query. Called by `search` and `traverse`; no SQL.
//!
//! Models and users ask in sentences ("which packages need libssl3?"). Stop words are dropped, unless nothing else is
//! left.

/// Maximum number of words of a query; the rest is ignored.
pub const MAX_WORDS: usize = 16;
/// Maximum size of a query, in bytes; the rest is ignored.
pub const MAX_QUERY_BYTES: usize = 1000;

/// Stop words, sorted for binary search. English only: other languages' words do no harm in a full-text query of names.
const NOISE: &[&str] = &[
    "a",
    "about",
    "all",
    "an",
    "and",
    "any",
    "anything",
    "are",
    "as",
    "at",
    "be",
    "been",
    "by",
    "can",
    "could",
    "did",
    "do",
    "does",
    "every",
    "everything",
    "find",
    "for",
    "from",
    "get",
    "give",
    "had",
    "has",
    "have",
    "how",
    "i",
    "if",
    "in",
    "into",
    "is",
    "it",
    "its",
    "know",
    "list",
    "look",
    "many",
    "me",
    "most",
    "much",
    "my",
    "need",
    "needed",
    "needs",
    "of",
    "on",
    "or",
    "our",
    "please",
    "search",
    "should",
    "show",
    "some",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "there",
    "these",
    "they",
    "this",
    "those",
    "to",
    "up",
    "us",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "who",
    "whom",
    "whose",
    "why",
    "will",
    "with",
    "would",
    "you",
    "your",
];

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// The user's input, trimmed and truncated.
    pub text: String,
    /// The significant words, lower case, in order, without duplicates.
    pub words: Vec<String>,
}

impl Query {
    pub fn parse(text: &str) -> Query {
        let text = cut(text.trim(), MAX_QUERY_BYTES).replace('\0', " ");
        let all: Vec<String> = text
            .split(is_separator)
            .map(trimmed)
            .filter(|word| !word.is_empty())
            .collect();
        let mut words: Vec<String> = Vec::new();
        for word in all.iter().filter(|word| NOISE.binary_search(&word.as_str()).is_err()) {
            if !words.contains(word) && words.len() < MAX_WORDS {
                words.push(word.clone());
            }
        }
        if words.is_empty() {
            words = all.into_iter().take(MAX_WORDS).collect();
        }
        Query { text, words }
    }

    /// Returns whether it contains quoted phrases or exclusions (a minus before a word).
    pub fn is_quoted(&self) -> bool {
        self.text.contains('"')
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }
}

/// Names such as `libstdc++6`, `python3.11` and `x86_64:any` stay whole.
fn is_separator(character: char) -> bool {
    !(character.is_alphanumeric() || matches!(character, '-' | '+' | '.' | '_' | ':' | '@' | '/' | '#'))
}

fn trimmed(word: &str) -> String {
    word.trim_start_matches(|character: char| !character.is_alphanumeric() && character != '_')
        .trim_end_matches(|character: char| !character.is_alphanumeric() && !matches!(character, '+' | '_' | '#'))
        .to_lowercase()
}

fn cut(text: &str, max_bytes: usize) -> &str {
    let mut end = text.len().min(max_bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_noise_is_sorted_for_the_binary_search() {
        assert!(NOISE.is_sorted());
    }

    #[test]
    fn a_question_leaves_its_words_that_count() {
        assert_eq!(
            Query::parse("Which packages need libssl3, and why?").words,
            ["packages", "libssl3"]
        );
        assert_eq!(
            Query::parse("What depends on libstdc++6 (>= 12)?").words,
            ["depends", "libstdc++6", "12"]
        );
        assert_eq!(Query::parse("python3.11. -minimal").words, ["python3.11", "minimal"]);
    }

    #[test]
    fn a_query_of_noise_only_keeps_it() {
        assert_eq!(Query::parse("The Who").words, ["the", "who"]);
        assert!(Query::parse(" ?! ").is_empty());
    }

    #[test]
    fn quoted_text_is_left_to_the_parser_of_phrases() {
        assert!(Query::parse("\"secure sockets\" -dev").is_quoted());
        assert!(!Query::parse("secure sockets -dev").is_quoted());
    }

    #[test]
    fn a_long_query_is_cut_at_a_character() {
        let query = Query::parse(&"é".repeat(MAX_QUERY_BYTES));
        assert_eq!(query.text.len(), MAX_QUERY_BYTES);
    }
}
