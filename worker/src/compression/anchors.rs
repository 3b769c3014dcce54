//! Facts that a summary must keep: sentences with names, numbers, dates, ids, addresses or quotations that the summary
//! omits are appended verbatim. Models drop some facts with each summary, and a fact dropped once is missing in all
//! later versions.

use std::collections::HashSet;
use std::fmt::Write as _;

use rejoin_models::tokens;

/// Maximum length of a sentence, in characters; longer ones are truncated.
const SENTENCE_CHARS: usize = 300;
/// Minimum length of numbers and names, in characters.
const ANCHOR_MIN_CHARS: usize = 3;
/// The dash before a sentence, and its line.
const ITEM_TOKENS: u64 = 1;
/// The heading of additions; the next summary reads it as part of the summary.
const HEADING: &str = "\n\nAlso said:";

/// Returns the summary with the facts of these texts (oldest first) that it omits, within a limit of tokens. Newer
/// facts take precedence.
pub fn kept<'a>(summary: &str, texts: impl IntoIterator<Item = &'a str>, max_tokens: u64) -> String {
    let lower = summary.to_lowercase();
    let mut seen = HashSet::new();
    let mut lacking: Vec<String> = texts
        .into_iter()
        .flat_map(sentences)
        .filter(|sentence| anchors(sentence).iter().any(|anchor| !lower.contains(anchor.as_str())))
        .filter(|sentence| seen.insert(sentence.to_lowercase()))
        .collect();
    let mut whole = tokens::estimate(summary) + tokens::estimate(HEADING);
    let mut fit = 0;
    for sentence in lacking.iter().rev() {
        whole += tokens::estimate(sentence) + ITEM_TOKENS;
        if whole > max_tokens {
            break;
        }
        fit += 1;
    }
    let mut kept = summary.trim_end().to_owned();
    let added = lacking.split_off(lacking.len() - fit);
    if !added.is_empty() {
        kept.push_str(HEADING);
        for sentence in added {
            let _ = write!(kept, "\n- {sentence}");
        }
    }
    kept
}

/// Returns a text's sentences, lines and list items, without their marks.
fn sentences(text: &str) -> impl Iterator<Item = String> {
    let heading = HEADING.trim();
    text.lines()
        .filter(move |line| line.trim() != heading)
        .flat_map(|line| {
            let mut parts = Vec::new();
            let mut rest = line.trim().trim_start_matches(['-', '*', '#', ' ']);
            // A full stop within 3.5 or example.com ends no sentence.
            while let Some(end) = rest
                .char_indices()
                .find(|(at, sign)| ".!?".contains(*sign) && rest[at + 1..].starts_with(' '))
                .map(|(at, _)| at + 1)
            {
                parts.push(rest[..end].to_owned());
                rest = rest[end..].trim_start();
            }
            parts.push(rest.to_owned());
            parts
        })
        .map(|sentence| sentence.chars().take(SENTENCE_CHARS).collect::<String>())
        .filter(|sentence| !sentence.is_empty())
}

/// Returns the parts of a sentence that can be matched verbatim, in lower case.
fn anchors(sentence: &str) -> Vec<String> {
    let quoted = sentence
        .split(['"', '`', '“', '”', '«', '»'])
        .skip(1)
        .step_by(2)
        .filter(|inner| inner.chars().count() >= ANCHOR_MIN_CHARS);
    let words = sentence.split_whitespace().enumerate().filter_map(|(nth, word)| {
        let word = word.trim_matches(|sign: char| !sign.is_alphanumeric());
        let is_long = word.chars().count() >= ANCHOR_MIN_CHARS;
        let has_digit = word.chars().any(|sign| sign.is_ascii_digit());
        // The first word of a sentence is always capitalized.
        let is_name = nth > 0 && word.chars().next().is_some_and(char::is_uppercase);
        (is_long && (has_digit || is_name || word.contains('@'))).then_some(word)
    });
    quoted.chain(words).map(str::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_summary_lacks_is_added_as_it_was_said() {
        let texts = [
            "Hello there. The budget is 4,500 euros. We like it calm.",
            "Mail Anna at anna@example.com! It costs 3.50 a day.",
        ];
        let summary = "The budget is 4,500 euros.";
        assert_eq!(
            kept(summary, texts, 1_000),
            "The budget is 4,500 euros.\n\nAlso said:\n- Mail Anna at anna@example.com!\n- It costs 3.50 a day."
        );
    }

    #[test]
    fn what_was_added_before_is_known_and_not_added_twice() {
        let first = kept("Nothing.", ["We meet Berta. We meet Berta."], 1_000);
        assert_eq!(first, "Nothing.\n\nAlso said:\n- We meet Berta.");
        // The next summary omits it.
        let second = kept("Little.", [first.as_str(), "Then \"the red door\" opens."], 1_000);
        assert_eq!(
            second,
            "Little.\n\nAlso said:\n- We meet Berta.\n- Then \"the red door\" opens."
        );
        assert_eq!(
            kept("berta and THE RED DOOR", [second.as_str()], 1_000),
            "berta and THE RED DOOR"
        );
    }

    #[test]
    fn the_newest_is_kept_where_not_all_fits() {
        let texts = ["Room 101 is old.", "Room 202 is new."];
        let room = tokens::estimate("S") + tokens::estimate(HEADING) + tokens::estimate(texts[1]) + ITEM_TOKENS;
        assert_eq!(kept("S", texts, room), "S\n\nAlso said:\n- Room 202 is new.");
        assert_eq!(kept("S", texts, 0), "S");
    }

    #[test]
    fn any_text_is_taken() {
        for text in ["", "...", "\"", "「引用」 2027年 é. É\u{301}? x", "- - -\n###"] {
            kept("", [text], 100);
        }
    }
}
