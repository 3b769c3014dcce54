//! The cost of a call: tokens, the providers' prompt caches, dollars by the catalogue.
//!
//! A token is four characters here, for prompts and answers. Prices, minimums and caching rules are the providers';
//! only the tokenizer is not.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use rejoin_models::Tokens;

/// Characters per token.
const TOKEN_CHARACTERS: usize = 4;
/// Default minimum length of cached prefixes at OpenAI and Gemini, in tokens.
/// <https://developers.openai.com/api/docs/guides/prompt-caching>, "How it works".
pub(super) const IMPLICIT_MIN_TOKENS: u64 = 1_024;
/// Step of cached prefixes of OpenAI's older models, in tokens; the same page.
pub(super) const IMPLICIT_STEP_TOKENS: u64 = 128;
/// Number of blocks before a breakpoint in which Anthropic looks for a cached prefix.
/// <https://platform.claude.com/docs/en/build-with-claude/prompt-caching>, "How automatic prefix checking works".
pub(super) const ANTHROPIC_LOOKBACK: usize = 20;
/// Number of breakpoints in which OpenAI looks for a cached prefix; the guide above, on explicit breakpoints.
pub(super) const OPENAI_LOOKBACK: usize = 80;

/// A prompt as read by the model, in cacheable pieces: tools, instructions, messages.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    text: String,
    /// A cache breakpoint requested here.
    breakpoint: bool,
}

/// The caching method of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caching {
    None,
    /// Repeated prefixes, in steps; writing is free.
    Prefix {
        min_tokens: u64,
        step_tokens: u64,
    },
    /// Prefixes that end at a breakpoint; writing has a price.
    Breakpoints {
        min_tokens: u64,
        lookback: usize,
    },
}

/// Cached prompts, by model.
#[derive(Debug, Default)]
pub(super) struct Caches {
    prefixes: HashMap<String, Vec<String>>,
    breakpoints: HashMap<String, HashSet<u64>>,
}

pub(super) fn tokens_of(text: &str) -> u64 {
    text.chars().count().div_ceil(TOKEN_CHARACTERS) as u64
}

impl Prompt {
    pub(super) fn push(&mut self, text: impl Into<String>, breakpoint: bool) {
        let text = text.into();
        if !text.is_empty() {
            self.pieces.push(Piece { text, breakpoint });
        } else if breakpoint {
            self.end_breakpoint();
        }
    }

    /// Sets a breakpoint at the current end.
    pub(super) fn end_breakpoint(&mut self) {
        if let Some(last) = self.pieces.last_mut() {
            last.breakpoint = true;
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        self.pieces.iter().map(|piece| tokens_of(&piece.text)).sum()
    }
}

impl Caches {
    /// Reads and writes the cache for this prompt. Returns its tokens, without those of the answer.
    pub(super) fn use_for(&mut self, model: &str, prompt: &Prompt, caching: Caching) -> Tokens {
        let input = prompt.tokens();
        let (cached, cache_write) = match caching {
            Caching::None => (0, 0),
            Caching::Prefix {
                min_tokens,
                step_tokens,
            } => (self.prefix(model, prompt, min_tokens, step_tokens), 0),
            Caching::Breakpoints { min_tokens, lookback } => self.breakpoints(model, prompt, min_tokens, lookback),
        };
        Tokens {
            input,
            cached,
            cache_write,
            output: 0,
        }
    }

    fn prefix(&mut self, model: &str, prompt: &Prompt, min_tokens: u64, step_tokens: u64) -> u64 {
        let text: String = prompt.pieces.iter().map(|piece| piece.text.as_str()).collect();
        let earlier = self.prefixes.entry(model.to_owned()).or_default();
        let longest = earlier
            .iter()
            .map(|earlier| earlier.chars().zip(text.chars()).take_while(|(a, b)| a == b).count())
            .max()
            .unwrap_or(0);
        earlier.push(text);
        let tokens = (longest / TOKEN_CHARACTERS) as u64 / step_tokens * step_tokens;
        if tokens < min_tokens { 0 } else { tokens }
    }

