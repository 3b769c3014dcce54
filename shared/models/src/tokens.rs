//! Estimates token counts where no provider has counted: the size of an initial context, whether a conversation is
//! long, the usage of a model whose server reports none.
//!
//! It splits texts like OpenAI's encoding `o200k_base` (words, up to three digits, runs of symbols, white space), and
//! applies average token counts of such pieces. The test `token_counts` compares it with that encoding: within 20 % for
//! prose in many languages, code and JSON. The encoding itself would add 3.6 MB and 0.2 s to every process, for a
//! figure that is equally inexact for other providers' models.

/// The weight of a piece, in hundredths of a token, so that sums are exact.
mod worth {
    /// A word, up to [`super::WORD_CHARS`] characters.
    pub const WORD: u64 = 100;
    /// Each further character of it.
    pub const LONGER: u64 = 16;
    /// Each capital after the first two, as in base64 and in names of constants.
    pub const CAPITAL: u64 = 30;
    /// A capitalized word within another one, as in `camelCase`.
    pub const GLUED: u64 = 40;
    /// Each letter of Western Europe beyond ASCII.
    pub const ACCENTED: u64 = 20;
    /// Each letter of the Latin alphabets of Eastern Europe and Turkey.
    pub const EASTERN: u64 = 110;
    /// Each letter of other alphabets: Cyrillic, Arabic, Devanagari, …
    pub const OTHER: u64 = 27;
    pub const HAN: u64 = 66;
    pub const KANA: u64 = 68;
    pub const HANGUL: u64 = 68;
    /// Punctuation of East Asia.
    pub const WIDE: u64 = 90;
    /// Emoji and other symbols.
    pub const SIGN: u64 = 150;
    /// Up to three digits.
    pub const DIGITS: u64 = 100;
    /// A run of ASCII punctuation, up to two characters; and each further three.
    pub const MARKS: u64 = 100;
    /// One mark directly before a word, usually a part of it: `.len`, `_id`.
    pub const MARK_OF_WORD: u64 = 20;
    /// Line breaks, or a run of spaces.
    pub const BLANK: u64 = 100;
}

const WORD_CHARS: u64 = 6;
const DIGITS_OF_TOKEN: u64 = 3;
const MARKS_OF_TOKEN: u64 = 2;
const FURTHER_MARKS: u64 = 3;
const CAPITALS_FREE: u64 = 2;
const TOKEN: u64 = 100;

/// The class of a character in the estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Capital,
    /// A lower-case letter, and its additional weight.
    Small(u64),
    Digit,
    /// ASCII punctuation.
    Mark,
    Space,
    Break,
    /// A letter of a non-Latin alphabet.
    Other,
    /// A character that counts by itself.
    Single(u64),
}

impl Class {
    fn of(character: char) -> Self {
        match character {
            'A'..='Z' => Self::Capital,
            'a'..='z' => Self::Small(0),
            '0'..='9' => Self::Digit,
            '\n' | '\r' => Self::Break,
            blank if blank.is_whitespace() => Self::Space,
            sign if sign.is_ascii() => Self::Mark,
            '\u{c0}'..='\u{ff}' => Self::Small(worth::ACCENTED),
            '\u{100}'..='\u{17f}' => Self::Small(worth::EASTERN),
            // Vietnamese: its words are short.
            '\u{180}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}' => Self::Small(0),
            '\u{3040}'..='\u{30ff}' => Self::Single(worth::KANA),
            '\u{3000}'..='\u{303f}' | '\u{ff00}'..='\u{ffef}' => Self::Single(worth::WIDE),
            '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}' => Self::Single(worth::HAN),
            '\u{1100}'..='\u{11ff}' | '\u{ac00}'..='\u{d7af}' => Self::Single(worth::HANGUL),
            // Including combining vowel signs.
            letter if letter < '\u{2000}' || letter.is_alphabetic() => Self::Other,
            '\u{2000}'..='\u{206f}' => Self::Single(worth::MARKS),
            _ => Self::Single(worth::SIGN),
        }
    }

    fn is_latin(self) -> bool {
        matches!(self, Self::Capital | Self::Small(_))
    }

