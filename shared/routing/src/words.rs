//! Splits a text into words, to match whole words and phrases.

/// A word and its surroundings. Letters, digits and `_`, and a leading `$`; a change of script ends it, so that a name
/// within Japanese or Korean is a word by itself.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    start: u32,
    end: u32,
    /// Whether clause-ending punctuation precedes it.
    pub begins_clause: bool,
    /// Whether it is all capitals.
    pub shouted: bool,
    /// The characters directly before and after it, and the one after that; 0 at the ends of the text.
    pub before: u8,
    pub behind: u8,
    pub further: u8,
}

/// The words of a text in lower case.
#[derive(Debug, Default)]
pub struct Words {
    /// The words, one space between them, so that a phrase is a slice of it.
    text: String,
    words: Vec<Word>,
}

/// ASCII and Latin letters belong together; other scripts are separate.
fn is_latin(char: char) -> bool {
    char < '\u{250}' || ('\u{1e00}'..'\u{1f00}').contains(&char)
}

fn push_small(text: &mut String, char: char) {
    if char.is_ascii() {
        text.push(char.to_ascii_lowercase());
    } else {
        text.extend(char.to_lowercase());
    }
}

impl Words {
    pub fn of(source: &str) -> Self {
        let mut words = Self {
            text: String::with_capacity(source.len()),
            words: Vec::with_capacity(source.len() / 5),
        };
        let bytes = source.as_bytes();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        let mut begins_clause = false;
        let mut chars = source.char_indices().peekable();
        while let Some((at, first)) = chars.next() {
            let is_word = first.is_alphanumeric()
                || first == '_'
                || (first == '$' && chars.peek().is_some_and(|(_, next)| next.is_alphanumeric()));
            if !is_word {
                // Without spaces, a full stop or a colon joins words: `information_schema.jobs`.
                let ends = |next: Option<&(usize, char)>| next.is_none_or(|(_, next)| next.is_whitespace());
                begins_clause |= match first {
                    '(' | ')' | '\u{2013}' | '\u{2014}' => true,
                    '.' | ',' | ';' | ':' | '?' | '!' => ends(chars.peek()),
                    _ => false,
                };
                continue;
            }
            let mut end = at + first.len_utf8();
            let (mut letters, mut small) = (first.is_alphabetic(), first.is_lowercase());
            if !words.text.is_empty() {
                words.text.push(' ');
            }
            let start = words.text.len();
            push_small(&mut words.text, first);
            while let Some((at, next)) = chars.peek().copied() {
                if !(next.is_alphanumeric() || next == '_') || (first != '$' && is_latin(next) != is_latin(first)) {
                    break;
                }
                letters |= next.is_alphabetic();
                small |= next.is_lowercase();
                push_small(&mut words.text, next);
                end = at + next.len_utf8();
                chars.next();
            }
            words.words.push(Word {
                // Texts are truncated to a few thousand bytes before.
                start: u32::try_from(start).unwrap_or(u32::MAX),
                end: u32::try_from(words.text.len()).unwrap_or(u32::MAX),
                begins_clause,
                shouted: letters && !small,
                before: if at == 0 { 0 } else { byte(at - 1) },
                behind: byte(end),
                further: byte(end + 1),
            });
            begins_clause = false;
        }
        words
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub fn len(&self) -> usize {
        self.words.len()
    }

    pub fn get(&self, index: usize) -> Option<&Word> {
        self.words.get(index)
    }

    /// Returns the word with this index, or an empty text.
    pub fn text(&self, index: usize) -> &str {
        self.phrase(index, 1)
    }

    /// Returns `count` words from this one on, separated by single spaces; empty if there are fewer.
    pub fn phrase(&self, index: usize, count: usize) -> &str {
        match (self.words.get(index), self.words.get(index + count - 1)) {
            (Some(first), Some(last)) => &self.text[first.start as usize..last.end as usize],
            _ => "",
        }
    }

    /// Returns whether the phrase, in lower case and with single spaces, occurs as whole words.
    pub fn have(&self, phrase: &str) -> bool {
        !phrase.is_empty()
            && self.text.match_indices(phrase).any(|(at, _)| {
                self.text[..at].bytes().next_back().is_none_or(|byte| byte == b' ')
                    && self.text[at + phrase.len()..]
                        .bytes()
                        .next()
                        .is_none_or(|byte| byte == b' ')
            })
    }
}

/// Normalizes a phrase for [`Words::have`]: lower case, single spaces, no punctuation.
pub fn normal(phrase: &str) -> String {
    Words::of(phrase).text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> Vec<String> {
        let words = Words::of(text);
        (0..words.len()).map(|index| words.text(index).to_owned()).collect()
    }

    #[test]
    fn words_are_whole_and_in_small_letters() {
        assert_eq!(
            split("Group the PROJECTS, by_day!"),
            ["group", "the", "projects", "by_day"]
        );
        assert_eq!(split("l'agrégation"), ["l", "agrégation"]);
        assert_eq!(split("{$match: {a: $1, b: 5$}}"), ["$match", "a", "$1", "b", "5"]);
        assert_eq!(
            split("MongoDBのordersコレクション"),
            ["mongodb", "の", "orders", "コレクション"].map(str::to_owned).to_vec()
        );
        assert!(split("— …").is_empty());
    }

    #[test]
    fn what_stands_around_a_word_is_known() {
        let words = Words::of("no, SELECT db.x.find({");
        let word = |index| *words.get(index).unwrap();
        assert!(word(1).begins_clause && word(1).shouted && !word(3).begins_clause);
        assert_eq!((word(4).before, word(4).behind, word(4).further), (b'.', b'(', b'{'));
        assert_eq!(words.phrase(2, 3), "db x find");
        assert_eq!(words.phrase(4, 2), "");
    }

    #[test]
    fn phrases_are_found_as_whole_words_only() {
        let words = Words::of("Open invoices: which, and whose?");
        assert!(words.have("open invoices") && words.have("whose"));
        assert!(!words.have("invoice") && !words.have("voices") && !words.have(""));
        assert_eq!(normal("  Past-due   Invoices "), "past due invoices");
    }
}