    fn breakpoints(&mut self, model: &str, prompt: &Prompt, min_tokens: u64, lookback: usize) -> (u64, u64) {
        let known = self.breakpoints.entry(model.to_owned()).or_default();
        let mut hasher = DefaultHasher::new();
        let mut tokens = 0;
        // For each piece: the hash and the tokens of everything up to its end.
        let ends: Vec<(u64, u64)> = prompt
            .pieces
            .iter()
            .map(|piece| {
                piece.text.hash(&mut hasher);
                tokens += tokens_of(&piece.text);
                (hasher.finish(), tokens)
            })
            .collect();
        let marked: Vec<usize> = prompt
            .pieces
            .iter()
            .enumerate()
            .filter_map(|(index, piece)| piece.breakpoint.then_some(index))
            .collect();
        let read = marked
            .iter()
            .rev()
            .flat_map(|end| (end.saturating_sub(lookback)..=*end).rev())
            .filter_map(|index| ends.get(index))
            .filter(|(hash, _)| known.contains(hash))
            .map(|(_, tokens)| *tokens)
            .max()
            .unwrap_or(0);
        let mut written = 0;
        for (hash, tokens) in marked.iter().filter_map(|index| ends.get(*index)) {
            if *tokens >= min_tokens {
                known.insert(*hash);
                written = tokens.saturating_sub(read).max(written);
            }
        }
        (read, written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(pieces: &[(&str, usize, bool)]) -> Prompt {
        let mut prompt = Prompt::default();
        for (text, times, breakpoint) in pieces {
            prompt.push(text.repeat(*times), *breakpoint);
        }
        prompt
    }

    #[test]
    fn a_repeated_prefix_is_read_in_steps() {
        let mut caches = Caches::default();
        let caching = Caching::Prefix {
            min_tokens: 1_024,
            step_tokens: 128,
        };
        let first = caches.use_for("m", &prompt(&[("abcd", 1_200, false)]), caching);
        assert_eq!((first.input, first.cached), (1_200, 0));
        let second = caches.use_for("m", &prompt(&[("abcd", 1_200, false), ("wxyz", 50, false)]), caching);
        assert_eq!((second.input, second.cached), (1_250, 1_152), "9 steps of 128");
        let other = caches.use_for("other", &prompt(&[("abcd", 1_200, false)]), caching);
        assert_eq!(other.cached, 0, "each model has its own");
    }

    #[test]
    fn a_breakpoint_is_written_once_and_read_later() {
        let mut caches = Caches::default();
        let caching = Caching::Breakpoints {
            min_tokens: 512,
            lookback: 20,
        };
        let first = caches.use_for("m", &prompt(&[("abcd", 600, true), ("wxyz", 10, false)]), caching);
        assert_eq!((first.input, first.cached, first.cache_write), (610, 0, 600));
        let second = caches.use_for(
            "m",
            &prompt(&[("abcd", 600, false), ("wxyz", 10, false), ("mnop", 30, true)]),
            caching,
        );
        assert_eq!((second.input, second.cached, second.cache_write), (640, 600, 40));
        let changed = caches.use_for("m", &prompt(&[("abce", 600, true)]), caching);
        assert_eq!((changed.cached, changed.cache_write), (0, 600));
        let short = caches.use_for("m", &prompt(&[("qrst", 100, true)]), caching);
        assert_eq!((short.cached, short.cache_write), (0, 0), "shorter than the minimum");
    }

    #[test]
    fn without_a_breakpoint_nothing_is_cached() {
        let mut caches = Caches::default();
        let caching = Caching::Breakpoints {
            min_tokens: 512,
            lookback: 20,
        };
        for _ in 0..2 {
            let tokens = caches.use_for("m", &prompt(&[("abcd", 600, false)]), caching);
            assert_eq!((tokens.cached, tokens.cache_write), (0, 0));
        }
    }
}