    fn is_blank(self) -> bool {
        matches!(self, Self::Space | Self::Break)
    }
}

/// Estimates the number of tokens in a text.
pub fn estimate(text: &str) -> u64 {
    let mut classes = text.chars().map(Class::of).peekable();
    let mut hundredths = 0;
    let mut before = Class::Break;
    // Consumes characters as long as they match, and returns their number.
    macro_rules! run {
        ($fits:expr) => {{
            let mut length: u64 = 1;
            while classes.next_if($fits).is_some() {
                length += 1;
            }
            length
        }};
    }
    while let Some(class) = classes.next() {
        let mut last = class;
        hundredths += match class {
            Class::Capital | Class::Small(_) => {
                let mut capitals = 0;
                let mut length = 0;
                let mut beside = 0;
                let mut next = Some(class);
                // Capitals, then small letters.
                while let Some(letter) = next {
                    length += 1;
                    match letter {
                        Class::Small(more) => beside += more,
                        _ => capitals += 1,
                    }
                    let only_small = matches!(letter, Class::Small(_));
                    next = classes.next_if(|next| match next {
                        Class::Capital => !only_small,
                        Class::Small(_) => true,
                        _ => false,
                    });
                }
                let is_glued = capitals > 0 && (before.is_latin() || before == Class::Digit);
                worth::WORD
                    + length_beyond(length, WORD_CHARS) * worth::LONGER
                    + length_beyond(capitals, CAPITALS_FREE) * worth::CAPITAL
                    + beside
                    + if is_glued { worth::GLUED } else { 0 }
            }
            Class::Digit => run!(|next| *next == Class::Digit).div_ceil(DIGITS_OF_TOKEN) * worth::DIGITS,
            Class::Mark => {
                let length = run!(|next| *next == Class::Mark);
                let is_of_word =
                    length == 1 && before != Class::Space && classes.peek().is_some_and(|next| next.is_latin());
                if is_of_word {
                    worth::MARK_OF_WORD
                } else {
                    worth::MARKS + length_beyond(length, MARKS_OF_TOKEN) * worth::MARKS / FURTHER_MARKS
                }
            }
            Class::Space | Class::Break => {
                let mut breaks = class == Class::Break;
                let mut spaces = u64::from(class == Class::Space);
                while let Some(blank) = classes.next_if(|next| next.is_blank()) {
                    let is_break = blank == Class::Break;
                    breaks |= is_break;
                    spaces = if is_break { 0 } else { spaces + 1 };
                    last = blank;
                }
                // A line break belongs to the punctuation before it, one space to the word after it.
                let of_breaks = if breaks && before != Class::Mark {
                    worth::BLANK
                } else {
                    0
                };
                let is_kept = spaces > 1 || spaces == 1 && classes.peek() == Some(&Class::Digit);
                of_breaks + if is_kept { worth::BLANK } else { 0 }
            }
            Class::Other => (run!(|next| *next == Class::Other) * worth::OTHER).max(worth::WORD),
            Class::Single(worth) => worth,
        };
        before = last;
    }
    u64::div_ceil(hundredths, TOKEN)
}

fn length_beyond(length: u64, free: u64) -> u64 {
    length.saturating_sub(free)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_tokens_and_words_have_about_one() {
        for (text, tokens) in [
            ("", 0),
            ("hello", 1),
            ("hello world", 2),
            ("1234567", 3),
            ("in 2027", 4),
            ("a\n\n    b", 4),
            ("camelCase", 3),
            ("你好", 2),
        ] {
            assert_eq!(estimate(text), tokens, "{text:?}");
        }
    }

    #[test]
    fn a_text_is_not_shorter_for_being_longer() {
        let text = "Zoë counts: 1,000 {\"id\": \"3f2a\"}\n\tнет, 昨日 ありがとう 한국어 🎉 ŁódźX";
        let lengths: Vec<u64> = text.char_indices().map(|(at, _)| estimate(&text[..at])).collect();
        // A mark before a word becomes part of it: at most one token less.
        assert!(lengths.windows(2).all(|pair| pair[0] <= pair[1] + 1), "{lengths:?}");
    }
}
