//! Tokenizes texts into word pieces, as BERT's uncased models were trained: lower case, without accents, punctuation
//! separated, each word as the longest pieces in the vocabulary. The only I/O is reading the vocabulary.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// Maximum length of a word, in characters; a longer one is unknown.
const MAX_WORD_CHARS: usize = 100;

#[derive(Debug)]
pub struct Vocabulary {
    pieces: HashMap<String, u32>,
    unknown: u32,
    begin: u32,
    end: u32,
}

impl Vocabulary {
    /// Reads one piece per line; its number is the line's, from 0.
    pub fn read(path: &Path) -> io::Result<Self> {
        Self::parse(&std::fs::read_to_string(path)?)
    }

    fn parse(text: &str) -> io::Result<Self> {
        let pieces: HashMap<String, u32> = (0..)
            .zip(text.lines())
            .map(|(id, piece)| (piece.to_owned(), id))
            .collect();
        let special = |name: &str| {
            let missing = || io::Error::new(io::ErrorKind::InvalidData, format!("the vocabulary has no {name}"));
            pieces.get(name).copied().ok_or_else(missing)
        };
        Ok(Self {
            unknown: special("[UNK]")?,
            begin: special("[CLS]")?,
            end: special("[SEP]")?,
            pieces,
        })
    }

    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the text's pieces between the begin and end markers, at most `max` in total; truncates the text.
    pub fn pieces_of(&self, text: &str, max: usize) -> Vec<u32> {
        let mut ids = vec![self.begin];
        for word in words(text) {
            if ids.len() >= max {
                break;
            }
            self.word(&word, &mut ids);
        }
        ids.truncate(max.saturating_sub(1));
        ids.push(self.end);
        ids
    }

    fn word(&self, word: &str, ids: &mut Vec<u32>) {
        let letters: Vec<char> = word.chars().collect();
        if letters.len() > MAX_WORD_CHARS {
            ids.push(self.unknown);
            return;
        }
        let first = ids.len();
        let mut begin = 0;
        let mut piece = String::new();
        while begin < letters.len() {
            let found = (begin + 1..=letters.len()).rev().find_map(|end| {
                piece.clear();
                if begin > 0 {
                    piece.push_str("##");
                }
                piece.extend(&letters[begin..end]);
                self.pieces.get(&piece).map(|id| (*id, end))
            });
            let Some((id, end)) = found else {
                ids.truncate(first);
                ids.push(self.unknown);
                return;
            };
            ids.push(id);
            begin = end;
        }
    }
}

/// Splits into lower-case words without accents; punctuation and ideographs stand alone.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in text.nfd().filter(|letter| !is_combining_mark(*letter)) {
        if letter.is_whitespace() {
            words.push(String::new());
        } else if letter.is_control() || letter == '\u{fffd}' {
            // Not assigned.
        } else if is_punctuation(letter) || is_ideograph(letter) {
            words.push(letter.to_string());
            words.push(String::new());
        } else {
            let word = words.last_mut().expect("there is always a last word");
            word.extend(letter.to_lowercase().nfd().filter(|letter| !is_combining_mark(*letter)));
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// ASCII symbols count as punctuation; of the rest of Unicode its general and CJK punctuation.
fn is_punctuation(letter: char) -> bool {
    letter.is_ascii_punctuation()
        || matches!(
            letter,
            '\u{a1}' | '\u{a7}' | '\u{ab}' | '\u{b6}' | '\u{b7}' | '\u{bb}' | '\u{bf}'
        )
        || matches!(letter, '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}')
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter,
        '\u{4e00}'..='\u{9fff}' | '\u{3400}'..='\u{4dbf}' | '\u{20000}'..='\u{2a6df}' | '\u{2a700}'..='\u{2b81f}'
        | '\u{2b820}'..='\u{2ceaf}' | '\u{f900}'..='\u{faff}' | '\u{2f800}'..='\u{2fa1f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        Vocabulary::parse("[UNK]\n[CLS]\n[SEP]\nburn\n##ing\ndvd\n##s\n-\ncafe\nburning\n漢").unwrap()
    }

    #[test]
    fn words_are_split_into_the_longest_pieces_there_are() {
        assert_eq!(vocabulary().pieces_of("Burning DVDs", 16), [1, 9, 5, 6, 2]);
        assert_eq!(vocabulary().pieces_of("burns", 16), [1, 3, 6, 2]);
    }

    #[test]
    fn accents_go_and_punctuation_and_ideographs_stand_alone() {
        assert_eq!(vocabulary().pieces_of("Café-dvd漢", 16), [1, 8, 7, 5, 10, 2]);
    }

    #[test]
    fn a_word_without_pieces_is_one_unknown() {
        assert_eq!(vocabulary().pieces_of("burnxyz dvd", 16), [1, 0, 5, 2]);
        assert_eq!(vocabulary().pieces_of("", 16), [1, 2]);
    }

    #[test]
    fn a_long_text_is_cut_and_still_ends() {
        assert_eq!(vocabulary().pieces_of("dvd dvd dvd dvd", 4), [1, 5, 5, 2]);
    }
}
